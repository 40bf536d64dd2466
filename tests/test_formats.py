"""Landmark files: every format round-trips, is recognised by its content, and counts as its own tools do."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from pliant.data.annotation import Annotation, Convention
from pliant.data.formats import (
    _checked,
    endings_beside_images,
    find_format,
    format_for_ending,
    format_of,
    formats,
    read_annotations,
    read_annotations_with,
    read_boxes,
    read_landmarks,
    write_annotations,
)
from pliant.data.tables import has_decimal_commas

CONVENTIONS = [
    (name, convention)
    for name, module in formats().items()
    for convention in (module.CONVENTION, *module.VARIANTS.values())
]

EXACT = {"dlib": "dlib:fractions"}
"""Variants that lose nothing, where the format itself rounds."""


@pytest.mark.parametrize(("name", "convention"), CONVENTIONS)
def test_conventions_are_undone_exactly(name, convention, rng):
    points = rng.uniform(-5, 900, (7, 2))
    assert_allclose(
        convention.to_ours(convention.to_theirs(points, (640, 480)), (640, 480)), points, atol=1e-9
    )
    assert convention.reference


def test_what_conventions_mean():
    corner, size = np.array([[0.0, 0.0]]), (640, 480)
    assert_allclose(Convention("", first_pixel=(1, 1)).to_theirs(corner), [[1, 1]])
    assert_allclose(Convention("", y_up=True).to_theirs(corner, size), [[0, 479]])
    assert_allclose(Convention("", (0.5, 0.5), "percent").to_theirs(corner, size), [[0.5 / 6.4, 0.5 / 4.8]])
    with pytest.raises(ValueError, match="need the size of the image"):
        Convention("", y_up=True).to_ours(corner)


_FROM_0, _FROM_1, _CORNER, _UPWARDS = (
    [[0, 0], [7, 3]],
    [[1, 1], [8, 4]],
    [[0.5, 0.5], [7.5, 3.5]],
    [[0, 4], [7, 1]],
)
FIRST_AND_LAST = {
    **dict.fromkeys(("coco", "csv", "csv-long", "cvat:0-based", "deeplabcut", "dlib", "fcsv"), _FROM_0),
    **dict.fromkeys(("dlib:fractions", "imagej", "kaggle", "ljson", "npy", "npz", "parquet"), _FROM_0),
    **dict.fromkeys(("pts:0-based", "sleap", "txt", "wflw"), _FROM_0),
    **dict.fromkeys(("pts", "csv:1-based", "csv-long:1-based", "txt:1-based"), _FROM_1),
    **dict.fromkeys(("coco:corner", "cvat"), _CORNER),
    **dict.fromkeys(("tps", "csv:bottom-left", "csv-long:bottom-left", "txt:bottom-left"), _UPWARDS),
    "tps:height-1": [[0, 3], [7, 0]],
    "asf": [[0, 0], [0.875, 0.75]],
    "label-studio": [[6.25, 12.5], [93.75, 87.5]],
    "label-studio:0-based": [[0, 0], [87.5, 75]],
}
"""What the centres of the first and the last pixel of an image of 8 x 4 pixels are called in a file."""


def test_what_each_format_calls_the_first_and_the_last_pixel():
    every = {name: module.CONVENTION for name, module in formats().items()}
    for name, module in formats().items():
        every |= {f"{name}:{variant}": value for variant, value in module.VARIANTS.items()}
    called = {name: value.to_theirs([(0, 0), (7, 3)], (8, 4)).tolist() for name, value in every.items()}
    assert called == FIRST_AND_LAST
    assert {name for name, value in every.items() if value.negative_is_missing} == {"tps", "tps:height-1"}


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_file_of_many_images_names_them_and_one_beside_its_image_does_not(name, tmp_path):
    module, pixels = formats()[name], lambda: np.zeros((4, 4), np.uint8)
    path, points = tmp_path / f"a{module.EXTENSIONS[0]}", np.array([(0, 0), (3, 1), (1, 2)], dtype=float)
    two = [Annotation(image, points, size=(4, 4), pixels=pixels) for image in ("one.jpg", "two.jpg")]
    if not module.MANY and name != "ljson":
        with pytest.raises(ValueError, match="holds one object"):
            write_annotations(path, two, name)
        return
    write_annotations(path, two, name)
    images = [one.image for one in module.read(path, module.CONVENTION, lambda image: (4, 4))]
    assert images == {"ljson": ["", ""], "kaggle": ["row 1", "row 2"]}.get(name, ["one.jpg", "two.jpg"])
    assert module.MANY or name == "ljson"


@pytest.mark.parametrize("name", sorted(formats()))
def test_half_a_landmark_is_none(name, tmp_path):
    """A landmark with x alone, or y alone, is written as missing, or refused where none can be missing."""
    module, pixels = formats()[name], lambda: np.zeros((90, 90), np.uint8)
    path = tmp_path / f"a{module.EXTENSIONS[0]}"
    whole = np.array([(1, 2), (30, 4), (5, 60), (7, 8)], dtype=float)
    half = whole.copy()
    half[1, 0] = half[2, 1] = np.nan
    image = "a.jpg" if module.MANY else ""
    made = [Annotation(image, points, size=(90, 90), pixels=pixels) for points in (half, whole)]
    made = [replace(made[1], image="b.jpg"), made[0]] if module.MANY else made[:1]
    if name in ("asf", "imagej", "wflw"):
        with pytest.raises(ValueError, match=r"landmark 1 .*(missing|is: choose csv)"):
            write_annotations(path, made, name)
        return
    write_annotations(path, made, name)
    back = [_checked(path, one) for one in module.read(path, module.CONVENTION, lambda image: (90, 90))]
    half[1:3] = np.nan
    assert_allclose(back[-1].points, half, atol=1e-4)


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_beginning_that_says_nothing_is_recognised_by_nobody(name, tmp_path):
    for head in (b"", b"\n", b"scorer,a,a\n", b"2\n", b"[", b"{", b"PK\x03\x04"):
        assert not formats()[name].recognises(tmp_path / "a.dat", head)


def test_files_beside_images():
    """A .pts file is what one would expect, an array the least; a text may be anything."""
    endings = endings_beside_images()
    assert (endings[0], endings[-1]) == (".pts", ".npy")
    assert sorted(endings) == [".asf", ".fcsv", ".ljson", ".npy", ".pts", ".roi"]


def test_which_format_an_ending_means():
    usual = {".xml": "dlib", ".json": "coco", ".csv": "csv", ".txt": "wflw"}
    for name, module in formats().items():
        for ending in module.EXTENSIONS:
            assert format_for_ending(Path(f"a{ending.upper()}")) == usual.get(ending, name)


def test_names_of_formats():
    with pytest.raises(
        ValueError, match=r"no format 'DLIBB'. Did you mean 'dlib'\? Known formats: asf, coco"
    ):
        find_format("DLIBB")
    with pytest.raises(ValueError, match=r"no format 'qqqq'. Known"):
        find_format("qqqq")
    with pytest.raises(ValueError, match="Known variants: none"):
        find_format("npy:1-based")
    with pytest.raises(ValueError, match="Known variants: tps:height-1"):
        find_format("tps:height")


class TestWhatNoReaderLetsThrough:
    def write(self, tmp_path, **changes):
        """A COCO file of one object, with changes of its image, its record or the names of its landmarks."""
        image = {"id": 1, "file_name": "a.png"} | changes.get("image", {})
        record = {"id": 1, "image_id": 1, "category_id": 1, "keypoints": [1, 2, 2, 3, 4, 2]}
        category = {"id": 1, "keypoints": changes.get("names", ["eye", "ear"])}
        document = {"images": [image], "annotations": [record | changes.get("record", {})]}
        path = tmp_path / "a.json"
        path.write_text(json.dumps(document | {"categories": [category]}))
        return path

    @pytest.mark.parametrize(
        "changes", [{"image": {"file_name": "\ud800.png"}}, {"names": ["eye", "\udfff"]}]
    )
    def test_half_characters(self, tmp_path, changes):
        with pytest.raises(ValueError, match="a.json: the image name .* or another name is not text"):
            read_annotations(self.write(tmp_path, **changes))

    def test_null_characters(self, tmp_path):
        path = self.write(tmp_path, image={"file_name": "a\0b.png"}, record={"bbox": [0, 0, 1, 1]})
        for read in (read_annotations, read_boxes):
            with pytest.raises(ValueError, match="has a null character"):
                read(path)

    @pytest.mark.parametrize("size", [(1, 1), (999_999, 1), (1, 999_999)])
    def test_images_of_any_size_there_is(self, tmp_path, size):
        path = self.write(tmp_path, image=dict(zip(("width", "height"), size, strict=True)))
        assert read_annotations(path)[0].size == size

    @pytest.mark.parametrize("size", [(-1, 4), (4, -1), (1_000_000, 4), (4, 1_000_000)])
    def test_images_of_no_size_there_is(self, tmp_path, size):
        path = self.write(tmp_path, image=dict(zip(("width", "height"), size, strict=True)))
        with pytest.raises(
            ValueError, match="the image size of a.png cannot be {} x {} pixels".format(*size)
        ):
            read_annotations(path)

    def test_an_image_without_width(self, tmp_path):
        box = "<box left='0' top='0' width='1' height='1'><part name='1' x='1' y='2'/></box>"
        image = f"<image file='b' width='0' height='4'>{box}</image>"
        (tmp_path / "a.xml").write_text(f"<dataset>{image}</dataset>")
        with pytest.raises(ValueError, match="the image size of b cannot be 0 x 4 pixels"):
            read_annotations(tmp_path / "a.xml")

    def test_infinite_numbers(self, tmp_path):
        np.save(tmp_path / "a.npy", [[1, 2], [3, np.inf]])
        with pytest.raises(ValueError, match="a.npy: landmark 1 is infinite: correct it"):
            read_annotations(tmp_path / "a.npy")
        path = self.write(tmp_path, record={"keypoints": [1, 2, 2, -np.inf, 4, 2]})
        with pytest.raises(ValueError, match="a.json: landmark 1 of a.png is infinite"):
            read_annotations(path)
        path = self.write(tmp_path, record={"bbox": [0, 1e308, 1, 1e308]})
        for read in (read_annotations, read_boxes):
            with pytest.raises(ValueError, match="a.json: the box of a.png has a side that is not a finite"):
                read(path)

    def test_half_landmarks_are_none(self, tmp_path):
        np.save(tmp_path / "a.npy", [[1, np.nan], [3, 4], [np.nan, 5]])
        assert_array_equal(read_landmarks(tmp_path / "a.npy"), [[np.nan, np.nan], [3, 4], [np.nan, np.nan]])


def test_boxes_of_a_format_without_a_reader_of_its_own(tmp_path):
    points = np.array([(1, 1), (2, 3)], dtype=float)
    boxed = Annotation("a.png", points, box=np.array([0, 0, 5, 4.5]))
    write_annotations(tmp_path / "a.npz", [boxed, Annotation("b.png", points)])
    [(image, box)] = read_boxes(tmp_path / "a.npz")
    assert image == "a.png"
    assert_array_equal(box, boxed.box)


def test_one_object_is_asked_for(tmp_path):
    write_annotations(tmp_path / "a.csv", [Annotation("a", np.ones((3, 2)))] * 2)
    with pytest.raises(ValueError, match="a.csv: this file has 2 objects, but one was expected"):
        read_landmarks(tmp_path / "a.csv")


def test_a_file_of_two_formats_is_nobodys(tmp_path):
    (tmp_path / "a.pts").write_text("LM=1\n1 2\nIMAGE=a.png\n")
    with pytest.raises(ValueError, match="a.pts: this file could be pts, tps: choose with format=NAME"):
        read_annotations(tmp_path / "a.pts")


def test_an_image_that_is_gone_is_not_called_a_landmark_file(tmp_path):
    (tmp_path / "a.tps").write_text("LM=1\n1 2\nIMAGE=a.png\n")

    def gone(image):
        raise FileNotFoundError(2, "gone", str(tmp_path / image))

    with pytest.raises(FileNotFoundError, match="a.png"):
        read_annotations_with(tmp_path / "a.tps", "", gone)


@pytest.mark.parametrize("name", sorted(formats()))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_format_round_trips(name, seed, tmp_path_factory):
    """Two objects in images of different sizes, or one if a file of this format holds no more."""
    module, rng = formats()[name], np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("round") / f"a{module.EXTENSIONS[0]}"
    count, square = int(rng.integers(3, 20)), lambda: np.zeros((96, 96), np.uint8)
    annotations = [
        Annotation(image if module.MANY else "", rng.uniform(0, 400, (count, 2)), size=size, pixels=square)
        for image, size in [("one.jpg", (640, 480)), ("two.jpg", (500, 900))][: 1 + module.MANY]
    ]
    write_annotations(path, annotations, EXACT.get(name, name))
    back = read_annotations_as_if_images_were_there(path, annotations)
    if name != "kaggle":  # which holds the images themselves, and no names
        assert [annotation.image for annotation in back] == [annotation.image for annotation in annotations]
    for ours, theirs in zip(annotations, back, strict=True):
        assert_allclose(theirs.points, ours.points, atol=1e-4)


def read_annotations_as_if_images_were_there(path, annotations):
    """What `read_annotations` gives, with the sizes of images that exist only in the annotations."""
    module, convention = format_of(path)
    sizes = {annotation.image: annotation.size for annotation in annotations}
    return module.read(path, convention, sizes.__getitem__)


def test_what_is_no_landmark_file_gets_a_sentence(tmp_path):
    (tmp_path / "a.xyz").write_text("hello")
    with pytest.raises(ValueError, match="a.xyz: this file is in none of the known formats.*pts"):
        read_annotations(tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="b.pts: there is no such landmark file"):
        read_landmarks(tmp_path / "b.pts")
    with pytest.raises(ValueError, match="a.xyz: no format has this ending"):
        write_annotations(tmp_path / "a.xyz", [])
    with pytest.raises(ValueError, match="there is no format 'xyz'"):
        read_annotations(tmp_path / "a.xyz", "xyz")
    with pytest.raises(ValueError, match="no variant 'pts:2-based'.*pts:0-based"):
        read_annotations(tmp_path / "a.xyz", "pts:2-based")


class TestPts:
    def test_the_first_pixel_is_one_one(self, tmp_path):
        (tmp_path / "a.pts").write_text("version: 1\nn_points:  3\n{\n1 1\n2.5 1\n1e1 3.25\n}\n")
        assert_allclose(read_landmarks(tmp_path / "a.pts"), [[0, 0], [1.5, 0], [9, 2.25]])

    @pytest.mark.parametrize(
        "text", ["2 3\n4 5\n6 7", "2, 3\r\n4,5\r\n6\t7\r\n", "\ufeff2 3\n\n4 5\n# note\n6 7\n"]
    )
    def test_without_a_header(self, tmp_path, text):
        (tmp_path / "a.PTS").write_text(text, encoding="utf-8", newline="")
        assert_allclose(read_landmarks(tmp_path / "a.PTS"), [[1, 2], [3, 4], [5, 6]])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("version: 1\nn_points: 4\n{\n1 1\n2 2\n}", "gives 4 points, but 2 follow"),
            ("1 1\n2 x\n", "line 2: expected two numbers, found '2 x'"),
            ("1 1 1\n", "line 1: expected two numbers"),
            ("n_points: many\n1 1\n", "line 1: 'n_points: many'"),
            ("", "no landmarks"),
        ],
    )
    def test_damage_gets_a_sentence_with_the_line(self, tmp_path, text, sentence):
        (tmp_path / "a.pts").write_text(text)
        with pytest.raises(ValueError, match=f"a.pts.*{sentence}"):
            read_landmarks(tmp_path / "a.pts")

    def test_one_object(self, tmp_path):
        with pytest.raises(ValueError, match="a .pts file holds one object, but there are 2"):
            write_annotations(tmp_path / "a.pts", [Annotation("", np.ones((3, 2)))] * 2)


@pytest.mark.parametrize("ending", ["tps", "pts", "txt"])
def test_decimal_commas_are_named_as_the_reason(tmp_path, ending):
    points = np.array([[190.618, 234.057], [12.5, 40.25], [7.75, 9.125]])
    write_annotations(tmp_path / f"a.{ending}", [Annotation("a.png", points, size=(300, 300))], ending)
    text = (tmp_path / f"a.{ending}").read_text()
    commas = re.sub(r"(\d)\.(\d)", r"\1,\2", text)
    (tmp_path / f"a.{ending}").write_text(commas)
    first = next(line for line in text.splitlines() if line.startswith("19"))
    with pytest.raises(ValueError, match=f"Decimal commas are the likely reason: write '{first}'"):
        read_annotations(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("line", ["1,2", "1 2", "1,2 3,4 5,6", "1,2,3 4", "IMAGE=1,2 3,4.jpg", "x,1 y,2"])
def test_other_lines_have_no_decimal_commas(line):
    assert not has_decimal_commas(line)


class TestTxt:
    """Recognised from three lines of two numbers, or of one; a sentence for anything else."""

    @pytest.mark.parametrize("text", ["1 2\n3 4\n5 6\n", "1\n2\n3\n4\n", "# x y\n1,2\n3;4\n\n NA NA\n"])
    def test_recognised(self, tmp_path, text):
        (tmp_path / "a.TXT").write_text(text)
        assert format_of(tmp_path / "a.TXT")[0].NAME == "txt"

    @pytest.mark.parametrize("variant", ["txt", "txt:1-based", "txt:bottom-left"])
    def test_what_the_first_and_the_last_pixel_are_called(self, tmp_path, variant):
        """In the file and not only in the table above."""
        Image.new("L", (8, 4)).save(tmp_path / "a.png")
        rows = "".join(f"{x} {y}\n" for x, y in [*FIRST_AND_LAST[variant], *FIRST_AND_LAST[variant]])
        (tmp_path / "a.txt").write_text(rows)
        (only,) = read_annotations(tmp_path / "a.txt", variant)
        assert_allclose(only.points, [(0, 0), (7, 3)] * 2)

    @pytest.mark.parametrize("text", ["1 2\n3 4\n", "1 2\n3\n4 5\n", "1 2 3\n" * 3, "1 2\n3 4\n5 x\n"])
    def test_not_recognised(self, tmp_path, text):
        assert not formats()["txt"].recognises(tmp_path / "a.txt", text.encode())
        assert not formats()["txt"].recognises(tmp_path / "a.dat", b"1 2\n3 4\n5 6\n")

    def test_what_comes_after_three_lines_may_be_cut_off(self, tmp_path):
        assert formats()["txt"].recognises(tmp_path / "a.txt", b"1 2\n3 4\n5 6\n7")

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("# c\n1 2\n3 4 5\n", "line 3: expected two numbers on each line, or one on each"),
            ("1 2\n3\n", "line 1: expected two numbers on each line"),
            ("", "line 1: expected two numbers on each line"),
            ("1\n2\n3\n", "3 numbers do not form pairs"),
            ("1 2\n\n3 x\n", "line 3: expected a number, found 'x'"),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(ValueError, match=f"a.txt.*{sentence}"):
            read_annotations(tmp_path / "a.txt", "txt")

    def test_the_image_is_asked_for_its_size_only_if_y_counts_from_below(self, tmp_path):
        (tmp_path / "a.txt").write_text("\ufeff1\n2\nNA\nnan\n", encoding="utf-8")
        module = formats()["txt"]
        [plain] = module.read(tmp_path / "a.txt", module.CONVENTION, pytest.fail)
        assert_array_equal(plain.points, [(1, 2), (np.nan, np.nan)])
        assert plain.size is None
        [upwards] = module.read(tmp_path / "a.txt", module.VARIANTS["bottom-left"], lambda image: (9, 5))
        assert_array_equal(upwards.points[0], (1, 3))
        assert upwards.size == (9, 5)
