"""Sentences that a user reads: one thing is singular, and an option that is given wrongly explains itself."""

import pytest

from pliant.terminal import counted


def test_counted():
    assert [counted(number, "image") for number in (0, 1, 2, 1234)] == [
        "0 images", "1 image", "2 images", "1,234 images",
    ]  # fmt: skip


def test_one_image_is_singular(face_folders, model, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("m.pliant")
    image = sorted((face_folders / "test").glob("*.png"))[0]
    assert "would fit 1 image," in command("fit", "m.pliant", image, "-o", "fits", "--dry-run").out
    assert "fitted 1 of 1 image;" in command("fit", "m.pliant", image, "-o", "fits", "--start", "centre").out
    pattern = str(image)[:-1] + "?"
    assert "would fit 1 annotated object with" in command("evaluate", "m.pliant", pattern, "--dry-run").out
    assert "would train on 1 annotated image of 1" in command("train", pattern, "--dry-run").out
    said = command("convert", pattern, "one.csv").out
    assert "converted 1 object with 68 landmarks" in said
    said = command("evaluate", "m.pliant", pattern, "--start", "noise", "--starts", 1, "-o", "errors.csv")
    assert "wrote 1 fit to errors.csv" in said.out


@pytest.mark.parametrize("given", ["20", "2", "1.0", "-1", "many", "nan", "95%"])
def test_a_share_to_hold_out_that_is_none(face_folders, command, given):
    said = command("train", face_folders / "train", "--hold-out", given, "--dry-run", code=2).err
    assert "give the share of the samples" in said.replace("\n", " ")
    assert ("0.2 or 20%" in said) == (given == "20")


@pytest.mark.parametrize("given", ["0.25", "25%"])
def test_a_share_to_hold_out(face_folders, command, given):
    said = command("train", face_folders / "train", "--hold-out", given, "--dry-run").out
    assert "would train on 10 annotated images" in said or "would train on 11 annotated images" in said


@pytest.mark.parametrize("name", ["train", "check", "evaluate", "studio", "convert", "morphometrics"])
def test_a_misspelt_option_is_recognised(name, command):
    assert "--images" in command(name, "a", "b", "--imges", "c", code=2).err


def test_version_does_what_its_help_says(command):
    assert "with --verbose what it runs on" in command("version", "--help").out
    assert len(command("version").out.splitlines()) == 1
    assert "python:" in command("version", "--verbose").out
