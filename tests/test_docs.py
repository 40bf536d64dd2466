"""What README and docs tell people to type is typed here, and examples in docstrings are run."""

import ast
import doctest
import inspect
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import NewType

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pliant
from pliant.crew import Crew
from pliant.experts.linear_training import train_linear
from pliant.fitting.algorithm import Entry
from pliant.fitting.result import LevelTrace
from pliant.level import Level
from pliant.synthetic import write_faces
from pliant.synthetic.video import write_video

ROOT = Path(__file__).parents[1]
DETECTOR_PAGE = ROOT / "docs" / "how-to" / "use-your-own-detector.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def snippets(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page that can be run: Python, and commands of pliant."""
    found = []
    for _, language, indented in BLOCK.findall(page.read_text(encoding="utf-8")):
        text = dedent(indented)
        if language == "python":
            found.append((language, text))
        elif not language and text.startswith("pliant "):
            found.append(("shell", text))
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory, model):
    """A folder with all that the pages speak of: small images, and a model that fits in no time."""
    root = tmp_path_factory.mktemp("docs")
    write_faces(root / "photographs", 12, seed=1, image_size=96)
    write_faces(root / "annotated", 2, seed=2, image_size=96)
    for name in ("faces", "new", "chest", "more"):
        shutil.copytree(root / "photographs", root / name)
    for number, file in enumerate(sorted((root / "faces").iterdir())):
        file.rename(file.with_name(f"person{number // 6:02d}_{file.name}"))
    for file in sorted((root / "new").iterdir()):
        if file.suffix == ".pts" or file.stem > "face-0002":
            file.unlink()
    for name in ("new.jpg", "a.jpg", "b.jpg"):
        shutil.copy(root / "new" / "face-0000.jpg", root / name)
    photographs = pliant.load_dataset(root / "photographs")
    annotations = [
        replace(sample.annotation(), image=Path(sample.name).name, size=(96, 96)) for sample in photographs
    ]
    named = [replace(one, image=f"photographs/{one.image}") for one in annotations]
    pliant.write_annotations(root / "labels.xml", named)
    pliant.write_annotations(root / "old.tps", annotations)
    pliant.write_annotations(root / "points.csv", annotations)
    clicks = {one.image: (one.points + 1).tolist() for one in annotations}
    (root / "clicks.json").write_text(json.dumps(clicks))
    detector = next(text for language, text in snippets(DETECTOR_PAGE) if language == "python")
    (root / "find_object.py").write_text(detector)
    people = sorted(file.stem for file in (root / "faces").glob("*.jpg"))
    rows = [
        f"faces/{name}.jpg,faces/{name}.pts,{'train' if k < 10 else 'test'}" for k, name in enumerate(people)
    ]
    (root / "manifest.csv").write_text("\n".join(["image,landmarks,split", *rows]) + "\n")
    shutil.copy(write_video(root / "film", 6, width=96), root / "face.mp4")
    model.save(root / "faces.pliant")
    return root


@pytest.fixture(autouse=True)
def small_by_default(monkeypatch):
    """Models of which no size is given have all their levels at half the usual size: images here are no larger."""
    monkeypatch.setattr("pliant.settings.presets._SIZE", 72.0)


@pytest.fixture
def names(world, model):
    """What snippets take for granted, having been told elsewhere on their page."""
    plain = pliant.load_dataset(world / "photographs")
    images = [sample.image() for sample in plain[:5]]
    truths = [sample.points() for sample in plain[:5]]
    fits = pliant.fit(model, images, truths, iterations=2)
    return {
        "pliant": pliant,
        "dataset": plain,
        "model": model,
        "image": images[0],
        "fit": fits[0],
        "fits": fits,
        "starts": [
            truth + 1 for truth in [sample.points() for sample in pliant.load_dataset(world / "faces")]
        ],
    }


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.name)
def test_what_a_page_says_to_type_works(page, world, names, command, tmp_path, monkeypatch):
    # Pages train at full size: experts see fewer starts here, and nobody waits for a network.
    monkeypatch.setattr("pliant.tuning.experts.train_linear", partial(train_linear, starts=30))
    monkeypatch.setattr("pliant.tuning.experts.training_device", lambda: None)
    place = tmp_path / "place"
    shutil.copytree(world, place)
    monkeypatch.chdir(place)
    for language, text in snippets(page):
        if language == "shell":
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and not words[0].startswith("#"):
                    assert words[0] == "pliant", line
                    expected = 3 if words[1] == "check" else 0
                    said = command(*_quick(words[1:]), code=None)
                    assert said.code in (0, expected), f"{line}\n{said.err}"
        else:
            exec(compile(text, str(page), "exec"), names)  # noqa: S102  Our own pages.
    plt.close("all")


def _quick(words: list[str]) -> list[str]:
    """The same command at a size that a test can wait for."""
    small = {
        "train": ["--size", "40", "--shape-modes", "2,5"],
        "fit": ["--iterations", "2"],
        "evaluate": ["--iterations", "2"],
        "synthetic": ["--count", "6"] if "--video" not in words else ["--frames", "6"],
        "experiment": ["--quick"],
    }.get(words[0], [])
    return [*words, *(small if not set(small[:1]) & set(words) else [])]


def _rooms() -> dict[str, ModuleType]:
    return {f"{room}.": getattr(pliant, room) for room in pliant._ROOMS}


def _public() -> dict[str, object]:
    """What users reach, by the name that they type: the face, the rooms, and values that these give back."""
    found: dict[str, object] = {}
    for prefix, place in {"": pliant, **_rooms()}.items():
        for name in place.__all__:
            thing = getattr(place, name)
            if name != "__version__" and not any(thing is known for known in found.values()):
                found[prefix + name] = thing
    return found | {
        "catalogue()[0]": Entry,
        "connect()": Crew,
        "fit().trace[0]": LevelTrace,
        "Model.levels[0]": Level,
    }


PUBLIC = _public()
CONSTANTS = {name for name, thing in PUBLIC.items() if not callable(thing) or isinstance(thing, NewType)}


def _members(thing: object) -> dict[str, property | Callable[..., object]]:
    """Public methods and properties of a class, with those of its bases that are not public themselves."""
    found: dict[str, property | Callable[..., object]] = {}
    for cls in reversed(inspect.getmro(thing)) if inspect.isclass(thing) else ():
        if cls is thing or (cls.__module__.startswith("pliant.") and cls not in PUBLIC.values()):
            for name, value in vars(cls).items():
                plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
                if not name.startswith("_") and isinstance(plain, (property, cached_property, FunctionType)):
                    found[name] = plain
    return found


def _examples(thing: object, name: str, world: Path, place: Path) -> str:
    """Run the examples in a docstring and give their text; an example that is wrong fails."""
    text = inspect.getdoc(thing) or ""
    names = {"pliant": pliant, "np": np}
    test = doctest.DocTestParser().get_doctest(text, names, f"pliant.{name}", None, None)
    if test.examples:
        os.chdir(shutil.copytree(world, place / name, dirs_exist_ok=True))
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert runner.run(test, out=said.append).failed == 0, "".join(said)
        plt.close("all")
    return "".join(example.source for example in test.examples)


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - CONSTANTS))
def test_examples_in_docstrings_run(name, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = PUBLIC[name]
    own = _examples(thing, name, world, tmp_path)
    assert own, f"pliant.{name} has no example"
    for member, value in _members(thing).items():
        full = f"{name}.{member}"
        shown = _examples(value, full, world, tmp_path)
        if isinstance(value, FunctionType):
            assert shown, f"pliant.{full} has no example"
        else:
            assert f".{member}" in own + shown, f"pliant.{full} is in no example of pliant.{name}"


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - CONSTANTS))
def test_public_names_say_what_they_take_and_give(name):
    thing = PUBLIC[name]
    _check_summary(thing, name)
    if inspect.isfunction(thing):
        _check_sections(thing, name)
    elif is_dataclass(thing):
        told = _entries(thing, "Parameters") | _entries(thing, "Attributes")
        missing = [one.name for one in fields(thing) if one.name not in told]
        assert not missing or thing is pliant.motion.PatchFrame, f"pliant.{name} does not describe {missing}"
    for member, value in _members(thing).items():
        _check_summary(value, f"{name}.{member}")
        if isinstance(value, FunctionType):
            _check_sections(value, f"{name}.{member}")


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_constants_say_what_they_are(name):
    room, _, last = name.rpartition(".")
    source = Path(pliant.__file__).parent / room
    files = source.glob("*.py") if source.is_dir() else [source.with_suffix(".py")]
    told = [
        isinstance(below, ast.Expr)
        for file in files
        for line, below in pairwise(ast.parse(file.read_text(encoding="utf-8")).body)
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and re.match(rf"{last}\b", ast.unparse(line))
    ]
    assert told == [True], f"pliant.{name} does not say what it is"


def _check_summary(thing: object, name: str) -> None:
    first, *rest = (inspect.getdoc(thing) or "").split("\n")
    assert len(first) > 10, f"pliant.{name} does not say what it is"
    assert first.endswith("."), f"pliant.{name}: the first line is no sentence: {first}"
    assert not rest or not rest[0], f"pliant.{name}: there is no blank line below the first"


def _check_sections(thing: Callable[..., object], name: str) -> None:
    """A function has an entry with a type for each parameter, and says what it gives, if it gives anything."""
    signature = inspect.signature(thing)
    described = _entries(thing, "Parameters")
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "cls"):
            assert parameter.name in described, f"pliant.{name} does not say what {parameter.name} is"
            loose = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            assert described[parameter.name] or loose, f"pliant.{name}: {parameter.name} has no type"
    unknown = described.keys() - signature.parameters.keys()
    assert not unknown, f"pliant.{name} describes {unknown}, which it does not take"
    gives = signature.return_annotation not in ("None", None)
    told = _entries(thing, "Returns") or _entries(thing, "Yields")
    assert bool(told) == gives, f"pliant.{name} does not say what it gives"


def _entries(thing: object, title: str) -> dict[str, str]:
    """The names in a section of a docstring, and their types; several names may share a line."""
    text = inspect.getdoc(thing) or ""
    section = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    found = {}
    for line in section[1].split("\n") if section else []:
        if line and not line.startswith(" "):
            several, _, kind = line.partition(" : ")
            found |= {name.strip(" *"): kind for name in several.split(", ")}
    return found


def test_api_pages_have_every_public_name_once():
    listed = []
    for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        place = ""
        for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+|data):: ?(\S*)", text, re.MULTILINE):
            if kind == "currentmodule":
                place = name
            elif kind != "autosummary":
                listed.append(f"{place}.{name}".removeprefix("pliant."))
    inner = {"catalogue()[0]", "connect()", "fit().trace[0]", "Model.levels[0]"}
    homes = {"fitting.algorithm.Entry", "crew.Crew", "fitting.result.LevelTrace", "level.Level"}
    assert sorted(listed) == sorted((PUBLIC.keys() - inner) | homes)


SETTINGS = [
    pliant.Training,
    pliant.Starting,
    pliant.Fitting,
    pliant.Evaluating,
    pliant.Tracking,
    pliant.Stopping,
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.__name__)
def test_settings_say_in_their_docstring_what_each_of_them_is(settings):
    text = inspect.getdoc(settings)
    before, _, described = text.partition("Parameters\n----------\n")
    described, _, examples = described.partition("\n\nExamples\n--------\n")
    assert before
    assert examples
    entries = re.split(r"\n(?=\w)", described)
    assert [entry.split(" : ")[0] for entry in entries] == [one.name for one in fields(settings)]
    for one, entry in zip(fields(settings), entries, strict=True):
        first, _, below = entry.partition("\n")
        told = repr(getattr(settings(), one.name)) if "kind" in one.metadata else f"{one.type}()"
        assert first.endswith(f", default {told}")
        assert one.metadata.get("help", "") in " ".join(below.split())
        assert below.strip()
