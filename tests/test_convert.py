"""`pliant convert`: landmarks arrive where they were, and what does not arrive is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image as PIL
from typer.testing import CliRunner

import pliant
from pliant.cli import app
from pliant.data.annotation import Annotation
from pliant.data.conversion import plan_conversion
from pliant.data.formats import formats, read_annotations, read_landmarks, write_annotations, write_landmarks
from pliant.data.loading import load_dataset
from pliant.data.suspects import find_suspects
from pliant.data.validation import validate

POINTS = np.array([[10.125, 12], [50, 14.5], [52, 60], [8, 58], [30, 34]])


def convert(*arguments, code: int = 0):
    done = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def refused(*arguments) -> str:
    return str(convert(*arguments, code=1).exception)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "faces").mkdir()
    for number, name in enumerate("abc"):
        PIL.new("L", (70, 80), 10 * number).save(tmp_path / "faces" / f"{name}.png")
        write_landmarks(tmp_path / "faces" / f"{name}.pts", POINTS + number)
    return tmp_path / "faces"


def test_between_conventions_landmarks_stay_where_they_are(folder, tmp_path):
    done = convert(folder, tmp_path / "zero", "--to", "pts:0-based")
    assert "converted 3 objects with 15 landmarks to pts:0-based: 3 files in" in done.stdout
    assert (tmp_path / "zero" / "b.pts").read_text().splitlines()[3] == "11.125000 13.000000"
    assert (folder / "b.pts").read_text().splitlines()[3] == "12.125000 14.000000"
    convert(tmp_path / "zero", tmp_path / "again", "--from", "pts:0-based")
    for name in "abc":
        assert (tmp_path / "again" / f"{name}.pts").read_text() == (folder / f"{name}.pts").read_text()


def test_a_folder_becomes_one_file_and_one_file_a_folder(folder, tmp_path, table_format):
    (tmp_path / "out").mkdir()
    convert(folder, tmp_path / "out" / "all.tab")
    dataset = load_dataset(tmp_path / "out" / "all.tab")
    assert [sample.annotation().image for sample in dataset] == [f"../faces/{name}.png" for name in "abc"]
    assert dataset[2].image()[0, 0] == 20
    assert_allclose(dataset[2].points(), POINTS + 2)
    convert(tmp_path / "out" / "all.tab", tmp_path / "back")
    for name in "abc":
        assert (tmp_path / "back" / f"{name}.pts").read_text() == (folder / f"{name}.pts").read_text()


def test_folders_in_names_are_kept(tmp_path, table_format):
    annotations = [Annotation(name, POINTS) for name in ("one/a.png", "two\\a.png", "/far/b.png")]
    write_annotations(tmp_path / "all.tab", annotations)
    convert(tmp_path / "all.tab", tmp_path / "out")
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.pts"))
    assert found == ["b.pts", "one/a.pts", "two/a.pts"]


def test_one_file_to_one_file(folder, tmp_path):
    convert(folder / "a.pts", tmp_path / "a.pts", "--to", "pts:0-based")
    assert_allclose(read_landmarks(tmp_path / "a.pts", "pts:0-based"), POINTS, atol=1e-6)


def test_manifests_are_converted(folder, tmp_path, table_format):
    (tmp_path / "all.csv").write_text("image,landmarks\nfaces/a.png,faces/c.pts\n")
    convert(tmp_path / "all.csv", tmp_path / "all.tab")
    (one,) = read_annotations(tmp_path / "all.tab")
    assert one.image == "faces/a.png"
    assert_allclose(one.points, POINTS + 2)


def test_sizes_come_from_images_if_need_be(folder, tmp_path, table_format, monkeypatch):
    from pliant.data.annotation import Convention

    monkeypatch.setattr(formats()["table"], "CONVENTION", Convention("", unit="percent", y_up=True))
    convert(folder, tmp_path / "all.tab")
    first = json.loads((tmp_path / "all.tab").read_text().splitlines()[1])
    assert first["points"][0] == pytest.approx([100 * 10.125 / 70, 100 * (79 - 12) / 80])
    (folder / "b.png").unlink()
    done = convert(folder, tmp_path / "more.tab", code=3)
    assert "b.jpg: table needs the size of this image, but the image was not found" in done.stderr
    assert "converted 2 objects" in done.stdout


def test_a_wrong_file_does_not_lose_the_others(folder, tmp_path, table_format):
    (folder / "b.pts").write_text("n_points: 7\n1 1\n")
    done = convert(folder, tmp_path / "out", code=3)
    assert "b.pts: the header gives 7 points, but 1 follow" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.pts", "c.pts"]
    report = json.loads(convert(folder, tmp_path / "all.tab", "--json", code=3).stdout)
    assert (report["objects"], len(report["problems"])) == (2, 1)
    for name in "ac":
        (folder / f"{name}.pts").write_text("nothing")
    assert "nothing could be converted. The first problem: " in refused(folder, tmp_path / "none")


def test_only_what_was_written_is_listed(folder, tmp_path, monkeypatch):
    plain = formats()["pts"].write

    def write(path, *rest):
        if path.name == "b.pts":
            raise OSError("the disk is full")
        plain(path, *rest)

    monkeypatch.setattr(formats()["pts"], "write", write)
    report = json.loads(convert(folder, tmp_path / "out", "--json", code=3).stdout)
    assert report["written"] == [str(tmp_path / "out" / f"{name}.pts") for name in "ac"]
    assert report["problems"] == ["the disk is full"]
    assert (
        "converted 2 objects with 10 landmarks to pts: 2 files in"
        in convert(folder, tmp_path / "more", code=3).stdout
    )


def test_python_converts_like_the_command(folder, tmp_path):
    plan = plan_conversion(str(folder), tmp_path / "all.csv")
    assert not (tmp_path / "all.csv").exists()
    assert [one.annotation.image for one in plan.objects] == [f"faces/{name}.png" for name in "abc"]
    done = pliant.data.convert(plan)
    assert (done.files, done.losses, done.problems) == ((tmp_path / "all.csv",), (), ())
    assert_allclose(done.objects[2].annotation.points, POINTS + 2)


def test_what_a_format_cannot_hold_is_said(folder, tmp_path, table_format, monkeypatch):
    names, box, hidden = ("a", "b", "c", "d", "e"), np.array([1.0, 2, 3, 4]), np.arange(5) == 2
    rich = Annotation("a.png", POINTS, names, box, group="anna", hidden=hidden, score=0.9)
    table = formats()["table"]
    plain = table.read

    def read(path, *rest):
        return [replace(rich, points=one.points) if path.stem == "in" else one for one in plain(path, *rest)]

    monkeypatch.setattr(table, "read", read)
    write_annotations(tmp_path / "in.tab", [rich])
    done = convert(tmp_path / "in.tab", tmp_path / "out.tab")
    hidden_and_score = ("the score (confidence)", "which landmarks are hidden")
    for loss in ("landmark names", "the box", "the group", *hidden_and_score):
        assert f"lost in 1 object: {loss}" in done.stderr
    assert "exact position" not in done.stderr
    monkeypatch.setattr(table, "write", _coarse(table.write))
    done = convert(tmp_path / "in.tab", tmp_path / "coarse.tab")
    assert "lost in 1 object: the exact position of landmarks" in done.stderr


def _coarse(write):
    def rounded(path, annotations, convention):
        write(path, [replace(one, points=one.points.round()) for one in annotations], convention)

    return rounded


def test_nothing_is_written_over(folder, tmp_path):
    assert "a.pts: this is the file being converted" in refused(folder, folder)
    assert "a.pts: this is the file being converted" in refused(folder, folder, "--overwrite")
    assert "a.pts: this is the file being converted" in refused(folder / "a.pts", folder / "a.pts")
    convert(folder, tmp_path / "out")
    assert "already exists: overwrite=True replaces it" in refused(folder, tmp_path / "out")
    convert(folder, tmp_path / "out", "--overwrite")


def test_a_dry_run_writes_nothing(folder, tmp_path):
    done = convert(folder, tmp_path / "out", "--dry-run", "--preview", tmp_path / "sheet.png")
    assert "would convert 3 objects" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["faces"]


def test_a_preview_is_drawn_from_what_was_written(folder, tmp_path, table_format):
    done = convert(folder, tmp_path / "all.tab", "--preview", tmp_path / "sheet.png")
    assert "wrote" in done.stdout
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
    for image in folder.glob("*.png"):
        image.unlink()
    done = convert(folder, tmp_path / "more.tab", "--preview", tmp_path / "none.png", code=3)
    assert "no image was found to draw" in done.stderr


def test_wrong_words_get_a_sentence(folder, tmp_path, table_format):
    assert "there is no format 'xyz'" in refused(folder, tmp_path / "a", "--to", "xyz")
    assert "table holds all images in one file" in refused(folder, tmp_path / "out", "--to", "table")
    assert "no format has this ending" in refused(folder, tmp_path / "a.xyz")
    assert "there is no such folder or file" in refused(tmp_path / "nowhere", tmp_path / "a")
    assert convert(folder, tmp_path / "quiet", "--quiet").output == ""


@pytest.mark.parametrize("error", [ValueError("no"), OSError("full"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_behind(error, folder, tmp_path, table_format, monkeypatch):
    def write(path, annotations, convention):
        path.write_text("half of it")
        raise error

    monkeypatch.setattr(formats()["table"], "write", write)
    before = sorted(tmp_path.rglob("*"))
    CliRunner().invoke(app, ["convert", str(folder), str(tmp_path / "new" / "deep" / "all.tab")])
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "all.tab").write_text("older")
    CliRunner().invoke(app, ["convert", str(folder), str(tmp_path / "all.tab"), "--overwrite"])
    assert (tmp_path / "all.tab").read_text() == "older"


def test_what_does_not_come_back_leaves_nothing_behind(folder, tmp_path, table_format, monkeypatch):
    monkeypatch.setattr(formats()["table"], "read", lambda *_: [])
    refused(folder, tmp_path / "all.tab")
    assert not (tmp_path / "all.tab").exists()


def test_a_stray_landmark_does_not_stop_tps(folder, tmp_path):
    table = tmp_path / "all.csv"
    convert(folder, table)
    lines = table.read_text().splitlines()
    lines[1] = ",".join([lines[1].split(",")[0], "-9", "5", *lines[1].split(",")[3:]])
    table.write_text("\n".join(lines))
    result = convert(table, tmp_path / "all.tps", code=3)
    assert "landmarks 0 are left of or below the image" in result.stderr
    assert "choose csv" in result.stderr
    first, *rest = read_annotations(tmp_path / "all.tps")
    assert np.isnan(first.points[0]).all()
    assert np.isfinite(first.points[1:]).all()
    assert len(rest) == len(lines) - 2


class TestNames:
    @pytest.fixture
    def table(self, tmp_path):
        points = np.array([[1.0, 2], [30, 4], [5, 60]])
        for number in range(5):
            PIL.new("L", (70, 70)).save(tmp_path / f"{number}.png")
            names = ("nose", "chin", "ear" if number != 3 else "Ear-1")
            write_annotations(tmp_path / f"{number}.fcsv", [Annotation("", points + number, names)])
        return tmp_path

    def test_names_that_differ_are_refused(self, table, tmp_path):
        sentence = refused(table, tmp_path / "all.json")
        assert "names differ in 1 of 5 objects" in sentence
        assert "3.png, landmark 2 is called 'Ear-1', but most objects call it 'ear'" in sentence
        assert not (tmp_path / "all.json").exists()

    @pytest.mark.parametrize(
        ("option", "names"), [("usual", {("nose", "chin", "ear")}), ("a,b,c", {("a", "b", "c")})]
    )
    def test_names_are_chosen(self, option, names, table, tmp_path):
        convert(table, tmp_path / "all.json", "--names", option)
        assert {annotation.names for annotation in read_annotations(tmp_path / "all.json")} == names

    def test_names_are_kept(self, table, tmp_path):
        convert(table, tmp_path / "all.json", "--names", "keep")
        assert len({annotation.names for annotation in read_annotations(tmp_path / "all.json")}) == 2

    def test_too_few_names(self, table, tmp_path):
        assert "has 3 landmarks, but there are 2 names" in refused(
            table, tmp_path / "a.json", "--names", "a,b"
        )

    def test_check_points_them_out(self, table):
        (suspect,) = find_suspects(validate(load_dataset(table)), skip=["blank", "duplicate"])
        assert (suspect.number, suspect.check) == (3, "names")
        assert "'Ear-1'" in suspect.reason
