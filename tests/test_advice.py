"""The mistakes of a first day: each is answered by a sentence that says what to do, and not by a thousand lines."""

import json
import shutil
from pathlib import Path

import pytest

import pliant
from pliant.data.validation import validate
from pliant.terminal import MOST_LINES, shortened


@pytest.fixture
def apart(face_folders, tmp_path, monkeypatch):
    """Folders `images` and `landmarks`, with fourteen faces that belong together; the working folder is theirs."""
    monkeypatch.chdir(tmp_path)
    for name, ending in (("images", "png"), ("landmarks", "pts")):
        Path(name).mkdir()
        for file in (face_folders / "train").glob(f"*.{ending}"):
            shutil.copy(file, name)
    return tmp_path


def longest_run(text):
    """The number of lines that differ in numbers alone."""
    kinds = ["".join(letter for letter in line if not letter.isdigit()) for line in text.splitlines()]
    return max(map(kinds.count, kinds))


NEED = "images need landmarks: a file of the same name next to each image (.pts"


def test_images_alone(apart, command):
    for words, code in ((("check", "images"), 3), (("train", "images", "-o", "m.pliant"), 1)):
        said = command(*words, code=code)
        assert NEED in said.out + said.err
        assert longest_run(said.out + said.err) <= MOST_LINES
    assert len(json.loads(command("check", "images", "--json", code=3).out)["problems"]) == 14
    assert NEED in command("convert", "images", "landmarks.csv", code=1).err
    assert NEED in command("train", "images", "-o", "m.pliant", "--skip-invalid", code=1).err
    with pytest.raises(pliant.InvalidDataset, match="images need landmarks") as raised:
        pliant.train(pliant.load_dataset("images"), confidence=False)
    assert len(raised.value.problems) == 14


def test_images_alone_to_evaluate_with(apart, model, command):
    model.save("m.pliant")
    assert NEED in command("evaluate", "m.pliant", "images", code=1).err


def test_no_usable_sample_has_points_of_no_landmarks(apart):
    assert validate(pliant.load_dataset("images")).points.shape == (0, 0, 2)


def test_landmarks_in_files_that_nobody_knows(apart, command):
    for file in Path("landmarks").iterdir():
        shutil.copy(file, Path("images") / f"{file.stem}.mine")
    said = command("check", "images", code=3)
    assert "images has 14 files that end in .mine" in said.out
    assert NEED in said.out


def test_landmarks_alone(apart, command):
    said = command("check", "landmarks", code=3)
    assert "the images of landmarks were not found: give their folder with --images" in said.out
    assert longest_run(said.out) <= MOST_LINES


@pytest.mark.parametrize("order", [("images", "landmarks"), ("landmarks", "images")])
def test_images_and_landmarks_in_two_folders(apart, command, order):
    said = command("check", *order, code=3)
    assert "the folder of their images: landmarks --images images" in said.out
    assert len(said.out.splitlines()) < 20
    assert "14 samples: 0 problems" in command("check", "landmarks", "--images", "images").out


def test_landmarks_with_other_names(apart, command):
    for file in Path("landmarks").iterdir():
        shutil.copy(file, Path("images") / f"points_{file.name}")
    said = command("check", "images", code=3)
    assert "must have the same name as its image: points_face0.pts belongs to no image" in said.out


def test_formats_that_are_not_there(apart, command):
    for words in (("check", "images"), ("train", "images", "-o", "m.pliant"), ("convert", "images", "a.csv")):
        said = command(*words, "--from", "tpss", code=1)
        assert said.err.startswith(
            "error: there is no format 'tpss'. Did you mean 'tps'? Known formats: asf, "
        )
        assert len(said.err.splitlines()) == 1


def test_folders_without_images(apart, command):
    Path("nested/a").mkdir(parents=True)
    assert "Its folders are a: give those that have images." in command("check", "nested", code=1).err
    Path("other").mkdir()
    Path("other/face.heic").touch()
    assert "Images end in .jpg, " in command("check", "other", code=1).err
    assert (
        "or a pattern in quotes, such as 'images/*.png'" in command("check", "images/face0.png", code=1).err
    )


def test_a_few_images_without_landmarks_get_no_lecture(face_folders, tmp_path, command):
    shutil.copytree(face_folders / "train", tmp_path / "faces")
    (tmp_path / "faces" / "face3.pts").unlink()
    said = command("check", tmp_path / "faces", code=3)
    assert "face3.png: there is no landmark file" in said.out
    assert "images need landmarks" not in said.out


def test_at_most_ten_lines_of_a_kind():
    few = [f"a{n}.jpg: landmarks 3-{n} are missing." for n in range(10)]
    assert shortened(few) == few
    many = [f"a{n}.jpg: repeats b{n}.jpg, alike." for n in range(500)]
    lines = shortened([*few, *many], "look there")
    assert lines[:10] == few
    assert lines[-1] == "and 497 more like these: look there"
    assert len(lines) == 14
    odd = [f"a.jpg: found {'x' * n}." for n in range(500)]
    assert len(shortened(odd)) == MOST_LINES + 1
    assert shortened(odd)[-1] == "and 490 more of other kinds"
