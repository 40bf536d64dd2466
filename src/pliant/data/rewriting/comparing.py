"""What would be lost of a file if it were read, and written as a whole: the first thing, in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from pliant.data.archives import read_array
from pliant.data.documents import read_json, read_xml

_NEAR = 1e-4
_TOKEN = re.compile(r"[^\s,;:=\"'<>{}\[\]()]+")


def first_loss(original: Path, written: Path, ending: str) -> str:
    """The first thing that a file has and another does not that was made of it; empty if nothing is missing."""
    compare = {
        ".json": _json,
        ".ljson": _json,
        ".xml": _xml,
        ".npy": _npy,
        ".npz": _npz,
        ".parquet": _parquet,
    }.get(ending, _text)
    return next(compare(original, written), "")


def _json(original: Path, written: Path) -> Iterator[str]:
    yield from _in_json(read_json(original), read_json(written), "")


def _in_json(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, dict):
        if not isinstance(new, dict):
            yield where or "the object"
            return
        for key, value in old.items():
            inner = f"{where}.{key}" if where else key
            if key not in new:
                yield inner
            else:
                yield from _in_json(value, new[key], inner)
    elif isinstance(old, list):
        if not isinstance(new, (list, tuple)) or len(new) < len(old):
            yield where or "the list"
            return
        for index, (value, other) in enumerate(zip(old, new, strict=False)):
            yield from _in_json(value, other, f"{where}[{index}]")
    elif isinstance(old, (int, float)) and not isinstance(old, bool):
        if isinstance(new, bool) or not isinstance(new, (int, float)) or not _near(old, new):
            yield f"{where} = {json.dumps(old)[:60]}"
    elif old != new:
        yield f"{where} = {json.dumps(old)[:60]}"


def _xml(original: Path, written: Path) -> Iterator[str]:
    if b"<!--" in original.read_bytes():
        yield "the comments"
    yield from _in_xml(read_xml(original)[0], read_xml(written)[0])


def _in_xml(old: Element, new: Element) -> Iterator[str]:
    for key, value in old.attrib.items():
        if not _same_words(value, new.get(key, "")):
            yield f"<{old.tag} {key}='{value[:60]}'>"
    if not _same_words((old.text or "").strip(), (new.text or "").strip()):
        yield f"<{old.tag}>{(old.text or '').strip()[:60]}"
    waiting = iter(list(new))
    for child in old:
        # Children in their order; others may stand between them.
        other = next((other for other in waiting if other.tag == child.tag), None)
        if other is None:
            yield f"<{child.tag}>"
        else:
            yield from _in_xml(child, other)


def _text(original: Path, written: Path) -> Iterator[str]:
    words = iter(_words(written))
    for word in _words(original):
        if not any(_same_words(word, other) for other in words):
            yield f"'{word[:60]}'"
            return


def _words(path: Path) -> list[str]:
    return _TOKEN.findall(path.read_text(encoding="utf-8-sig", errors="surrogateescape"))


def _same_words(old: str, new: str) -> bool:
    """Whether two texts say the same, if it is in numbers with other digits."""
    if old == new:
        return True
    words, others = _TOKEN.findall(old), _TOKEN.findall(new)
    return len(words) == len(others) and all(map(_same_word, words, others))


def _same_word(old: str, new: str) -> bool:
    if old == new:
        return True
    try:
        return _near(float(old), float(new))
    except ValueError:
        return False


def _near(old: float, new: float) -> bool:
    return (math.isnan(old) and math.isnan(new)) or abs(old - new) < _NEAR


def _npy(original: Path, written: Path) -> Iterator[str]:
    old, new = (read_array(path.read_bytes(), path) for path in (original, written))
    if old.shape != new.shape or not np.allclose(old, new, rtol=0, atol=_NEAR, equal_nan=True):
        yield "the array as it is"


def _npz(original: Path, written: Path) -> Iterator[str]:
    with np.load(original, allow_pickle=False) as old, np.load(written, allow_pickle=False) as new:
        for name in old.files:
            if name not in new.files:
                yield f"the array {name}"


def _parquet(original: Path, written: Path) -> Iterator[str]:
    from pyarrow import parquet

    old, new = (parquet.read_table(path) for path in (original, written))
    for name in old.column_names:
        if name not in new.column_names:
            yield f"the column {name}"
