"""Editing dlib's XML: parts are moved, added and taken away within their box; comments and further boxes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from pliant.arrays import Float64
from pliant.data.landmark_names import by_name, without_numbers
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, number

ENCODING = "latin-1"
"""A character a byte, as expat counts them; what is added is ASCII."""

_SIDES = ("left", "top", "width", "height")


@dataclass
class _Box:
    """Where a box's tag begins and ends, its end tag begins, and its parts are, each with its tag."""

    attributes: dict[str, str]
    tag: tuple[int, int]
    end: int = 0
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)
    values: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass
class _Image:
    attributes: dict[str, str]
    tag: tuple[int, int]
    end: int = 0
    boxes: list[_Box] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    image: _Image
    box: _Box
    names: tuple[str, ...]
    whole: bool
    """Whether all numbers of the file are whole, as dlib wants them."""


def contents(text: str, path: Path) -> Contents:
    """A slot for each box that is not to be ignored, with parts or without."""
    images, _, declared = _document(text, path)
    boxes = [
        (_name(image, declared), image, box)
        for image in images
        for box in image.boxes
        if box.attributes.get("ignore", "").lower() not in ("1", "true")
    ]
    names = by_name(name for _, _, box in boxes for name in box.values)
    whole = all(value.is_integer() for _, _, box in boxes for pair in box.values.values() for value in pair)
    slots = []
    for name, image, box in boxes:
        numbers = np.array([box.values.get(part, (np.nan, np.nan)) for part in names]).reshape(-1, 2)
        place = _Place(image, box, names, whole)
        slots.append(Slot(name, numbers, without_numbers(names), size=_size(image), place=place))
    return Contents(tuple(slots), tuple(dict.fromkeys(_name(image, declared) for image in images)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """Parts of boxes that changed, the box itself if it was that of its landmarks, and new boxes."""
    for index, new in changed.items():
        yield from _changed(text, found.slots[index], new)
    if not added:
        return
    images, end, declared = _document(text, Path())
    known = next((slot.place for slot in found.slots), None)
    there = {_name(image, declared): image for image in images}
    for slot in added:
        names, whole = (known.names, known.whole) if known is not None else ((), True)
        if len(names) != len(slot.numbers):
            count = len(slot.numbers)
            names = slot.names or tuple(f"{part:0{len(str(count - 1))}}" for part in range(count))
        box = _around(slot.numbers, whole)
        if box is None:
            continue
        sides = " ".join(f"{side}='{_text(value, whole)}'" for side, value in zip(_SIDES, box, strict=True))
        parts = "".join(
            f"      {_part(name, pair, whole)}\n" for name, pair in zip(names, slot.numbers, strict=True)
            if np.isfinite(pair).all()
        )  # fmt: skip
        written = f"    <box {sides}>\n{parts}    </box>\n"
        image = there.get(slot.image)
        if image is None:
            size = "" if slot.size is None else f" width='{slot.size[0]}' height='{slot.size[1]}'"
            yield end, end, f"  <image file={_quoted(slot.image)}{size}>\n{written}  </image>\n"
        elif text[image.tag[1] - 2] == "/":
            yield image.tag[1] - 2, image.tag[1], f">\n{written}  </image>"
        else:
            yield image.end, image.end, written


def _changed(text: str, old: Slot, new: Slot) -> Iterator[Splice]:
    place: _Place = old.place
    names, box = place.names, place.box
    if len(new.numbers) != len(names):
        if names:
            raise Unfollowed("the parts of a box in dlib's XML cannot change.")
        count = len(new.numbers)
        names = new.names or tuple(f"{part:0{len(str(count - 1))}}" for part in range(count))
    before = np.array([box.values.get(name, (np.nan, np.nan)) for name in names]).reshape(-1, 2)
    fresh = []
    for name, was, now in zip(names, before, new.numbers, strict=True):
        if np.array_equal(was, now, equal_nan=True):
            continue
        if name not in box.parts:
            fresh.append(_part(name, now, place.whole))
            continue
        start, end = box.parts[name]
        if np.isfinite(now).all():
            for axis, value in zip("xy", now, strict=True):
                begin, stop = _attribute(text, start, end, axis)
                yield begin, stop, _text(value, place.whole)
        else:
            yield start, _behind(text, end), ""
    if fresh and text[box.tag[1] - 2] == "/":
        inner = "".join(f"\n      {part}" for part in fresh)
        yield box.tag[1] - 2, box.tag[1], f">{inner}\n    </box>"
    elif fresh:
        last = max((end for _, end in box.parts.values()), default=box.tag[1])
        yield last, last, "".join(f"\n      {part}" for part in fresh)
    was_around, around = _around(before, place.whole), _around(new.numbers, place.whole)
    sides = [float(box.attributes.get(side, "nan")) for side in _SIDES]
    if was_around is not None and around is not None and np.allclose(sides, was_around, rtol=0, atol=2e-3):
        for side, value in zip(_SIDES, around, strict=True):
            yield *_attribute(text, *box.tag, side), _text(value, place.whole)


def _document(text: str, path: Path) -> tuple[list[_Image], int, bool]:
    """Images with their boxes and parts, where another image could be put, and whether it declares ISO-8859-1."""
    content = text.encode(ENCODING)
    parser = expat.ParserCreate()
    images: list[_Image] = []
    where: list[tuple[str, int]] = []
    ends: list[int] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        span = at, _tag_end(text, at)
        parents = [tag for tag, _ in where]
        where.append((tag, at))
        if tag == "image":
            images.append(_Image(attributes, span))
        elif tag == "box" and parents[-1:] == ["image"]:
            images[-1].boxes.append(_Box(attributes, span))
        elif tag == "part" and parents[-2:] == ["image", "box"]:
            box = images[-1].boxes[-1]
            name = attributes["name"]
            if name in box.parts:
                raise Unfollowed(f"{path}: part '{name}' occurs twice in one box.")
            box.values[name] = float(attributes["x"]), float(attributes["y"])
            box.parts[name] = span

    def end(tag: str) -> None:
        at = parser.CurrentByteIndex
        where.pop()
        if tag == "image":
            images[-1].end = at
        elif tag == "box" and where and where[-1][0] == "image":
            images[-1].boxes[-1].end = at
        elif tag == "part" and images and images[-1].boxes:
            box = images[-1].boxes[-1]
            last = next(reversed(box.parts), None)
            if last is not None and text[box.parts[last][1] - 2] != "/":
                box.parts[last] = box.parts[last][0], _tag_end(text, at)
        elif tag in ("images", "dataset"):
            ends.append(at)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, KeyError, ValueError, LookupError, IndexError) as error:
        raise Unfollowed(f"{path}: this is not dlib's XML ({error}).") from None
    declared = re.search(r"encoding=.iso-8859-1", text.split("\n", 1)[0].lower()) is not None
    return images, ends[0], declared


def _tag_end(text: str, start: int) -> int:
    """Behind the > of a tag; one may stand in a quoted value."""
    match = re.compile(r"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>").match(text, start)
    if match is None:
        raise Unfollowed("a tag is not closed.")
    return match.end()


def _attribute(text: str, start: int, end: int, name: str) -> tuple[int, int]:
    """Where the value of an attribute of a tag is."""
    match = re.compile(rf"\s{name}\s*=\s*(?:\"([^\"]*)\"|'([^']*)')").search(text, start, end)
    if match is None:
        raise Unfollowed(f"a tag has no attribute {name}.")
    return match.span(1 if match[1] is not None else 2)


def _behind(text: str, at: int) -> int:
    """Where the next line's text begins: what stands before a part that is taken away is left for what follows."""
    match = re.compile(r"\s*").match(text, at)
    return match.end() if match else at


def _name(image: _Image, declared: bool) -> str:
    name = image.attributes.get("file", "")
    if declared:
        # dlib always declares ISO-8859-1, but copies the bytes of the file system.
        try:
            return name.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return name
    return name


def _size(image: _Image) -> tuple[int, int] | None:
    sides = [image.attributes.get(side, "") for side in ("width", "height")]
    return (int(sides[0]), int(sides[1])) if all(side.isdecimal() for side in sides) else None


def _around(numbers: Float64, whole: bool) -> Float64 | None:
    there = numbers[np.isfinite(numbers).all(axis=1)]
    if not len(there):
        return None
    box = np.concatenate([there.min(axis=0), there.max(axis=0) - there.min(axis=0) + 1])
    return np.floor(box + 0.5) if whole else box


def _part(name: str, pair: Float64, whole: bool) -> str:
    return f"<part name={_quoted(name)} x='{_text(pair[0], whole)}' y='{_text(pair[1], whole)}'/>"


def _text(value: float, whole: bool) -> str:
    return str(int(np.floor(value + 0.5))) if whole else number(value)


def _quoted(text: str) -> str:
    return quoteattr(text).encode("ascii", "xmlcharrefreplace").decode()
