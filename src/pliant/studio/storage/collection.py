"""What is open in studio: images in order, their marks, and every change of them, on the disk before it counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.studio.storage.events import Event, trouble
from pliant.studio.storage.history import History, Line, change_line, now, taken_back
from pliant.studio.storage.kept import Kept
from pliant.studio.storage.known import Memory
from pliant.studio.storage.landmarks import Curve, Landmarks, described, landmarks_in
from pliant.studio.storage.locking import Lock, lock_in
from pliant.studio.storage.marks import ABSENT, UNSEEN, Change, Marks, changed, checked
from pliant.studio.storage.merging import changed_outside, combined
from pliant.studio.storage.opening import Listing, listed
from pliant.studio.storage.past import Past, in_words
from pliant.studio.storage.saving import Edit, Entry, Recorded, Saved, Together
from pliant.studio.storage.writing import Outcome, Writer


def open_collection(
    source: Path | str, read_only: bool = False, format: str = "", images: Path | None = None
) -> Collection:
    """Open a folder of images, a manifest or an annotation file for annotating.

    All images of a folder are listed, annotated or not. What is opened is what is written: files beside the images
    in the format that they have, or the annotation file; a folder without landmarks gets one COCO file,
    `landmarks.json`, once something is placed. An image with several objects is listed once for each, as `face.jpg`
    and `face.jpg, object 2`. Objects of another kind than most in a file (another category of COCO) are not shown,
    and stay as they are.

    Where a file comes without a history, its landmarks are visible, or hidden if it says so. An object in which any
    landmark has a place counts as finished, and those that it lacks as absent: whoever annotated it has looked.
    Where none has a place, all are still unseen.

    Parameters
    ----------
    source
        The folder or file.
    read_only
        Look only.
    format
        That of the landmark files where their content is not to decide (`pts:0-based`).
    images
        The folder of the images, if they are not beside their landmarks.

    Returns
    -------
    Collection
        Its `read_only` is a sentence if it cannot be written: another process has it open, the folder cannot be
        written, or something that the file holds would be lost. A ValueError says why nothing can be opened.

    """
    return Collection(Path(source), listed(Path(source), format, images), "asked for" if read_only else "")


class Collection:
    """Images with their marks; safe to use from several threads. Made by `open_collection`."""

    def __init__(self, source: Path, listing: Listing, read_only: str) -> None:
        self.source = source
        self.entries: Sequence[Entry] = listing.entries
        self.format = listing.store.format
        self.read_only = read_only and f"{source}: opened read-only."
        self._store = listing.store
        self._landmarks = Landmarks(listing.count, listing.names, had=listing.count)
        self._side = listing.side
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Event], None]] = []
        self._memory = Memory()
        self._marks = Kept()
        self._seen: object = self._store.stamp(0) if isinstance(self._store, Together) else None
        self._guard: Lock | None = None
        self.read_only = self.read_only or listing.refusal
        if not self.read_only:
            self._guard, self.read_only = lock_in(self._side, source)
        self._history = History(self._side / "history.jsonl", writable=not self.read_only)
        self._index = {entry.key: number for number, entry in enumerate(self.entries)}
        self._begun = np.array(
            [self._store.is_begun(number) for number in range(len(self.entries))], dtype=bool
        )
        self._done = self._begun.copy()
        self._writer = Writer(self._store, self._waiting, self._settled, self._touch)
        self._store.names = listing.names
        self._catch_up()
        if not self.read_only:
            self._history.append({"session": now()}, sync=False)
            self._memory.active.clear()
            self._resume()
            self._writer.start()

    def __len__(self) -> int:
        return len(self.entries)

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the landmarks, or their numbers from 0."""
        return self._landmarks.names

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the landmarks, none if nobody gave them any."""
        return self._landmarks.own_names

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves that landmarks form."""
        return self._landmarks.curves

    @property
    def name(self) -> str:
        """What is open, by its own name."""
        return self.source.resolve().name

    @property
    def side_folder(self) -> Path:
        """Where studio keeps what landmark files cannot hold."""
        return self._side

    def marks(self, index: int) -> Marks:
        """What is known of an image; a ValueError says why its landmark file cannot be read."""
        with self._lock:
            if self.read_only:
                self._catch_up()
            if self._writer.refresh():
                self._look_again()
            kept, stamp = self._marks.get(index), self._store.stamp(index)
            if kept is not None and self._marks.stamp(index) == stamp:
                return self._marks.put(index, stamp, kept)
            return self._loaded(index, kept)

    def revision(self, index: int) -> int:
        """The number of the last change of an image, 0 if there is none."""
        known = self._memory.images.get(self.entries[index].key)
        return 0 if known is None else known.revision

    def apply(self, index: int, change: Change) -> Marks:
        """Make a change: it is on the disk when this returns. One whose id was seen already does nothing.

        A ValueError says what is wrong with the change, or why nothing is written.
        """
        with self._lock:
            self._require_writable(index)
            before = self.marks(index)
            if change.id and change.id in self._memory.ids:
                return before
            change = checked(change, len(before.states), self.entries[index].key)
            return self._record(index, before, change, {})

    def undo(self, index: int, client: str = "", id: str = "") -> Marks:
        """Take back the last change of an image that this client made, or somebody who is not here any more.

        Of landmarks that others have changed since, nothing is taken back. Nothing to undo is no error.
        """
        return self._step_back(index, client, id, "undoes")

    def redo(self, index: int, client: str = "", id: str = "") -> Marks:
        """Make the change again that was undone last."""
        return self._step_back(index, client, id, "redoes")

    def can_undo(self, index: int, client: str | None = None) -> bool:
        """Whether a change of an image is left that a client may take back, or anybody."""
        return self._memory.last_step(self.entries[index].key, client, "undoes") is not None

    def can_redo(self, index: int, client: str | None = None) -> bool:
        """Whether a change of an image was taken back that a client may make again, or anybody."""
        return self._memory.last_step(self.entries[index].key, client, "redoes") is not None

    def history(self, index: int) -> list[Past]:
        """All changes of an image, the oldest first."""
        return in_words(self._history.lines_of(self.entries[index].key))

    def finished(self) -> list[int]:
        """The images that are finished."""
        return [int(index) for index in np.flatnonzero(self._done)]

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which images `(n,)` are finished."""
        with self._lock:
            return self._done.copy()

    @property
    def begun(self) -> NDArray[np.bool_]:
        """In which images `(n,)` a landmark is placed."""
        with self._lock:
            return self._begun.copy()

    def previous(self, index: int) -> int | None:
        """The nearest image before this one that has landmarks, for copying them."""
        before = np.flatnonzero(self._begun[:index])
        return int(before[-1]) if len(before) else None

    def annotated(self) -> Iterator[tuple[int, Path, Float64]]:
        """Every finished image: its index, where it is, and its points `(v, 2)`, nan where one is absent."""
        for index in self.finished():
            try:
                marks = self.marks(index)
            except (ValueError, OSError):
                continue
            if marks.placed and marks.finished:
                yield index, self.entries[index].source, marks.points

    def spacing(self, index: int) -> tuple[float, str] | None:
        """The length of a pixel and its unit, as a bar says; without one, as the file says, of an unknown unit."""
        scale = self.marks(index).scale
        if scale is not None:
            return scale.spacing, scale.unit
        try:
            written = self._store.load(index).spacing
        except (ValueError, OSError):
            return None
        return None if written is None else (written, "")

    def set_object(self, names: Sequence[str], curves: Sequence[Curve] = (), client: str = "") -> None:
        """Say what landmarks there are, and which of them form curves.

        Once one is placed, names and curves may change and further landmarks be added behind the others, if the
        landmark files have a place for them.
        """
        names = tuple(map(str, names))
        with self._lock:
            self._require_writable(-1)
            said = described(names, curves)
            begun = bool(self._begun.any())
            refusal = self._landmarks.refusal(len(names), begun, self._store.grows)
            if refusal:
                raise ValueError(refusal)
            said["had"] = self._landmarks.had if begun else len(names)
            line = {"n": self._history.number + 1, "time": now(), "client": client, "object": said}
            self._memory.fold(self._history.append(line), line)
            self._take_object()
            self._marks.clear()
        # Outside of our own lock, which the writer takes while it holds that of the files.
        self._writer.call_landmarks(names)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Have a function called with each `Event`, from whatever thread it happens in."""
        self._listeners.append(listener)

    def flush(self) -> None:
        """Write now what waits to be written in landmark files."""
        self._writer.write()

    def close(self) -> None:
        """Write what waits, and let others open the collection."""
        self._writer.stop()
        if not self.read_only:
            self._writer.write()
        self._history.close()
        if self._guard is not None:
            self._guard.release()
            self._guard = None
        self.read_only = self.read_only or f"{self.source}: this collection is closed."

    def _touch(self) -> None:
        if self._guard is not None:
            self._guard.touch()

    def _require_writable(self, index: int) -> None:
        refusal = self.read_only or (self._store.refusal(index) if index >= 0 else "")
        if refusal:
            raise ValueError(refusal)

    def _catch_up(self) -> None:
        """Take in what the history has that was not read yet."""
        for at, line in self._history.lines():
            try:
                self._memory.fold(at, line)
            except (KeyError, TypeError, ValueError):
                continue  # Not a line of ours, or a damaged one: better to open with the others than not at all.
            index = self._index.get(line.get("image", ""))
            if index is not None and "n" in line:
                self._done[index] = line["done"]
                self._begun[index] |= bool((self._memory.images[line["image"]].states > ABSENT).any())
                self._marks.forget(index)
        self._take_object()

    def _take_object(self) -> None:
        said, begun = self._memory.object, bool(self._begun.any())
        if said is None or self._landmarks.refusal(len(said["names"]), begun, self._store.grows):
            return
        self._landmarks = landmarks_in(said)
        if not isinstance(self._store, Together) or self._store.file is None:
            self._store.names = self._landmarks.own_names

    def _resume(self) -> None:
        """Look at the images whose last changes are not in their files: a crash came between."""
        for key in list(self._memory.unsaved):
            # What cannot be read now is told of when somebody asks for it.
            with suppress(ValueError, OSError):
                if key in self._index:
                    self._loaded(self._index[key], None, opening=True)

    def _look_again(self) -> None:
        """Somebody else wrote the one landmark file: see what that means for the images that we have looked at."""
        self._seen = self._store.stamp(0)
        for index, marks in self._marks.all():
            self._loaded(index, marks)
        if isinstance(self._store, Together):
            for index, entry in enumerate(self.entries):
                if entry.key not in self._memory.images:
                    self._begun[index] = self._done[index] = self._store.is_begun(index)

    def _loaded(self, index: int, kept: Marks | None, opening: bool = False) -> Marks:
        """The marks of an image as its file and the history have them; what others changed in the file is noted."""
        stamp, recorded = self._store.stamp(index), self._store.load(index)
        self._require_same_landmarks(index, recorded)
        key = self.entries[index].key
        known, unsaved = self._memory.images.get(key), self._memory.unsaved.get(key)
        if kept is not None and not len(recorded.points):
            # The file, or the object in it, is gone: what it had is written again with the next change.
            return self._marks.put(index, stamp, kept)
        marks = combined(recorded, known, self._landmarks)
        outside = changed_outside(recorded, known, kept, unsaved, opening)
        if outside and self.read_only:
            marks = changed(marks, Change("", "", outside))
        elif outside:
            before = marks if kept is None else kept
            self._marks.put(index, stamp, before)
            marks = self._record(index, before, Change("", "", outside), {"outside": True})
        self._begun[index], self._done[index] = marks.placed > 0, marks.finished
        return self._marks.put(index, stamp, marks)

    def _require_same_landmarks(self, index: int, recorded: Recorded) -> None:
        have, count = len(recorded.points), self._landmarks.count
        if have and not count:
            self._landmarks = Landmarks(have, recorded.names, had=have)
        elif not self._landmarks.fits(have):
            file = self._store.file_of(index)
            raise ValueError(f"{file}: this file has {have} landmarks, but others have {count}.")

    def _record(self, index: int, before: Marks, change: Change, more: Line) -> Marks:
        """Put a change in the history, and then in memory."""
        key = self.entries[index].key
        after = changed(before, change)
        line = change_line(self._history.number + 1, key, change, before) | more
        if key not in self._memory.images:
            line["rest"] = ABSENT if before.placed else UNSEEN
        at = self._history.append(line)
        self._memory.fold(at, line)
        self._marks.put(index, self._marks.stamp(index), after)
        self._begun[index], self._done[index] = after.placed > 0, after.finished
        self._writer.wake()
        self._tell(Event("changed", index, line["n"], change.client))
        return after

    def _step_back(self, index: int, client: str, id: str, way: str) -> Marks:
        with self._lock:
            self._require_writable(index)
            marks = self.marks(index)
            step = self._memory.last_step(self.entries[index].key, client, way)
            if step is None or (id and id in self._memory.ids):
                return marks
            change = taken_back(self._history.at(step.at), marks, id, client)
            return self._record(index, marks, change, {way: step.number})

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _waiting(self) -> dict[int, tuple[int, Edit]]:
        """What is to be written in landmark files, each image with the number of its last change."""
        found = {}
        with self._lock:
            for key, unsaved in list(self._memory.unsaved.items()):
                index = self._index.get(key)
                if index is None:
                    continue
                kept = self._marks.get(index)
                try:
                    marks = self._loaded(index, None) if kept is None else kept
                except (ValueError, OSError):
                    continue  # Said when the image was asked for.
                created = key in self._memory.created
                edit = Edit(marks, frozenset(unsaved.earlier), unsaved.scale, created)
                found[index] = unsaved.number, edit
        return found

    def _note_written(self, index: int, saved: Saved) -> None:
        """The marks in memory are those of the file now, unless others had changed it: then look what they did."""
        kept = self._marks.get(index)
        if kept is not None and self._marks.stamp(index) == saved.found:
            self._marks.put(index, saved.stamp, kept)
        elif kept is not None:
            # Where somebody is just writing it, it is looked at again when the image is asked for.
            with suppress(ValueError, OSError):
                self._loaded(index, kept)

    def _settled(self, outcome: Outcome, numbers: Mapping[int, int]) -> None:
        """Note which changes the landmark files hold now, and tell what went wrong."""
        with self._lock:
            for index, result in outcome.items():
                if isinstance(result, (ValueError, OSError)):
                    self._tell(trouble(index, self.revision(index), result))
                    continue
                line = {"holds": numbers[index], "image": self.entries[index].key}
                line |= {"file": self._store.file_of(index).name, "signature": list(result.signature)}
                line |= {"created": True} if result.found is None and result.signature[0] else {}
                self._memory.fold(self._history.append(line, sync=False), line)
                self._note_written(index, result)
                self._tell(Event("saved", index, numbers[index]))
            if isinstance(self._store, Together) and self._store.stamp(0) != self._seen:
                self._look_again()
