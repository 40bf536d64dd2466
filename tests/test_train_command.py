"""`pliant train` as a user gives it: settings that repeat a run, hold-outs, confidence, and what is refused."""

import json
import os
import shutil
import signal
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.cli.exits import ERROR, INTERRUPTED, USAGE
from pliant.data.ownership import MODEL, SETTINGS
from pliant.experts.linear_training import train_linear
from pliant.synthetic import write_faces

SMALL = ("--size", 30, "--shape-modes", "2,4", "--detector", "none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    write_faces(folder, 24, seed=2, image_size=96)
    return folder


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_the_settings_beside_the_model_repeat_it(command, folder, tmp_path):
    command(
        "train", folder, "-o", "first.pliant", *SMALL, "--no-confidence", "--licence", 'mine, "really"', "-q"
    )
    written = tomllib.loads((tmp_path / "first.toml").read_text())["train"]
    assert written["size"] == 30
    assert written["shape-modes"] == [2, 4]
    assert written["licence"] == 'mine, "really"'
    command("train", "--settings", "first.toml", "-o", "again.pliant", "-q")
    command("train", "--settings", "first.toml", "-o", "other.pliant", "--size", 36, "-q")
    first, again, other = (pliant.load(f"{name}.pliant") for name in ("first", "again", "other"))
    assert np.array_equal(first.levels[-1].appearance.components, again.levels[-1].appearance.components)
    assert (again.settings, again.provenance["licence"]) == (first.settings, 'mine, "really"')
    # What is said on the command line comes before what is in the file.
    assert other.settings.size == 36


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[train]\nsise = 30\n", "has no setting 'sise'. Did you mean 'size'?"),
        ("[train]\nshape-mode = 3\n", "Did you mean 'shape-modes'?"),
        ("[train]\nzzz = 30\n", "Known settings: "),
        ("[fit]\nstart = 'centre'\n", "this file has no table [train]"),
        ("size = = 3", "this is not a TOML file"),
        (None, "there is no such file"),
    ],
)
def test_wrong_settings_are_wrong_usage(command, folder, tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "s.toml").write_text(content)
    said = command("train", folder, "--settings", "s.toml", code=USAGE).err
    assert sentence in " ".join(said.replace("│", " ").split())


def test_groups_are_held_out_whole_and_can_be_evaluated(command, folder, tmp_path):
    words = ("train", folder, "-o", "m.pliant", *SMALL, "--size", 60, "--no-confidence", "-q")
    command(*words, "--hold-out", 0.3, "--group-by", r"face-(\d\d\d)\d")
    planned = command(*words[:-1], "--hold-out", 0.3, "--group-by", r"face-(\d\d\d)\d", "--dry-run").out
    table = tmp_path / "m.held-out.csv"
    held = pliant.load_dataset(table)
    assert (
        f"annotated images of 24 in 2 groups, hold out {len(held)}, list these in m.held-out.csv" in planned
    )
    assert pliant.load("m.pliant").provenance["samples"] == 24 - len(held)
    assert 2 < len(held) < 16
    groups = {sample.group for sample in held}
    # Ten faces share three digits: a group is in the table with all of its faces, or with none.
    everyone = pliant.load_dataset(folder).grouped(r"face-(\d\d\d)\d")
    assert len(held) == sum(sample.group in groups for sample in everyone)
    rows = json.loads(command("evaluate", "m.pliant", table, "--json").out)["rows"]
    assert rows[1]["mean"] < rows[0]["mean"]


def test_confidence_is_learned_and_flags_fits(command, folder, tmp_path):
    said = command("train", folder, "-o", "m.pliant", *SMALL).out
    assert "learned how far fits can be trusted" in said
    assert pliant.load("m.pliant").confidence.fits > 40
    words = ("fit", "m.pliant", folder, "-o", "fits", "--start", "centre")
    (tmp_path / "fits").mkdir()
    (tmp_path / "fits" / "flagged.csv").write_text("mine")
    assert "flagged.csv would be replaced" in command(*words, "--flag-below", 0.9, code=ERROR).err
    (tmp_path / "fits" / "flagged.csv").unlink()
    said = command(*words, "--flag-below", 0.9).out
    flagged = (tmp_path / "fits" / "flagged.csv").read_text().splitlines()[1:]
    assert f"{len(flagged)} to review" in said
    fits = pliant.read_fits("fits")
    assert sorted(line.split(",")[0] for line in flagged) == sorted(fits["image"][fits["confidence"] < 0.9])
    assert fits["spread"].shape == (24, 68)
    assert np.all(fits["spread"] > 0)
    command(*words, "--overwrite")
    assert [path.name for path in (tmp_path / "fits").iterdir()] == ["fits.parquet"]
    command("train", folder, "-o", "plain.pliant", *SMALL, "--no-confidence", "-q")
    said = command("fit", "plain.pliant", folder, "-o", "f2", "--flag-below", 0.5, code=ERROR).err
    assert "has no confidence" in said


def test_dry_run_and_json(command, folder, tmp_path):
    assert "would train on 24 annotated images of 24" in command("train", folder, "--dry-run").out
    assert json.loads(command("train", folder, "--dry-run", "--json").out)["annotated"] == 24
    assert list(tmp_path.iterdir()) == []
    words = ("train", folder, "-o", "m.pliant", *SMALL, "--no-confidence", "--json")
    assert json.loads(command(*words).out)["landmarks"] == 68


def test_a_dry_run_fails_as_the_run_would_without_landmarks(command, folder, tmp_path):
    (tmp_path / "images").mkdir()
    for image in sorted(folder.glob("*.jpg"))[:3]:
        shutil.copy(image, tmp_path / "images")
    for words in ((), ("--skip-invalid",)):
        said = command("train", "images", "--quiet", *words, "--dry-run", code=ERROR).err
        assert "there is no landmark file beside this image" in said
        assert said == command("train", "images", "--quiet", *words, code=ERROR).err
    shutil.copy(image.with_suffix(".pts"), tmp_path / "images")
    said = command("train", "images", "--quiet", "--dry-run", code=ERROR).err
    assert "2 problems were found in 3 samples" in said
    assert said == command("train", "images", "--quiet", code=ERROR).err
    assert "on 1 annotated image of 3" in command("train", "images", "--skip-invalid", "--dry-run").out


def test_a_detector_that_a_settings_file_names_is_announced_before_it_runs(command, face_folders, tmp_path):
    """A settings file may come from somebody else, and this is how it runs code."""
    (tmp_path / "mine.py").write_text(
        "import sys\n"
        "print('it runs', file=sys.stderr)\n"
        "def whole(image):\n"
        "    return [[0, 0, image.shape[1] - 1, image.shape[0] - 1]]\n"
    )
    (tmp_path / "settings.toml").write_text(f"[train]\ndetector = '{tmp_path / 'mine.py'}:whole'\n")
    small = ("--size", 30, "--shape-modes", "2,4", "--no-confidence", "-q")
    train = ("train", face_folders / "train", "-o", tmp_path / "m.pliant", *small)
    said = command(*train, "--settings", tmp_path / "settings.toml").err
    first, second, *_ = said.splitlines()
    assert first == f"detector: runs whole of {tmp_path / 'mine.py'}"
    assert second == "it runs"
    fit = ("fit", tmp_path / "m.pliant", face_folders / "test", "-o", tmp_path / "fits", "-q")
    said = command(*fit, "--detector", f"{tmp_path / 'mine.py'}:whole").err
    assert said.splitlines()[0] == first
    evaluate = ("evaluate", tmp_path / "m.pliant", face_folders / "test", "--start", "detector", "-q")
    said = command(*evaluate, "--detector", f"{tmp_path / 'mine.py'}:whole").err
    assert said.splitlines()[0] == first
    for name in ("train", "fit", "evaluate"):
        assert "is run" in command(name, "--help").out.replace("\n", " ")


class TestExperts:
    WORDS = ("--size", 30, "--shape-modes", "2,4", "--detector", "none", "--no-confidence")

    @pytest.fixture
    def quick(self, monkeypatch):
        """Linear experts of few starts, without the mirror images."""

        def fewer(samples, mirror, **options):
            return train_linear(samples, starts=24, **options)

        monkeypatch.setattr("pliant.tuning.experts.train_linear", fewer)
        monkeypatch.setattr("pliant.tuning.experts._WEIGHTS", (0.5,))

    def test_a_model_with_an_expert_is_trained_inspected_and_repeated(self, command, face_folders, quick):
        train = ("train", face_folders / "train", *self.WORDS, "--jobs", 1)
        said = command(*train, "--experts", "linear", "-o", "m.pliant").out
        assert "wrote m.pliant" in said
        model = pliant.load("m.pliant")
        tried = model.provenance["choice"]["experts"]["tried"]
        assert [one["expert"] for one in tried] == ["none", "linear"]
        assert model.expert is not None
        settings = tomllib.loads(Path("m.toml").read_text())["train"]
        assert settings["experts"] == "linear"
        described = json.loads(command("inspect", "m.pliant", "--json").out)
        assert "linear" in json.dumps(described)
        command("fit", "m.pliant", face_folders / "test", "-o", "fits", "--start", "centre", "-q")
        command("train", "--settings", "m.toml", "-o", "again.pliant", "-q", "--jobs", 1)
        again = pliant.load("again.pliant")
        for name, array in model.expert.arrays().items():
            assert np.array_equal(again.expert.arrays()[name], array), name

    def test_none_is_none(self, command, face_folders):
        command("train", face_folders / "train", *self.WORDS, "--experts", "none", "-o", "m.pliant", "-q")
        assert pliant.load("m.pliant").expert is None

    def test_what_is_no_expert_gets_a_sentence(self, command, face_folders):
        said = command("train", face_folders / "train", "--experts", "oracle", code=ERROR).err
        assert "--experts oracle: it must be auto, none, linear or network." in said

    def test_a_network_without_pytorch_gets_a_sentence(self, command, face_folders, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        said = command("train", face_folders / "train", "--experts", "network", code=ERROR).err
        said = " ".join(said.split())
        assert "pip install 'pliant[experts]'" in said
        assert "Traceback" not in said
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("kind", ["linear", "network"])
    @pytest.mark.parametrize("earlier", [False, True])
    def test_an_interrupted_training_leaves_nothing_half_written(
        self, command, face_folders, tmp_path, monkeypatch, kind, earlier
    ):
        """What was there before stays as it was."""

        def interrupted(samples, *things, **options):
            options["step"]() if kind == "linear" else options["tell"]("far", 1, 2, 0.5)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the signal comes before this")

        name = "train_linear" if kind == "linear" else "learn_network"
        monkeypatch.setattr(f"pliant.tuning.experts.{name}", interrupted)
        monkeypatch.setattr("pliant.tuning.experts.training_device", lambda: "cpu")
        before = {"m.pliant": MODEL + b" and more", "m.toml": SETTINGS} if earlier else {}
        for file, content in before.items():
            (tmp_path / file).write_bytes(content)
        words = ("train", face_folders / "train", *self.WORDS, "--experts", kind, "-o", "m.pliant", "-q")
        assert "interrupted" in command(*words, code=INTERRUPTED).err
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
