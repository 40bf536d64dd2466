"""Formats of tables, each against a sample that was written by hand, and what all of them and of arrays share.

What a sample must read as is worked out beside its test, from the tool's own description of the format.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from pliant.data.annotation import Annotation
from pliant.data.formats import format_of, formats, read_annotations, write_annotations
from pliant.data.formats.tps import read_specimens
from pliant.data.formats.wflw import has_box
from pliant.data.loading import load_dataset

SAMPLES = Path(__file__).parent / "samples"
MINE = ["tps", "csv", "csv-long", "kaggle", "wflw", "deeplabcut", "fcsv", "npy", "npz", "sleap", "imagej"]
NAN = np.nan


def recognised(path):
    return format_of(path)[0].NAME


def square(size=96):
    return (np.arange(size * size) % 251).reshape(size, size).astype(np.uint8)


class TestAll:
    @pytest.mark.parametrize("name", MINE)
    @settings(max_examples=10, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_missing_landmarks_stay_missing_or_are_refused(self, name, seed, tmp_path_factory):
        module, rng = formats()[name], np.random.default_rng(seed)
        path = tmp_path_factory.mktemp("missing") / f"a{module.EXTENSIONS[0]}"
        points = rng.uniform(0, 90, (5, 2))
        points[rng.integers(0, 5)] = NAN
        image = "one.jpg" if module.MANY else ""
        annotation = Annotation(image, points, size=(96, 96), pixels=square)
        if name in ("wflw", "imagej"):
            with pytest.raises(ValueError, match=r"cannot mark a landmark as missing.*choose csv"):
                write_annotations(path, [annotation], name)
            return
        write_annotations(path, [annotation], name)
        (back,) = module.read(path, module.CONVENTION, lambda name: (96, 96))
        assert_allclose(back.points, points, atol=1e-4)

    @pytest.mark.parametrize(
        "name", [name for name in MINE if name not in ("kaggle", "fcsv", "npy", "imagej")]
    )
    def test_names_of_images_survive(self, name, tmp_path, rng):
        path = tmp_path / f"a{formats()[name].EXTENSIONS[0]}"
        images = ["a b.jpg", 'x, "y"; z.png', "folder/ünï 2.jpg", "12.jpg"]
        annotations = [Annotation(image, rng.uniform(0, 40, (4, 2)), size=(50, 50)) for image in images]
        write_annotations(path, annotations, name)
        assert recognised(path) == name
        back = formats()[name].read(path, formats()[name].CONVENTION, lambda image: (50, 50))
        assert [annotation.image for annotation in back] == images

    @pytest.mark.parametrize("name", [name for name in MINE if name not in ("tps", "wflw", "npy", "imagej")])
    def test_names_of_landmarks_survive(self, name, tmp_path, rng):
        path, names = tmp_path / f"a{formats()[name].EXTENSIONS[0]}", ("nose tip", "x", "eye, left", "2")
        write_annotations(path, [Annotation("a.jpg", rng.uniform(0, 40, (4, 2)), names, pixels=square)], name)
        assert read_annotations(path)[0].names == names

    @pytest.mark.parametrize("name", ["csv", "csv-long", "npz"])
    def test_groups_survive(self, name, tmp_path, rng):
        path = tmp_path / f"a{formats()[name].EXTENSIONS[0]}"
        annotations = [Annotation(f"{g}.jpg", rng.uniform(0, 40, (4, 2)), group=g) for g in ("ann", "", "bo")]
        write_annotations(path, annotations, name)
        assert [annotation.group for annotation in read_annotations(path)] == ["ann", "", "bo"]

    @pytest.mark.parametrize("name", ["csv", "csv-long", "npz", "wflw", "tps", "sleap"])
    def test_several_objects_in_one_image_survive(self, name, tmp_path, rng):
        path = tmp_path / f"a{formats()[name].EXTENSIONS[0]}"
        annotations = [Annotation(image, rng.uniform(0, 40, (4, 2)), size=(50, 50)) for image in "aab"]
        annotations = [Annotation(f"{a.image}.jpg", a.points, size=a.size) for a in annotations]
        write_annotations(path, annotations, name)
        back = formats()[name].read(path, formats()[name].CONVENTION, lambda image: (50, 50))
        assert [annotation.image for annotation in back] == ["a.jpg", "a.jpg", "b.jpg"]
        for ours, theirs in zip(annotations, back, strict=True):
            assert_allclose(theirs.points, ours.points, atol=1e-4)

    @pytest.mark.parametrize("name", ["fcsv", "npy", "imagej"])
    def test_a_file_beside_its_image_holds_one_object(self, name, tmp_path):
        two = [Annotation("", np.ones((3, 2)))] * 2
        with pytest.raises(ValueError, match="holds one object.*, but there are 2"):
            write_annotations(tmp_path / "a", two, name)

    @pytest.mark.parametrize("name", ["csv", "deeplabcut", "kaggle", "npz", "sleap"])
    def test_unequal_landmarks_are_refused(self, name, tmp_path):
        unequal = [Annotation(f"{n}.jpg", np.ones((n, 2)), pixels=square) for n in (3, 4)]
        with pytest.raises(ValueError, match="same landmarks in each image, but 3.jpg has 3 and 4.jpg has 4"):
            write_annotations(tmp_path / "a", unequal, name)
        with pytest.raises(ValueError, match="no annotations to write"):
            write_annotations(tmp_path / "a", [], name)

    @pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.iterdir()))
    def test_one_format_recognises_each_sample(self, sample):
        path = SAMPLES / sample
        assert (
            len([name for name in formats() if formats()[name].recognises(path, path.read_bytes()[:8192])])
            == 1
        )


class TestTps:
    """Two images: 'wing 01.png' is 200 x 100, 'b, c.png' 60 x 40."""

    @pytest.fixture
    def folder(self, tmp_path):
        Image.new("L", (200, 100)).save(tmp_path / "wing 01.png")
        Image.new("L", (60, 40)).save(tmp_path / "b, c.png")
        (tmp_path / "wings.tps").write_bytes((SAMPLES / "wings.tps").read_bytes())
        return tmp_path

    def test_sample(self, folder):
        first, second = read_annotations(folder / "wings.tps")
        # From the top y is 100 - y: 69.5, 0, missing; the curve follows with 99 and 50.
        assert_allclose(first.points, [[10, 69.5], [20.25, 0], [NAN, NAN], [0, 99], [199, 50]])
        # 40 - 5 = 35.
        assert_allclose(second.points, [[NAN, NAN], [5, 35]])
        assert (first.image, second.image) == ("wing 01.png", r"C:\pictures\b, c.png")
        assert (first.size, second.size) == ((200, 100), (60, 40))

    def test_the_other_flip_is_one_pixel_higher(self, folder):
        first, second = read_annotations(folder / "wings.tps", "tps:height-1")
        assert_allclose(first.points[[0, 3]], [[10, 68.5], [0, 98]])
        assert_allclose(second.points[1], [5, 34])

    def test_points_of_curves_follow_the_landmarks(self, tmp_path):
        """Two curves, with an empty line before one of them; y is 20 - y from the top."""
        Image.new("L", (30, 20)).save(tmp_path / "a.png")
        curves = "CURVES=2\n\nPOINTS=2\n5 6\n7 8\nPOINTS=1\n9 10\n"
        (tmp_path / "a.tps").write_text(f"LM=1\n3 4\n{curves}IMAGE=a.png\n")
        (only,) = read_annotations(tmp_path / "a.tps")
        assert_allclose(only.points, [[3, 16], [5, 14], [7, 12], [9, 10]])
        assert only.curves == (2, 1)
        write_annotations(tmp_path / "b.tps", [only])
        (back,) = read_annotations(tmp_path / "b.tps")
        assert_allclose(back.points, only.points)
        assert back.curves == only.curves

    @pytest.mark.parametrize(
        ("text", "spacing"),
        [
            ("0.0045", 0.0045),
            ("0,0045", 0.0045),
            ("2", 2.0),
            *((text, None) for text in ("-1", "0", "mm", "inf", "nan", "1,2,3", "1,000.5")),
        ],
    )
    def test_the_length_of_a_pixel(self, tmp_path, text, spacing):
        """Kept, and not applied; what is no length is left out."""
        Image.new("L", (30, 20)).save(tmp_path / "a.png")
        content = f"LM=1\n3 4\nIMAGE=a.png\nSCALE={text}\nLM=1\n5 6\nIMAGE=a.png\n"
        (tmp_path / "a.tps").write_text(content)
        first, second = read_annotations(tmp_path / "a.tps")
        assert (first.spacing, second.spacing) == (spacing, None)
        np.testing.assert_allclose(first.points, [[3, 16]])
        write_annotations(tmp_path / "b.tps", [first, second])
        assert [one.spacing for one in read_annotations(tmp_path / "b.tps")] == [spacing, None]
        assert load_dataset(tmp_path / "b.tps")[0].spacing() == spacing

    def test_negative_coordinates_are_missing_and_zero_is_not(self, tmp_path):
        (tmp_path / "a.tps").write_text("LM=5\n0 0\n-1 5\n5 -1\nNA 5\n-0.5 -1\nIMAGE=a.png\n")
        (only,) = read_specimens(tmp_path / "a.tps")
        assert_allclose(only.points, [[0, 0], *[[NAN, NAN]] * 4])

    def test_what_a_specimen_is_told_by(self, tmp_path):
        """Keys in any case and order; outlines are passed over; a line says where a specimen begins."""
        first = "lm = 1\n1 2\nOUTLINES=1\nPOINTS=2\n8 8\n9 9\nid = x 1\nComment=seen\nimage=a.png\n"
        (tmp_path / "a.tps").write_text(f"\n{first}\nLM=2\n3 4\n5 6\nCURVES=1\nPOINTS=1\n7 8\nIMAGE=b.png")
        one, two = read_specimens(tmp_path / "a.tps")
        assert (one.line, one.image, one.identity, one.comment, one.curves) == (2, "a.png", "x 1", "seen", ())
        assert_allclose(one.points, [[1, 2]])
        assert (two.line, two.image, two.identity, two.comment, two.curves) == (12, "b.png", "", "", (1,))
        assert_allclose(two.points, [[3, 4], [5, 6], [7, 8]])

    def test_one_specimen_without_a_name_is_of_the_image_beside_it(self, tmp_path):
        (tmp_path / "a.tps").write_text("LM=1\n3 4\n")
        module = formats()["tps"]
        (only,) = module.read(tmp_path / "a.tps", module.CONVENTION, {"": (30, 20)}.__getitem__)
        assert (only.image, only.size) == ("", (30, 20))

        def gone(image):
            raise ValueError(f"no {image or 'image'}")

        with pytest.raises(ValueError, match="line 1: this specimen has no IMAGE="):
            module.read(tmp_path / "a.tps", module.CONVENTION, gone)
        (tmp_path / "a.tps").write_text("LM=1\n3 4\nIMAGE=b.png\nLM=1\n3 4\n")
        with pytest.raises(ValueError, match="no b.png"):
            module.read(tmp_path / "a.tps", module.CONVENTION, gone)
        with pytest.raises(ValueError, match="line 4: this specimen has no IMAGE="):
            module.read(tmp_path / "a.tps", module.CONVENTION, lambda image: (30, 20))

    @pytest.mark.parametrize(("curves", "kept"), [((), ()), ((1, 2), (1, 2)), ((2, 2), (2, 2)), ((3, 2), ())])
    def test_curves_of_points_that_are_there(self, tmp_path, curves, kept, rng):
        """Four points: all of them may be on curves, but not more."""
        points = rng.uniform(0, 20, (4, 2))
        made = Annotation("a.png", points, size=(30, 20), curves=curves, identity="x", comment="c")
        write_annotations(tmp_path / "a.tps", [made])
        (back,) = formats()["tps"].read(tmp_path / "a.tps", formats()["tps"].CONVENTION, lambda i: (30, 20))
        assert (back.curves, back.identity, back.comment) == (kept, "x", "c")
        assert_allclose(back.points, points, atol=1e-4)

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("LM=3\n", True),
            (" \nlm = 3\r\n", True),
            ("LM3=3\n", True),
            ("LM=x\n", False),
            ("ID=1\nLM=3\n", False),
        ],
    )
    def test_recognised_by_its_first_line(self, text, known):
        assert formats()["tps"].recognises(Path("a.dat"), text.encode()) == known

    def test_what_tpsdig_reads(self, tmp_path):
        write_annotations(
            tmp_path / "a.tps", [Annotation("a b.jpg", np.array([[1, 0], [NAN, NAN]]), size=(30, 20))]
        )
        assert (tmp_path / "a.tps").read_text().splitlines() == [
            "LM=2",
            "1.00000 20.00000",
            "-1.00000 -1.00000",
            "IMAGE=a b.jpg",
            "ID=0",
        ]
        write_annotations(tmp_path / "b.tps", [Annotation("a.jpg", np.array([[NAN, 3.0]]), size=(30, 20))])
        assert (tmp_path / "b.tps").read_text().splitlines()[1] == "-1.00000 -1.00000"

    def test_what_would_read_as_missing_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="landmark 1 of a.jpg is left of or below"):
            write_annotations(
                tmp_path / "a.tps", [Annotation("a.jpg", np.array([[1, 2], [3, 21]]), size=(30, 20))]
            )
        with pytest.raises(ValueError, match="landmark 0 of a.jpg is left of or below"):
            write_annotations(
                tmp_path / "a.tps", [Annotation("a.jpg", np.array([[1, 20]]), size=(30, 20))], "tps:height-1"
            )
        with pytest.raises(ValueError, match="tps needs the size of a.jpg"):
            write_annotations(tmp_path / "a.tps", [Annotation("a.jpg", np.ones((2, 2)))])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("LM=2\n1 2\nIMAGE=a.png\n", "line 3: expected point 2 of 2, found 'IMAGE=a.png'"),
            ("LM=2\n1 2\n", "line 3: expected point 2 of 2, found 'the end of the file'"),
            ("LM=1\n1 2 3\nIMAGE=a.png\n", "line 2: expected point 1 of 1, found '1 2 3'"),
            ("LM=1\n1 2\n3 4\n", "line 3: expected LM=, IMAGE= or another key, found '3 4'"),
            ("LM=1\n1 2\nID=0\n", "line 1: this specimen has no IMAGE="),
            ("LM=0\nIMAGE=a.png\n", "no landmarks"),
            ("LM3=1\n1 2 3\n", "line 1: LM3= has landmarks in 3D"),
            ("LM=1\n1 2\nCURVES=1\nIMAGE=a.png\n", "line 4: expected POINTS="),
            ("LM=1\n1 2\nCURVES=1\n\n", "line 5: expected POINTS="),
            ("LM=1\n1 2\nCURVES=1\nPOINTS=2\n1 2\n", "line 6: expected point 2 of 2"),
            ("LM=1\n1 2\nCURVES=x\n", "line 3: 'x' is not a count"),
            ("LM=1\n1 2\nIMAGE=gone.png\n", "the image gone.png is not in"),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.tps").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.tps")


class TestCsv:
    def test_wide_sample(self):
        first, second = read_annotations(SAMPLES / "wide.csv")
        assert_allclose(first.points, [[1.5, 2], [NAN, NAN]])
        assert_allclose(second.points, [[0, 0.25], [NAN, NAN]])  # x is NA, so that y = 7 says nothing
        assert [first.image, second.image] == ["a, b.jpg", "c d.jpg"]
        assert first.names == ("nose", "left eye")
        assert [first.group, second.group] == ["anna", "bert"]

    def test_long_sample(self):
        one, two, three = read_annotations(SAMPLES / "long.csv")
        # 9 before 10, though the file has it later; the second object has no 10, the third no x of it.
        assert one.names == ("9", "10")
        assert_allclose(one.points, [[1.5, 2], [5, 6]])
        assert_allclose(two.points, [[3, 4], [NAN, NAN]])
        assert_allclose(three.points, [[7, 8], [NAN, NAN]])
        assert [one.image, two.image, three.image] == ["a, b.jpg", "a, b.jpg", "c d.jpg"]

    @pytest.mark.parametrize("header", ["file;Y0;X0;x1;y1", "id\tx_1\ty_1\tx_0\ty_0"])
    def test_other_headers_and_separators(self, tmp_path, header):
        mark = ";" if ";" in header else "\t"
        row = mark.join(["a.jpg", *(["2", "1", "3", "4"] if mark == ";" else ["3", "4", "1", "2"])])
        (tmp_path / "a.csv").write_text(f"\ufeff{header}\n{row}\n", encoding="utf-8")
        (only,) = read_annotations(tmp_path / "a.csv")
        assert_allclose(only.points, [[1, 2], [3, 4]])
        assert only.names == ()

    @pytest.mark.parametrize("name", ["csv", "csv-long"])
    def test_one_based_variant(self, name, tmp_path):
        write_annotations(tmp_path / "a.csv", [Annotation("a.jpg", np.zeros((1, 2)))], f"{name}:1-based")
        assert (tmp_path / "a.csv").read_text().endswith(",1,1\n")
        assert_allclose(read_annotations(tmp_path / "a.csv", f"{name}:1-based")[0].points, 0)

    @pytest.mark.parametrize("name", ["csv", "csv-long"])
    def test_bottom_left_variant(self, name, tmp_path):
        """The centre of the first pixel of an image 20 high is 20 above its lower edge, as in TPS."""
        first = Annotation("a.jpg", np.array([[0, 0], [3, 5]]), size=(30, 20))
        write_annotations(tmp_path / "a.csv", [first], f"{name}:bottom-left")
        written = (tmp_path / "a.csv").read_text()
        assert all(row in written for row in ("0,20", "3,15"))
        module, variant = formats()[name], formats()[name].VARIANTS["bottom-left"]
        (back,) = module.read(tmp_path / "a.csv", variant, lambda image: (30, 20))
        assert_allclose(back.points, first.points)

    def test_columns_are_written_only_if_something_stands_in_them(self, tmp_path):
        points = np.array([[1.0, 2.0], [NAN, NAN]])

        def text(name, *made):
            write_annotations(tmp_path / "a.csv", made, name)
            return (tmp_path / "a.csv").read_text().splitlines()

        a, b = Annotation("a.jpg", points), Annotation("b.jpg", points, group="g", spacing=0.5)
        assert text("csv", a) == ["image,x0,y0,x1,y1", "a.jpg,1,2,,"]
        assert text("csv", a, b) == ["image,group,scale,x0,y0,x1,y1", "a.jpg,,,1,2,,", "b.jpg,g,0.5,1,2,,"]
        assert text("csv-long", a) == ["image,landmark,x,y", "a.jpg,0,1,2", "a.jpg,1,,"]
        assert text("csv-long", a, b)[:2] == ["image,group,landmark,x,y", "a.jpg,,0,1,2"]
        assert [row.split(",")[:3] for row in text("csv-long", a, a)] == [
            ["image", "object", "landmark"],
            *(["a.jpg", number, name] for number in "01" for name in "01"),
        ]
        with pytest.raises(ValueError, match="no landmarks to write"):
            write_annotations(tmp_path / "b.csv", [], "csv-long")

    @pytest.mark.parametrize(
        ("image", "name"),
        [
            ("1 2 3 4 5 6 7 8", "csv"),
            ("1 2 3 4 5 6 7 8 9", "kaggle"),
            ("7", "csv"),
            ("a picture of my cat and of my other cat.jpg", "csv"),
        ],
    )
    def test_nine_numbers_are_pixels_and_not_a_name(self, tmp_path, image, name):
        (tmp_path / "a.csv").write_text(f"nose_x,nose_y,Image\n1,2,{image}\n")
        assert recognised(tmp_path / "a.csv") == name

    @pytest.mark.parametrize("text", ["image,x0,y0", "x0,y0,image\n1,2\n", "x0,y0,Image\n1,2\n"])
    def test_a_row_that_is_cut_off_is_still_a_table(self, tmp_path, text):
        (tmp_path / "a.csv").write_text(text)
        assert recognised(tmp_path / "a.csv") == "csv"

    def test_which_column_is_the_image(self, tmp_path):
        (tmp_path / "a.csv").write_text(
            "File,x0,y0,IMAGE,Group,Scale,status\nf,1,2,i,g,2.5,ok\nf,3,4,j,,,failed\n"
        )
        (only,) = read_annotations(tmp_path / "a.csv")
        assert (only.image, only.group, only.spacing) == ("i", "g", 2.5)

    def test_names_that_are_not_all_numbers_keep_their_order(self, tmp_path):
        rows = "a,10,1,1,g\na,nose,2,2,h\na,9,3,3,\nb,nose,4,4,\n"
        (tmp_path / "a.csv").write_text(f"Image,Landmark,X,Y,group\n{rows}")
        first, second = read_annotations(tmp_path / "a.csv")
        assert first.names == ("10", "nose", "9")
        assert_allclose(first.points[:, 0], [1, 2, 3])
        assert_allclose(second.points, [[NAN, NAN], [4, 4], [NAN, NAN]])
        assert (first.group, second.group) == ("g", "")

    @pytest.mark.parametrize("name", ["csv", "csv-long"])
    def test_sizes_of_images_are_asked_for_only_if_y_counts_from_below(self, name, tmp_path):
        write_annotations(tmp_path / "a.csv", [Annotation("a.jpg", np.ones((2, 2)))], name)
        module = formats()[name]
        (plain,) = module.read(tmp_path / "a.csv", module.CONVENTION, pytest.fail)
        assert plain.size is None
        (up,) = module.read(tmp_path / "a.csv", module.VARIANTS["bottom-left"], {"a.jpg": (9, 5)}.__getitem__)
        assert up.size == (9, 5)

    def test_csv_means_wide(self, tmp_path):
        write_annotations(tmp_path / "a.csv", [Annotation("a.jpg", np.array([[1.25, 2], [3, 1e6]]))])
        assert (tmp_path / "a.csv").read_text() == "image,x0,y0,x1,y1\na.jpg,1.25,2,3,1000000\n"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("image,x0,y0\na.jpg,1\n", "line 2: there are 2 fields but 3 column titles"),
            ("image,x0,y0\n\na.jpg,1,two\n", "line 3: expected a number, found 'two'"),
            ("image,x0,y0\na.jpg,1,inf\n", "line 2: expected a number, found 'inf'"),
            ("image,x0,y0,x1\na.jpg,1,2,3\n", "line 1: the column x1 has no matching column"),
            ("image,x0,y0,x0,y0\na.jpg,1,2,3,4\n", "line 1: the column x0 occurs twice"),
            ("image,x0,y0\n", "no rows"),
            ("image,landmark,x,y\na.jpg,nose,1\n", "line 2: there are 3 fields but 4"),
            ("image,landmark,x,y\na.jpg,nose,1,?\n", "line 2: expected a number"),
            (
                "image,landmark,x,y\na.jpg,n,1,2\na.jpg,n,3,4\n",
                "line 3: landmark n of a.jpg occurs twice",
            ),
            ("image,landmark,x,y\n", "no rows"),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=f"a.csv.*{sentence}"):
            read_annotations(tmp_path / "a.csv")

    def test_a_named_format_says_what_it_misses(self, tmp_path):
        (tmp_path / "a.csv").write_text("picture,x0,y0\na.jpg,1,2\n")
        with pytest.raises(ValueError, match="needs a column called image"):
            read_annotations(tmp_path / "a.csv", "csv")
        with pytest.raises(ValueError, match="there is no column image"):
            read_annotations(tmp_path / "a.csv", "csv-long")
        with pytest.raises(ValueError, match="there is no column Image"):
            read_annotations(tmp_path / "a.csv", "kaggle")
        (tmp_path / "b.csv").write_bytes("image,x0,y0\nü.jpg,1,2\n".encode("latin-1"))
        with pytest.raises(ValueError, match="not UTF-8 text"):
            read_annotations(tmp_path / "b.csv")

    @pytest.mark.parametrize(
        "text", ["image,landmarks\na.jpg,a.pts\n", "a,b\n1,2\n", '{"image": [1, 2]}', "<x/>"]
    )
    def test_other_tables_are_not_recognised(self, tmp_path, text):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match="none of the known formats"):
            read_annotations(tmp_path / "a.csv")


class TestKaggle:
    def test_sample(self):
        first, second = read_annotations(SAMPLES / "kaggle.csv")
        assert first.names == ("left_eye_center", "nose_tip")
        assert_allclose(first.points, [[1.5, 0.25], [NAN, NAN]])
        assert_allclose(second.points, [[3, 3], [2, 1.125]])
        # Sixteen pixels are 4 x 4, row by row: the second row begins with 10, the last pixel is white.
        assert_array_equal(first.pixels()[:, 0], [0, 10, 20, 30])
        assert first.pixels()[3, 3] == 255
        assert first.size == (4, 4)
        assert [first.image, second.image] == ["row 1", "row 2"]

    def test_images_may_have_numbers(self, tmp_path):
        (tmp_path / "a.csv").write_text("ImageId,nose_x,nose_y,Image\n7,1,2,1 2 3 4 5 6 7 8 9\n")
        (only,) = read_annotations(tmp_path / "a.csv")
        assert (only.image, only.size) == ("7", (3, 3))

    def test_what_is_written(self, tmp_path):
        made = Annotation("a.jpg", np.array([[1.5, 0], [NAN, NAN]]), ("eye", "ear"), pixels=lambda: square(2))
        write_annotations(tmp_path / "a.csv", [made], "kaggle")
        rows = (tmp_path / "a.csv").read_text().splitlines()
        assert rows == ["eye_x,eye_y,ear_x,ear_y,Image", "1.5,0,,,0 1 2 3"]

    def test_a_table_without_rows_is_a_sentence(self, tmp_path):
        (tmp_path / "a.csv").write_text("nose_tip_x,nose_tip_y,Image\n")
        with pytest.raises(ValueError, match="this table has no rows"):
            read_annotations(tmp_path / "a.csv", "kaggle")

    def test_full_size_is_recognised_though_the_first_row_is_longer_than_the_head(self, tmp_path):
        write_annotations(tmp_path / "a.csv", [Annotation("a", np.ones((3, 2)), pixels=square)] * 2, "kaggle")
        assert recognised(tmp_path / "a.csv") == "kaggle"
        assert_array_equal(read_annotations(tmp_path / "a.csv")[1].pixels(), square())

    @pytest.mark.parametrize(
        ("value", "grey"),
        [
            (
                np.repeat(np.array([[0], [51 * 257], [65535]], np.uint16), 3, axis=1),
                [[0] * 3, [51] * 3, [255] * 3],
            ),
            (np.full((5, 5, 3), 0.2), 51),
            (square(5), None),
        ],
    )
    def test_pixels_become_8_bit_grey(self, tmp_path, value, grey):
        write_annotations(
            tmp_path / "a.csv", [Annotation("a", np.ones((3, 2)), pixels=lambda: value)], "kaggle"
        )
        assert_array_equal(read_annotations(tmp_path / "a.csv")[0].pixels(), value if grey is None else grey)

    def test_what_cannot_be_held(self, tmp_path):
        with pytest.raises(ValueError, match="pixels of a.jpg are not available"):
            write_annotations(tmp_path / "a.csv", [Annotation("a.jpg", np.ones((3, 2)))], "kaggle")
        oblong = Annotation("a.jpg", np.ones((3, 2)), pixels=lambda: np.zeros((4, 6), np.uint8))
        with pytest.raises(ValueError, match="square, but a.jpg has 6 x 4"):
            write_annotations(tmp_path / "a.csv", [oblong], "kaggle")

    @pytest.mark.parametrize(
        ("pixels", "sentence"),
        [
            ("1 " * 15, "15 pixels do not make a square"),
            ("", "0 pixels do not make a square"),
            ("1,1", "there are 4 fields but 3 column titles"),
            ("1 " * 15 + "256", "integers from 0 to 255"),
            ("1 " * 15 + "x", "integers from 0 to 255"),
        ],
    )
    def test_damage(self, tmp_path, pixels, sentence):
        (tmp_path / "a.csv").write_text(f"nose_x,nose_y,Image\n1,2,{pixels}\n")
        with pytest.raises(ValueError, match=f"line 2: .*{sentence}"):
            read_annotations(tmp_path / "a.csv", "kaggle")

    def test_images_of_any_size(self, tmp_path, rng):
        """A field of a CSV file is usually cut off at 128 KiB."""
        pixels = rng.integers(0, 256, (256, 256), dtype=np.uint8)
        annotation = Annotation(
            "a", np.array([[1.0, 2.0], [3.5, 4.25]]), size=(256, 256), pixels=lambda: pixels
        )
        write_annotations(tmp_path / "a.csv", [annotation], "kaggle")
        (back,) = read_annotations(tmp_path / "a.csv")
        assert np.array_equal(back.pixels(), pixels)


class TestWflw:
    @pytest.mark.parametrize(
        ("numbers", "there"),
        [
            ("1 2 0 0 9 9 0 1 0 0 0 1", True),
            ("1 2 3 4 0 0 9 9 0 0 0 0 0 0", True),
            ("0 0 9 9 0 0 0 0 0 0", False),
            ("1 2 0 0 9 9 0 0 0 0 0 2", False),
            ("1 2 0 0 9 9 2 0 0 0 0 0", False),
            ("1 2 9 0 9 9 0 0 0 0 0 0", False),
            ("1 2 0 9 9 9 0 0 0 0 0 0", False),
            ("1 2 9 0 0 9 0 0 0 0 0 0", False),
            ("1 2 0 9 9 0 0 0 0 0 0 0", False),
        ],
    )
    def test_a_box_and_six_flags_end_the_line(self, numbers, there):
        assert has_box(np.array(numbers.split(), dtype=float)) == there

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("1 2 3 4 5 6 a.jpg\nanything", True),
            ("\ufeff\n 1 -2.5 3e1 .4 5. +6 a b.PNG \n", True),
            ("1 2 3 4 5 a.jpg\n", False),
            ("1 2 3 4 5 6 a.doc\n", False),
            ("1 2 3 4 5 x a.jpg\n", False),
        ],
    )
    def test_recognised_by_its_first_line(self, text, known):
        assert formats()["wflw"].recognises(Path("a.dat"), text.encode()) == known

    def test_every_line_has_the_same_landmarks(self, tmp_path):
        made = [Annotation(f"{n}.jpg", np.arange(2.0 * n).reshape(n, 2)) for n in (4, 3)]
        with pytest.raises(ValueError, match=r"the same number on every line, but 3.jpg has 3"):
            write_annotations(tmp_path / "a.txt", made)
        write_annotations(tmp_path / "a.txt", made[1:])
        assert_allclose(read_annotations(tmp_path / "a.txt")[0].points, made[1].points)

    def test_boxes_are_written_if_all_have_one(self, tmp_path):
        points = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
        boxed = Annotation("a.png", points, box=np.array([0.0, 1.0, 6.0, 8.0]))
        write_annotations(tmp_path / "a.txt", [boxed, Annotation("b.png", points)], "wflw")
        assert [one.box for one in read_annotations(tmp_path / "a.txt", "wflw")] == [None, None]
        write_annotations(tmp_path / "b.txt", [boxed, boxed], "wflw")
        for one in read_annotations(tmp_path / "b.txt", "wflw"):
            assert_allclose(one.box, boxed.box)

    def test_sample(self):
        first, second = read_annotations(SAMPLES / "wflw.txt")
        # Six numbers are three points, four the box, six the attributes, and the name has a space.
        assert_allclose(first.points, [[1, 2], [3.5, 4], [5, 6.25]])
        assert_allclose(first.box, [0, 1, 10, 20.5])
        assert_allclose(second.points, [[7, 8], [9, 10], [11, 12]])
        assert [first.image, second.image] == ["5--Car/5 Car_1.jpg", "b.jpg"]

    def test_a_list_without_lines_is_a_sentence(self, tmp_path):
        (tmp_path / "a.txt").write_text("\n\n")
        with pytest.raises(ValueError, match=r"a.txt: there are no landmarks in this file"):
            read_annotations(tmp_path / "a.txt", "wflw")

    def test_98_points_with_and_without_box(self, tmp_path):
        numbers = " ".join(str(i) for i in range(196))
        for tail, box in (("", None), (" 1 2 30 40 0 1 0 0 0 0", [1, 2, 30, 40])):
            (tmp_path / "list.txt").write_text(f"{numbers}{tail} 0--Parade/a.jpg\n" * 2)
            first, _ = read_annotations(tmp_path / "list.txt")
            assert_array_equal(first.points, np.arange(196).reshape(98, 2))
            assert_array_equal(first.box, box) if box else None
            assert (first.box is None) == (box is None)

    def test_boxes_survive(self, tmp_path, rng):
        annotation = Annotation("a.jpg", rng.uniform(0, 9, (4, 2)), box=np.array([1, 2.5, 3, 4]))
        write_annotations(tmp_path / "a.txt", [annotation])
        assert_allclose(read_annotations(tmp_path / "a.txt")[0].box, annotation.box)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                "1 2 3 4 5 6 a.jpg\n1 2 3 4 5 6 7 8 b.jpg\n",
                "line 2: there are 8 numbers, but 6 on earlier lines",
            ),
            ("1 2 3 4 5 6 7 a.jpg\n", "line 1: 7 numbers do not form pairs"),
            ("1 2 3 4 5 6 a.jpg\n\nfoo b.jpg\n", "line 3: expected numbers and an image, found 'foo b.jpg'"),
            (
                "1 2 0 0 9 9 0 0 0 0 0 0 a.jpg\n1 2 0 0 9 9 0 0 0 0 0 5 a.jpg\n",
                "line 2: the box and the six attributes are missing",
            ),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.txt")

    def test_what_cannot_be_held(self, tmp_path):
        for annotation, sentence in (
            (Annotation("12 a.jpg", np.ones((3, 2))), "'12 a.jpg' looks like a number"),
            (Annotation("a.jpg", np.ones((2, 2))), "at least three landmarks"),
            (
                Annotation("a.jpg", np.array([[9, 9], [0, 0], [5, 5], [0, 1], [1, 0], [0, 0]])),
                "look like attr",
            ),
        ):
            with pytest.raises(ValueError, match=sentence):
                write_annotations(tmp_path / "a.txt", [annotation])


class TestDeepLabCut:
    def test_sample(self):
        first, second = read_annotations(SAMPLES / "deeplabcut.csv")  # img002 is not labelled
        assert_allclose(first.points, [[12.5, 40], [88, 41.25]])
        assert_allclose(second.points, [[13, 39], [NAN, NAN]])
        assert first.names == ("nose", "tail")
        assert first.image == "labeled-data/mouse 1/img001.png"
        assert [first.group, second.group] == ["mouse 1", "mouse2"]

    def test_individuals_with_likelihood(self):
        one, two, three = read_annotations(SAMPLES / "deeplabcut-individuals.csv")
        assert_allclose([one.points, two.points], [[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
        assert_allclose(three.points, [[9, 10], [11, 12]])  # m2 is not seen in frame 1
        assert [one.image, two.image, three.image] == ["0", "0", "1"]
        assert one.group == "deeplabcut-individuals"

    def test_one_column_of_images(self, tmp_path):
        text = "scorer,a,a\nbodyparts,nose,nose\ncoords,x,y\nlabeled-data\\v\\i.png,1,2\n"
        (tmp_path / "a.csv").write_text(text)
        (only,) = read_annotations(tmp_path / "a.csv")
        assert (only.image, only.group) == ("labeled-data\\v\\i.png", "v")

    def test_what_is_written(self, tmp_path):
        write_annotations(
            tmp_path / "a.csv", [Annotation("v/i.png", np.array([[1, 2.5]]), ("nose",))], "deeplabcut"
        )
        assert (tmp_path / "a.csv").read_text().splitlines() == [
            "scorer,pliant,pliant",
            "bodyparts,nose,nose",
            "coords,x,y",
            "v/i.png,1,2.5",
        ]
        with pytest.raises(ValueError, match="i.png has several objects"):
            write_annotations(tmp_path / "a.csv", [Annotation("i.png", np.ones((3, 2)))] * 2, "deeplabcut")

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("scorer,a,a\nbodyparts,n,n\ncoords,x,y\ni.png,1\n", "line 4: there are 2 fields but 3"),
            ("scorer,a,a\nbodyparts,n,n\ncoords,x,y\ni.png,1,?\n", "line 4: expected a number, found '\\?'"),
            ("scorer,a,a\nbodyparts,n,n\nimage,x,y\n", "line 3: expected scorer, individuals"),
            ("scorer,a,a\nbodyparts,n,n\n", "header rows bodyparts and coords are missing"),
            ("scorer,a,a\nbodyparts,n\ncoords,x,y\n", "header rows differ"),
            ("scorer,a,a\nindividuals,m,m\ncoords,x,y\n", "header rows bodyparts and coords are missing"),
            ("scorer,a\nbodyparts,n\ncoords,likelihood\ni.png,1\n", "no columns x and y under coords"),
            ("scorer,a\nbodyparts,n\ncoords,x\ni.png,1\n", "body part n has an x but no y"),
            ("scorer,a,a\nbodyparts,n,n\ncoords,x,y\n", "no labelled frames"),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.csv")

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("scorer,a\nbodyparts,n\n", True),
            ("scorer,a\nindividuals,m\n", True),
            ("bodyparts,a\nscorer,n\n", False),
        ],
    )
    def test_recognised_by_its_first_rows(self, text, known):
        assert formats()["deeplabcut"].recognises(Path("a.dat"), text.encode()) == known


class TestFcsv:
    @pytest.mark.parametrize(
        ("system", "sign"), [("RAS", -1), ("0", -1), ("LPS", 1), ("1", 1), ("ijk", 1), ("2", 1)]
    )
    def test_coordinate_systems(self, tmp_path, system, sign):
        head = f"# Markups fiducial file version = 4.6\n# CoordinateSystem = {system}\n"
        (tmp_path / "a.fcsv").write_text(f"{head}1,{3 * sign},{5 * sign},0\n")
        assert_allclose(read_annotations(tmp_path / "a.fcsv")[0].points, [[3, 5]])

    @staticmethod
    def read(tmp_path, *rows):
        head = "# Markups fiducial file version = 5.2\n# CoordinateSystem = LPS\n"
        (tmp_path / "a.fcsv").write_text(head + "\n".join(rows))
        return read_annotations(tmp_path / "a.fcsv")[0]

    def test_a_status_of_two_is_defined(self, tmp_path):
        """Behind the label, a description and a node; without it a point is taken to be there."""
        row = "1,2,3,0,0,0,0,1,1,1,0,tip,,"
        found = self.read(tmp_path, row, *(f"{row},{status}" for status in range(4)))
        assert_array_equal(np.isnan(found.points[:, 0]), [False, True, True, False, True])
        nothing = self.read(tmp_path, f"{row},0", f"{row},3")
        assert np.isnan(nothing.points).all()

    def test_names_if_all_have_one(self, tmp_path):
        bare = "1,2,3,0,0,0,0,1,1,1,0"
        assert self.read(tmp_path, f"{bare},tip", f"{bare},tail").names == ("tip", "tail")
        assert self.read(tmp_path, f"{bare},tip", bare).names == ()
        assert self.read(tmp_path, f"{bare},tip", f"{bare},").names == ()

    def test_one_slice_is_a_picture(self, tmp_path):
        """Slices lie a millimetre or more apart; undefined points are in none."""
        assert len(self.read(tmp_path, "1,2,3,0", "2,2,3,1", "3,nan,3,9").points) == 3
        with pytest.raises(ValueError, match="z from 0 to 1.5"):
            self.read(tmp_path, "1,2,3,0", "2,2,3,1.5")

    def test_what_slicer_reads(self, tmp_path):
        write_annotations(
            tmp_path / "a.fcsv", [Annotation("", np.array([[1.5, 2], [NAN, NAN]]), ("tip", "tail"))]
        )
        assert (tmp_path / "a.fcsv").read_text().splitlines()[3:] == [
            "1,1.5,2,0,0,0,0,1,1,1,0,tip,,,2,0",
            "2,0,0,0,0,0,0,1,0,0,0,tail,,,3,0",
        ]

    def test_half_a_point_is_undefined(self, tmp_path):
        points = np.array([[1.5, 2], [3, NAN], [NAN, 4]])
        write_annotations(tmp_path / "a.fcsv", [Annotation("", points, ("tip", "tail", "fin"))])
        rows = (tmp_path / "a.fcsv").read_text().splitlines()[3:]
        assert [row.split(",")[1:3] for row in rows] == [["1.5", "2"], ["0", "0"], ["0", "0"]]

    def test_lps_is_right_and_down(self):
        (only,) = read_annotations(SAMPLES / "lps.fcsv")
        # A PNG has spacing 1 in Slicer, so that millimetres are pixels; the second point is undefined (0 behind).
        assert_allclose(only.points, [[12.5, 40], [NAN, NAN], [0, 0.25]])
        assert only.names == ("nose, tip", "chin", "ear")

    def test_ras_has_the_opposite_sign(self):
        assert_allclose(read_annotations(SAMPLES / "ras.fcsv")[0].points, [[12.5, 40], [1, 2]])

    def test_a_point_without_a_depth_is_missing(self, tmp_path):
        head = "# Markups fiducial file version = 5.2\n# CoordinateSystem = LPS\n"
        (tmp_path / "a.fcsv").write_text(f"{head}1,2,3,0\n2,4,5,nan\n")
        assert_allclose(read_annotations(tmp_path / "a.fcsv")[0].points, [[2, 3], [NAN, NAN]])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("# CoordinateSystem = LPS\n1,2\n", "line 3: expected an id, x, y and z, found '1,2'"),
            ("# CoordinateSystem = LPS\n1,2,a,0\n", "line 3: expected a number, found 'a'"),
            ("# CoordinateSystem = LPS\n", "no points"),
            ("1,2,3,0\n", "CoordinateSystem = LPS' or RAS is missing"),
            ("# CoordinateSystem = LPS\n1,2,3,0\n2,2,3,9\n", "several slices .z from 0 to 9."),
        ],
    )
    def test_damage(self, tmp_path, text, sentence):
        (tmp_path / "a.fcsv").write_text(f"# Markups fiducial file version = 5.2\n{text}")
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.fcsv")
