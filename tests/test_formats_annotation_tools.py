"""Files of annotation tools: hand-made samples, damage, and what round-trips beside the points.

All samples speak of an image 8 pixels wide and 4 high. A is the centre of the pixel in column 2 and row 1, (2, 1)
for us; B is the centre of the last pixel, (7, 3). A tool that counts pixels from 0 writes A as 2, 1. One that
measures from the corner of the image writes 2.5, 1.5, as a centre is half a pixel from the corner of its pixel, and
in percent 2.5 / 8 = 31.25 and 1.5 / 4 = 37.5. The box covers columns 1 to 4 and rows 0 to 2: its edges lie half a
pixel outside the centres of those pixels.
"""

import json
import shutil
from pathlib import Path
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from pliant.data.annotation import Annotation
from pliant.data.formats import (
    find_format,
    formats,
    read_annotations,
    read_boxes,
    read_landmarks,
    write_annotations,
)
from pliant.data.landmark_names import by_name, without_numbers

SAMPLES = Path(__file__).parent / "samples"
SAMPLE_OF = {
    "menpo.ljson": "ljson",
    "imglab.xml": "dlib",
    "imm.asf": "asf",
    "coco.json": "coco",
    "cvat_images.xml": "cvat",
    "cvat_video.xml": "cvat",
    "label_studio.json": "label-studio",
}
A, B, MISSING = (2, 1), (7, 3), (np.nan, np.nan)
BOX = [0.5, -0.5, 4.5, 2.5]


def sizes(name):
    return (8, 4)


@pytest.mark.parametrize(("file", "name"), SAMPLE_OF.items())
def test_each_sample_is_recognised_as_its_own_format_alone(file, name):
    head = (SAMPLES / file).read_bytes()[:8192]
    assert [other for other, module in formats().items() if module.recognises(SAMPLES / file, head)] == [name]


class TestLjson:
    def test_sample(self):
        [face] = read_annotations(SAMPLES / "menpo.ljson")
        assert_array_equal(face.points, [A, B, MISSING])
        assert face.names == ("eye", "mouth", "ear")
        assert face.image == ""

    @pytest.mark.parametrize(
        "document",
        [
            {"version": 2, "labels": [], "landmarks": {"points": [[1, 2], [3, 7], [None, None]]}},
            {
                "groups": [
                    {
                        "label": "eyes",
                        "landmarks": [{"point": [1, 2]}, {"point": [3, 7]}],
                        "connectivity": [],
                    },
                    {"label": "rest", "landmarks": [{"point": [5, None]}]},
                ],
                "version": 1,
            },
        ],
    )
    def test_older_versions(self, tmp_path, document):
        (tmp_path / "a.ljson").write_text(json.dumps(document))
        [face] = read_annotations(tmp_path / "a.ljson")
        assert_array_equal(face.points, [A, B, MISSING])
        assert face.names == ()

    @pytest.mark.parametrize(
        ("masks", "names"),
        [
            ([[0], [1]], ("b", "c")),
            ([[1], [0]], ("c", "b")),
            ([[0], [0]], ()),
            ([[0], [2]], ()),
            ([[0], [0, 1]], ()),
            ([[0]], ()),
            ([[0], [1], [0, 1]], ()),
            ([["0"], [1]], ()),
        ],
    )
    def test_names_where_every_landmark_has_a_label_to_itself(self, tmp_path, masks, names):
        labels = [{"label": label, "mask": mask} for label, mask in zip("bcd", masks, strict=False)]
        document = {"version": 2, "labels": labels, "landmarks": {"points": [[1, 2], [3, 7]]}}
        (tmp_path / "a.ljson").write_text(json.dumps(document))
        assert read_annotations(tmp_path / "a.ljson")[0].names == names

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ('{"version": 2, "landmarks": {}}', True),
            (' {"labels" : [{"mask" : [0]}]', True),
            ('{"version": 2, "images": []}', False),
            ('{"images": [], "landmarks": []}', False),
            ('[{"landmarks": []}]', False),
        ],
    )
    def test_recognised_by_its_keys(self, text, known):
        assert formats()["ljson"].recognises(Path("a.dat"), text.encode()) == known

    def test_groups_of_one_landmark_are_names_in_version_1(self, tmp_path):
        groups = [{"label": label, "landmarks": [{"point": [1, 2]}]} for label in ("eye", "ear")]
        (tmp_path / "a.ljson").write_text(json.dumps({"version": 1, "groups": groups}))
        assert read_annotations(tmp_path / "a.ljson")[0].names == ("eye", "ear")

    def test_what_is_written(self, tmp_path):
        """Rows [y, x] to a millionth, null for what is missing."""
        points = np.array([(2.12345678, 1), MISSING])
        write_annotations(tmp_path / "a.ljson", [Annotation("", points, ("eye", "ear"))])
        group = json.loads((tmp_path / "a.ljson").read_text())["groups"]["LJSON"]
        assert group["landmarks"]["points"] == [[1, 2.123457], [None, None]]
        assert group["labels"] == [{"label": "eye", "mask": [0]}, {"label": "ear", "mask": [1]}]

    def test_several_objects_are_groups(self, tmp_path):
        two = [Annotation("", np.array([A])), Annotation("", np.array([B]))]
        write_annotations(tmp_path / "a.ljson", two)
        assert_array_equal([face.points for face in read_annotations(tmp_path / "a.ljson")], [[A], [B]])
        assert json.loads((tmp_path / "a.ljson").read_text())["version"] == 3


class TestDlib:
    def test_sample(self):
        first, second, third = read_annotations(SAMPLES / "imglab.xml")
        assert_array_equal(first.points, [A, B])
        assert first.names == ("9", "10")
        assert_array_equal(first.box, BOX)
        assert (first.image, first.size) == ("one.png", (8, 4))
        assert_array_equal(second.points, [MISSING, (0, 0)])
        assert_array_equal(third.points, [(5, 2), MISSING])
        assert (third.image, third.size) == ("größe.png", None)

    def test_whole_numbers_are_written_as_dlib_reads_no_others(self, tmp_path):
        face = Annotation("a.png", np.array([(2.4, 0.6), (-0.2, 9.5)]), box=np.array([0.3, -0.5, 4.6, 2.5]))
        write_annotations(tmp_path / "a.xml", [face])
        assert "." not in (tmp_path / "a.xml").read_text().split("<images>")[1].replace("a.png", "")
        [back] = read_annotations(tmp_path / "a.xml")
        assert_array_equal(back.points, [(2, 1), (0, 10)])
        assert_array_equal(back.box, BOX)
        assert back.names == ()
        write_annotations(tmp_path / "b.xml", [face], "dlib:fractions")
        [exact] = read_annotations(tmp_path / "b.xml")
        assert_allclose(exact.points, face.points)
        assert_allclose(exact.box, face.box)

    def test_boxes_to_be_ignored_and_boxes_alone(self, tmp_path):
        """Boxes without parts are no objects with landmarks, but they are boxes."""
        sides = "left='1' top='0' width='4' height='3'"
        ignored = "".join(f"<box {sides} ignore='{word}'/>" for word in ("1", "true", "True"))
        kept = f"<box {sides} ignore='0'/><box {sides}><part name='0' x='2' y='1'/></box>"
        (tmp_path / "a.xml").write_text(f"<dataset><image file='b'>{ignored}{kept}</image></dataset>")
        assert_array_equal([box for _, box in read_boxes(tmp_path / "a.xml")], [BOX, BOX])
        assert len(read_annotations(tmp_path / "a.xml")) == 1

    def test_names_in_latin_and_in_bytes(self, tmp_path):
        """Declared as ISO-8859-1, a name is what it says, unless its bytes are UTF-8."""
        for written in ("ü".encode("latin-1"), "ü".encode()):
            text = b"<?xml version='1.0' encoding='ISO-8859-1'?><dataset><image file='%s.png'><box left='0' "
            text += b"top='0' width='1' height='1'><part name='0' x='2' y='1'/></box></image></dataset>"
            (tmp_path / "a.xml").write_bytes(text % written)
            assert read_annotations(tmp_path / "a.xml")[0].image == "ü.png"

    def test_an_image_occurs_once_with_its_size(self, tmp_path):
        faces = [Annotation("a.png", np.array([A, B]), size=(8, 4)) for _ in range(2)]
        write_annotations(tmp_path / "a.xml", faces)
        text = (tmp_path / "a.xml").read_text()
        assert [element.tag for element in fromstring(text)] == ["name", "images"]  # noqa: S314
        assert text.count("<image ") == 1
        assert 'width="8" height="4"' in text
        write_annotations(tmp_path / "b.xml", [Annotation("a.png", np.array([A, B]))])
        assert read_annotations(tmp_path / "b.xml")[0].size is None

    def test_an_object_without_a_box_gets_that_of_its_pixels(self, tmp_path):
        write_annotations(tmp_path / "a.xml", [Annotation("a.png", np.array([A, B]))])
        assert_array_equal(read_annotations(tmp_path / "a.xml")[0].box, [1.5, 0.5, 7.5, 3.5])


class TestAsf:
    """x is 2 / 8 = 0.25 and 7 / 8 = 0.875 of the width, y 1 / 4 and 3 / 4 of the height."""

    def test_sample(self, tmp_path):
        shutil.copy(SAMPLES / "imm.asf", tmp_path / "one.asf")
        Image.new("L", (8, 4)).save(tmp_path / "one.png")
        [face] = read_annotations(tmp_path / "one.asf")
        assert_array_equal(face.points, [A, B, (0, 0)])
        assert (face.image, face.size) == ("one.png", (8, 4))
        assert_array_equal(read_landmarks(tmp_path / "one.asf"), face.points)

    def test_what_is_written(self, tmp_path):
        """An open path: from the point before to the one after, and the ends to themselves."""
        write_annotations(tmp_path / "a.asf", [Annotation("", np.array([A, B, (0, 0)]), size=(8, 4))])
        lines = [line for line in (tmp_path / "a.asf").read_text().splitlines() if line and line[0] != "#"]
        assert [line.split()[:2] + line.split()[4:] for line in lines[1:4]] == [
            ["0", "4", "0", "0", "1"],
            ["0", "4", "1", "0", "2"],
            ["0", "4", "2", "1", "2"],
        ]
        assert (lines[0], lines[4]) == ("3", "a")
        [back] = formats()["asf"].read(tmp_path / "a.asf", formats()["asf"].CONVENTION, sizes)
        assert back.image == ""
        assert_allclose(back.points, [A, B, (0, 0)])

    def test_the_last_line_may_be_left_out(self, tmp_path):
        (tmp_path / "b.asf").write_text("1\n0 4 .25 .25 0 0 0 0.5 more\n")
        [face] = formats()["asf"].read(tmp_path / "b.asf", formats()["asf"].CONVENTION, sizes)
        assert face.image == ""
        assert_allclose(face.points, [A])

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("2\n0 4 .1 .1 0 0 0", True),
            ("2\n0 4 .1 .1 0 0 0 .5", True),
            ("2\n0 4 .1 .1 0 0", False),
            ("2\n.5 4 .1 .1 0 0 0", False),
            ("2\n0 .5 .1 .1 0 0 0", False),
            ("2\n0 4 .1 .1 .5 0 0", False),
            ("2\n0 4 .1 .1 0 0 .5", False),
            ("2\n0 4 .1 x 0 0 0", False),
            ("2.0\n0 4 .1 .1 0 0 0", False),
            ("two\n0 4 .1 .1 0 0 0", False),
        ],
    )
    def test_recognised_by_a_count_and_a_point(self, text, known):
        assert formats()["asf"].recognises(Path("a.dat"), f"# comment\n\n{text}".encode()) == known

    def test_the_host_image_is_written(self, tmp_path):
        write_annotations(tmp_path / "a.asf", [Annotation("faces/one.png", np.array([A, B]), size=(8, 4))])
        assert (tmp_path / "a.asf").read_text().splitlines()[-1] == "faces/one.png"

    def test_without_the_image_nothing_can_be_said(self, tmp_path):
        shutil.copy(SAMPLES / "imm.asf", tmp_path)
        with pytest.raises(ValueError, match="imm.asf: the image one.png is not in"):
            read_annotations(tmp_path / "imm.asf")
        with pytest.raises(ValueError, match="a.asf: asf needs the size"):
            write_annotations(tmp_path / "a.asf", [Annotation("", np.array([A, B]))])

    def test_missing_landmarks_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="a.asf: landmark 1 is missing"):
            write_annotations(tmp_path / "a.asf", [Annotation("", np.array([A, MISSING]), size=(8, 4))])


class TestCoco:
    def test_sample(self):
        first, second = read_annotations(SAMPLES / "coco.json")
        assert_array_equal(first.points, [A, B, MISSING])
        assert first.names == ("eye", "mouth", "ear")
        assert_array_equal(first.box, BOX)
        assert (first.image, first.size) == ("one.png", (8, 4))
        assert_array_equal(second.points, [MISSING, MISSING, (0, 0)])
        assert (second.image, second.size, second.box) == ("two.png", None, None)

    def test_from_the_corner(self, tmp_path):
        first, _ = read_annotations(SAMPLES / "coco.json", "coco:corner")
        assert_array_equal(first.points, [(1.5, 0.5), (6.5, 2.5), MISSING])
        assert_array_equal(first.box, BOX)

    def test_what_other_tools_need_is_written(self, tmp_path):
        faces = [
            Annotation("a.png", np.array([A, MISSING]), ("eye", "ear"), np.array(BOX), (8, 4)),
            Annotation("a.png", np.array([A, B, B])),
        ]
        write_annotations(tmp_path / "a.json", faces)
        document = json.loads((tmp_path / "a.json").read_text())
        assert document["images"] == [{"id": 1, "file_name": "a.png", "width": 8, "height": 4}]
        assert [category["keypoints"] for category in document["categories"]] == [
            ["eye", "ear"],
            ["0", "1", "2"],
        ]
        first, second = document["annotations"]
        assert first["keypoints"] == [2, 1, 2, 0, 0, 0]
        assert (first["num_keypoints"], first["bbox"], first["area"]) == (1, [1, 0, 4, 3], 12)
        assert (second["category_id"], second["bbox"], second["area"]) == (2, [2, 1, 6, 3], 18)
        assert [category["name"] for category in document["categories"]] == ["object", "object2"]
        assert [category["id"] for category in document["categories"]] == [1, 2]
        assert [record["id"] for record in document["annotations"]] == [1, 2]
        assert [record["iscrowd"] for record in document["annotations"]] == [0, 0]

    def test_numbers_are_written_to_a_millionth(self, tmp_path):
        hidden = np.array([True, False])
        points, box = np.array([(2.12345678, 1), (3.5, 2)]), np.array([0.5, 0, 2.25, 4])
        faces = [Annotation("a.png", points, box=box, hidden=hidden), Annotation("b.png", points)]
        write_annotations(tmp_path / "a.json", faces)
        document = json.loads((tmp_path / "a.json").read_text())
        first = document["annotations"][0]
        assert first["keypoints"] == [2.123457, 1, 1, 3.5, 2, 2]
        assert (first["bbox"], first["area"]) == ([1, 0.5, 1.75, 4], 7)
        assert document["images"] == [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}]
        assert [record["image_id"] for record in document["annotations"]] == [1, 2]

    def read(self, tmp_path, images=({"id": 1, "file_name": "a.png"},), categories=(), **record):
        whole = {"id": 4, "image_id": images[0]["id"], "keypoints": [2, 1, 2, 7, 3, 2]} | record
        seen = {"image_id": images[0]["id"], "keypoints": [1, 1, 2, 1, 1, 2]}
        document = {"images": list(images), "annotations": [whole, seen], "categories": list(categories)}
        (tmp_path / "a.json").write_text(json.dumps(document))
        return read_annotations(tmp_path / "a.json")

    @pytest.mark.parametrize("gone", [{"keypoints": [0] * 6}, {"iscrowd": 1}, {"keypoints": []}])
    def test_objects_without_keypoints_are_left_out(self, tmp_path, gone):
        assert len(self.read(tmp_path, **gone)) == 1
        assert len(self.read(tmp_path)) == 2

    def test_which_keypoints_are_hidden(self, tmp_path):
        first, _ = self.read(tmp_path, keypoints=[2, 1, 1, 7, 3, 2])
        assert first.hidden.tolist() == [True, False]
        first, _ = self.read(tmp_path, keypoints=[2, 1, 0, 7, 3, 1])
        assert first.hidden.tolist() == [False, True]
        assert_array_equal(first.points, [MISSING, B])

    @pytest.mark.parametrize("ending", [".json", ".parquet"])
    def test_scores_round_trip(self, tmp_path, ending):
        points = np.array([(2.0, 1.0), (7.0, 3.0)])
        scores = [0.25, None, float("nan"), 1.0]
        given = [Annotation(f"{k}.png", points, score=score) for k, score in enumerate(scores)]
        write_annotations(tmp_path / f"a{ending}", given)
        assert [one.score for one in read_annotations(tmp_path / f"a{ending}")] == [0.25, None, None, 1.0]

    def test_a_score_is_a_number_or_nothing(self, tmp_path):
        write_annotations(tmp_path / "b.json", [Annotation("a.png", np.ones((2, 2)))])
        assert "score" not in (tmp_path / "b.json").read_text()
        for value, score in (
            (0.5, 0.5),
            (2, 2.0),
            ("high", None),
            (None, None),
            (True, None),
            (10**400, None),
        ):
            assert self.read(tmp_path, score=value)[0].score == score

    def test_ids_may_be_text(self, tmp_path):
        images = ({"id": "p", "file_name": "a.png"}, {"id": "q", "file_name": "b.png"})
        categories = ({"id": "face", "keypoints": ["eye", "ear"]}, {"id": "car", "keypoints": None})
        first, second = self.read(tmp_path, images, categories, image_id="q", category_id="face")
        assert (first.image, first.names, second.image, second.names) == (
            "b.png",
            ("eye", "ear"),
            "a.png",
            (),
        )

    @pytest.mark.parametrize("side", ["width", "height"])
    def test_a_size_has_two_sides(self, tmp_path, side):
        assert self.read(tmp_path, ({"id": 1, "file_name": "a.png", side: 8},))[0].size is None

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"bbox": [1, 2, 3]}, "annotation 4: the bbox is not x, y, width, height"),
            ({"keypoints": [[1, 2, 2]]}, "annotation 4: the keypoints are not all x, y, v"),
            ({"keypoints": [1, 2, 2, 3]}, "annotation 4: the keypoints are not all x, y, v"),
            ({"category_id": 1}, "annotation 4: there are 2 keypoints, but its category has 3 names"),
            ({"images": ({"id": 1},)}, "a.json, image 1: there is no 'file_name'"),
        ],
    )
    def test_what_does_not_fit(self, tmp_path, changes, sentence):
        with pytest.raises(ValueError, match=sentence):
            self.read(tmp_path, categories=({"id": 1, "keypoints": ["a", "b", "c"]},), **changes)

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ('{"info": {}, "images": []}', True),
            ('{"images" : []}', True),
            ('{"info": {}, "images": {}}', False),
            ('{"pictures": [], "images": []}', False),
            ('[{"images": []}]', False),
        ],
    )
    def test_recognised_by_its_keys(self, text, known):
        assert formats()["coco"].recognises(Path("a.dat"), text.encode()) == known

    def test_boxes_alone(self, tmp_path):
        records = [
            {"id": 1, "image_id": 1, "bbox": [1, 0, 4, 3]},
            {"image_id": 1, "iscrowd": 1, "bbox": [1, 1, 1, 1]},
        ]
        document = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [*records, {"image_id": 1}]}
        (tmp_path / "a.json").write_text(json.dumps(document))
        [(image, box)] = read_boxes(tmp_path / "a.json")
        assert image == "a.png"
        assert_array_equal(box, BOX)


class TestCvat:
    def test_images(self):
        points, first, second, bird = read_annotations(SAMPLES / "cvat_images.xml")
        assert_array_equal(points.points, [A, B, (-0.5, -0.5)])
        assert (points.image, points.size, points.names, points.box) == ("one.png", (8, 4), (), None)
        assert_array_equal(first.points, [A, MISSING])
        assert first.names == second.names == ("eye", "mouth")
        assert_array_equal(first.box, BOX)
        assert_array_equal(second.points, [(7.5, 3.5), B])
        assert second.box is None
        assert_array_equal(bird.points, [A, B])
        assert bird.names == ("beak", "tail")

    def test_video(self):
        first, second, hand = read_annotations(SAMPLES / "cvat_video.xml")
        assert_array_equal(first.points, [A, MISSING])
        assert_array_equal(second.points, [B, (0, 0)])
        assert_array_equal(hand.points, [(1, 1), (2, 2)])
        assert [item.image for item in (first, second, hand)] == [
            "frame_000000.PNG",
            "frame_000012.PNG",
            "frame_000012.PNG",
        ]
        assert {item.group for item in (first, second, hand)} == {"walk.mp4"}
        assert {item.size for item in (first, second, hand)} == {(8, 4)}

    def test_points_without_names_are_points_and_others_skeletons(self, tmp_path):
        """A single point would be one landmark of an object whose points lie apart."""
        faces = [
            Annotation("a.png", np.array([A, B])),
            Annotation("a.png", np.array([A]), box=np.array(BOX)),
            Annotation("a.png", np.array([B])),
            Annotation("b.png", np.array([A, B]), ("eye", "ear")),
            Annotation("b.png", np.array([A, MISSING]), ("eye", "ear")),
            Annotation("b.png", np.array([A, B, (0, 0)]), ("tip", "tail", "fin"), size=(8, 4)),
        ]
        write_annotations(tmp_path / "a.xml", faces, "cvat")
        root = fromstring((tmp_path / "a.xml").read_text())  # noqa: S314
        first, second = root.iterfind("image")
        assert [(image.get("id"), image.get("name")) for image in (first, second)] == [
            ("0", "a.png"),
            ("1", "b.png"),
        ]
        assert [element.tag for element in first] == ["points", "skeleton", "box", "skeleton"]
        assert first[1].get("group_id") == first[2].get("group_id") != first[3].get("group_id")
        assert [element.get("label") for element in second] == ["object2", "object2", "object3"]
        assert [part.get("outside") for part in second[1]] == ["0", "1"]
        assert [float(number) for number in second[1][1].get("points").split(",")] == [0, 0]
        back = read_annotations(tmp_path / "a.xml")
        assert [one.names for one in back] == [one.names for one in faces]
        for ours, theirs in zip(faces, back, strict=True):
            assert_array_equal(theirs.points, ours.points)
        assert [one.box is None for one in back] == [True, False, True, True, True, True]

    def test_single_points_belong_together_by_their_group(self, tmp_path):
        """Two objects of two points each, one of them with a box; p2 comes before p10."""
        point = '<points label="{}" points="{}" group_id="{}"/>'
        parts = [("p10", "2.5,1.5", 1), ("p2", "7.5,3.5", 1), ("p2", "2.5,1.5", 2), ("p10", "0.5,0.5", 2)]
        box = '<box group_id="2" xtl="1" ytl="0" xbr="5" ybr="3"/><box xtl="0" ytl="0" xbr="1" ybr="1"/>'
        (tmp_path / "a.xml").write_text(IMAGE.format("".join(point.format(*part) for part in parts) + box))
        one, two = read_annotations(tmp_path / "a.xml")
        assert one.names == two.names == ("p2", "p10")
        assert_array_equal([one.points, two.points], [[B, A], [A, (0, 0)]])
        assert one.box is None
        assert_array_equal(two.box, BOX)

    def test_what_is_outside_is_no_object(self, tmp_path):
        part = '<points label="{}" outside="{}" points="2.5,1.5"/>'
        skeletons = [("1", "1"), ("0", "1")]
        text = "".join(
            f'<skeleton label="s"><attribute/>{part.format("p", p)}{part.format("q", q)}</skeleton>'
            for p, q in skeletons
        )
        (tmp_path / "a.xml").write_text(IMAGE.format(text))
        [only] = read_annotations(tmp_path / "a.xml")
        assert_array_equal(only.points, [A, MISSING])

    @pytest.mark.parametrize(
        ("meta", "video", "size"),
        [
            ("<task><name>n</name><source>s.mp4</source></task>", "s.mp4", None),
            ("<task><name>n</name></task>", "n", None),
            ("", "a", None),
            ("<task><original_size><width>8</width></original_size></task>", "a", None),
            ("<task><original_size><height>4</height></original_size></task>", "a", None),
            ("<job><original_size><width>8</width><height>4</height></original_size></job>", "a", (8, 4)),
        ],
    )
    def test_what_a_video_is_called(self, tmp_path, meta, video, size):
        points = '<points frame="3" points="2.5,1.5"/><box frame="3" xtl="1"/>'
        points += '<points frame="4" outside="1" points="1,1"/>'
        text = f"<annotations><meta>{meta}</meta><track>{points}</track></annotations>"
        (tmp_path / "a.xml").write_text(text)
        [only] = read_annotations(tmp_path / "a.xml")
        assert (only.image, only.group, only.size) == ("frame_000003.PNG", video, size)

    def test_indices_of_pixels(self):
        first = read_annotations(SAMPLES / "cvat_images.xml", "cvat:0-based")[0]
        assert_array_equal(first.points[0], (2.5, 1.5))


class TestLabelStudio:
    def test_sample(self):
        module, convention = find_format("label-studio")
        first, second = module.read(SAMPLES / "label_studio.json", convention, sizes)
        assert_allclose(first.points, [A, B])
        assert first.names == ("eye", "mouth")
        assert_allclose(first.box, BOX)
        assert_allclose(second.points, [MISSING, (-0.5, 3.5)])
        assert second.image == "faces/two.png"
        assert first.size == second.size == (8, 4)

    @pytest.mark.parametrize("there", ["0a1b2c3d-one.png", "one.png"])
    def test_uploads_are_found_with_and_without_the_prefix_they_got(self, tmp_path, there):
        Image.new("L", (8, 4)).save(tmp_path / there)
        assert read_annotations(SAMPLES / "label_studio.json", images=tmp_path)[0].image == there

    @pytest.mark.parametrize(
        ("named", "image"),
        [
            ("faces/one.png", "faces/one.png"),
            ("trial:2/one.png", "trial:2/one.png"),
            ("https://host/faces/one%202.png", "one 2.png"),
            ("/data/upload/3/one.png", "one.png"),
            ("/data/local-files/?d=faces/one.png", "faces/one.png"),
        ],
    )
    def test_only_addresses_are_taken_apart(self, tmp_path, named, image):
        """A colon does not make a name an address."""
        (tmp_path / "a.json").write_text(TASK.format(ONE).replace("a.png", named))
        assert read_annotations(tmp_path / "a.json")[0].image == image

    def read(self, tmp_path, *work, key="annotations", data=None):
        task = {"data": data or {"image": "a.png"}, key: list(work)}
        (tmp_path / "a.json").write_text(json.dumps([task]))
        module, convention = find_format("label-studio:0-based")
        return module.read(tmp_path / "a.json", convention, sizes)

    @staticmethod
    def work(x, **about):
        """Somebody's keypoint, x percent to the right."""
        value = {"x": x, "y": 0, "keypointlabels": ["eye"]}
        return {
            "result": [{"type": "choices"}, {"id": "k", "type": "keypointlabels", "value": value}]
        } | about

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"updated_at": "2024-01"}, {"updated_at": "2024-02"}),
            ({"updated_at": "2024-03"}, {"updated_at": "2024-02", "ground_truth": True}),
            ({"updated_at": "2024-03", "was_cancelled": True}, {"updated_at": "2024-02"}),
            ({"updated_at": "2024-03", "result": []}, {"updated_at": "2024-02"}),
            ({}, {"updated_at": "2024-02"}),
        ],
    )
    def test_whose_work_counts(self, tmp_path, one, other):
        """The ground truth, or else what was changed last; nothing that was given up."""
        for order in (1, -1):
            [face] = self.read(tmp_path, *[self.work(0, **one), self.work(25, **other)][::order])
            assert_allclose(face.points, [(2, 0)])
            assert face.size == (8, 4)

    def test_old_exports_and_other_keys(self, tmp_path):
        assert len(self.read(tmp_path, self.work(0), key="completions")) == 1
        for data in (
            {"img": "b.png", "note": "x"},
            {"number": 3, "picture": "b.png"},
            {"x": "c", "image": "b.png"},
        ):
            assert self.read(tmp_path, self.work(0), data=data)[0].image == "b.png"
        with pytest.raises(ValueError, match="task 0: the data does not name an image"):
            self.read(tmp_path, self.work(0), data={"number": 3})
        assert self.read(tmp_path, self.work(0), data={"image": "http://[b.png"})[0].image == "http://[b.png"

    def test_which_object_a_rectangle_is_of(self, tmp_path):
        def rectangle(name, rotation=0):
            value = {"x": 12.5, "y": 0, "width": 50, "height": 75, "rotation": rotation}
            return {"id": name, "type": "rectangle", "value": value}

        def keypoint(parent):
            value = {"x": 25, "y": 25, "keypointlabels": ["eye"]}
            return {"type": "keypointlabels", "value": value} | ({"parentID": parent} if parent else {})

        def boxes(*regions):
            return [face.box is not None for face in self.read(tmp_path, {"result": list(regions)})]

        assert_allclose(self.read(tmp_path, {"result": [keypoint(""), rectangle("r")]})[0].box, BOX)
        assert boxes(keypoint("r"), rectangle("r")) == [True]
        assert boxes(keypoint(""), rectangle("r", 30)) == [False]
        assert boxes(keypoint(""), rectangle("r"), rectangle("s")) == [False]
        assert boxes(keypoint("s"), keypoint(""), rectangle("s")) == [True, False]

    @pytest.mark.parametrize("side", ["0", "-1", "1e999"])
    def test_sizes_that_no_image_has(self, tmp_path, side):
        (tmp_path / "a.json").write_text(
            TASK.format(ONE.replace('"original_height": 4', f'"original_height": {side}'))
        )
        with pytest.raises(ValueError, match="task 3: an image cannot be 8 x"):
            read_annotations(tmp_path / "a.json")

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ('[{"id": 3, "annotations" : []}]', True),
            ('[{"id": 3, "completions": [{"a": 1}]}]', True),
            (' [ {"kp": [{"keypointlabels": ["eye"]}]}]', True),
            ('[{"id": 3, "annotations": {}}]', False),
            ('{"annotations": []}', False),
        ],
    )
    def test_recognised_by_its_keys(self, text, known):
        assert formats()["label-studio"].recognises(Path("a.dat"), text.encode()) == known

    def test_tasks_and_regions_have_names_of_their_own(self, tmp_path):
        faces = [Annotation(image, np.array([A, B]), size=(8, 4)) for image in ("a.png", "a.png", "b.png")]
        write_annotations(tmp_path / "a.json", faces, "label-studio")
        first, second = json.loads((tmp_path / "a.json").read_text())
        assert (first["id"], second["id"]) == (1, 2)
        names = [region["id"] for task in (first, second) for region in task["annotations"][0]["result"]]
        assert len(set(names)) == len(names) == 3 + 3 + 2

    def test_an_image_of_one_row_is_an_image(self, tmp_path):
        row = Annotation("a.png", np.array([(0.5, 0.0), (1.5, 0.0)]), size=(8, 1))
        write_annotations(tmp_path / "a.json", [row], "label-studio")
        assert read_annotations(tmp_path / "a.json")[0].size == (8, 1)

    def test_several_objects_in_one_image(self, tmp_path):
        faces = [Annotation("a.png", np.array([A, B]), size=(8, 4)) for _ in range(2)]
        write_annotations(tmp_path / "a.json", faces, "label-studio")
        back = read_annotations(tmp_path / "a.json")
        assert len(back) == 2
        assert_allclose(back[1].points, [A, B])
        assert_allclose(back[1].box, [1.5, 0.5, 7.5, 3.5])


BOXED = ["dlib", "coco", "cvat", "label-studio"]


@pytest.mark.parametrize("name", [*BOXED, "ljson"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_missing_landmarks_names_and_boxes_round_trip(name, data, tmp_path_factory):
    """Some landmarks are missing in one object or the other, never in both; several objects are in one image."""
    module = formats()[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.integers(2, 12))
    named = data.draw(st.booleans())
    names = tuple(f"mark <{index:02}> & 'é'" for index in range(count)) if named else ()
    hidden = rng.integers(0, 3, count)
    hidden[:2] = 0, 1
    objects = []
    for index in range(2 if module.MANY else 1):
        points = rng.uniform(0, 400, (count, 2))
        points[hidden == index] = np.nan
        box = np.array([0, 0, 100, 50]) + rng.uniform(0, 9, 4) if name in BOXED else None
        objects.append(Annotation("a.jpg" if module.MANY else "", points, names, box, (640, 480)))
    path = tmp_path_factory.mktemp("round") / f"a{module.EXTENSIONS[0]}"
    write_annotations(path, objects, {"dlib": "dlib:fractions"}.get(name, name))
    back = read_annotations(path)
    for ours, theirs in zip(objects, back, strict=True):
        assert_allclose(theirs.points, ours.points, atol=1e-4)
        assert theirs.names == names
        if ours.box is not None:
            assert_allclose(theirs.box, ours.box, atol=1e-4)
        assert theirs.size == (ours.size if module.MANY else None)


@pytest.mark.parametrize("name", ["dlib", "label-studio"])
def test_what_a_file_that_leaves_out_missing_landmarks_cannot_hold(name, tmp_path):
    ending = formats()[name].EXTENSIONS[0]
    gone = [Annotation("a.png", np.array([A, MISSING]), size=(8, 4))]
    with pytest.raises(ValueError, match=f"a{ending}: landmark 1 is missing in every object"):
        write_annotations(tmp_path / f"a{ending}", gone, name)
    other = [
        Annotation("a.png", np.array([A, B]), size=(8, 4)),
        Annotation("b.png", np.array([A]), size=(8, 4)),
    ]
    with pytest.raises(ValueError, match="but a.png has 2 and b.png has 1"):
        write_annotations(tmp_path / f"a{ending}", other, name)


@pytest.mark.parametrize("name", BOXED)
def test_files_that_name_images_need_their_names(name, tmp_path):
    with pytest.raises(ValueError, match="a.out: .* name.* images, but these landmarks have no image"):
        write_annotations(tmp_path / "a.out", [Annotation("", np.array([A, B]), size=(8, 4))], name)


IMAGE = '<annotations><image name="a.png">\n{}</image></annotations>'
TASK = '[{{"id": 3, "data": {{"image": "a.png"}}, "annotations": [{{"result": [{}]}}]}}]'
KEYPOINT = '{{"id": "k", "type": "keypointlabels", "original_width": 8, "original_height": 4, "value": {}}}'
ONE = KEYPOINT.format('{"x": 1, "y": 1, "keypointlabels": ["eye"]}')
DAMAGE = [
    ("asf", "0\nhost.jpg\n", "there are no landmarks in this file"),
    ("asf", "1\n0 4 .1 .1 0 0 0\nhost.jpg\nmore\n", "header gives 1 points, but 3 lines follow"),
    ("asf", "", "must give the number of points"),
    ("coco", '{"images": [5], "annotations": []}', "a, images: expected an object with 'id', found '5'"),
    ("coco", '{"images": [], "annotations": [{}, 5]}', "a, annotation 0: there is no 'image_id'"),
    ("coco", '{"images": [], "annotations": [5]}', "a, annotation 0: expected an object with 'image_id'"),
    ("label-studio", "[5]", "a, task 0: expected an object with 'completions'"),
    ("label-studio", '[{"data": {}, "annotations": [{"result": [5]}]}]', "task 0: the data does not name"),
    ("label-studio", TASK.format(f"5, {ONE}"), "task 3: expected an object with 'type'"),
    (
        "label-studio",
        TASK.format(ONE.replace('["eye"]', "[]")),
        "task 3, region k: this keypoint has no label",
    ),
    (
        "cvat",
        IMAGE.format('<skeleton label="s"><points label="b" points="1,2;3,4"/></skeleton>'),
        "line 2: expected one point, found 2",
    ),
    ("ljson", '{"version": 1, "groups": [5]}', "a, group : expected an object with 'landmarks'"),
    ("ljson", '{"version": 2, "landmarks": {"points": [1, 2]}}', r"found an array of shape \(2,\)"),
    ("ljson", '{"version": 9, "landmarks": 0}', "LJSON version 9 is not supported"),
    ("ljson", '{"version": 2,\n "landmarks"', "a, line 2: this is not JSON"),
    ("ljson", '{"version": 2, "landmarks": {}}', "there is no 'points'"),
    ("ljson", '{"version": 2, "landmarks": {"points": [[1, 2], [3]]}}', "not all pairs of numbers"),
    ("ljson", '{"version": 2, "landmarks": {"points": [[1, 2, 3]]}}', r"expected points \[y, x\]"),
    ("ljson", '{"version": 3, "groups": {"b": 7}}', "a, group b: expected an object with 'landmarks'"),
    ("ljson", '{"version": 3, "groups": {}}', "no landmarks"),
    ("dlib", "<dataset><images>", "a, line 1: this is not XML"),
    ("dlib", "<dataset><images/></dataset>", "no box in this file has parts"),
    ("dlib", "<dataset>\n<image/></dataset>", "a, line 2: <image> has no 'file'"),
    (
        "dlib",
        "<dataset><image file='b'><box>\n<part name='1' x='q' y='2'/></box></image></dataset>",
        "line 2: x='q'",
    ),
    (
        "dlib",
        "<dataset><image file='b'><box>\n<part name='1' x='1' y='2'/>\n<part name='1' x='1' y='2'/></box></image>"
        "</dataset>",
        "line 3: part '1' occurs twice",
    ),
    (
        "asf",
        "# c\n2\n0 4 .1 .1 0 0 0\n0 4 .1 x 0 0 0\nhost.jpg",
        "a, line 4: expected a point of seven numbers",
    ),
    ("asf", "2\n0 4 .1 .1 0 0 0\n", "header gives 2 points, but 1 lines follow"),
    ("asf", "two\n", "must give the number of points"),
    ("coco", '{"images": [], "annotations": []}', "no object in this file has keypoints"),
    ("coco", '{"images": [{"name": 1}], "annotations": []}', "a, images: there is no 'id'"),
    (
        "coco",
        '{"images": [], "annotations": [{"id": 5, "image_id": 3, "keypoints": [1, 2, 2]}]}',
        "annotation 5: .*id 3",
    ),
    (
        "coco",
        '{"images": [{"id": 3}], "annotations": [{"id": 5, "image_id": 3, "keypoints": [1, 2]}]}',
        "annotation 5: the keypoints are not all x, y, v",
    ),
    (
        "cvat",
        IMAGE.format('<points label="b" points="1,2;3"/>'),
        "a, line 2: expected points x,y;x,y, found '3'",
    ),
    ("cvat", IMAGE.format('<points label="b"/>'), "a, line 2: <points> has no 'points'"),
    (
        "cvat",
        IMAGE.format('<points label="b" points="1,2"/>\n' * 2),
        "a, line 3: one object has two points 'b'",
    ),
    ("cvat", IMAGE.format(""), "nothing in this file has points"),
    ("label-studio", '{"a": 1}', "expected a list of tasks"),
    ("label-studio", '[{"id": 3, "kp": [{"keypointlabels": ["eye"]}]}]', "a, task 3: .* not as JSON-MIN"),
    ("label-studio", TASK.format(f"{ONE}, {ONE}"), "task 3, region k: one object has two keypoints 'eye'"),
    ("label-studio", TASK.format(KEYPOINT.format('{"x": "1"}')), "region k: 'x' must be a number, not '1'"),
    ("label-studio", TASK.format(""), "no task in this file has keypoints"),
    (
        "label-studio",
        TASK.format(ONE.replace('"value"', '"image_rotation": 90, "value"')),
        "region k: .* was rotated",
    ),
]


@pytest.mark.parametrize(("name", "text", "sentence"), DAMAGE)
def test_damage_gets_a_sentence_that_says_where(name, text, sentence, tmp_path):
    (tmp_path / "a").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence) as error:
        read_annotations(tmp_path / "a", name)
    assert str(error.value).startswith(str(tmp_path / "a"))


@pytest.mark.parametrize("name", ["csv-long", "cvat", "dlib", "label-studio"])
def test_objects_that_share_no_names_are_refused(name, tmp_path, monkeypatch):
    """101 objects with a landmark each and no name in common would be a table of 10,201; a hundred are read."""
    monkeypatch.setattr("pliant.data.landmark_names._SPARSE", 1)
    box = "left='0' top='0' width='1' height='1'"
    each, whole = {
        "csv-long": ("a{0}.png,p{0},1,2\n", "image,landmark,x,y\n{}"),
        "cvat": ('<skeleton label="s"><points label="p{}" points="1,2"/></skeleton>', IMAGE),
        "dlib": (
            f"<box {box}><part name='p{{}}' x='1' y='2'/></box>",
            "<dataset><image file='b'>{}</image></dataset>",
        ),
        "label-studio": (
            ONE.replace("{", "{{").replace("}", "}}").replace('"eye"', '"p{0}"')[:-2]
            + ', "parentID": "{0}"}}',
            TASK,
        ),
    }[name]
    join = ", ".join if name == "label-studio" else "".join
    for count in (100, 101):
        (tmp_path / "a").write_text(whole.format(join(each.format(k) for k in range(count))))
        if count == 100:
            assert len(read_annotations(tmp_path / "a", name)) == count
    with pytest.raises(ValueError, match="a: 101 objects have 101 landmarks with different names"):
        read_annotations(tmp_path / "a", name)


@pytest.mark.parametrize("root", ["dataset", "annotations"])
def test_entities_are_refused_before_they_grow(root, tmp_path):
    """Ten entities, each of which is ten times the one before."""
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
    bomb = f'<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY e0 "ha">{entities}]>\n<{root}>&e9;</{root}>'
    (tmp_path / "a.xml").write_text(bomb)
    with pytest.raises(ValueError, match="a.xml, line 2: a DOCTYPE is not read"):
        read_annotations(tmp_path / "a.xml")


@pytest.mark.parametrize(("file", "name"), SAMPLE_OF.items())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_is_a_sentence_or_is_read(file, name, data, tmp_path_factory):
    """A piece of a sample is replaced by something else: no error but one that names the file."""
    text = (SAMPLES / file).read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 40, len(text))))
    piece = data.draw(st.sampled_from(["", "null", "-1", "[]", "{}", '"', "<", "0", ",", "nan", "\x00", "é"]))
    path = tmp_path_factory.mktemp("damage") / file
    path.write_text(text[:start] + piece + text[end:], encoding="utf-8")
    module, convention = find_format(name)
    try:
        annotations = module.read(path, convention, sizes)
    except ValueError as error:
        problem = str(error)
    else:
        problem = f"{path}: none"
        assert all(annotation.points.shape[1:] == (2,) for annotation in annotations)
    assert problem.startswith(str(path))


def test_names_sort_as_a_person_would():
    assert by_name(["p10", "p2", "p2", "a", "1", "01"]) == ("01", "1", "a", "p2", "p10")
    assert without_numbers(["00", "01", "02"]) == without_numbers(["1", "2", "3"]) == ()
    assert without_numbers(["1", "3"]) == ("1", "3")


@pytest.mark.parametrize("format", ["cvat", "coco", "label-studio", "dlib"])
def test_a_missing_landmark_without_a_name_stays_missing(format, tmp_path):
    """It keeps its number and its neighbours theirs; no file says nan, and no names are made up."""
    points = np.array([A, MISSING, B, (3, 2)], dtype=float)
    whole = np.array([(1, 1), (2, 2), (3, 3), (4, 3)], dtype=float)
    path = tmp_path / f"many{find_format(format)[0].EXTENSIONS[0]}"
    made = [Annotation("a.jpg", points, size=(8, 4)), Annotation("b.jpg", whole, size=(8, 4))]
    write_annotations(path, made, format)
    assert "nan" not in path.read_text().lower()
    first, second = read_annotations(path, format)
    assert_allclose(first.points, points, atol=1e-4)
    assert_allclose(second.points, whole, atol=1e-4)
    assert first.names == second.names == ()
    half = points.copy()
    half[1] = (np.nan, 2)
    write_annotations(path, [Annotation("a.jpg", half, size=(8, 4)), made[1]], format)
    assert "nan" not in path.read_text().lower()
    assert_allclose(read_annotations(path, format)[0].points, points, atol=1e-4)
