"""What README and docs tell people to type is typed here, and examples in docstrings are run."""

import doctest
import inspect
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pliant
from pliant.experts.linear_training import train_linear
from pliant.synthetic import write_faces
from pliant.synthetic.video import write_video

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page that can be run: Python, and commands of pliant."""
    found = []
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
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
        "np": np,
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
            exec(compile(text, str(page), "exec"), names)
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


PUBLIC = sorted(name for name in pliant.__all__ if name != "__version__")


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_in_docstrings_run(name, world, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(world, tmp_path / "place"))
    assert _run_examples(getattr(pliant, name), name), f"pliant.{name} has no example"


def _run_examples(thing: object, name: str) -> bool:
    """Whether a thing has examples in its docstring, all of which are run."""
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    tests = [test for test in finder.find(thing, name, globs={"pliant": pliant, "np": np}) if test.examples]
    for test in tests:
        assert runner.run(test).failed == 0
    return bool(tests)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_say_what_they_take_and_give(name):
    thing = getattr(pliant, name)
    text = inspect.getdoc(thing) or ""
    assert len(text.splitlines()[0]) > 20, f"pliant.{name} does not say what it is"
    if inspect.isfunction(thing):
        _check_sections(thing, name)


def _check_sections(thing: Callable[..., object], name: str, gives: bool = True) -> None:
    """A function has an entry for each parameter, and says what it gives, if it gives anything."""
    text = inspect.getdoc(thing) or ""
    parameters = list(inspect.signature(thing).parameters)
    assert not parameters or "Parameters\n---" in text, f"pliant.{name} does not say what it takes"
    for parameter in parameters:
        assert re.search(rf"^\W*{parameter}\b|[,*] ?{parameter}\b", text, re.MULTILINE), (
            f"{name}: {parameter}"
        )
    said = "Returns\n---" in text or "Yields\n---" in text
    assert said or not gives, f"pliant.{name} does not say what it gives"


def _functions_of_rooms() -> dict[str, Callable[..., object]]:
    """Functions that are reached as `pliant.plots.plot_fit`, and are at home there."""
    found = {}
    for room in (pliant.plots, pliant.synthetic, pliant.metrics, pliant.morphometrics, pliant.report):
        for name in getattr(room, "__all__", None) or vars(room):
            thing = getattr(room, name)
            own = inspect.isfunction(thing) and thing.__module__.startswith(room.__name__)
            if own and not name.startswith("_"):
                found[f"{room.__name__.removeprefix('pliant.')}.{name}"] = thing
    return found


ROOMS = _functions_of_rooms()


@pytest.mark.parametrize("name", ROOMS)
def test_functions_of_rooms_say_what_they_take_and_give(name, world, tmp_path, monkeypatch):
    thing = ROOMS[name]
    text = inspect.getdoc(thing) or ""
    assert len(text.split("\n")[0]) > 15, f"pliant.{name} does not say what it is"
    signature = inspect.signature(thing)
    if len(signature.parameters) > 2:
        _check_sections(thing, name, gives=signature.return_annotation != "None")
    monkeypatch.chdir(shutil.copytree(world, tmp_path / "place"))
    _run_examples(thing, name)


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
