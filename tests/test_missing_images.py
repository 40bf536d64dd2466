"""Missing images: the rest can be used, and advice that was followed already is not given again."""

import json
import re
import shutil
from pathlib import Path

import pytest

import pliant


@pytest.fixture
def wings(face_folders, tmp_path, monkeypatch):
    """`wings.tps` and `wings.json` about fourteen images in `photos`; the names of the two that are gone."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(face_folders / "train", "photos")
    annotations = [
        pliant.data.Annotation(
            Path(sample.name).name, sample.points(), size=(sample.image().shape[1], sample.image().shape[0])
        )
        for sample in pliant.load_dataset("photos")
    ]
    for file in ("wings.tps", "wings.json"):
        pliant.write_annotations(file, annotations)
    for file in Path("photos").glob("*.pts"):
        file.unlink()
    for annotation in annotations[3:5]:
        (Path("photos") / annotation.image).unlink()
    return [annotation.image for annotation in annotations[3:5]]


@pytest.mark.parametrize("file", ["wings.tps", "wings.json"])
def test_check_lists_them_and_checks_the_rest(wings, command, file):
    said = command("check", file, "--images", "photos", code=3).out
    assert f"{file}: the image {wings[0]} is not in photos or next to this file." in said
    assert "14 samples: 2 problems" in said
    assert f"2 of 14 images are missing: {wings[0]}, {wings[1]}" in said
    assert "--images FOLDER" not in said
    found = json.loads(command("check", file, "--images", "photos", "--json", code=3).out)
    assert len(found["problems"]) == 2


@pytest.mark.parametrize("file", ["wings.tps", "wings.json"])
def test_what_to_do_is_said_once(wings, command, file):
    said = command("check", file, code=3).out
    assert re.search(rf"^{file}: the image \S+ is not in this folder\.$", said, re.MULTILINE)
    assert f"The names in {file} were looked for in this folder: give the folder" in said
    assert said.count("--images FOLDER") == 1


@pytest.mark.parametrize("file", ["wings.tps", "wings.json"])
def test_train_stops_and_says_where_it_looked(wings, command, file):
    for words in ((), ("--dry-run",), ("--hold-out", "0.2")):
        said = command("train", file, "--images", "photos", "-o", "m.pliant", *words, code=1).err
        assert f"2 of 14 images are missing: {wings[0]}, {wings[1]}" in said
        assert f"The names in {file} were looked for in photos and next to that file." in said
        assert "--skip-invalid" in said
        assert "--images FOLDER" not in said
    said = command("train", file, "-o", "m.pliant", "--skip-invalid", "--dry-run", code=1).err
    assert "14 of 14 images are missing" in said
    assert "--images FOLDER" in said


def test_train_leaves_them_out_and_lists_them(wings, command):
    words = ("train", "wings.tps", "--images", "photos", "--skip-invalid", "-o", "m.pliant")
    said = command(*words, "--dry-run")
    assert "would train on 12 annotated images" in said.out
    assert wings[0] in said.err
    said = command(*words, "--hold-out", "0.25", "--preset", "quick", "--no-confidence")
    assert f"the image {wings[0]} is not in photos" in said.err
    assert pliant.load("m.pliant").provenance["samples"] == 9
    assert pliant.load("m.pliant").provenance["left_out"] == 2
    assert not any(name in Path("m.held-out.csv").read_text() for name in wings)


def test_the_others_have_their_landmarks(wings):
    dataset = pliant.load_dataset("wings.tps", images="photos")
    right = pliant.load_dataset("wings.json", images="photos")
    assert dataset[0].points() == pytest.approx(right[0].points(), abs=0.01)
    with pytest.raises(ValueError, match=f"the image {wings[0]} is not in photos"):
        dataset[3].points()


def test_an_image_whose_size_cannot_be_read_stops_nothing_either(wings, command):
    (Path("photos") / wings[0]).write_bytes(b"no image")
    said = command("check", "wings.tps", "--images", "photos", code=3).out
    assert f"{wings[0]}: this is not an image of a known format." in said
    assert "14 samples: 2 problems" in said


def test_convert_names_them_and_converts_the_rest(wings, command):
    said = command("convert", "wings.tps", "wings.csv", "--images", "photos", code=3)
    assert wings[0] in said.out + said.err
    assert len(pliant.read_annotations("wings.csv")) == 12


def test_a_folder_that_is_not_there(wings, command):
    for words in (("check",), ("train", "--dry-run"), ("train", "--skip-invalid", "--dry-run")):
        said = command(*words, "wings.json", "--images", "nowhere", code=1).err
        assert "--images nowhere: there is no such folder." in said
    assert "this is a file" in command("check", "wings.json", "--images", "wings.tps", code=1).err


def test_a_folder_that_has_none_of_the_images(wings, command):
    """They lie beside the file, so that another folder was meant, such as one of processed images."""
    Path("others").mkdir()
    shutil.copy("wings.tps", "photos")
    for words in (("check",), ("train", "--dry-run")):
        said = command(*words, "photos/wings.tps", "--images", "others", code=1).err
        assert "--images others: none of the images is in this folder; photos/" in said
    for given in ("photos", Path("photos").resolve()):
        assert len(pliant.load_dataset("photos/wings.tps", images=given)) == 14


def test_landmark_files_without_images_in_a_folder_that_was_given(wings, command):
    Path("landmarks").mkdir()
    for sample in pliant.load_dataset("wings.json", images="photos"):
        pliant.write_landmarks(
            Path("landmarks") / f"{Path(sample.name).stem}.pts", sample.annotation().points
        )
    said = command("train", "landmarks", "--images", "photos", "--dry-run", code=1).err
    assert "2 of 14 images are missing" in said
    assert "were looked for in photos" in said
    assert "--images FOLDER" not in said


def test_a_studio_needs_landmarks_or_the_folder_alone(wings, command):
    assert "pliant studio photos" in command("studio", "--images", "photos", code=1).err
    assert (
        "--images nowhere: there is no such folder."
        in command("studio", "wings.tps", "--images", "nowhere", code=1).err
    )


@pytest.mark.parametrize("file", ["wings.tps", "wings.json"])
def test_names_in_another_case(wings, command, file):
    text = Path(file).read_text()
    Path(f"loud_{file}").write_text(re.sub(r"face(\d+).png", r"FACE\1.png", text))
    said = "the names differ in upper and lower case"
    shown = command("check", f"loud_{file}", "--images", "photos", code=3).out
    assert (
        f"the image FACE0.png is not in photos or next to this file, but there is face0.png: {said}." in shown
    )
    assert re.search(f"There are (face.*, ){{4}}face.* and 7 more: {said}. Rename", shown)
    assert "--images FOLDER" not in shown
    assert f"the image {wings[0].replace('face', 'FACE')} is not in photos or next to this file." in shown
    shutil.copy(f"loud_{file}", "photos")
    shown = command("check", f"photos/loud_{file}", code=3).out
    # Two images are not there at all, so that another folder may help.
    assert "in photos: give the folder of the images with --images FOLDER. There are face0.png" in shown
    Path("one.csv").write_text("image,x0,y0,x1,y1\nphotos/Face0.PNG,1,2,3,4\n")
    assert f"There is face0.png: {said}. Rename" in command("train", "one.csv", code=1).err


def test_a_name_in_another_case_when_the_size_of_its_image_is_needed(wings, command):
    Path("loud.tps").write_text(Path("wings.tps").read_text().replace("face", "Face"))
    said = command("convert", "loud.tps", "a.csv", "--images", "photos", code=1).err
    assert said.endswith("but there is face0.png: the names differ in upper and lower case.\n")


def test_a_folder_is_listed_once(wings, monkeypatch):
    listed = []
    monkeypatch.setattr("os.listdir", lambda folder: listed.append(Path(folder)) or ["face3.PNG"])
    dataset = pliant.load_dataset("wings.tps", images="photos")
    assert dataset[3].name
    assert len(listed) <= 4  # two folders, for sizes and for images
    assert len(set(listed)) == 2


def test_a_folder_of_dots(wings, command, monkeypatch):
    for steps, name in (("..", "the folder above this one"), ("../..", "'../..'")):
        inner = Path("a/b") if steps == "../.." else Path("a")
        inner.mkdir(parents=True, exist_ok=True)
        with monkeypatch.context() as inside:
            inside.chdir(inner)
            said = command("check", f"{steps}/wings.json", code=3).out
        assert f"is not in {name}.\n" in said
        assert f"were looked for in {name}: give the folder of the images" in said
