"""Editing COCO: keypoints are changed where they stand in the text, and all else keeps its bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.landmark_names import without_numbers
from pliant.data.rewriting.json_spans import Element, elements, members, skip
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, hidden_in

ENCODING = "utf-8"

_LISTS = ("images", "categories", "annotations")
_NEAR = 2e-3
"""A box is that of its landmarks if its sides are no further off than this, in pixels."""


def contents(text: str, path: Path) -> Contents:
    """A slot for each object with keypoints that is no crowd, also where none of them is there."""
    lists, _ = _document(text, path)
    images = {image["id"]: image for image, _, _ in lists["images"] if _is_image(image)}
    names_of = {
        category["id"]: _names(category)
        for category, _, _ in lists["categories"]
        if isinstance(category, dict) and isinstance(category.get("id"), (int, str))
    }
    slots = []
    for record, start, end in lists["annotations"]:
        if not isinstance(record, dict) or record.get("iscrowd") or not record.get("keypoints"):
            continue
        try:
            image = images[record["image_id"]]
            values = np.array(record["keypoints"], dtype=np.float64).reshape(-1, 3)
        except (KeyError, TypeError, ValueError):
            raise Unfollowed(
                f"{path}: the annotation {str(record.get('id'))[:40]} is not a COCO annotation."
            ) from None
        numbers = np.where(values[:, 2:] > 0, values[:, :2], np.nan)
        count, names = names_of.get(record.get("category_id"), (0, ()))
        size = (image.get("width"), image.get("height"))
        slots.append(
            Slot(
                image["file_name"],
                numbers,
                names if count == len(numbers) else (),
                values[:, 2] == 1,
                size=size if all(isinstance(side, int) and side > 0 for side in size) else None,
                place=(start, end),
            )
        )
    listed = (image["file_name"] for image in images.values())
    return Contents(tuple(slots), tuple(dict.fromkeys(listed)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New keypoints, boxes that follow them if they did so before, and new objects at the end of the lists."""
    for index, new in changed.items():
        yield from _changed(text, found.slots[index], new)
    if added:
        yield from _added(text, added)


def _changed(text: str, old: Slot, new: Slot) -> Iterator[Splice]:
    start, _ = old.place
    there = {key: (value, begin, end) for key, value, begin, end in members(text, start)}
    _, begin, end = there["keypoints"]
    hidden = hidden_in(new)
    if len(new.numbers) != len(old.numbers):
        values = [value for landmark in range(len(hidden)) for value in _triple(new, landmark)]
        yield begin, end, json.dumps(values)
    else:
        items = list(elements(text, begin))
        for landmark in old.differing(new):
            for offset, value in enumerate(_triple(new, landmark)):
                _, from_, to = items[3 * landmark + offset]
                yield from_, to, json.dumps(value)
    if "num_keypoints" in there:
        _, begin, end = there["num_keypoints"]
        yield begin, end, str(int(np.isfinite(new.numbers).all(axis=1).sum()))
    # A box of nothing is that of landmarks which are all gone.
    before, after = (_box(slot.numbers) if not slot.empty else np.zeros(4) for slot in (old, new))
    if "bbox" not in there:
        return
    sides, begin, end = there["bbox"]
    try:
        near = np.allclose(np.array(sides, dtype=np.float64), before, rtol=0, atol=_NEAR)
    except (TypeError, ValueError):
        return
    if near:
        yield begin, end, json.dumps([_short(side) for side in after])
        area, begin, end = there.get("area", (None, 0, 0))
        if isinstance(area, (int, float)) and abs(area - before[2] * before[3]) < 1:
            yield begin, end, json.dumps(_short(after[2] * after[3]))


def _added(text: str, added: Sequence[Slot]) -> Iterator[Splice]:
    lists, ends = _document(text, Path())
    identities = {image["file_name"]: image["id"] for image, _, _ in lists["images"] if _is_image(image)}
    categories = {
        tuple(map(str, category["keypoints"])): category["id"]
        for category, _, _ in lists["categories"]
        if isinstance(category, dict) and isinstance(category.get("keypoints"), list)
    }
    new: dict[str, list[Any]] = {key: [] for key in _LISTS}
    for slot in added:
        if slot.image not in identities:
            identities[slot.image] = _free([image for image, _, _ in lists["images"]], new["images"])
            image = {"id": identities[slot.image], "file_name": slot.image}
            if slot.size is not None:
                image["width"], image["height"] = slot.size
            new["images"].append(image)
        count = len(slot.numbers)
        names = slot.names or tuple(f"{index:0{len(str(count - 1))}}" for index in range(count))
        if names not in categories:
            # A category that merely numbers them means the same landmarks as one that has no names for them.
            alike = [known for known in categories if len(known) == count and not without_numbers(known)]
            if alike and not slot.names:
                names = alike[0]
            else:
                categories[names] = _free([entry for entry, _, _ in lists["categories"]], new["categories"])
                made = {"id": categories[names], "name": "object", "keypoints": names, "skeleton": []}
                new["categories"].append(made)
        keypoints = [value for landmark in range(count) for value in _triple(slot, landmark)]
        box = np.zeros(4) if slot.empty else _box(slot.numbers)
        record: dict[str, Any] = {
            "id": _free([entry for entry, _, _ in lists["annotations"]], new["annotations"]),
            "image_id": identities[slot.image],
            "category_id": categories[names],
            "keypoints": keypoints,
            "num_keypoints": int(np.isfinite(slot.numbers).all(axis=1).sum()),
            "bbox": [_short(side) for side in box],
            "area": _short(box[2] * box[3]),
            "iscrowd": 0,
        }
        new["annotations"].append(record)
    for key, entries in new.items():
        if entries:
            written = ", ".join(json.dumps(entry) for entry in entries)
            if key in ends:
                yield ends[key], ends[key], f"{', ' if lists[key] else ''}{written}"
            else:
                yield ends[""], ends[""], f', "{key}": [{written}]'


def renamed(text: str, path: Path, old: Sequence[str], new: Sequence[str]) -> list[Splice]:
    """What renames landmarks where a category has the old names, or as many numbers, and adds further ones."""
    lists, _ = _document(text, path)
    found: list[Splice] = []
    identities = []
    for category, start, _ in lists["categories"]:
        if not isinstance(category, dict) or not isinstance(category.get("keypoints"), list):
            continue
        names = tuple(map(str, category["keypoints"]))
        if names == tuple(old) or (not without_numbers(names) and len(names) == len(old)):
            there = {key: (begin, end) for key, _, begin, end in members(text, start)}
            found.append((*there["keypoints"], json.dumps(list(new))))
            identities.append(category.get("id"))
    more = ", 0, 0, 0" * (len(new) - len(old))
    for record, start, _ in lists["annotations"] if more else ():
        if isinstance(record, dict) and record.get("category_id") in identities and record.get("keypoints"):
            there = {key: (begin, end) for key, _, begin, end in members(text, start)}
            begin, _ = there["keypoints"]
            *_, (_, _, last) = elements(text, begin)
            found.append((last, last, more))
    return found


def _document(text: str, path: Path) -> tuple[dict[str, list[Element]], dict[str, int]]:
    """The lists of a document, and where the last element of each ends; under "", the last member of all."""
    lists: dict[str, list[Element]] = {key: [] for key in _LISTS}
    ends: dict[str, int] = {}
    start = skip(text, 1 if text.startswith("\ufeff") else 0)
    try:
        for key, value, begin, end in members(text, start, apart=_LISTS):
            ends[""] = end
            if key not in _LISTS:
                continue
            if key in ends or text[begin] != "[":
                raise Unfollowed(f"{path}: '{key}' occurs twice, or is not a list.")
            lists[key] = value
            ends[key] = value[-1][2] if value else begin + 1
    except (json.JSONDecodeError, IndexError):
        raise Unfollowed(f"{path}: this is not JSON.") from None
    return lists, ends


def _is_image(image: Any) -> bool:
    return (
        isinstance(image, dict)
        and isinstance(image.get("id"), (int, str))
        and isinstance(image.get("file_name"), str)
    )


def _names(category: Any) -> tuple[int, tuple[str, ...]]:
    """How many landmarks a category has, and what they are called unless they are numbered."""
    names = tuple(map(str, category.get("keypoints") or ()))
    return len(names), without_numbers(names)


def _triple(slot: Slot, landmark: int) -> tuple[float | int, ...]:
    x, y = slot.numbers[landmark].tolist()
    if not (np.isfinite(x) and np.isfinite(y)):
        return 0, 0, 0
    return _short(x), _short(y), 1 if hidden_in(slot)[landmark] else 2


def _box(numbers: Float64) -> Float64:
    """Left, top, width and height of the pixels that the landmarks span, from the corner of the image."""
    there = numbers[np.isfinite(numbers).all(axis=1)]
    return np.concatenate([there.min(axis=0), there.max(axis=0) - there.min(axis=0) + 1])


def _free(there: Sequence[Any], new: Sequence[Any]) -> int | str:
    """An id that nothing has, of the kind that the others have."""
    taken = [entry.get("id") for entry in (*there, *new) if isinstance(entry, dict)]
    highest = max((value for value in taken if isinstance(value, int)), default=0)
    if taken and all(isinstance(value, str) for value in taken):
        number = len(taken) + 1
        while str(number) in taken:
            number += 1
        return str(number)
    return highest + 1


def _short(value: float) -> float | int:
    short = round(float(value), 6)
    return int(short) if short.is_integer() else short
