"""Specimens from files, and files for R: TPS with curves, fits, scales and units, and the command."""

import csv
import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from pyarrow import parquet

import pliant
from pliant.data.annotation import Annotation
from pliant.data.formats import read_annotations, write_annotations
from pliant.morphometrics import (
    Specimens,
    complete_specimens,
    facing_alike,
    join_sets,
    measure,
    name_parts,
    read_specimens,
    specimens_of,
    superimpose,
    write_coordinates,
    write_study,
    write_tps,
)
from pliant.table import write_table

BASE = np.array([(10.0, 20), (60, 12), (90, 30), (80, 60), (40, 70), (15, 50), (45, 40), (30, 25)])


def shapes_of(count=6, seed=0, noise=1.5):
    return BASE + np.random.default_rng(seed).normal(0, noise, (count, *BASE.shape))


def tps_text(shapes, scale="SCALE=0.05\n", curves=True):
    """TPS as tpsDig writes it, y from below; the last four points are a curve."""
    text = ""
    for number, shape in enumerate(shapes):
        rows = [f"{x:.6f} {y:.6f}\n" for x, y in shape]
        end = f"CURVES=1\nPOINTS=4\n{''.join(rows[4:])}" if curves else "".join(rows[4:])
        text += f"LM={4 if curves else 8}\n{''.join(rows[:4])}{end}"
        text += f"IMAGE=C:\\wings\\wing{number}.jpg\nID={number}\n{scale}"
    return text


@pytest.fixture
def wings(tmp_path):
    """A TPS file with curves, the images of which nobody has."""
    (tmp_path / "wings.tps").write_text(tps_text(shapes_of()))
    return tmp_path / "wings.tps"


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestTps:
    def test_curves_identity_and_comment_come_back(self, tmp_path):
        text = (
            "LM=2\n1.00000 2.00000\n3.00000 4.00000\nCURVES=2\nPOINTS=2\n5.00000 6.00000\n-1.00000 -1.00000\n"
            "POINTS=1\n7.00000 8.00000\nIMAGE=a.png\nID=fish 7\nCOMMENT=left = side\nSCALE=0.0123\n"
        )
        Image.new("L", (30, 20)).save(tmp_path / "a.png")
        (tmp_path / "a.tps").write_text(text)
        (found,) = read_annotations(tmp_path / "a.tps")
        assert (found.curves, found.identity, found.comment, found.spacing) == (
            (2, 1),
            "fish 7",
            "left = side",
            0.0123,
        )
        write_annotations(tmp_path / "b.tps", [found])
        assert (tmp_path / "b.tps").read_text() == text

    def test_points_that_were_taken_away_leave_no_curve(self, tmp_path):
        one = Annotation("a.png", np.ones((2, 2)), size=(30, 20), curves=(3,))
        write_annotations(tmp_path / "a.tps", [one])
        assert "LM=2\n" in (tmp_path / "a.tps").read_text()

    def test_conversion_says_what_is_lost(self, tmp_path, command):
        Image.new("L", (100, 100)).save(tmp_path / "wing0.jpg")
        (tmp_path / "a.tps").write_text(tps_text(shapes_of(1)).replace("C:\\wings\\", ""))
        said = command("convert", tmp_path / "a.tps", tmp_path / "a.xml")
        assert "which landmarks are points of curves" in said.err
        assert "the length of a pixel (SCALE)" in said.err
        assert "lost" not in command("convert", tmp_path / "a.tps", tmp_path / "b.tps").err


class TestReading:
    def test_tps_without_images(self, wings):
        found = read_specimens(wings, unit="mm")
        assert_allclose(found.points, shapes_of(), atol=1e-6)
        assert found.names[:2] == ("wing0", "wing1")
        assert (found.curves, found.length_unit, found.notes) == ((4,), "mm", ())
        assert_allclose(found.lengths, 0.05 * found.points)
        assert "unit=mm" in read_specimens(wings).notes[0]

    def test_y_is_upwards_whatever_the_format(self, tmp_path, wings):
        for number in range(6):
            Image.new("L", (100, 100)).save(tmp_path / f"wing{number}.jpg")
        wings.write_text(wings.read_text().replace("C:\\wings\\", ""))
        converted = [replace(one, curves=(), spacing=None) for one in read_annotations(wings)]
        write_annotations(tmp_path / "wings.csv", converted)
        theirs = read_specimens(tmp_path / "wings.csv")
        assert_allclose(theirs.points, read_specimens(wings).points, atol=1e-4)
        assert_allclose(specimens_of(pliant.load_dataset(tmp_path / "wings.csv")).points, theirs.points)
        assert theirs.length_unit == "px"
        assert theirs.notes == (
            "No image has a scale, so centroid sizes are in pixels: scale=NUMBER says how long a pixel is.",
        )

    def test_scales_that_files_lack(self, tmp_path):
        file = tmp_path / "a.tps"
        file.write_text(tps_text(shapes_of(3), "") + tps_text(shapes_of(1, seed=1)).replace("wing0", "x"))
        some = read_specimens(file, unit="mm")
        assert (some.scaled, some.length_unit) == (False, "px")
        assert "No scale: 3 specimens of 4, such as wing0" in some.notes[0]
        assert_allclose(read_specimens(file, scale=0.1, unit="mm").scales, [0.1, 0.1, 0.1, 0.05])
        (tmp_path / "scales.csv").write_text("image,scale\nwing0.jpg,0.2\nwing1,0.3\nwing2.jpg,0.4\n")
        assert_allclose(read_specimens(file, scale=tmp_path / "scales.csv").scales, [0.2, 0.3, 0.4, 0.05])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("name,scale\na,1\n", "columns image and scale"),
            ("image,scale\nwing0.jpg,wide\n", "line 2: the scale of wing0.jpg must be a number"),
        ],
    )
    def test_scales_that_cannot_be(self, tmp_path, wings, text, sentence):
        (tmp_path / "scales.csv").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_specimens(wings, scale=tmp_path / "scales.csv")
        with pytest.raises(ValueError, match="neither a number nor a readable CSV"):
            read_specimens(wings, scale="none.csv")
        with pytest.raises(ValueError, match="scale=-1"):
            read_specimens(wings, scale=-1)

    def test_millimetres_of_dicom(self, tmp_path):
        from test_dicom import write

        twelve = np.arange(12, dtype=np.uint8).reshape(3, 4)
        for name in ("a", "b"):
            write(tmp_path / f"{name}.dcm", twelve, PixelSpacing=[0.2, 0.2])
            pliant.write_landmarks(tmp_path / f"{name}.pts", BASE[:3])
        found = read_specimens(tmp_path)
        assert (found.length_unit, found.notes) == ("mm", ())
        assert_allclose(found.scales, 0.2)
        with pytest.raises(ValueError, match="unit=cm: .* DICOM files is in mm"):
            read_specimens(tmp_path, unit="cm")

    def test_specimens_are_called_by_telling_ids(self, tmp_path):
        text = tps_text(shapes_of(2)).replace("ID=0", "ID=fly A").replace("ID=1", "ID=fly B")
        (tmp_path / "a.tps").write_text(text)
        assert read_specimens(tmp_path / "a.tps").names == ("fly A", "fly B")
        (tmp_path / "b.tps").write_text("".join(f"LM=3\n1 2\n3 4\n5 9\nID={k}\n" for k in range(2)))
        assert read_specimens(tmp_path / "b.tps").names == ("0", "1")
        (tmp_path / "c.tps").write_text(tps_text(shapes_of(2)).replace("wing1", "wing0"))
        assert read_specimens(tmp_path / "c.tps").names == ("wing0_1", "wing0_2")

    def test_unequal_landmarks(self, tmp_path, wings):
        wings.write_text(wings.read_text() + "LM=3\n1 2\n3 4\n5 6\nIMAGE=odd.jpg\n")
        with pytest.raises(ValueError, match="odd.jpg: has 3 landmarks, but most have 8"):
            read_specimens(wings)

    def test_missing_landmarks(self, wings):
        wings.write_text(wings.read_text().replace(wings.read_text().splitlines()[1], "NA NA"))
        found = read_specimens(wings)
        left = complete_specimens(found)
        assert len(left) == 5
        assert left.names[0] == "wing1"
        assert "Left out: 1 specimen with missing landmarks, such as wing0" in left.notes[-1]
        filled = complete_specimens(found, fill=True)
        assert_allclose(filled.points[0, 0], shapes_of()[0, 0], atol=6)
        assert "Filled in" in filled.notes[-1]

    def test_mirror_images(self, wings):
        found = read_specimens(wings)
        turned = found.points.copy()
        turned[1, :, 0] = 200 - turned[1, :, 0]
        alike = facing_alike(replace(found, points=turned))
        assert alike.reflected.tolist() == [False, True, False, False, False, False]
        assert "Mirrored: 1 specimen facing the other way, such as wing1" in alike.notes[-1]
        assert_allclose(superimpose(alike.points).distances, superimpose(found.points).distances, atol=1e-10)
        assert facing_alike(found) is found


class TestFits:
    @pytest.fixture
    def fits(self, tmp_path):
        shapes = shapes_of()
        rows = [
            {
                "image": f"photos/wing{k}.jpg",
                "object": 0,
                "status": "converged",
                "reason": "",
                "confidence": (0.9, 0.3)[k == 2],
                "width": 100,
                "height": 80,
                "x": shape[:, 0].tolist(),
                "y": (80 - shape[:, 1]).tolist(),
            }
            for k, shape in enumerate(shapes)
        ]
        rows[4] = {"image": "photos/wing4.jpg", "object": 0, "status": "failed", "reason": "too dark"}
        (tmp_path / "fits").mkdir()
        write_table(tmp_path / "fits" / "fits.parquet", rows, {}, [f"l{k}" for k in range(8)])
        return tmp_path / "fits"

    def test_fits_go_straight_on(self, fits):
        found = read_specimens(fits, scale=0.05, unit="mm")
        assert found.names == ("wing0", "wing1", "wing2", "wing3", "wing5")
        assert_allclose(found.points, shapes_of()[[0, 1, 2, 3, 5]])
        assert found.landmark_names[0] == "l0"
        assert found.notes == (
            "Left out: 1 specimen whose fit failed, such as wing4.",
            "Flagged: 1 specimen with a confidence below 0.5, such as wing2. least_confidence=0.5 leaves them out.",
        )
        assert_allclose(read_specimens(fits / "fits.parquet").points, found.points)

    def test_doubtful_fits_are_left_out_if_asked(self, fits, tmp_path):
        with pytest.raises(ValueError, match=r"least_confidence=50: .* from 0 to 1: 0\.9 is 90 %"):
            read_specimens(fits, least_confidence=50)
        found = read_specimens(fits, least_confidence=0.5)
        assert found.names == ("wing0", "wing1", "wing3", "wing5")
        assert "Left out: 1 specimen with a confidence below 0.5, such as wing2." in found.notes

    def test_the_command_flags_them(self, fits, tmp_path, command):
        said = command("morphometrics", fits, "-o", tmp_path / "out", "--scale", 0.05, "--unit", "mm")
        assert "--least-confidence 0.5 leaves them out" in said.err
        flags = {row["specimen"]: row["flag"] for row in rows_of(tmp_path / "out" / "coordinates.csv")}
        assert flags == {"wing0": "", "wing1": "", "wing2": "low confidence", "wing3": "", "wing5": ""}

    def test_fits_among_landmarks_placed_by_hand_are_a_warning(self, fits, wings, tmp_path, command):
        mixed = "Fits are mixed with landmarks that were placed by hand"
        words = ("-o", tmp_path / "out", "--overwrite")
        for sources in ((wings, fits), (fits / "fits.parquet", wings)):
            said = command("morphometrics", *sources, *words).err
            assert said.count(mixed) == 1
            assert "compare the two with --replicates FITS" in said
        for sources in ((wings, "--replicates", fits), (fits, fits), (wings, wings)):
            assert mixed not in command("morphometrics", *sources, *words).err


class TestReplicates:
    def test_sets_are_matched_by_name(self, tmp_path, wings):
        other = tmp_path / "again.tps"
        other.write_text(tps_text(shapes_of(seed=1)[::-1]).replace("wing5", "new"))
        both = join_sets([read_specimens(wings), read_specimens(other)])
        assert both.individuals == ("wing0", "wing1", "wing2", "wing3", "wing4") * 2
        assert both.replicates == ("1",) * 5 + ("2",) * 5
        assert_allclose(both.points[6], shapes_of(seed=1)[::-1][1], atol=1e-6)
        assert "Left out: 2 specimens that are not in all sets" in both.notes[-1]
        with pytest.raises(ValueError, match="no specimen in common"):
            join_sets([both.only(np.arange(10) < 2), replace(read_specimens(wings), names=tuple("abcdef"))])

    def test_landmarks_in_another_order(self, wings):
        names = tuple("abcdefgh")
        first = replace(read_specimens(wings), landmark_names=names)
        second = replace(first, landmark_names=names[::-1], points=first.points[:, ::-1])
        both = join_sets([first, second])
        assert_allclose(both.points[6:], first.points)

    def test_names_tell(self, wings):
        found = replace(
            read_specimens(wings), names=tuple(f"f_l_y{k // 4}_{'LR'[k % 4 // 2]}_{k % 2}" for k in range(6))
        )
        told = name_parts(found, "{individual}_{side}_{replicate}")
        assert told.individuals == ("f_l_y0",) * 4 + ("f_l_y1",) * 2
        assert told.sides == ("L", "L", "R", "R", "L", "L")
        assert told.replicates == ("0", "1") * 3
        assert name_parts(found, "f_{}_{individual}_{side}_{}").individuals[0] == "y0"

    def test_left_and_right_sides(self):
        """Right sides are seen in a mirror: reflected, they differ no more from left ones than by noise."""
        rng = np.random.default_rng(3)
        own = shapes_of(10)
        points = np.concatenate([own + rng.normal(0, 0.3, own.shape) for _ in range(4)])
        points[20:, :, 0] = 300 - points[20:, :, 0]
        names = tuple(f"fly{k % 10}_{'LR'[k // 20]}_{k // 10 % 2}" for k in range(40))
        many = np.full(40, np.nan)
        plain = Specimens(names, points, names, (), many, "", (), many, np.zeros(40, dtype=bool))
        told = facing_alike(name_parts(plain, "{individual}_{side}_{replicate}"))
        assert np.sum(told.reflected) == 20
        table = measure(told, permutations=199).variance["shape"]
        assert [row.freedom for row in table.rows] == [108, 12, 108, 240]
        assert table.rows[0].permuted == pytest.approx(0.005)
        assert table.rows[1].permuted > 0.05
        assert table.rows[2].ratio < 2
        assert table.repeatability > 0.9

    @pytest.mark.parametrize(
        ("pattern", "sentence"),
        [
            ("{individual}-{replicate}", "wing0: names=.* does not match this specimen. A pattern describes"),
            ("{side}", "a pattern needs {individual} once"),
            ("{individual}{who}", "a pattern needs {individual} once"),
            ("w{individual}ng{side}", "exactly two sides are needed, found 6"),
        ],
    )
    def test_patterns_that_cannot_be(self, wings, pattern, sentence):
        with pytest.raises(ValueError, match=sentence):
            name_parts(read_specimens(wings), pattern)


class TestCommand:
    def test_all_files(self, wings, tmp_path, command):
        again = tmp_path / "again.tps"
        again.write_text(tps_text(shapes_of() + np.random.default_rng(5).normal(0, 0.2, (6, 8, 2))))
        out = tmp_path / "out"
        words = ("morphometrics", wings, "-o", out, "--unit", "mm", "--sliders", "curves", "--parquet")
        said = command(*words, "--replicates", again, "--permutations", 99)
        assert said.err == ""
        assert "12 specimens with 8 landmarks, 2 of them slid by bending energy" in said.out
        assert "repeatability 0.9" in said.out
        assert said.out.count("share: of the sum of all squares; other rows contain error too") == 1
        assert sorted(file.name for file in out.iterdir()) == [
            "anova.csv",
            "consensus.csv",
            "coordinates.csv",
            "coordinates.parquet",
            "landmarks.tps",
            "sliders.csv",
        ]
        rows = rows_of(out / "coordinates.csv")
        assert (rows[0]["specimen"], rows[0]["individual"], rows[0]["unit"]) == ("wing0_1", "wing0", "mm")
        columns = list(rows[0])
        assert columns[-16:] == [f"{letter}{number}" for number in range(1, 9) for letter in "XY"]
        table = parquet.read_table(out / "coordinates.parquet")
        assert table.column_names == columns
        assert_allclose(table["X3"].to_numpy(), [float(row["X3"]) for row in rows])
        assert (out / "sliders.csv").read_text() == "before,slide,after\n5,6,7\n6,7,8\n"
        variance = rows_of(out / "anova.csv")
        assert [(row["of"], row["source"], row["freedom"]) for row in variance] == [
            ("shape", "individual", "50"),
            ("shape", "observer", "10"),
            ("shape", "error", "50"),
            ("size", "individual", "5"),
            ("size", "observer", "1"),
            ("size", "error", "5"),
        ]
        consensus = rows_of(out / "consensus.csv")
        assert [row["slides"] for row in consensus] == ["0"] * 5 + ["1", "1", "0"]

    def test_the_table_has_what_the_library_has(self, wings, tmp_path, command):
        command(
            "morphometrics", wings, "-o", tmp_path / "out", "--slide", "distance", "--no-projection", "-q"
        )
        rows = rows_of(tmp_path / "out" / "coordinates.csv")
        done = superimpose(0.05 * shapes_of(), projection=False)
        assert_allclose([float(row["centroid_size"]) for row in rows], done.centroid_sizes, rtol=1e-6)
        assert_allclose([float(row["Y4"]) for row in rows], done.coordinates[:, 3, 1], atol=1e-6)
        assert not (tmp_path / "out" / "sliders.csv").exists()

    def test_curves_that_do_not_slide_are_pointed_out(self, wings, tmp_path, command):
        said = command("morphometrics", wings, "-o", tmp_path / "out", "--unit", "mm")
        assert said.err == "Points of curves are used as fixed landmarks: --sliders curves lets them slide.\n"

    def test_sizes_in_a_unit_without_a_name(self, wings, tmp_path, command):
        said = command("morphometrics", wings, "-o", tmp_path / "out").out
        assert " in units of the scale, from " in said
        assert "scale unit" not in said

    def test_json(self, wings, tmp_path, command):
        facts = json.loads(
            command("morphometrics", wings, "-o", tmp_path / "out", "--replicates", wings, "--json").out
        )
        assert (facts["specimens"], facts["unit"]) == (12, "scale unit")
        assert facts["variance"]["shape"]["repeatability"] == pytest.approx(1)
        assert facts["variance"]["shape"]["rows"][0]["ratio"] is None

    def test_nothing_is_replaced_unasked(self, wings, tmp_path, command):
        command("morphometrics", wings, "-o", tmp_path / "out", "--sliders", "curves")
        said = command("morphometrics", wings, "-o", tmp_path / "out", code=1)
        assert "coordinates.csv already exists: --overwrite replaces it" in said.err
        command("morphometrics", wings, "-o", tmp_path / "out", "--overwrite")
        assert not (tmp_path / "out" / "sliders.csv").exists()

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("--sliders", "none.csv"), "there is no such sliders file"),
            (("--scale", "0"), "the length of a pixel must be above 0"),
            (("--names", "x{individual}"), "wing0: --names x{individual} does not match this specimen"),
        ],
    )
    def test_mistakes_are_sentences(self, wings, tmp_path, command, words, sentence):
        wings.write_text(wings.read_text().replace("SCALE=0.05\n", ""))
        assert sentence in command("morphometrics", wings, "-o", tmp_path / "out", *words, code=1).err
        assert not (tmp_path / "out").exists()

    def test_curves_that_are_not_there(self, tmp_path, command):
        (tmp_path / "a.tps").write_text(tps_text(shapes_of(), curves=False))
        said = command(
            "morphometrics", tmp_path / "a.tps", "-o", tmp_path / "out", "--sliders", "curves", code=1
        )
        assert "--sliders curves: no TPS file has the same CURVES" in said.err


class TestStandingOut:
    """A mistake is named by its specimen, and what is usual is not."""

    @pytest.fixture
    def found(self):
        shapes = shapes_of(30, noise=1.5)
        nothing, names = np.full(30, np.nan), tuple(f"wing{k}" for k in range(30))
        return Specimens(
            names, shapes, names, (), np.full(30, 0.05), "mm", (), nothing, np.zeros(30, dtype=bool)
        )

    def test_landmarks_in_reverse_order(self, found):
        assert measure(found).notes == ()
        found.points[4] = found.points[4, ::-1]
        (note,) = measure(found).notes
        assert note.startswith("The shape of wing4 is ")
        assert (
            "times as far from the consensus as the median: are its landmarks in order? pliant check" in note
        )
        found.points[7] = found.points[7, ::-1]
        assert "the median; 1 other stands out too: " in measure(found).notes[0]

    @pytest.mark.parametrize(
        ("factor", "size"), [(10, "46.31"), (0.1, "0.4631"), (3.5, "16.21"), (2.5, ""), (0.4, "")]
    )
    def test_another_scale(self, found, factor, size):
        found.scales[9] *= factor
        notes = measure(found).notes
        assert len(notes) == bool(size)
        if size:
            assert notes[0].startswith(f"The centroid size of wing9 is {size}")
            assert " mm, where the median is 4." in notes[0]
            assert "is its scale right? pliant check" in notes[0]

    def test_a_growth_series_is_no_mistake(self, found):
        assert measure(replace(found, scales=np.geomspace(0.01, 0.3, 30))).notes == ()

    def test_copies_of_one_shape_differ_by_rounding(self, found):
        same = found.points[:1] * np.linspace(1, 1.5, 30)[:, None, None] + 1 / 3
        assert measure(replace(found, points=same)).notes == ()

    def test_the_command_says_it(self, tmp_path, command):
        shapes = shapes_of(20)
        shapes[3] = shapes[3, ::-1]
        (tmp_path / "wings.tps").write_text(tps_text(shapes, curves=False))
        words = ("morphometrics", tmp_path / "wings.tps", "-o", tmp_path / "out", "--unit", "mm")
        said = command(*words).err
        assert said.startswith("The shape of wing3 is ")
        assert json.loads(command(*words, "--overwrite", "--json").out)["notes"] == [said.strip()]


class TestForR:
    def test_tps_has_all_that_geomorph_asks_for(self, wings, tmp_path):
        """SCALE before ID before IMAGE: geomorph takes the first line that has the letters of a key."""
        assert write_tps(tmp_path / "out.tps", read_specimens(wings)) == ()
        lines = (tmp_path / "out.tps").read_text().splitlines()
        assert lines[0] == "LM=8"
        assert lines[9:13] == ["SCALE=0.05", "ID=wing0", "IMAGE=wing0.jpg", "LM=8"]
        assert_allclose(read_specimens(tmp_path / "out.tps").points, shapes_of(), atol=1e-5)

    def test_all_in_pixels_if_one_has_no_scale(self, wings, tmp_path):
        found = read_specimens(wings)
        found.scales[2] = np.nan
        write_tps(tmp_path / "out.tps", found)
        assert (tmp_path / "out.tps").read_text().count("SCALE=1\n") == 6

    def test_landmarks_outside_and_odd_names(self, wings, tmp_path):
        found = read_specimens(wings)
        odd = replace(found, points=found.points - (30, 0), names=("chain 1", *found.names[1:]))
        notes = write_tps(tmp_path / "out.tps", odd)
        assert "geomorph may misread the name chain 1" in notes[0]
        assert "6 specimens with landmarks outside the image, such as chain 1" in notes[1]
        back = read_specimens(tmp_path / "out.tps")
        assert_allclose(superimpose(back.points).distances, superimpose(found.points).distances, atol=1e-6)

    def test_coordinates_need_a_known_ending(self, wings, tmp_path):
        found = read_specimens(wings)
        with pytest.raises(ValueError, match="written as .csv or .parquet"):
            write_coordinates(tmp_path / "a.txt", found, superimpose(found.lengths))

    @pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
    def test_r_reads_the_files_and_finds_the_same_sizes(self, wings, tmp_path):
        study = measure(read_specimens(wings))
        write_study(tmp_path / "out", study)
        script = """
        options(warn = 2)
        table <- read.csv("coordinates.csv")
        lines <- readLines("landmarks.tps")
        xy <- as.matrix(read.table(text = lines[!grepl("=", lines)]))
        scale <- as.numeric(sub("SCALE=", "", grep("^SCALE=", lines, value = TRUE)))
        sizes <- sapply(seq_along(scale), function(i) {
            one <- scale(xy[(i - 1) * 8 + 1:8, ], scale = FALSE) * scale[i]
            sqrt(sum(one^2))
        })
        shapes <- as.matrix(table[, grep("^[XY][0-9]+$", names(table))])
        cat(max(abs(sizes - table$centroid_size)), max(abs(rowSums(shapes^2) - 1)), ncol(shapes), nrow(shapes))
        """
        (tmp_path / "out" / "try.R").write_text(script)
        done = subprocess.run(
            ["Rscript", "try.R"],
            cwd=tmp_path / "out",
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        off, beside, columns, rows = map(float, done.stdout.split())
        assert off < 1e-5
        # Tangent coordinates are a little longer than 1.
        assert beside < 0.02
        assert (columns, rows) == (16, 6)
