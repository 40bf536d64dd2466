"""What is open in studio: its images, its marks, every change of them, and files in the format that was opened."""

import builtins
import csv
import io
import json
import os
import zipfile
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

from pliant.data.annotation import Annotation
from pliant.data.formats import formats, read_annotations, read_landmarks, write_annotations, write_landmarks
from pliant.data.loading import load_dataset
from pliant.studio.storage.collection import open_collection
from pliant.studio.storage.exporting import FORMATS, export
from pliant.studio.storage.landmarks import Curve
from pliant.studio.storage.marks import ABSENT, HIDDEN, UNSEEN, VISIBLE, Change, Scale
from pliant.studio.storage.opening import in_order

SQUARE = np.array([[1.0, 2.0], [11.0, 2.0], [11.0, 12.0], [1.0, 12.0]])
numbers = iter(range(10**6))


def images(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        PIL.Image.new("L", (60, 40)).save(folder / name)
    return folder


def move(collection, index, landmark, x, y, state=VISIBLE, client="me", **more):
    return collection.apply(index, Change(f"id{next(numbers)}", client, {landmark: (x, y, state)}, **more))


@pytest.fixture
def folder(tmp_path):
    """Three images, of which two have landmarks beside them."""
    images(tmp_path / "faces", "face2.png", "face10.png", "Face1.png")
    write_landmarks(tmp_path / "faces/face2.pts", SQUARE)
    write_landmarks(tmp_path / "faces/face10.pts", SQUARE + 5)
    return tmp_path / "faces"


class TestImagesElsewhere:
    """Images in a folder of their own, as other commands take them with `--images`."""

    def test_an_annotation_file(self, tmp_path):
        photos = images(tmp_path / "photos", "a.png", "b.png", "c.png")
        images(tmp_path / "labels", "b.png")  # The folder that was given comes first.
        marked = [Annotation(name, SQUARE, size=(60, 40)) for name in ("a.png", "b.png")]
        for file in ("all.tps", "all.json", "all.csv"):
            write_annotations(tmp_path / "labels" / file, marked)
            with open_collection(tmp_path / "labels" / file, images=photos) as found:
                assert [entry.source for entry in found.entries] == [photos / "a.png", photos / "b.png"]
                np.testing.assert_allclose(found.marks(1).points, SQUARE, atol=1e-6)
                move(found, 0, 2, 30, 20)
            read = read_annotations(tmp_path / "labels" / file, images=photos)
            np.testing.assert_allclose(read[0].points[2], (30, 20), atol=1e-6)
            np.testing.assert_allclose(read[1].points, SQUARE, atol=1e-6)
            assert sorted(path.name for path in photos.iterdir()) == ["a.png", "b.png", "c.png"]

    def test_landmark_files_in_another_folder(self, tmp_path):
        photos = images(tmp_path / "photos", "a.png", "b.png")
        labels = tmp_path / "labels"
        labels.mkdir()
        write_landmarks(labels / "a.pts", SQUARE)
        with open_collection(labels, images=photos) as found:
            assert [entry.source for entry in found.entries] == [photos / "a.png", photos / "b.png"]
            assert found.finished() == [0]
            for landmark, (x, y) in enumerate(SQUARE):
                move(found, 1, landmark, x, y)
        np.testing.assert_allclose(read_landmarks(labels / "b.pts"), SQUARE)
        assert not (photos / "b.pts").exists()

    def test_a_folder_without_landmarks_yet(self, tmp_path):
        photos = images(tmp_path / "photos", "a.png")
        (tmp_path / "labels").mkdir()
        with open_collection(tmp_path / "labels", images=photos) as found:
            found.set_object(["tip"])
            move(found, 0, 0, 3, 4)
        [sample] = load_dataset(tmp_path / "labels/landmarks.json", images=photos)
        np.testing.assert_allclose(sample.points(), [[3, 4]], atol=1e-6)

    def test_a_folder_that_is_not_there(self, tmp_path):
        images(tmp_path / "photos", "a.png")
        with pytest.raises(ValueError, match="images=.*nowhere: there is no such folder"):
            open_collection(tmp_path / "photos", images=tmp_path / "nowhere")
        (tmp_path / "labels").mkdir()
        with pytest.raises(ValueError, match="give it with images=FOLDER"):
            open_collection(tmp_path / "labels")

    def test_the_list_of_held_out_samples_is_no_annotation_file(self, tmp_path):
        photos = images(tmp_path / "photos", "a.png", "b.png")
        for file, names in (("all.csv", ("a.png", "b.png")), ("m.held-out.csv", ("b.png",))):
            write_annotations(photos / file, [Annotation(name, SQUARE) for name in names])
        with open_collection(photos) as found:
            assert found.finished() == [0, 1]


class TestOpening:
    def test_all_images_of_a_folder_are_listed_as_a_person_sorts_them(self, folder):
        with open_collection(folder) as faces:
            assert [entry.key for entry in faces.entries] == ["Face1.png", "face2.png", "face10.png"]
            assert all(entry.source.is_file() for entry in faces.entries)
            assert faces.format == "pts"
            assert faces.finished() == [1, 2]
            assert faces.previous(2) == 1
            assert faces.previous(1) is None
            assert faces.read_only == ""

    def test_what_is_in_a_file_from_elsewhere(self, folder):
        points = SQUARE.copy()
        points[2] = np.nan
        write_landmarks(folder / "face2.pts", points)
        with open_collection(folder) as faces:
            marks = faces.marks(1)
            np.testing.assert_allclose(marks.points, points)
            assert marks.states.tolist() == [VISIBLE, VISIBLE, ABSENT, VISIBLE]
            assert marks.finished
            assert faces.marks(0).states.tolist() == [UNSEEN] * 4
            assert not faces.marks(0).finished
            assert faces.revision(1) == 0

    def test_images_are_listed_without_looking_at_any(self, tmp_path, monkeypatch):
        class Found(list):
            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        write_landmarks(tmp_path / "image0.pts", SQUARE)
        names = [f"image{k}.jpg" for k in range(20_000)] + [f"image{k}.pts" for k in range(0, 20_000, 2)]
        entries = [SimpleNamespace(name=name, is_file=lambda: True) for name in names]
        monkeypatch.setattr("os.scandir", lambda path: Found(entries))
        looked_at = []

        def watched(real):
            def look(path, *more, **named):
                looked_at.append(path)
                return real(path, *more, **named)

            return look

        for place, function in ((os, "open"), (os, "stat"), (io, "open"), (builtins, "open")):
            monkeypatch.setattr(place, function, watched(getattr(place, function)))
        with open_collection(tmp_path) as many:
            assert len(many) == 20_000
            assert [many.entries[k].key for k in (2, 10)] == ["image2.jpg", "image10.jpg"]
            assert len(many.finished()) == 10_000
        assert 0 < len(looked_at) < 50

    def test_several_objects_of_an_image_are_entries_of_their_own(self, tmp_path):
        images(tmp_path, "group.png")
        for number in (1, 2, 10):
            write_landmarks(tmp_path / f"group.{number}.pts", SQUARE + number)
        with open_collection(tmp_path) as group:
            assert [entry.key for entry in group.entries] == [
                "group.png", "group.png, object 2", "group.png, object 3"
            ]  # fmt: skip
            np.testing.assert_allclose(group.marks(2).points, SQUARE + 10)
            move(group, 1, 0, 3.5, 4)
        np.testing.assert_allclose(read_landmarks(tmp_path / "group.2.pts")[0], (3.5, 4))
        assert len(load_dataset(tmp_path)) == 3

    def test_a_manifest(self, tmp_path):
        images(tmp_path / "one", "a.png")
        images(tmp_path / "two", "b.png")
        write_landmarks(tmp_path / "marks.pts", SQUARE)
        (tmp_path / "list.csv").write_text("image,landmarks,group\none/a.png,marks.pts,x\ntwo/b.png,,y\n")
        before = (tmp_path / "list.csv").read_bytes()
        with open_collection(tmp_path / "list.csv") as found:
            assert [entry.key for entry in found.entries] == ["one/a.png", "two/b.png"]
            np.testing.assert_allclose(found.marks(0).points, SQUARE)
            move(found, 1, 2, 7, 8)
        assert (tmp_path / "list.csv").read_bytes() == before
        with open_collection(tmp_path / "list.csv") as found:
            np.testing.assert_allclose(found.marks(1).points[2], (7, 8))

    def test_a_folder_with_one_annotation_file_lists_images_that_it_does_not_name(self, tmp_path):
        images(tmp_path, "a.png", "b.png")
        write_annotations(tmp_path / "all.csv", [Annotation("a.png", SQUARE)])
        with open_collection(tmp_path) as both:
            assert [entry.key for entry in both.entries] == ["a.png", "b.png"]
            move(both, 1, 0, 5, 5)
        assert [one.image for one in read_annotations(tmp_path / "all.csv")] == ["a.png", "b.png"]
        with open_collection(tmp_path / "all.csv") as again:
            assert len(again) == 2
            assert again.marks(1).states.tolist() == [VISIBLE, UNSEEN, UNSEEN, UNSEEN]
            assert not again.marks(1).finished

    @pytest.mark.parametrize("what", ["nothing", "image.png", "empty", "two"])
    def test_what_cannot_be_opened_says_why(self, tmp_path, what):
        images(tmp_path / "two", "a.png")
        for name in ("x.csv", "y.csv"):
            write_annotations(tmp_path / "two" / name, [Annotation("a.png", SQUARE)])
        (tmp_path / "empty").mkdir()
        images(tmp_path, "image.png")
        with pytest.raises(ValueError, match=what):
            open_collection(tmp_path / what)

    def test_a_file_that_would_lose_something_is_for_looking_only(self, tmp_path):
        images(tmp_path, "a.png")
        write_annotations(tmp_path / "all.xml", [Annotation("a.png", SQUARE, size=(60, 40))], "cvat")
        text = (tmp_path / "all.xml").read_text().replace("<version>", "<meta>mine</meta><version>")
        (tmp_path / "all.xml").write_text(text)
        with open_collection(tmp_path / "all.xml") as looked_at:
            assert "<meta>" in looked_at.read_only
            assert looked_at.marks(0).placed == 4
            with pytest.raises(ValueError, match="<meta>"):
                move(looked_at, 0, 0, 1, 1)
        assert (tmp_path / "all.xml").read_text() == text
        assert not (tmp_path / ".pliant-studio").exists()

    def test_names_are_sorted_as_people_do(self):
        assert in_order(["b10", "a", "B9", "b09", "b9", "10", "9"]) == [
            "9",
            "10",
            "a",
            "B9",
            "b09",
            "b9",
            "b10",
        ]


class TestChanges:
    def test_states_finished_and_scale_come_back_though_the_format_has_none(self, folder):
        bar = Scale((0, 0), (20, 0), 5, "mm")
        with open_collection(folder) as faces:
            move(faces, 1, 1, 4.25, 5, HIDDEN)
            move(faces, 1, 2, None, None, ABSENT)
            move(faces, 1, 3, None, None, UNSEEN, finished=False, scale=bar)
            move(faces, 0, 0, 9, 9)
        points = read_landmarks(folder / "face2.pts")
        np.testing.assert_allclose(points, [SQUARE[0], (4.25, 5), (np.nan,) * 2, (np.nan,) * 2])
        with open_collection(folder) as faces:
            marks = faces.marks(1)
            assert marks.states.tolist() == [VISIBLE, HIDDEN, ABSENT, UNSEEN]
            assert (marks.finished, marks.scale) == (False, bar)
            assert faces.marks(0).states.tolist() == [VISIBLE, UNSEEN, UNSEEN, UNSEEN]
            assert faces.finished() == [2]
            assert faces.revision(1) > 0

    def test_a_change_that_comes_twice_counts_once(self, folder):
        with open_collection(folder) as faces:
            change = Change("same", "me", {0: (5, 5, VISIBLE)})
            faces.apply(1, change)
            move(faces, 1, 0, 6, 6)
            revision = faces.revision(1)
            assert faces.apply(1, change).points[0].tolist() == [6, 6]
            assert faces.revision(1) == revision
        with open_collection(folder) as faces:
            assert faces.apply(1, change).points[0].tolist() == [6, 6]

    def test_undo_and_redo_go_all_the_way_and_survive_a_restart(self, folder):
        with open_collection(folder) as faces:
            for step in range(30):
                move(faces, 1, step % 4, step, step, finished=bool(step % 2))
            faces.apply(1, Change("bar", "me", scale=Scale((0, 0), (9, 0), 1, "mm")))
        with open_collection(folder) as faces:
            last = faces.marks(1)
            for _ in range(40):
                faces.undo(1, "another")
            np.testing.assert_allclose(faces.marks(1).points, SQUARE)
            assert faces.marks(1).finished
            assert faces.marks(1).scale is None
        np.testing.assert_allclose(read_landmarks(folder / "face2.pts"), SQUARE)
        with open_collection(folder) as faces:
            for _ in range(40):
                faces.redo(1, "a third")
            marks = faces.marks(1)
            np.testing.assert_array_equal(marks.points, last.points)
            assert (marks.finished, marks.scale) == (last.finished, last.scale)
            faces.undo(1, "a third")
            move(faces, 1, 0, 0, 0)
            assert faces.redo(1).points[0].tolist() == [0, 0], "there is nothing to redo after a change"

    def test_a_file_that_was_made_for_a_point_goes_with_it(self, folder):
        with open_collection(folder) as faces:
            faces.apply(0, Change("f", "me", finished=False))
            faces.flush()
            assert not (folder / "Face1.pts").exists()
            move(faces, 0, 0, 1, 1)
            faces.flush()
            assert (folder / "Face1.pts").exists()
        with open_collection(folder) as faces:
            faces.undo(0)
            for landmark in range(4):
                move(faces, 1, landmark, None, None, ABSENT)
        assert not (folder / "Face1.pts").exists()
        assert (folder / "face2.pts").exists(), "somebody else made this one"
        with open_collection(folder) as faces:
            np.testing.assert_allclose(faces.redo(0).points[0], (1, 1))
        np.testing.assert_allclose(read_landmarks(folder / "Face1.pts")[0], (1, 1))

    def test_undo_takes_back_only_what_is_ones_own(self, folder):
        with open_collection(folder) as faces:
            move(faces, 1, 0, 20, 20, client="A")
            move(faces, 1, 1, 21, 21, client="B")
            faces.undo(1, "A")
            np.testing.assert_allclose(faces.marks(1).points[:2], [SQUARE[0], (21, 21)])
            # B has moved the same point since: it stays B's.
            move(faces, 1, 2, 22, 22, client="A")
            move(faces, 1, 2, 23, 23, client="B")
            faces.undo(1, "A")
            np.testing.assert_allclose(faces.marks(1).points[2], (23, 23))
            faces.undo(1, "B")
            np.testing.assert_allclose(faces.marks(1).points[2], (22, 22))

    def test_the_history_tells_what_was_done(self, folder):
        with open_collection(folder) as faces:
            move(faces, 1, 0, 1, 1)
            move(faces, 1, 1, None, None, ABSENT, finished=True)
            move(faces, 2, 0, 1, 1)
            faces.undo(1, "me")
            past = faces.history(1)
        assert [one.what for one in past] == ["placed 1", "removed 1, finished", "undo: placed 1, finished"]
        assert [one.undone for one in past] == [False, True, False]
        assert past[0].number < past[1].number < past[2].number == faces.revision(1)

    @pytest.mark.parametrize(
        "change",
        [
            Change("1", marks={4: (1, 1, VISIBLE)}),
            Change("1", marks={-1: (1, 1, VISIBLE)}),
            Change("1", marks={0: (None, None, VISIBLE)}),
            Change("1", marks={0: (np.nan, 1, VISIBLE)}),
            Change("1", marks={0: (1e9, 1, VISIBLE)}),
            Change("1", marks={0: (1, 1, 3)}),
            Change("1"),
        ],
    )
    def test_a_change_that_cannot_be_is_refused_and_leaves_nothing(self, folder, change):
        with open_collection(folder) as faces:
            with pytest.raises(ValueError, match="face2.png"):
                faces.apply(1, change)
            assert faces.revision(1) == 0

    @pytest.mark.parametrize(
        "bar", [((0, 0), (0.5, 0), 1, "mm"), ((0, 0), (9, 0), 0, "mm"), ((0, 0), (9, 0), 1, "ell")]
    )
    def test_a_scale_that_cannot_be_is_refused(self, bar):
        with pytest.raises(ValueError, match="scale|unit"):
            Scale(*bar)


class TestNewObjects:
    def test_a_folder_without_landmarks_gets_a_coco_file_once_one_is_placed(self, tmp_path):
        images(tmp_path, "a.png", "b.png")
        curves = (Curve("edge", (0, 1), True),)
        with open_collection(tmp_path) as new:
            with pytest.raises(ValueError, match="define the landmarks first"):
                move(new, 0, 0, 1, 1)
            new.set_object(["nose", "chin"], curves)
            new.apply(0, Change("f", finished=False))
            new.flush()
            assert not (tmp_path / "landmarks.json").exists()
            move(new, 0, 1, 7.5, 8, HIDDEN)
        document = json.loads((tmp_path / "landmarks.json").read_text())
        assert document["categories"][0]["keypoints"] == ["nose", "chin"]
        assert document["annotations"][0]["keypoints"] == [0, 0, 0, 7.5, 8, 1]
        with open_collection(tmp_path) as again:
            assert (again.names, again.curves) == (("nose", "chin"), curves)
            assert again.marks(0).states.tolist() == [UNSEEN, HIDDEN]
            again.set_object(["A", "B"], curves)
            move(again, 1, 0, 1, 1)
            again.flush()
            with pytest.raises(ValueError, match="can be removed"):
                again.set_object(["A"])
        with open_collection(tmp_path / "landmarks.json") as once_more:
            assert once_more.names == ("A", "B")
            assert [once_more.marks(index).placed for index in range(2)] == [1, 1]
        assert len(load_dataset(tmp_path)) == 2

    @pytest.mark.parametrize("kind", ["pts", "coco", "csv"])
    def test_a_landmark_is_added_behind_the_others(self, tmp_path, kind):
        images(tmp_path, "a.png", "b.png")
        if kind == "pts":
            for name in "ab":
                write_landmarks(tmp_path / f"{name}.pts", SQUARE)
        else:
            made = [Annotation(f"{name}.png", SQUARE) for name in "ab"]
            write_annotations(tmp_path / "all.x", made, kind)
            (tmp_path / "all.x").rename(tmp_path / f"all{formats()[kind].EXTENSIONS[0]}")
        with open_collection(tmp_path) as faces:
            if kind == "csv":
                with pytest.raises(ValueError, match="cannot change their number"):
                    faces.set_object("abcde")
                return
            faces.set_object("abcde")
            assert faces.marks(0).states.tolist() == [VISIBLE] * 4 + [UNSEEN]
            move(faces, 1, 4, 20, 21)
        with open_collection(tmp_path) as faces:
            assert faces.names == tuple("abcde")
            np.testing.assert_allclose(faces.marks(0).points[:4], SQUARE)
            assert faces.marks(0).states.tolist() == [VISIBLE] * 4 + [UNSEEN]
            np.testing.assert_allclose(faces.marks(1).points, [*SQUARE, (20, 21)])
        np.testing.assert_allclose(load_dataset(tmp_path)[1].points(), [*SQUARE, (20, 21)])

    @pytest.mark.parametrize("names", [[], ["a", "a"], ["a", " "]])
    def test_names_that_cannot_be(self, tmp_path, names):
        images(tmp_path, "a.png")
        with open_collection(tmp_path) as new, pytest.raises(ValueError, match="name"):
            new.set_object(names)


@pytest.mark.parametrize("name", sorted(set(formats()) - {"sleap", "imagej", "kaggle"}))
def test_every_format_that_is_opened_is_what_is_written(tmp_path, name):
    module = formats()[name]
    images(tmp_path, "a.png", "b.png")
    points = [SQUARE, SQUARE + 3]
    made = [Annotation(f"{key}.png", some, size=(60, 40)) for key, some in zip("ab", points, strict=True)]
    if module.MANY:
        write_annotations(tmp_path / f"all{module.EXTENSIONS[0]}", made, name)
    else:
        for key, annotation in zip("ab", made, strict=True):
            named = annotation if name == "asf" else Annotation("", annotation.points, size=(60, 40))
            write_annotations(tmp_path / f"{key}{module.EXTENSIONS[0]}", [named], name)
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix == module.EXTENSIONS[0]}
    with open_collection(tmp_path) as found:
        assert not found.read_only
        assert found.format == name
        np.testing.assert_allclose(found.marks(0).points, SQUARE, atol=1e-4)
        move(found, 1, 2, 31, 17)
        found.flush()
        changed = [path for path, content in files.items() if path.read_bytes() != content]
        assert [path.stem for path in changed] == ["all" if module.MANY else "b"]
    again = {sample.name[-5:]: sample.points() for sample in load_dataset(tmp_path)}
    points[1][2] = 31, 17
    np.testing.assert_allclose(again["a.png"], SQUARE, atol=1e-4)
    np.testing.assert_allclose(again["b.png"], points[1], atol=1e-4)


def test_a_variant_is_read_and_written_as_such(folder):
    with open_collection(folder, format="pts:0-based") as faces:
        np.testing.assert_allclose(faces.marks(1).points, SQUARE + 1)
        move(faces, 1, 0, 3, 4)
        move(faces, 0, 1, 6, 7)
    np.testing.assert_allclose(read_landmarks(folder / "face2.pts", "pts:0-based")[0], (3, 4))
    np.testing.assert_allclose(read_landmarks(folder / "Face1.pts", "pts:0-based")[1], (6, 7))


class TestExports:
    @pytest.fixture
    def measured(self, folder):
        with open_collection(folder) as faces:
            faces.apply(1, Change("bar", scale=Scale((0, 0), (20, 0), 5, "mm")))
            faces.apply(
                2, Change("inch", scale=Scale((0, 0), (0, 10), 1, "in"), marks={0: (None, None, ABSENT)})
            )
            move(faces, 0, 0, 1, 1)
            yield faces

    def test_lengths_are_in_the_unit_that_was_asked_for(self, measured):
        for unit, factor in {"mm": 1, "cm": 0.1, "um": 1000, "m": 0.001}.items():
            made = export(measured, f"csv-{unit}", unfinished=True)
            rows = {row["image"]: row for row in csv.DictReader(io.StringIO(made.content.decode()))}
            np.testing.assert_allclose(float(rows["face2.png"][f"x1_{unit}"]), 11 * 0.25 * factor)
            np.testing.assert_allclose(float(rows["face10.png"][f"y1_{unit}"]), 7 * 2.54 * factor, rtol=1e-4)
            assert rows["face10.png"][f"x0_{unit}"] == ""
            assert list(rows) == ["face2.png", "face10.png"]
            assert made.note.endswith("not in the export. Face1.png has no scale: draw a scale bar (R).")

    @pytest.mark.parametrize("format", ["coco", "tps", "csv", "dlib"])
    def test_what_is_exported_reads_as_it_was(self, measured, tmp_path, format):
        made = export(measured, format)
        path = measured.source / made.name
        path.write_bytes(made.content)
        read = read_annotations(path, format)
        assert [one.image for one in read] == ["face2.png", "face10.png"]
        np.testing.assert_allclose(read[0].points, SQUARE)
        assert np.isnan(read[1].points[0]).all()
        if format == "tps":
            assert [one.spacing for one in read] == [0.25, 0.1]

    def test_an_archive_of_pts_opens_as_a_folder(self, measured, tmp_path):
        with zipfile.ZipFile(io.BytesIO(export(measured, "pts").content)) as archive:
            assert sorted(archive.namelist()) == ["face10.pts", "face2.pts"]
            archive.extractall(tmp_path / "out")
        np.testing.assert_allclose(read_landmarks(tmp_path / "out/face2.pts"), SQUARE)

    def test_nothing_to_export_says_so(self, tmp_path):
        images(tmp_path, "a.png")
        with open_collection(tmp_path) as nothing:
            for format in FORMATS:
                with pytest.raises(ValueError, match="nothing"):
                    export(nothing, format)
            with pytest.raises(ValueError, match="Known"):
                export(nothing, "docx")


def test_what_is_finished_is_there_to_train_on(folder):
    with open_collection(folder) as faces:
        move(faces, 1, 0, None, None, ABSENT)
        move(faces, 0, 0, 5, 5)
        found = list(faces.annotated())
    assert [(index, source.name) for index, source, _ in found] == [(1, "face2.png"), (2, "face10.png")]
    assert np.isnan(found[0][2][0]).all()
    np.testing.assert_allclose(found[1][2], SQUARE + 5)
