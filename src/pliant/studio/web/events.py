"""Events from the server to the pages that are open: who changed what, how far work is, which model there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from threading import Lock
from typing import Any

from pliant.studio.web.wire import to_json

_QUEUE = 256
"""Events that may wait for one page; a page that is further behind is told to look at everything anew."""

_SILENCE = 15.0
"""Seconds after which a comment is sent, so that a lost connection is noticed on both sides."""


class Events:
    """What is told reaches every page that listens; telling never waits, and works from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._ended = False

    def tell(self, kind: str, **details: Any) -> None:
        """Send an event with a type and details to all pages."""
        text = json.dumps(to_json({"type": kind, **details}))
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, text)

    def end(self) -> None:
        """End all streams, so that a server that shuts down need not wait for them."""
        self._ended = True
        # Without the lock, as a signal may call this while it is held.
        for queue, loop in list(self._listeners.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, "")

    async def listen(self) -> AsyncIterator[str]:
        """Events as a stream of server-sent events, until the page goes away."""
        queue: asyncio.Queue[str] = asyncio.Queue(_QUEUE)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield "retry: 1000\n\n"
            while not self._ended:
                try:
                    text = await asyncio.wait_for(queue.get(), _SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                else:
                    if text:
                        yield f"data: {text}\n\n"
        finally:
            with self._lock:
                self._listeners.pop(queue, None)


def _put(queue: asyncio.Queue[str], text: str) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        text = json.dumps({"type": "behind"})
    queue.put_nowait(text)
