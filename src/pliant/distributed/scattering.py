"""Values that every task of a call needs: they go to each worker once, and again if all who had them are gone."""

from __future__ import annotations

from typing import Any

from pliant.distributed.link import Link

_PLAIN = (type(None), bool, int, float, str)
"""What is as short as the name of the place where it would be."""


class Scattering:
    """What is on the workers by now.

    A worker has one object for all of its tasks: what the object keeps of its own (`cached_property`) is computed
    once a worker. Values must not change after they were shared. They stay for calls in a row that share them, and
    leave the workers when a call shares others.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._places: dict[int, tuple[Any, Any]] = {}

    def keep(self, shared: tuple[Any, ...]) -> None:
        """Forget all other values: workers have memory for a model, and not for all that there ever were."""
        wanted = {id(value) for value in shared}
        self._places = {name: found for name, found in self._places.items() if name in wanted}

    def places(self, shared: tuple[Any, ...]) -> list[Any]:
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
        return [value if isinstance(value, _PLAIN) else self._places[id(value)][1] for value in shared]

    def sent_once(self, value: Any) -> Any:
        """Where a value is that one task needs: on one worker, until the task is done."""
        return self._scattered([value], broadcast=False)[0]

    def _is_there(self, value: Any) -> bool:
        return id(value) in self._places and self._places[id(value)][1].status == "finished"

    def _scattered(self, values: list[Any], broadcast: bool) -> list[Any]:
        link = self._link
        futures: list[Any] = link.ask(
            link.client.scatter(
                values, broadcast=broadcast, hash=False, timeout=link.patience, asynchronous=True
            )
        )
        return futures
