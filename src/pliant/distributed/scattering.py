"""Values that every task of a call needs: they go to each worker once, and again if all who had them are gone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from pliant.distributed.link import Link
from pliant.distributed.tasks import forget

_PLAIN = (type(None), bool, int, float, str)
"""What is as short as the name of the place where it would be."""


class Placed(NamedTuple):
    """Names of values, empty for what is plain, and what tasks are given for them."""

    names: list[str]
    values: list[Any]


class Scattering:
    """What is on the workers by now.

    A worker has one object for all of its tasks: what that keeps of its own (`cached_property`) is computed once a
    worker. Values must not change after they were shared. They stay for calls in a row that share them, and leave
    the workers when a call shares others.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._places: dict[int, tuple[Any, Any]] = {}

    def keep(self, shared: tuple[Any, ...]) -> None:
        """Forget all other values: workers have memory for a model, and not for all that there ever were."""
        wanted = {id(value) for value in shared}
        self._places = {name: found for name, found in self._places.items() if name in wanted}

    def places(self, shared: tuple[Any, ...]) -> Placed:
        """What a task is given for each value: the value itself if it is plain, or where it is."""
        # Dask forgets scattered data when the last worker that had it dies, and cannot compute it again.
        missing = [
            value
            for value in {id(value): value for value in shared}.values()
            if not isinstance(value, _PLAIN) and not self._is_there(value)
        ]
        if missing:
            futures = self._scattered(missing, broadcast=True)
            # The values are kept, so that no other has their identity.
            self._places |= {
                id(value): (value, future) for value, future in zip(missing, futures, strict=True)
            }
        found: list[Any] = [
            value if isinstance(value, _PLAIN) else self._places[id(value)][1] for value in shared
        ]
        names = [
            "" if isinstance(value, _PLAIN) else place.key for value, place in zip(shared, found, strict=True)
        ]
        return Placed(names, found)

    def close(self) -> None:
        """Have workers forget what they keep."""
        names = [future.key for _, future in self._places.values()]
        self._places = {}
        client = self._link.client
        if names and client.status == "running":
            with suppress(OSError):
                self._link.ask(client.run, forget, names, on_error="ignore")

    def sent_once(self, value: Any) -> Any:
        """Where a value is that one task needs: on one worker, until the task is done."""
        return self._scattered([value], broadcast=False)[0]

    def _is_there(self, value: Any) -> bool:
        return id(value) in self._places and self._places[id(value)][1].status == "finished"

    def _scattered(self, values: list[Any], broadcast: bool) -> list[Any]:
        link = self._link
        futures: list[Any] = link.ask(
            link.client.scatter, values, broadcast=broadcast, hash=False, timeout=link.patience
        )
        return futures
