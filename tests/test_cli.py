"""The commands as a user runs them: in a process of their own, where that is what may go wrong."""

import json
import re
import subprocess
import sys
import time
from itertools import pairwise

import pytest

import pliant
from pliant.synthetic import write_faces


def run(*arguments, ok: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pliant", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode == 0) == ok, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    write_faces(folder, 12, seed=2, image_size=96)
    return folder


SMALL = ("--size", 30, "--shape-modes", "2,4")


def test_help_does_not_import_what_it_does_not_need():
    heavy = ["numpy", "scipy", "numba", "cv2", "matplotlib", "PIL"]
    code = f"import sys, pliant.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_names_the_commands():
    text = run("--help").stdout
    for command in ("demo", "train", "inspect", "synthetic"):
        assert command in text
    assert run("--version").stdout.strip() == f"pliant {pliant.__version__}"


def test_usage_reads_as_usual():
    lines = run("fit", "--help").stdout.splitlines()
    assert lines[0].endswith("pliant fit MODEL IMAGES... --output OUTPUT [OPTIONS]")
    assert run("studio", "--help").stdout.splitlines()[0].endswith("pliant studio [SOURCE] [OPTIONS]")
    text = "\n".join(lines)
    assert "  IMAGES...  Images, patterns" in text
    for python in ("<str>", "<list[str]>", "<float range>", "<int range>"):
        assert python not in text


def test_track_does_not_offer_landmarks_that_frames_do_not_have(tmp_path):
    assert "landmarks" not in run("track", "--help").stdout.partition("--start ")[2].splitlines()[0]
    refused = run("track", "x.pliant", "x.mp4", "-o", tmp_path, "--start", "landmarks", ok=False).stderr
    assert "--start landmarks: it must be auto, detector, placement, scan or centre." in refused


def test_no_hypotheses_are_refused_with_the_number_that_was_meant(tmp_path):
    refused = run("fit", "x.pliant", "x.png", "-o", tmp_path, "--hypotheses", "0", ok=False).stderr
    assert "--hypotheses 0: it must be a whole number of at least 1; 1 tries the start alone." in refused


def test_train_then_inspect(folder, tmp_path):
    file, picture = tmp_path / "model.pliant", tmp_path / "modes.png"
    assert "trained on 12 samples" in run("train", folder, "-o", file, *SMALL).stdout
    assert "68 landmarks" in run("inspect", file, "--draw", picture).stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    described = json.loads(run("inspect", file, "--json").stdout)
    assert [level["shape_modes"] for level in described["levels"]] == [2, 4]
    assert described["confidence"] is True
    assert described["settings"]["size"] == 30


def test_several_folders_are_one_data_set(folder, command, tmp_path):
    more = tmp_path / "more"
    command("synthetic", more, "--count", 3, "--seed", 9)
    command("train", folder, more, "-o", tmp_path / "m.pliant", *SMALL, "--no-confidence", "--quiet")
    assert pliant.load(tmp_path / "m.pliant").provenance["samples"] == 15


def test_problems_are_listed_and_no_file_is_left(folder, command, tmp_path):
    bad = tmp_path / "bad"
    write_faces(bad, 4, seed=3, image_size=96)
    (bad / "face-0001.pts").write_text("1 1\n20 2\n1 30\n40 40\n9 9\n")
    (bad / "face-0002.jpg").write_text("no image")
    file = tmp_path / "m.pliant"
    said = command("train", folder, bad, "-o", file, *SMALL, code=1)
    assert "2 problems were found in 16 samples" in said.err
    assert "face-0001.jpg: has 5 landmarks, but most have 68" in said.err
    assert "face-0002.jpg: this is not an image of a known format" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]
    said = command("train", folder, bad, "-o", file, *SMALL, "--skip-invalid", "--no-confidence")
    assert "2 of 16 samples were left out" in said.err
    assert file.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train", "nowhere"), "nowhere: there is no such folder"),
        (("train", "{folder}", "-o", "no/where/m.pliant"), "does not exist"),
        (("train", "{folder}", "--scales", "half,full"), "--scales half,full: it must be scales"),
        (("train", "{folder}", "--features", "dsif"), "Did you mean 'dsift'"),
        (("inspect", "nothing.pliant"), "there is no such file"),
        (("inspect", "{folder}/face-0001.jpg"), "not a pliant model"),
    ],
)
def test_mistakes_get_one_sentence(folder, command, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    said = command(*(str(argument).format(folder=folder) for argument in arguments), code=None)
    assert said.code != 0
    assert said.err.startswith("error: ")
    assert sentence in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_ends_the_process_with_a_sentence_and_a_code(tmp_path):
    done = run("train", tmp_path / "nowhere", ok=False)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_own_triangles(folder, command, tmp_path):
    (tmp_path / "mesh.txt").write_text("0 1 2\n2 3 1000\n")
    said = command("train", folder, "-o", tmp_path / "m.pliant", "--triangles", tmp_path / "mesh.txt", code=1)
    assert "triangle 1 has landmarks 2, 3, 1000" in said.err


@pytest.mark.parametrize(("option", "wanted"), [("--pairs", "two"), ("--triangles", "three")])
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe\x00"])
def test_files_of_numbers_without_numbers(folder, command, tmp_path, option, wanted, content):
    (tmp_path / "numbers.txt").write_bytes(content)
    words = ("train", folder, "-o", tmp_path / "m.pliant", *SMALL, option)
    said = command(*words, tmp_path / "numbers.txt", code=1)
    assert re.match(rf"error: .*numbers\.txt: this .* {wanted} landmark numbers on each line", said.err)
    assert "error: " in command(*words, tmp_path, code=1).err


def test_demo_makes_a_page_that_stands_alone(tmp_path):
    begin = time.perf_counter()
    run("demo", "-o", tmp_path / "demo", "--count", 24)
    assert time.perf_counter() - begin < 120
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 7
    assert "$" not in page.split("base64")[0]
    # Pictures in base64 have no colon, but may well spell "http".
    assert "://" not in page
    assert pliant.load(tmp_path / "demo" / "faces.pliant").provenance["samples"] == 24


def test_compiling_is_announced_once_and_only_if_it_happens():
    code = """
from numba import njit
from pliant.cli.compiling import announce_compiling
announce_compiling()
@njit
def double(x): return 2 * x
@njit
def triple(x): return 3 * x
double(1), triple(1), double(1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("compiling code") == 1


def test_mirrored_and_completed(folder, command, tmp_path):
    (tmp_path / "pairs.txt").write_text("0 16\n1,15\n")
    file, incomplete = tmp_path / "m.pliant", tmp_path / "incomplete"
    write_faces(incomplete, 1, seed=5, image_size=96)
    lines = (incomplete / "face-0000.pts").read_text().splitlines()
    (incomplete / "face-0000.pts").write_text("\n".join([*lines[:10], "nan nan", *lines[11:]]))
    said = command("train", folder, incomplete, "-o", file, *SMALL, code=1)
    assert (
        "face-0000.jpg: landmark 7 is missing (counted from 0); train with --missing complete to fill"
        in said.err
    )
    options = ("--pairs", tmp_path / "pairs.txt", "--missing", "complete", "--no-confidence")
    command("train", folder, incomplete, "-o", file, *SMALL, *options)
    provenance = pliant.load(file).provenance
    assert [provenance[key] for key in ("samples", "mirrored", "completed_landmarks")] == [13, 13, 1]
    said = command("train", folder, "-o", file, "--missing", "ignore", code=None)
    assert said.code != 0
    assert "--missing ignore: it must be refuse or complete" in said.err


COMMANDS = (
    "demo",
    "train",
    "fit",
    "merge",
    "track",
    "evaluate",
    "experiment",
    "inspect",
    "convert",
    "check",
    "morphometrics",
    "studio",
    "synthetic",
    "version",
)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_reads_at_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    text = run(*command, "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    # A sentence that is broken where the source breaks it leaves a short line in the middle of a paragraph.
    described = re.split(r"^(?:Arguments|Options):", text, flags=re.MULTILINE)[0].strip().splitlines()[2:]
    assert described
    for line, following in pairwise(described):
        short = len(line.strip()) < 60 and line.strip() and following.strip()
        assert not short or line.strip().endswith((".", ":")), line
    # No command is described by half a sentence.
    assert "..." not in text.partition("Commands:")[2]


def test_shared_options_are_shared_by_all_commands():
    import typer

    from pliant.cli import app

    commands = typer.main.get_command(app).commands
    assert commands.keys() == set(COMMANDS)
    spelling = {}
    for name, command in commands.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--quiet", "-q", "--verbose", "-v", "--json"} <= options, name
        assert "--settings" in options or name == "version", name
        for parameter in command.params:
            if parameter.opts[0] in ("--quiet", "--jobs", "--json", "--dry-run", "--verbose"):
                assert spelling.setdefault(parameter.opts[0], parameter.opts) == parameter.opts, name


def test_quiet_and_json_of_commands_that_make_faces(command, tmp_path):
    said = command("synthetic", tmp_path / "a", "--count", 2, "-q")
    assert said.out + said.err == ""
    said = command("synthetic", tmp_path / "b", "--count", 2, "--json")
    assert json.loads(said.out) == {"faces": 2, "wrote": [str(tmp_path / "b")]}
    said = command("synthetic", tmp_path / "c", "--count", 2, "--verbose")
    assert "count: 2" in said.err
    assert f"wrote 2 faces to {tmp_path / 'c'}" in said.out


def test_version_says_what_is_there():
    text = run("version", "--verbose").stdout
    assert pliant.__version__ in text
    facts = json.loads(run("version", "--json").stdout)
    assert {"dlib", "coco", "pts", "tps"} <= facts["formats"].keys()
    assert facts["libraries"]["numpy"]
