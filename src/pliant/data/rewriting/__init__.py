"""Landmark files that are written back: whether that loses anything, and how the least of them changes.

Where a format has an editor in this folder, a file is changed in place: what is not changed keeps its bytes. Other
files are read and written as a whole if all that they hold is there again afterwards, and else not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.data.annotation import Annotation, Convention
from pliant.data.formats import (
    find_format,
    format_of,
    formats,
    read_annotations,
    write_annotations,
)
from pliant.data.names import from_text, to_text
from pliant.data.rewriting import asf, coco, csv_long, csv_wide, deeplabcut, dlib, lines, ljson, tps, wflw
from pliant.data.rewriting.comparing import first_loss
from pliant.data.rewriting.slots import Contents, Editor, Slot, Unfollowed, hidden_in, spliced
from pliant.files import require_plain

__all__ = [
    "CannotHold",
    "Contents",
    "LandmarkFile",
    "Signature",
    "Slot",
    "new_file",
    "open_file",
    "renamed_landmarks",
    "rewritten",
    "signature_of",
]

Signature = tuple[int, int]
"""Size and time of the last change of a file, in bytes and nanoseconds: what says that somebody wrote it."""

_EDITORS: Mapping[str, Editor] = {
    "asf": asf,
    "coco": coco,
    "csv": csv_wide,
    "csv-long": csv_long,
    "deeplabcut": deeplabcut,
    "dlib": dlib,
    "ljson": ljson,
    "pts": lines,
    "tps": tps,
    "txt": lines,
    "wflw": wflw,
}
_NEVER = ("imagej", "kaggle", "sleap")
"""Formats that hold more than landmarks, in ways that only their own tools know."""

_COMPARED = 2**24
"""Larger files are not read twice at opening to see that editor and reader agree; tests show that they do."""

_OURS = Convention("our own coordinates")
_NEAR = 1e-5
_HALF_A_PIXEL = 0.5 + 1e-9


class CannotHold(ValueError):
    """What is to be written has no place in the format, or must not be; the message is a sentence that says so."""


@dataclass(frozen=True, eq=False)
class LandmarkFile:
    """A landmark file as it was read, with what is needed to write it back.

    `format` is its name, with its variant if it is one. `convention` turns the numbers of slots into points.
    `loss` is a sentence about what would be lost if the file was written, and empty if nothing would. `precision`
    is how far from where it was put a landmark may come back, in the numbers of the file.
    """

    path: Path
    format: str
    signature: Signature
    contents: Contents
    convention: Convention
    loss: str = ""
    precision: float = _NEAR
    text: str | None = None
    images: Path | None = None


def signature_of(path: Path) -> Signature | None:
    """The size and the time of the last change of a file, None if there is none."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size, status.st_mtime_ns


def open_file(path: Path, format: str = "", images: Path | None = None) -> LandmarkFile:
    """A landmark file to be written back.

    Parameters
    ----------
    path
        The file. Its content says what format it has.
    format
        The name of a format, and perhaps of a variant, where the content is not to decide.
    images
        The folder of its images, if it is not the file's own.

    Returns
    -------
    LandmarkFile
        With a sentence in `loss` if it must not be written. A ValueError says why it cannot be read.

    """
    require_plain(path)
    if not path.exists():
        raise ValueError(f"{path}: there is no such landmark file.")
    module, convention = find_format(format) if format else format_of(path)
    format = format or module.NAME
    # Before reading: a file that changes meanwhile has another signature then, and is read again.
    signature = signature_of(path) or (0, 0)
    editor = _EDITORS.get(module.NAME)
    if editor is not None:
        raw = path.read_bytes()
        text = raw.decode(editor.ENCODING, "surrogateescape")
        try:
            found = _named(editor.contents(text, path))
            agree = convention.needs_size or len(raw) > _COMPARED or _agree(path, format, convention, found)
            if agree and text.encode(editor.ENCODING, "surrogateescape") == raw:
                rounded = _is_rounded(module.NAME, format, found)
                precision = _HALF_A_PIXEL if rounded else _NEAR
                return LandmarkFile(path, format, signature, found, convention, "", precision, text, images)
        except Unfollowed:
            pass
    annotations = read_annotations(path, format, images)
    slots = tuple(_slot(annotation) for annotation in annotations)
    listed = tuple(dict.fromkeys(annotation.image for annotation in annotations))
    loss = _loss(path, format, annotations)
    return LandmarkFile(path, format, signature, Contents(slots, listed), _OURS, loss, images=images)


def rewritten(
    file: LandmarkFile, changed: Mapping[int, Slot], added: Sequence[Slot] = ()
) -> tuple[bytes, LandmarkFile]:
    """A file with other landmarks in some of its objects, and with new objects.

    Parameters
    ----------
    file
        As it was read last.
    changed
        Slots by their number, with other numbers, hidden landmarks or spacing. What they share with the slots that
        they replace keeps its bytes.
    added
        Objects that the file does not have yet.

    Returns
    -------
    content, file
        What to write, and the file as it is then, but for its signature. A CannotHold says what the format has no
        place for: nothing is to be written then.

    """
    if file.loss:
        raise CannotHold(file.loss)
    try:
        return _rewritten(file, changed, added)
    except ValueError as error:
        raise CannotHold(str(error)) from None


def _rewritten(
    file: LandmarkFile, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> tuple[bytes, LandmarkFile]:
    base = file.format.partition(":")[0]
    editor = _EDITORS.get(base) if file.text is not None else None
    if editor is None or file.text is None:
        return _whole(file, changed, added)
    plain = {number: replace(slot, image=to_text(slot.image)) for number, slot in changed.items()}
    fresh = [replace(slot, image=to_text(slot.image)) for slot in added]
    try:
        text = spliced(file.text, editor.splices(file.text, file.contents, plain, fresh))
        found = _named(editor.contents(text, file.path))
    except Unfollowed as error:
        raise ValueError(f"{file.path}: {error}") from None
    expected = [changed.get(number, slot) for number, slot in enumerate(file.contents.slots)]
    _require_same(file, [*expected, *added], found, hidden=base == "coco")
    after = replace(file, contents=found, text=text)
    return text.encode(editor.ENCODING, "surrogateescape"), after


def renamed_landmarks(
    file: LandmarkFile, old: Sequence[str], new: Sequence[str]
) -> tuple[bytes, LandmarkFile] | None:
    """A file with other names for its landmarks, as `rewritten` gives it; None if there is no place for them."""
    if file.format.partition(":")[0] != "coco" or file.text is None:
        return None
    try:
        text = spliced(file.text, coco.renamed(file.text, file.path, old, new))
        found = _named(coco.contents(text, file.path))
    except Unfollowed:
        return None
    kept = [
        replace(slot, numbers=slot.numbers[: len(old)]) if slot.names == tuple(new) else slot
        for slot in found.slots
    ]
    _require_same(file, file.contents.slots, Contents(tuple(kept), ()), hidden=False)
    return text.encode(coco.ENCODING, "surrogateescape"), replace(file, contents=found, text=text)


def new_file(path: Path, format: str, slots: Sequence[Slot]) -> bytes:
    """The content of a file that is not there yet, in a format, with objects in the coordinates of that format."""
    _, convention = find_format(format)
    annotations = [
        Annotation(
            slot.image,
            convention.to_ours(slot.numbers, slot.size),
            slot.names,
            size=slot.size,
            spacing=slot.spacing,
            hidden=hidden_in(slot),
        )
        for slot in slots
    ]
    try:
        return _written(path, format, annotations)
    except ValueError as error:
        raise CannotHold(str(error)) from None


def _written(path: Path, format: str, annotations: Sequence[Annotation]) -> bytes:
    with TemporaryDirectory() as passing:
        # Of the same name, as some formats write their file's name into it.
        target = Path(passing) / path.name
        try:
            write_annotations(target, annotations, format)
        except ValueError as error:
            raise ValueError(str(error).replace(str(target), str(path))) from None
        return target.read_bytes()


def _whole(
    file: LandmarkFile, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> tuple[bytes, LandmarkFile]:
    """A file of a format without an editor: all its objects are written anew, read again and compared."""
    slots = [changed.get(number, slot) for number, slot in enumerate(file.contents.slots)]
    slots += added
    annotations = [
        replace(
            slot.place if isinstance(slot.place, Annotation) else Annotation(slot.image, slot.numbers),
            points=slot.numbers,
            hidden=slot.hidden,
            spacing=slot.spacing,
            size=slot.size,
            names=slot.names,
        )
        for slot in slots
    ]
    content = _written(file.path, file.format, annotations)
    with TemporaryDirectory() as passing:
        again = Path(passing) / file.path.name
        again.write_bytes(content)
        found = read_annotations(again, file.format, file.images or file.path.parent)
    _require_same(file, slots, Contents(tuple(map(_slot, found)), ()), hidden=False)
    # An object without a landmark may not be there when the file is read; here it keeps its place.
    kept = tuple(replace(slot, place=made) for slot, made in zip(slots, annotations, strict=True))
    return content, replace(file, contents=Contents(kept, tuple(dict.fromkeys(slot.image for slot in kept))))


def _slot(annotation: Annotation) -> Slot:
    return Slot(
        annotation.image,
        annotation.points,
        annotation.names,
        annotation.hidden,
        annotation.spacing,
        annotation.size,
        annotation,
    )


def _named(found: Contents) -> Contents:
    """The contents with the names of files that are not UTF-8 as Python has them."""
    images = tuple(map(from_text, found.images))
    if images == found.images:
        return found
    return Contents(tuple(replace(slot, image=from_text(slot.image)) for slot in found.slots), images)


def _agree(path: Path, format: str, convention: Convention, found: Contents) -> bool:
    """Whether the reader of a format finds what its editor found, where there is anything."""
    there = [slot for slot in found.slots if not slot.empty]
    if not there:
        return True
    read = [
        annotation for annotation in read_annotations(path, format) if np.isfinite(annotation.points).any()
    ]
    return len(there) == len(read) and all(
        slot.image == annotation.image
        and slot.numbers.shape == annotation.points.shape
        and np.allclose(convention.to_ours(slot.numbers), annotation.points, atol=1e-9, equal_nan=True)
        for slot, annotation in zip(there, read, strict=True)
    )


def _is_rounded(name: str, format: str, found: Contents) -> bool:
    """Whether a file has whole pixels and will have them, as dlib reads no others."""
    if name != "dlib" or format != name:
        return False
    numbers = [slot.numbers[np.isfinite(slot.numbers)] for slot in found.slots]
    return all(bool((some == np.floor(some)).all()) for some in numbers)


def _require_same(file: LandmarkFile, expected: Sequence[Slot], found: Contents, hidden: bool) -> None:
    """Refuse to write what would not come back: each image has its objects, in their order, where they belong."""
    wanted, there = _by_image(expected), _by_image(found.slots)
    for image, slots in wanted.items():
        for number, slot in enumerate(slots):
            others = there.get(image, [])
            other = others[number] if number < len(others) else None
            if other is not None and _same_bytes(slot, other):
                continue  # As nearly all are: a large file is compared in no time.
            if slot.empty and (other is None or other.empty):
                continue
            same = (
                other is not None
                and other.numbers.shape == slot.numbers.shape
                and np.allclose(other.numbers, slot.numbers, rtol=0, atol=file.precision, equal_nan=True)
                and (not hidden or bool((hidden_in(other) == hidden_in(slot)).all()))
            )
            if not same:
                name = image or file.path.name
                raise ValueError(
                    f"{file.path}: the landmarks of {name} would change when this file is written, so it was "
                    "left alone."
                )


def _same_bytes(one: Slot, other: Slot) -> bool:
    if one.numbers.tobytes() != other.numbers.tobytes():
        return False
    return (one.hidden is None) == (other.hidden is None) and (
        one.hidden is None or other.hidden is None or one.hidden.tobytes() == other.hidden.tobytes()
    )


def _by_image(slots: Sequence[Slot]) -> dict[str, list[Slot]]:
    found: dict[str, list[Slot]] = {}
    for slot in slots:
        found.setdefault(slot.image, []).append(slot)
    return found


def _loss(path: Path, format: str, annotations: Sequence[Annotation]) -> str:
    """A sentence about the first thing that would be lost if a file was read and written, empty if nothing."""
    base = format.partition(":")[0]
    copy = f"Work on a copy instead: pliant convert {path.name} landmarks.json."
    if base in _NEVER or any(annotation.pixels is not None for annotation in annotations):
        return f"{path}: {base} files can be read but not written. {copy}"
    try:
        content = _written(path, format, annotations)
    except ValueError as error:
        return f"{path}: this file cannot be written without changes ({error}). {copy}"
    with TemporaryDirectory() as passing:
        again = Path(passing) / path.name
        again.write_bytes(content)
        lost = first_loss(path, again, formats()[base].EXTENSIONS[0])
    return f"{path}: writing this file back would lose {lost}. {copy}" if lost else ""
