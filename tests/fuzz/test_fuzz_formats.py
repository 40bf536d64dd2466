"""Damaged landmark files: each mutant is read as landmarks, or refused by a sentence that names the file.

`PLIANT_FUZZ=20000` tries so many mutants of each format; without it there are few, the same ones each time.
"""

import json
import os
import re
import signal
import string
import warnings

import numpy as np
import pytest

from pliant.data.annotation import Annotation
from pliant.data.formats import formats, read_annotations_with, write_annotations

MUTANTS = int(os.environ.get("PLIANT_FUZZ", "60"))
SECONDS = 5.0
"""How long one mutant may take, on a machine that is busy."""

NUMBERS = [
    *("inf", "-inf", "nan", "1e400", "-1e400", "1e308", "-1", "0", "-0", "1e-400", "0x10", "1_0", "٣", ""),
    *(
        "9" * 30,
        "9" * 400,
        "9" * 5000,
        "-" + "9" * 400,
        "2147483648",
        "18446744073709551616",
        "null",
        "Infinity",
    ),
]
TEXTS = [
    "",
    "\x00",
    "\ud800",
    "../x",
    "/",
    "http://[",
    "a" * 5000,
    "é\u202e",
    "\x1b[31m",
    "0",
    "x.jpg",
    "::",
    "s3://",
]
SIZE = (640, 480)


@pytest.fixture(scope="module", params=sorted(formats()))
def sample(request, tmp_path_factory):
    """The format, and the bytes of a file of it with names, boxes, groups and a missing landmark if it has them."""
    module = formats()[request.param]
    path = tmp_path_factory.mktemp("sample") / f"a{module.EXTENSIONS[0]}"
    points = np.array([[10.5, 20.25], [300, 40], [150, 200], [77, 99.5]])
    pixels = np.full((12, 12), 90, np.uint8)
    for missing in (True, False):
        shown = points.copy()
        shown[2] = np.nan if missing else shown[2]
        annotations = [
            Annotation(
                f"{stem}.jpg", some, tuple("abcd"), np.array([1.5, 2.5, 310, 210]), SIZE, stem, lambda: pixels
            )
            for stem, some in (("one", points), ("two", shown))[: 1 + module.MANY]
        ]
        try:
            write_annotations(path, annotations, module.NAME)
            break
        except ValueError:  # This format cannot mark a landmark as missing.
            continue
    return module, path.read_bytes()


def mutant(content: bytes, rng: np.random.Generator, binary: bool) -> bytes:
    """The content with one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        kinds = (
            [_flipped, _cut, _spliced]
            if binary
            else [_flipped, _cut, _spliced, _renumbered, _restructured, _nested]
        )
        content = kinds[int(rng.integers(len(kinds)))](content, rng)
    return content


def _flipped(content, rng):
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def _cut(content, rng):
    return content[: int(rng.integers(len(content) + 1))]


def _spliced(content, rng):
    """A piece taken out, or put in once more somewhere else."""
    first, last = sorted(int(value) for value in rng.integers(0, len(content) + 1, 2))
    if rng.random() < 0.5:
        return content[:first] + content[last:]
    at = int(rng.integers(len(content) + 1))
    return content[:at] + content[first : min(last, first + 2000)] + content[at:]


def _renumbered(content, rng):
    """One number, or one word, that is another."""
    pattern = rb"-?\d+(?:\.\d+)?" if rng.random() < 0.7 else rb"[A-Za-z_]+"
    found = list(re.finditer(pattern, content))
    if not found:
        return content
    place = found[int(rng.integers(len(found)))]
    others = NUMBERS if pattern[:1] == b"-" else TEXTS
    other = others[int(rng.integers(len(others)))].encode("utf-8", "surrogatepass")
    return content[: place.start()] + other + content[place.end() :]


def _restructured(content, rng):
    """JSON with one value that is another; other text with two lines that changed places."""
    try:
        document = json.loads(content)
    except ValueError:
        lines = content.split(b"\n")
        one, other = rng.integers(0, len(lines), 2)
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines)
    except RecursionError:
        return content
    places: list = []

    def walk(value, depth=0):
        if depth > 30:
            return
        for key in (
            list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        ):
            places.append((value, key))
            walk(value[key], depth + 1)

    walk(document)
    if not places:
        return content
    value, key = places[int(rng.integers(len(places)))]
    others = [
        None,
        True,
        -1,
        10**400,
        1e308,
        float("inf"),
        float("nan"),
        "",
        "\ud800",
        [],
        {},
        [[]],
        {"id": 1},
    ]
    others += [[1, 2, 3], "x", [None], 10**30, value[key], document]
    other = others[int(rng.integers(len(others)))]
    if rng.random() < 0.2:
        del value[key]
    elif isinstance(value, dict) and rng.random() < 0.2:
        value[string.ascii_letters[int(rng.integers(52))]] = value.pop(key)
    else:
        value[key] = json.loads(json.dumps(other)) if other is document else other
    return json.dumps(document).encode()


def _nested(content, rng):
    """Very deep brackets or elements in some place."""
    at, depth = int(rng.integers(len(content) + 1)), int(rng.choice([50, 2000, 60_000]))
    opening = [b"[", b'{"a":', b"<a>", b"(", b'"'][int(rng.integers(5))]
    return content[:at] + opening * depth + content[at:]


def sizes(name):
    if name.startswith("x"):
        raise ValueError(f"there is no image {name}")
    return SIZE


def test_mutants_are_read_or_refused(sample, tmp_path):
    module, content = sample
    rng = np.random.default_rng(sum(module.NAME.encode()))
    path = tmp_path / f"a{module.EXTENSIONS[0]}"
    binary = b"\x00" in content
    read = 0

    def too_long(*_):
        raise TimeoutError("this mutant takes too long")

    before = signal.signal(signal.SIGALRM, too_long)
    try:
        for number in range(MUTANTS):
            damaged = mutant(content, rng, binary)
            path.write_bytes(damaged)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                # By its name half of the time, so that what would not be recognised is read as well.
                named = module.NAME if number % 2 else ""
                with warnings.catch_warnings():
                    warnings.simplefilter("error" if module.NAME != "sleap" else "ignore")
                    annotations = read_annotations_with(path, named, sizes)
            except ValueError as error:
                sentence = str(error)
                assert sentence.startswith((str(path), "there is no image x")), (number, sentence[:300])
                continue
            except BaseException as error:
                (tmp_path / "mutant").write_bytes(damaged)
                pytest.fail(
                    f"mutant {number}, {tmp_path / 'mutant'}: {type(error).__name__}: {str(error)[:300]}"
                )
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            read += 1
            for annotation in annotations:
                points = annotation.points
                assert points.dtype == np.float64
                assert points.ndim == 2
                assert points.shape[1] == 2
                assert not np.isinf(points).any()
                assert (np.isnan(points[:, 0]) == np.isnan(points[:, 1])).all()
                assert annotation.box is None or np.isfinite(annotation.box).all()
                assert annotation.size is None or min(annotation.size) > 0
                assert isinstance(annotation.image, str)
                assert all(isinstance(name, str) for name in annotation.names)
    finally:
        signal.signal(signal.SIGALRM, before)
    print(f"{module.NAME}: {MUTANTS} mutants, {read} read, {MUTANTS - read} refused")
