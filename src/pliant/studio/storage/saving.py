"""Landmark files of a collection: one beside each image, or one for all; read, merged, replaced in one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64
from pliant.data.annotation import Convention, Size
from pliant.data.formats import find_format
from pliant.data.images import image_size
from pliant.data.landmark_names import without_numbers
from pliant.data.rewriting import (
    CannotHold,
    LandmarkFile,
    Signature,
    Slot,
    new_file,
    open_file,
    renamed_landmarks,
    rewritten,
    signature_of,
)
from pliant.files import real_path, replaced
from pliant.studio.storage.marks import HIDDEN, Marks

_NEAR = 1e-4


class Entry(NamedTuple):
    """An object of an image: usually the only one.

    `key` is the image's name from the root of the collection, with `, object 2` for the second of its objects.
    `folder` and `name` say where the image is. `landmarks` is the file beside it with its landmarks, if there is
    one. `image` is what a file about many images calls it, and `number` tells which of its objects this is.
    """

    key: str
    folder: str
    name: str
    landmarks: str = ""
    image: str = ""
    number: int = 0

    @property
    def source(self) -> Path:
        """Where the image is."""
        return Path(self.folder, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Recorded(Concise):
    """What a landmark file says about one object.

    `points (k, 2)` are in our coordinates, nan where a landmark is missing. There may be fewer than the collection
    has, and there are none if the file does not know the object. `hidden (k,)` is None where the format knows no
    hidden landmarks. `precision` is how far from where it was put a point may come back, in pixels.
    """

    points: Float64
    hidden: NDArray[np.bool_] | None = None
    spacing: float | None = None
    signature: Signature | None = None
    precision: float = _NEAR
    names: tuple[str, ...] = ()

    @property
    def begun(self) -> bool:
        """Whether any landmark has a place."""
        return bool(np.isfinite(self.points).any())


@dataclass(frozen=True, eq=False)
class Edit:
    """The marks that an image should have, of which the `touched` landmarks, and perhaps the scale, are ours.

    `created` says that we have made the landmark file: it goes when nothing is placed any more.
    """

    marks: Marks
    touched: frozenset[int]
    scale: bool = False
    created: bool = False


class Saved(NamedTuple):
    """That a landmark file was written: its stamp when it was read for that, its stamp now, and its signature."""

    found: object
    stamp: object
    signature: Signature


class Beside:
    """A landmark file for each image, in the format that it has; new ones get that of the others.

    New files are put into `folder`, or beside the images if there is none.
    """

    delay = 0.05

    def __init__(
        self, entries: Sequence[Entry], format: str, ending: str, folder: Path | None = None
    ) -> None:
        self.entries, self.format, self.ending, self.folder = entries, format, ending, folder
        self.given = format if ":" in format else ""
        """The variant that all files are read in: content does not tell variants apart."""
        self.names: tuple[str, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether files have a place for further landmarks of objects that they hold."""
        return self.format.partition(":")[0] in ("pts", "txt")

    def file_of(self, index: int) -> Path:
        """The landmark file of an image, whether or not it is there."""
        entry = self.entries[index]
        if entry.landmarks:
            return Path(entry.landmarks)
        beside = entry.source.with_suffix(self.ending)
        return beside if self.folder is None else self.folder / beside.name

    def stamp(self, index: int) -> Signature | None:
        """What is another one when the landmark file of an image was written: its signature."""
        return signature_of(self.file_of(index))

    def is_begun(self, index: int) -> bool:
        """Whether an image had a landmark file when it was listed; nobody has looked what is in it."""
        return bool(self.entries[index].landmarks)

    def load(self, index: int) -> Recorded:
        """What the landmark file of an image says; a ValueError says why it cannot be read."""
        path = self.file_of(index)
        if not path.exists():
            return Recorded(np.empty((0, 2)))
        file = open_file(path, self.given, self.entries[index].source.parent)
        slot = _own_slot(file, self.entries[index])
        if slot is None:
            return replace(Recorded(np.empty((0, 2))), signature=file.signature)
        return _recorded(file, file.contents.slots[slot], self.entries[index].source)

    def call_landmarks(self, names: tuple[str, ...]) -> None:
        """Give names to the landmarks of new files, if their format has any."""
        self.names = names

    def refusal(self, index: int) -> str:
        """Why the landmark file of an image is not written, empty if it is."""
        path = self.file_of(index)
        return open_file(path, self.given, self.entries[index].source.parent).loss if path.exists() else ""

    def save(self, edits: Mapping[int, Edit]) -> dict[int, Saved | ValueError | OSError]:
        """Write the landmarks of images: that it was done, or what was in the way."""
        return {index: _attempt(partial(self._save, index, edit)) for index, edit in edits.items()}

    def _save(self, index: int, edit: Edit) -> Saved:
        entry, path = self.entries[index], self.file_of(index)
        found: Signature | None = None
        if path.exists():
            # Read again each time: what somebody else has written since is kept, point by point.
            file = open_file(path, self.given, entry.source.parent)
            found, number = file.signature, _own_slot(file, entry)
            if number is not None:
                slot = _edited(file, file.contents.slots[number], edit, entry.source)
                if edit.created and slot.empty and len(file.contents.slots) == 1:
                    path.unlink()
                    return Saved(found, None, (0, 0))
                content, _ = rewritten(file, {number: slot})
            else:
                content, _ = rewritten(file, {}, [_fresh(file.convention, entry, edit, self.names)])
        elif not edit.marks.placed:
            return Saved(None, None, (0, 0))
        else:
            _, convention = find_format(self.format)
            slot = _fresh(convention, entry, edit, self.names)
            content = new_file(path, self.format, [slot])
        signature = put(path, content)
        return Saved(found, signature, signature)


class Together:
    """One landmark file for all images, kept in memory as text and read again when somebody else wrote it.

    `images` is the folder of its images, if it is not the file's own.
    """

    delay = 0.3

    def __init__(
        self,
        entries: Sequence[Entry],
        path: Path,
        format: str,
        file: LandmarkFile | None,
        images: Path | None = None,
    ) -> None:
        self.entries, self.path, self.format, self.images = entries, path, format, images
        self.names: tuple[str, ...] = ()
        self._read = 0
        self._kind: Kind = (0, ())
        # File and slots are replaced together: others read them while we write.
        self._current: tuple[LandmarkFile | None, Mapping[str, Sequence[int]]] = None, {}
        if file is not None:
            self._take(file)

    @property
    def file(self) -> LandmarkFile | None:
        """The file as it was read or written last, None if it is not there yet."""
        return self._current[0]

    @property
    def grows(self) -> bool:
        """Whether the file has a place for further landmarks of objects that it holds."""
        return self.file is None or (self.format.startswith("coco") and self.file.text is not None)

    def file_of(self, index: int) -> Path:
        """The one file."""
        return self.path

    def stamp(self, index: int) -> int:
        """What is another one when somebody else has written the file, and this was noticed."""
        return self._read

    def is_begun(self, index: int) -> bool:
        """Whether any landmark of an object has a place in the file."""
        slot = self._slot(self.entries[index])[1]
        return slot is not None and not slot.empty

    def call_landmarks(self, names: tuple[str, ...]) -> None:
        """Give names to the landmarks; in a file of COCO that is there they take the place of the old ones."""
        self.refresh()
        file = self.file
        if file is None:
            self.names = names
            return
        count, old = self._kind
        renamed = renamed_landmarks(file, old or tuple(map(str, range(count))), names)
        if renamed is not None and not file.loss:
            content, after = renamed
            self.names, self._kind = names, (len(names), without_numbers(names))
            self._take(replace(after, signature=put(self.path, content)))

    def load(self, index: int) -> Recorded:
        """What the file says about an object, as it was read last."""
        file, slot = self._slot(self.entries[index])
        if file is None or slot is None:
            return Recorded(np.empty((0, 2)), signature=None if file is None else file.signature)
        return _recorded(file, slot, self.entries[index].source)

    def refusal(self, index: int) -> str:
        """Why the file is not written, empty if it is."""
        return "" if self.file is None else self.file.loss

    def refresh(self) -> bool:
        """Read the file again if somebody else wrote it; whether that was so."""
        signature = signature_of(self.path)
        if signature is None or (self.file is not None and signature == self.file.signature):
            return False
        self._take(open_file(self.path, self.format, self.images))
        self._read += 1
        return True

    def save(self, edits: Mapping[int, Edit]) -> dict[int, Saved | ValueError | OSError]:
        """Write the landmarks of images into the file: that it was done, or what was in the way."""
        first = _attempt(partial(self._save, edits))
        if not isinstance(first, CannotHold) or len(edits) == 1:
            return dict.fromkeys(edits, first)
        # One of them cannot be written in this format, which must not keep the others from it.
        return {index: _attempt(partial(self._save, {index: edit})) for index, edit in edits.items()}

    def _save(self, edits: Mapping[int, Edit]) -> Saved:
        self.refresh()
        file, numbers = self._current
        convention = find_format(self.format)[1] if file is None else file.convention
        changed: dict[int, Slot] = {}
        added: list[Slot] = []
        for index, edit in edits.items():
            entry = self.entries[index]
            number = _nth(numbers.get(entry.image, ()), entry.number)
            if file is not None and number is not None:
                changed[number] = _edited(file, file.contents.slots[number], edit, entry.source)
            elif edit.marks.placed:
                added.append(_fresh(convention, entry, edit, self.names))
        if file is None and added:
            put(self.path, new_file(self.path, self.format, added))
            self._take(open_file(self.path, self.format, self.images))
        elif file is not None:
            content, after = rewritten(file, changed, added)
            self._take(replace(after, signature=put(self.path, content)))
        return Saved(self._read, self._read, (0, 0) if self.file is None else self.file.signature)

    def _slot(self, entry: Entry) -> tuple[LandmarkFile | None, Slot | None]:
        """The file, and the slot of an object in it."""
        file, numbers = self._current
        number = _nth(numbers.get(entry.image, ()), entry.number)
        return file, None if file is None or number is None else file.contents.slots[number]

    def _take(self, file: LandmarkFile) -> None:
        """See which slots are those of each image; objects of another kind are left alone."""
        self._kind = self._kind if self._kind[0] else usual_kind(file)
        numbers: dict[str, list[int]] = {}
        for number, slot in enumerate(file.contents.slots):
            if is_of_kind(slot, self._kind):
                numbers.setdefault(slot.image, []).append(number)
        self._current = file, numbers


Kind = tuple[int, tuple[str, ...]]


def usual_kind(file: LandmarkFile) -> Kind:
    """How many landmarks most objects of a file have, and what these are called."""
    kinds = Counter((len(slot.numbers), slot.names) for slot in file.contents.slots if len(slot.numbers))
    return kinds.most_common(1)[0][0] if kinds else (0, ())


def is_of_kind(slot: Slot, kind: Kind) -> bool:
    """Whether an object is of the kind that most are, or was not digitised yet."""
    return not len(slot.numbers) or (len(slot.numbers), slot.names) == kind


def put(path: Path, content: bytes) -> Signature:
    """Let a file have this content in one step, and say what its signature is then."""
    path = real_path(path)  # A link stays one.
    with replaced(path, alone=True) as new:
        new.write_bytes(content)
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        signature = signature_of(new)
    assert signature is not None
    return signature


def _attempt(save: Callable[[], Saved]) -> Saved | ValueError | OSError:
    try:
        return save()
    except (ValueError, OSError) as error:
        return error


def _nth(numbers: Sequence[int], which: int) -> int | None:
    return numbers[which] if which < len(numbers) else None


def _own_slot(file: LandmarkFile, entry: Entry) -> int | None:
    """Which slot of a file beside an image is that of the image: the one that names it, or else the first."""
    slots = file.contents.slots
    named = [number for number, slot in enumerate(slots) if Path(slot.image).name == Path(entry.name).name]
    return named[0] if named else 0 if slots else None


def _recorded(file: LandmarkFile, slot: Slot, source: Path) -> Recorded:
    points = file.convention.to_ours(slot.numbers, _size(file.convention, slot.size, source))
    points[~np.isfinite(points).all(axis=1)] = np.nan
    hidden = slot.hidden if file.format.startswith("coco") else None
    precision = max(_NEAR, file.precision)
    return Recorded(points, hidden, slot.spacing, file.signature, precision, slot.names)


def _edited(file: LandmarkFile, slot: Slot, edit: Edit, source: Path) -> Slot:
    """A slot with the landmarks that the edit touches; all others, and their text, stay."""
    touched = sorted(edit.touched)
    points = edit.marks.points
    have = len(slot.numbers)
    needed = max((landmark + 1 for landmark in touched), default=0)
    count = have if have > 0 and needed <= have else len(points)
    numbers = np.full((count, 2), np.nan)
    numbers[:have] = slot.numbers
    size = _size(file.convention, slot.size, source)
    numbers[touched] = file.convention.to_theirs(points[touched], size)
    hidden = np.zeros(count, dtype=bool)
    if slot.hidden is not None:
        hidden[:have] = slot.hidden
    hidden[touched] = edit.marks.states[touched] == HIDDEN
    spacing = slot.spacing
    if edit.scale:
        spacing = None if edit.marks.scale is None else edit.marks.scale.spacing
    keeps_hidden = slot.hidden is not None or file.format.startswith("coco")
    return replace(slot, numbers=numbers, hidden=hidden if keeps_hidden else None, spacing=spacing)


def _fresh(convention: Convention, entry: Entry, edit: Edit, names: tuple[str, ...]) -> Slot:
    """A slot for an object that the file does not have yet."""
    marks = edit.marks
    try:
        size: Size | None = image_size(entry.source)
    except (ValueError, OSError):
        if convention.needs_size:
            raise
        size = None
    numbers = convention.to_theirs(marks.points, size)
    spacing = None if marks.scale is None else marks.scale.spacing
    return Slot(entry.image, numbers, names, np.asarray(marks.states == HIDDEN), spacing, size)


def _size(convention: Convention, known: Size | None, source: Path) -> Size | None:
    return image_size(source) if convention.needs_size and known is None else known
