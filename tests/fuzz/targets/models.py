"""Model files that somebody made on purpose: the checksum is right, and what is in them is not.

`models` loads them, which is quick; `models-fitted` also fits and draws with what was loaded, because compiled code
trusts what has passed the checks.
"""

import copy
import hashlib
import json
import warnings
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

import pliant
from pliant.container import ModelFileError
from pliant.fitting.result import FitResult
from pliant.model import Model, load

from .mutations import VALUES, of_bytes
from .target import CORPUS, Target, refused, written

ALGORITHMS = (
    "ssd:map-asy:0.2-gn-sch",
    "po-inv-gn",
    "po:0-for-gn",
    "ssd-bid-gn-sch",
    "ssd:map-inv-n-sch",
    "ssd-for-w",
)
WATCHED = ("pliant.container", "pliant.store", "pliant.consistency", "pliant.model", "pliant.settings")
_NUMBERS = (0, -1, 1, 2, 3, 64, -0.0, 0.5, 1e-300, 1e-9, 1e9, -1e9, 1e300, 2**31, 2**63, 10**400)
_VALUES = [*_NUMBERS, *VALUES, "text", "nan", {"x": 1}]
_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-300, 1e9, -1e9, 6e4, 1e30, 1e300)
_INTEGERS = (-1, 0, 1, 2, 7, 1000, 60000, 2**31 - 1, -(2**31))
_KINDS = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}


def targets() -> list[Target]:
    return [
        Target("models", seeds, _load, mutant, WATCHED, longest=2**17, short=150),
        Target("models-fitted", seeds, _fit, mutant, WATCHED, longest=2**17, short=40),
    ]


@cache
def seeds() -> tuple[bytes, ...]:
    """Small models of every motion, with everything that a file can have: `make_models.py` makes them."""
    return tuple(path.read_bytes() for path in sorted((CORPUS / "whole-models").glob("*.pliant")))


def _load(content: bytes, folder: Path) -> bool:
    return _loaded(content, folder) is not None


def _loaded(content: bytes, folder: Path) -> Model | None:
    path = written(content, folder / "m.pliant")
    with warnings.catch_warnings():
        # Its expert may be of a kind that nobody knows.
        warnings.simplefilter("ignore", pliant.ExpertLeftOut)
        try:
            return load(path)
        except ModelFileError as error:
            refused(error, path)
            return None


def _fit(content: bytes, folder: Path) -> bool:
    model = _loaded(content, folder)
    if model is None:
        return False
    image = np.random.default_rng(0).integers(0, 256, (48, 44, 3), dtype=np.uint8)
    mean = model.levels[-1].shape.mean
    start = (mean - mean.min(axis=0)) / max(float(np.ptp(mean, axis=0).max()), 1e-9) * 24 + 10
    several = np.stack([start, start + 1])
    algorithm = ALGORITHMS[len(content) % len(ALGORITHMS)]
    with warnings.catch_warnings():
        # Numbers may overflow on the way to a fit that diverged.
        warnings.simplefilter("ignore", RuntimeWarning)
        # What cannot be fitted says so, which is as good.
        warnings.simplefilter("ignore", pliant.NotFitted)
        for starts in ([several, start], "placement"):
            try:
                fits = pliant.fit(model, [image, image], starts, algorithm=algorithm, iterations=2, jobs=1)
            except ValueError as error:
                if type(error) is not ValueError:
                    raise
                return refused(error, "")
            assert all(isinstance(fit, FitResult) and not abs(fit.confidence() - 0.5) > 0.5 for fit in fits)
        model.draw([1.0][: model.levels[-1].shape.modes])
        model.reconstruct(image, start)
    return True


def taken_apart(content: bytes) -> tuple[dict, dict, dict[str, np.ndarray]]:
    """Metadata, numbers and arrays of a model file; a ValueError if it is none."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        arrays = {}
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            data = np.frombuffer(content[8 + length :][first:last], _KINDS[entry["dtype"]])
            arrays[name] = data.reshape(entry["shape"]).copy()
        return metadata, json.loads(metadata["model"]), arrays
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError from error


def assembled(metadata: dict, model: str, arrays: dict[str, np.ndarray], table: dict | None = None) -> bytes:
    """A file with these, and with the checksum that it should have."""
    header, end = {"__metadata__": {**metadata, "model": model, "checksum": "0" * 64}}, 0
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in order:
        array = arrays[name]
        kind = {value: key for key, value in _KINDS.items()}[array.dtype.str]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    header.update(table or {})
    text = json.dumps(header).encode()
    data = b"".join(arrays[name].tobytes() for name in order)
    checksum = hashlib.sha256(text + data).hexdigest().encode()
    return len(text).to_bytes(8, "little") + text.replace(b"0" * 64, checksum, 1) + data


def mutant(content: bytes, chance: Random) -> bytes:
    """Another file: other numbers, arrays or entries of the table, with a right checksum; at times raw bytes."""
    if chance.random() < 0.05:
        return of_bytes(content, chance)
    try:
        metadata, numbers, arrays = taken_apart(content)
    except ValueError:
        return mutant(chance.choice(seeds()), chance)
    kind, table = chance.randrange(10), None
    text = json.dumps(numbers)
    if kind < 5:
        text = _with_other_number(numbers, chance)
    elif kind < 9:
        for _ in range(chance.randint(1, 2)):
            _with_other_array(arrays, chance)
    else:
        entry = {
            "dtype": "F64",
            "shape": [2, 2],
            "data_offsets": [0, 32],
            "format": "pliant",
            "format_version": "1",
        }
        entry[chance.choice(list(entry))] = chance.choice(_VALUES)
        table = {chance.choice([*arrays, "__metadata__"]): entry}
    try:
        return assembled(metadata, text, arrays, table)
    except (TypeError, ValueError, AttributeError):
        return content  # what JSON cannot say is no file


def _with_other_number(numbers: dict, chance: Random) -> str:
    for _ in range(chance.randint(1, 2)):
        way = _somewhere(numbers, chance)
        if not way:
            break
        parent = numbers
        for key in way[:-1]:
            parent = parent[key]
        if chance.random() < 0.1:
            del parent[way[-1]]
        else:
            parent[way[-1]] = copy.deepcopy(chance.choice(_VALUES))
    text = json.dumps(numbers)
    for word in ("NaN", "Infinity", "1e999", "[" * 5000, "9" * 5000):
        if chance.random() < 0.02:
            text = text.replace("0.5", word, 1)
    return text


def _somewhere(value: object, chance: Random) -> tuple:
    """The way to a leaf or table of a JSON value, as likely in a short table as in a long list."""
    way: tuple = ()
    while isinstance(value, (dict, list)) and value and (not way or chance.random() < 0.9):
        way = (*way, chance.choice(list(value) if isinstance(value, dict) else range(len(value))))
        value = value[way[-1]]
    return way


def _with_other_array(arrays: dict[str, np.ndarray], chance: Random) -> None:
    name = chance.choice(list(arrays))
    array = arrays[name]
    whole = array.dtype.kind == "i"
    value, way = chance.choice(_INTEGERS if whole else _FLOATS), chance.randrange(10)
    with np.errstate(over="ignore", invalid="ignore"):
        if way < 3 and array.size:
            for _ in range(chance.randint(1, 3)):
                array.reshape(-1)[chance.randrange(array.size)] = value
        elif way == 3:
            array[...] = value
        elif way == 4 and array.ndim:
            arrays[name] = np.ascontiguousarray(array[: chance.randint(0, len(array))])
        elif way == 5 and array.ndim:
            arrays[name] = np.ascontiguousarray(np.repeat(array, 2, axis=chance.randrange(array.ndim)))
        elif way < 8 and not whole:
            noise = np.random.default_rng(chance.randrange(2**32)).normal(size=array.shape)
            arrays[name] = (array * (1 + 10.0 ** chance.randint(-7, 0) * noise)).astype(array.dtype)
        elif way < 9:
            array += np.asarray(chance.choice([1, -1, 3])).astype(array.dtype)
        else:
            arrays[name] = array * np.asarray(2 if whole else value, dtype=array.dtype)
