"""The marks that are kept in memory: those of the images that were asked for last."""

from __future__ import annotations

from collections import OrderedDict

from pliant.studio.storage.marks import Marks

MOST = 20_000
"""Of so many images marks are kept: some tens of megabytes."""


class Kept:
    """Marks by the index of their image, each with the stamp that its landmark file had."""

    def __init__(self) -> None:
        self._marks: OrderedDict[int, tuple[object, Marks]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._marks)

    def get(self, index: int) -> Marks | None:
        """The marks of an image, if they are kept."""
        found = self._marks.get(index)
        return None if found is None else found[1]

    def stamp(self, index: int) -> object:
        """The stamp that its landmark file had."""
        found = self._marks.get(index)
        return None if found is None else found[0]

    def put(self, index: int, stamp: object, marks: Marks) -> Marks:
        """Keep marks; those that nobody has asked for the longest go."""
        self._marks[index] = stamp, marks
        self._marks.move_to_end(index)
        if len(self._marks) > MOST:
            self._marks.popitem(last=False)
        return marks

    def forget(self, index: int) -> None:
        """Keep the marks of an image no longer."""
        self._marks.pop(index, None)

    def clear(self) -> None:
        """Keep none."""
        self._marks.clear()

    def all(self) -> list[tuple[int, Marks]]:
        """What is kept, by index."""
        return [(index, marks) for index, (_, marks) in self._marks.items()]
