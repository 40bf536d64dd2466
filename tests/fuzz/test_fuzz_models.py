"""Model files that somebody made on purpose: refused with a sentence, or fitted without harm.

Mutants have a right checksum, unless raw bytes were changed. A seed makes one mutant; PLIANT_FUZZ is how many.
"""

import copy
import hashlib
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.container import ModelFileError
from pliant.fitting.result import FitResult
from pliant.model import load
from pliant.trust.confidence import Confidence

MUTANTS = int(os.environ.get("PLIANT_FUZZ", "150"))
ALGORITHMS = (
    "ssd:map-asy:0.2-gn-sch",
    "po-inv-gn",
    "po:0-for-gn",
    "ssd-bid-gn-sch",
    "ssd:map-inv-n-sch",
    "ssd-for-w",
)
ODD_NUMBERS = (0, -1, 1, 2, 3, 64, -0.0, 0.5, 1e-300, 1e-9, 1e9, -1e9, 1e300, 2**31, 2**63, 10**400)
ODD_VALUES = (*ODD_NUMBERS, None, True, "", "text", "\ud800", "nan", [], [1], {}, {"x": 1}, [[1, 2], [3, 4]])
ODD_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-300, 1e9, -1e9, 6e4, 1e30, 1e300)
ODD_INTEGERS = (-1, 0, 1, 2, 7, 1000, 60000, 2**31 - 1, -(2**31))


def taken_apart(content: bytes) -> tuple[dict, dict, dict[str, np.ndarray]]:
    """Metadata, numbers and arrays of a model file."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    arrays = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        dtype = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}[entry["dtype"]]
        data = np.frombuffer(content[8 + length :][first:last], dtype)
        arrays[name] = data.reshape(entry["shape"]).copy()
    return metadata, json.loads(metadata["model"]), arrays


def assembled(metadata: dict, model: str, arrays: dict[str, np.ndarray], table: dict | None = None) -> bytes:
    """A file with these, and with the checksum that it should have."""
    header, end = {"__metadata__": {**metadata, "model": model, "checksum": "0" * 64}}, 0
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in order:
        array = arrays[name]
        kind = {"<f4": "F32", "<f8": "F64", "<i4": "I32"}[array.dtype.str]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    header.update(table or {})
    text = json.dumps(header).encode()
    data = b"".join(arrays[name].tobytes() for name in order)
    checksum = hashlib.sha256(text + data).hexdigest().encode()
    return len(text).to_bytes(8, "little") + text.replace(b"0" * 64, checksum, 1) + data


def somewhere(rng: np.random.Generator, value: object) -> tuple:
    """The way to a leaf or table of a JSON value, as likely in a short table as in a long list."""
    way: tuple = ()
    while isinstance(value, (dict, list)) and value and (not way or rng.random() < 0.9):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        way = (*way, keys[rng.integers(len(keys))])
        value = value[way[-1]]
    return way


def with_other_number(rng: np.random.Generator, numbers: dict) -> str:
    for _ in range(rng.integers(1, 3)):
        *way, last = somewhere(rng, numbers)
        parent = numbers
        for key in way:
            parent = parent[key]
        if rng.random() < 0.1:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(ODD_VALUES[rng.integers(len(ODD_VALUES))])
    text = json.dumps(numbers)
    for word in ("NaN", "Infinity", "1e999", "[" * 5000):
        if rng.random() < 0.02:
            text = text.replace("0.5", word, 1)
    return text


def with_other_array(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> None:
    name = list(arrays)[rng.integers(len(arrays))]
    array = arrays[name]
    odd = ODD_INTEGERS if array.dtype.kind == "i" else ODD_FLOATS
    value = odd[rng.integers(len(odd))]
    way = rng.integers(10)
    with np.errstate(over="ignore", invalid="ignore"):
        if way < 3 and array.size:
            some = rng.integers(array.size, size=rng.integers(1, 4))
            array.reshape(-1)[some] = value
        elif way == 3:
            array[...] = value
        elif way == 4 and array.ndim:
            arrays[name] = np.ascontiguousarray(array[: rng.integers(len(array) + 1)])
        elif way == 5:
            arrays[name] = np.ascontiguousarray(np.repeat(array, 2, axis=rng.integers(array.ndim)))
        elif way < 8 and array.dtype.kind == "f":
            arrays[name] = (array * (1 + 10.0 ** rng.integers(-7, 1) * rng.normal(size=array.shape))).astype(
                array.dtype
            )
        elif way < 9:
            array += np.asarray(rng.choice([1, -1, 3])).astype(array.dtype)
        else:
            arrays[name] = array * np.asarray(value if array.dtype.kind == "f" else 2, dtype=array.dtype)


def mutant(seed: int, content: bytes) -> bytes:
    rng = np.random.default_rng(seed)
    kind = rng.integers(10)
    if kind == 0:
        raw = bytearray(content)
        for _ in range(rng.integers(1, 5)):
            raw[rng.integers(8 if rng.random() < 0.3 else min(len(raw), 20000))] = rng.integers(256)
        return bytes(raw[: rng.integers(len(raw))] if rng.random() < 0.3 else raw)
    metadata, numbers, arrays = taken_apart(content)
    text, table = json.dumps(numbers), None
    if kind < 5:
        text = with_other_number(rng, numbers)
    elif kind < 9:
        for _ in range(rng.integers(1, 3)):
            with_other_array(rng, arrays)
    else:
        name = [*arrays, "__metadata__"][rng.integers(len(arrays) + 1)]
        entry = {
            "dtype": "F64",
            "shape": [2, 2],
            "data_offsets": [0, 32],
            "format": "pliant",
            "format_version": "1",
        }
        entry[list(entry)[rng.integers(len(entry))]] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
        table = {name: entry}
    try:
        return assembled(metadata, text, arrays, table)
    except (TypeError, ValueError):
        return content  # what JSON cannot say is no file


@pytest.fixture(scope="module")
def files(dataset, linear_expert, network_expert, tmp_path_factory) -> list[bytes]:
    """Small models of every motion, with everything that a file can have."""
    folder, contents = tmp_path_factory.mktemp("valid"), []
    for motion, features, expert in (
        ("piecewise-affine", "igo", network_expert),
        ("thin-plate-spline", "intensity", linear_expert),
        ("patches", "igo", None),
    ):
        model = pliant.train(
            dataset[:8],
            size=14,
            shape_modes=(1, 2),
            features=features,
            motion=motion,
            detector=None,
            progress=False,
            confidence=False,
        )
        ones = np.ones(4)
        confidence = Confidence(
            9, 0 * ones, ones, ones.cumsum() / 9, np.eye(4), ones, 1.0, np.tile(np.eye(2), (68, 1, 1))
        )
        noise = None if expert is None else np.tile(0.1 * np.eye(2), (68, 1, 1))
        whole = replace(model, confidence=confidence, expert=expert, expert_weight=0.5, shape_noise=noise)
        whole.save(folder / "m.pliant")
        contents.append((folder / "m.pliant").read_bytes())
    return contents


def outcome(
    seed: int, contents: list[bytes], file: Path, image: np.ndarray, start: np.ndarray
) -> tuple[str, str]:
    """What became of one mutant, and the sentence that was said; anything else is raised."""
    file.write_bytes(mutant(seed, contents[seed % len(contents)]))
    try:
        model = load(file)
    except ModelFileError as error:
        return "refused", str(error)
    algorithm = ALGORITHMS[seed // 2 % len(ALGORITHMS)]
    several = np.stack([start, start + 1])[:, : model.landmarks]
    for starts in ([several, several[0]], "placement"):
        try:
            fits = pliant.fit(model, [image, image], starts, algorithm=algorithm, iterations=2, jobs=2)
        except ValueError as error:
            if type(error) is not ValueError:
                raise
            return "no fit", str(error)
        assert all(isinstance(fit, FitResult) and not abs(fit.confidence() - 0.5) > 0.5 for fit in fits)
    model.draw([1.0][: model.levels[-1].shape.modes])
    model.reconstruct(image, start)
    return "fitted", "."


def test_a_crafted_model_is_refused_or_does_no_harm(files, dataset, tmp_path):
    kinds = set()
    with warnings.catch_warnings():
        # Numbers may overflow on the way to a fit that diverged.
        warnings.simplefilter("ignore", RuntimeWarning)
        # Its kind may be one that nobody knows.
        warnings.simplefilter("ignore", pliant.ExpertLeftOut)
        for seed in range(MUTANTS):
            kind, said = outcome(seed, files, tmp_path / "m.pliant", dataset[0].image(), dataset[0].points())
            assert said.encode().endswith(b"."), (seed, said)
            kinds.add(kind)
    assert {"refused", "fitted"} <= kinds
