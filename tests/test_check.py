"""`pliant check`: faults that were put in are found and named, and good faces are left alone."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pliant.cli import app
from pliant.data.annotation import Annotation
from pliant.data.checking import check_dataset
from pliant.data.dataset import Dataset, dataset_from_arrays
from pliant.data.formats import read_landmarks, write_annotations, write_landmarks
from pliant.data.loading import load_dataset
from pliant.data.suspects import COUNTED_FROM_0, about_numbers, find_suspects, suspicious_points
from pliant.data.suspects.kinds import _mistyped
from pliant.data.suspects.whole import _times
from pliant.data.validation import validate
from pliant.plots import plot_suspects
from pliant.shape.symmetry import find_mirror
from pliant.synthetic import faces, write_faces


@pytest.fixture(scope="module")
def good() -> Dataset:
    made = faces(60, seed=11, image_size=96)
    return dataset_from_arrays([sample.image() for sample in made], [sample.points() for sample in made])


def with_points(dataset: Dataset, number: int, change) -> Dataset:
    """The data set with other landmarks in one sample."""
    sample = replace(dataset[number], points_source=lambda: change(dataset[number].points().copy()))
    return Dataset((*dataset[:number], sample, *dataset[number + 1 :]), dataset.source)


def suspects_of(dataset: Dataset, *skip: str):
    return find_suspects(validate(dataset, allow_missing=True), skip)


def test_good_faces_are_not_suspected(good):
    assert len(suspects_of(good)) <= 1


@pytest.mark.parametrize(("landmark", "shift"), [(30, (9, 0)), (8, (0, -14)), (36, (-8, 6))])
def test_a_landmark_that_slipped_is_named(good, landmark, shift):
    def slip(points):
        points[landmark] += shift
        return points

    worst = suspects_of(with_points(good, 7, slip))[0]
    assert (worst.number, worst.check, worst.landmarks) == (7, "shape", (landmark,))
    assert worst.kind == "shifted"
    assert f"landmark {landmark} is " in worst.reason
    assert "px from where other samples have it" in worst.reason
    assert np.linalg.norm(worst.mend - good[7].points(), axis=1).max() < 0.4 * np.linalg.norm(shift)


def test_two_landmarks_in_the_wrong_order_are_named(good):
    def swap(points):
        points[[48, 54]] = points[[54, 48]]
        return points

    worst = suspects_of(with_points(good, 7, swap))[0]
    assert (worst.number, worst.check, worst.kind) == (7, "order", "swapped")
    assert worst.landmarks == (48, 54)
    assert worst.reason.startswith(
        "landmark 48 and landmark 54 seem to be swapped: swapped back, both are within "
    )
    np.testing.assert_array_equal(worst.mend, good[7].points())


def test_left_and_right_swapped(good):
    permutation = find_mirror(np.array([sample.points() for sample in good]))
    worst = suspects_of(with_points(good, 5, lambda points: points[permutation]))[0]
    assert (worst.number, worst.check) == (5, "order")
    assert "left and right seem to be swapped" in worst.reason
    np.testing.assert_array_equal(worst.mend, good[5].points())


def test_landmarks_from_the_last_to_the_first(good):
    worst = suspects_of(with_points(good, 5, lambda points: points[::-1]))[0]
    assert (worst.number, worst.check) == (5, "order")
    assert "reversed" in worst.reason


def test_the_order_of_landmarks_changes_no_size(good):
    """In another order, a shape has no pose that would tell its size."""
    points = np.array([sample.points() for sample in good])
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(68)
        for changed, factor in ((points[7, order], 1.0), (points[7, order] / 10, 10.0)):
            shapes = points.copy()
            shapes[7] = changed
            sizes = [one.reason for one in suspicious_points(shapes) if one.check == "size"]
            assert len(sizes) == (factor > 1)
            assert all(
                float(reason.split()[3]) == pytest.approx(factor, rel=0.25) and "times smaller" in reason
                for reason in sizes
            )


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (2.04, "2.0 times"),
        (9.7, "10 times"),
        (85.4, "85 times"),
        (523.04, "520 times"),
        (2e9, "more than 1,000 times"),
    ],
)
def test_ratios_have_no_digits_that_say_nothing(ratio, words):
    assert _times(ratio) == words


def test_size_and_rotation(good):
    def small(points):
        return 48 + (points - 48) / 5

    def upside_down(points):
        return 95 - points

    found = suspects_of(with_points(with_points(good, 3, small), 9, upside_down))
    assert {(suspect.number, suspect.check) for suspect in found[:2]} == {(3, "size"), (9, "rotation")}
    assert "rotated by" in next(suspect.reason for suspect in found if suspect.check == "rotation")
    assert not {3, 9} & {suspect.number for suspect in suspects_of(with_points(good, 3, small), "size")}


def test_blank_and_repeated_images(good):
    blank = replace(good[4], image_source=lambda: np.full((96, 96), 90, np.uint8))
    darker = replace(good[10], name="copy", image_source=lambda: (good[10].image() * 0.8).astype(np.uint8))
    mirrored = good[12].mirrored(find_mirror(np.array([sample.points() for sample in good])).tolist())
    leaked = replace(
        good[20],
        name="leaked",
        split="test",
        image_source=lambda: good[20].image()[:90],
        points_source=lambda: good[20].points() + 0.01,
    )
    found = suspects_of(Dataset((*good[:4], blank, *good[5:], darker, mirrored, leaked), "more"))
    reasons = {suspect.name: suspect.reason for suspect in found}
    assert "nearly blank" in reasons[blank.name]
    assert reasons["copy"] == "is the same picture as sample 10."
    assert reasons[mirrored.name] == "is a mirrored copy of sample 12."
    assert (
        reasons["leaked"]
        == "is the same picture as sample 20, and the two are in different parts (test, none)."
    )


def test_missing_landmarks_are_not_suspicious(good):
    def hide(points):
        points[[3, 60]] = np.nan
        return points

    dataset = with_points(good, 2, hide)
    assert 2 not in {suspect.number for suspect in suspects_of(dataset)}


def test_the_sheet_is_drawn(good):
    found = suspects_of(with_points(good, 7, lambda points: points[::-1]))
    figure = plot_suspects(good, [replace(found[0], other=good[1].name, landmarks=(3,))])
    titles = [axis.get_title().replace("\n", " ") for axis in figure.axes]
    assert titles[0].startswith("sample 7: the order seems to be reversed")
    assert titles[1] == "sample 1, for comparison"
    assert figure.axes[-1].get_xlabel() == "number of the landmark, counted from 0"


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("landmark 2 and landmark 5 seem to be swapped", True),
        ("the landmarks from 3 to 7 seem to be numbered backwards", True),
        ("4 landmarks (3, 5, 6, 9) are 5 to 9 px from where other samples have them.", True),
        ("landmarks 0-3 lie far outside the image of 96 x 96 pixels.", True),
        ("'tip' and 'notch' seem to be swapped", False),
        ("the landmarks from 'a' to 'd' seem to be numbered backwards", False),
        ("the object is 10 times smaller than usual", False),
    ],
)
def test_where_landmarks_have_numbers_it_is_said_how_they_count(sentence, numbers):
    assert about_numbers(["the object faces the other way", sentence]) == (COUNTED_FROM_0 if numbers else "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    write_faces(folder, 30, seed=11, image_size=96)
    return folder


def test_few_samples_are_not_compared(good):
    few = with_points(good[:10], 5, lambda points: points[::-1])
    assert suspects_of(few) == []


class TestCommand:
    def check(self, *arguments, code):
        done = CliRunner().invoke(app, ["check", *map(str, arguments)])
        assert done.exit_code == code, (done.output, done.exception)
        return done

    def test_clean(self, folder, tmp_path):
        done = self.check(folder, "--draw", tmp_path / "sheet.png", code=0)
        assert "30 samples: 0 problems, 0 suspicious" in done.stdout
        assert "nothing looks suspicious; drew 15 of 30 samples in" in done.stdout
        assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")

    def test_not_clean(self, folder, tmp_path):
        bad = tmp_path / "bad"
        write_faces(bad, 3, seed=12, image_size=96)
        (bad / "face-0000.jpg").write_text("no image")
        points = np.array([[20.0, 20]]) + np.random.default_rng(0).uniform(0, 40, (68, 2))
        write_landmarks(bad / "face-0001.pts", points)
        done = self.check(folder, bad, "--draw", tmp_path / "sheet.png", code=3)
        assert "face-0000.jpg: this is not an image of a known format" in done.stdout
        assert "33 samples: 1 problem, 1 suspicious" in done.stdout
        assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
        found = json.loads(self.check(folder, bad, "--json", code=3).stdout)
        assert found["samples"] == 33
        assert {row["sample"] for row in found["suspects"]} == {str(bad / "face-0001.jpg")}
        assert self.check(folder, bad, "--quiet", code=3).output == ""
        assert COUNTED_FROM_0 not in done.stdout

    def test_numbers_of_landmarks_count_from_0(self, folder, tmp_path):
        bad = tmp_path / "bad"
        write_faces(bad, 1, seed=12, image_size=96)
        points = read_landmarks(bad / "face-0000.pts")
        points[30] = 900, 900
        write_landmarks(bad / "face-0000.pts", points)
        said = self.check(folder, bad, code=3).stdout
        assert "landmark 30 lies far outside" in said
        assert said.count(COUNTED_FROM_0) == 1

    def test_wrong_words_get_a_sentence(self, folder):
        done = self.check(folder, "--skip", "shapes", code=1)
        assert "there is no check 'shapes'. Known checks: facing, order, shape" in str(done.exception)


def test_landmarks_counted_from_the_other_edge(good):
    from pliant.data.turned import turned_over

    assert turned_over(validate(good)) is None
    over = Dataset(
        tuple(
            replace(
                sample,
                points_source=lambda sample=sample: (0, len(sample.image()) - 1) + sample.points() * (1, -1),
            )
            for sample in good
        ),
        "turned",
    )
    assert "look more alike from image to image when they are flipped vertically" in turned_over(
        validate(over)
    )
    assert turned_over(validate(good[:4])) is None


def test_the_command_says_that_landmarks_are_turned_over(folder, tmp_path, command):
    command("convert", folder, tmp_path / "all.csv")
    lines = [line.split(",") for line in (tmp_path / "all.csv").read_text().splitlines()]
    for line in lines[1:]:
        line[2::2] = [str(96 - float(value)) for value in line[2::2]]
    (tmp_path / "all.csv").write_text("\n".join(map(",".join, lines)))
    said = command("check", tmp_path / "all.csv", code=3)
    assert "--from csv:bottom-left" in " ".join(said.out.split())
    right = command("check", tmp_path / "all.csv", "--from", "csv:bottom-left", "--json")
    assert json.loads(right.out)["turned_over"] is None


def test_python_checks_like_the_command_and_reads_every_image_once(good):
    read = []

    def counted(number):
        def image():
            read.append(number)
            return good[number].image()

        return replace(good[number], image_source=image)

    wrong = with_points(good, 3, lambda points: points * np.nan)
    dataset = Dataset((*(counted(number) for number in range(30)), wrong[3]), "counted")
    found = check_dataset(dataset, jobs=2, progress=False)
    assert sorted(read) == list(range(30))
    assert len(found.valid.problems) == 1
    assert found.turned_over is None
    assert not found.clean
    assert found.lacking == 0
    assert check_dataset(dataset[:3], progress=False).clean


class TestKinds:
    """What happened to landmarks is told, and undone by the mend, also if every other image has an error."""

    @pytest.fixture
    def points(self):
        """Leaves of 20 landmarks that vary by three modes and a little noise, `(80, 20, 2)`."""
        rng = np.random.default_rng(1)
        angles = np.linspace(0, 2 * np.pi, 20, endpoint=False)
        radius = 70 + 18 * np.cos(angles) + 12 * np.sin(2 * angles)
        mean = np.stack([radius * np.cos(angles), 0.6 * radius * np.sin(angles)], axis=1)
        modes = rng.normal(0, 2.5, (3, 20, 2))
        shapes = mean + np.einsum("km,mvi->kvi", rng.normal(0, 1, (80, 3)), modes)
        return shapes + rng.normal(0, 0.6, shapes.shape) + (150, 120) + rng.uniform(-15, 15, (80, 1, 2))

    @pytest.fixture
    def spoilt(self, points):
        """Every second leaf has a landmark elsewhere: what is usual must not suffer from it."""
        rng = np.random.default_rng(0)
        wrong = points.copy()
        for number in range(0, len(points), 2):
            wrong[number, rng.integers(20)] += rng.choice((-1, 1), 2) * rng.uniform(15, 60, 2)
        return wrong

    def found_in(self, spoilt, points, change, names=()):
        wrong = spoilt.copy()
        wrong[9] = points[9]
        change(wrong[9])
        mine = [one for one in suspicious_points(wrong, [(288, 288)] * 80, names) if one.number == 9]
        return mine, wrong[9]

    def test_most_of_the_others_are_found(self, points, spoilt):
        found = suspicious_points(spoilt)
        assert len({one.number for one in found if one.number % 2 == 0}) >= 38
        assert len({one.number for one in found if one.number % 2}) <= 1

    def test_swapped(self, points, spoilt):
        names = [f"place {number}" for number in range(20)]

        def change(shape):
            shape[[3, 14]] = shape[[14, 3]]

        (one,), _ = self.found_in(spoilt, points, change, names)
        assert (one.check, one.kind, one.landmarks) == ("order", "swapped", (3, 14))
        assert one.reason.startswith(
            "'place 3' and 'place 14' seem to be swapped: swapped back, both are within"
        )
        np.testing.assert_array_equal(one.mend, points[9])

    def test_three_out_of_order(self, points, spoilt):
        def change(shape):
            shape[[2, 9, 15]] = shape[[9, 15, 2]]

        (one,), _ = self.found_in(spoilt, points, change)
        assert (one.kind, one.landmarks) == ("out of order", (2, 9, 15))
        np.testing.assert_array_equal(one.mend, points[9])

    def test_a_run_numbered_backwards(self, points, spoilt):
        def change(shape):
            shape[2:7] = shape[2:7][::-1].copy()

        (one,), _ = self.found_in(spoilt, points, change)
        assert (one.kind, one.landmarks) == ("reversed", (2, 3, 5, 6))
        assert "the landmarks from 2 to 6 seem to be numbered backwards" in one.reason
        np.testing.assert_array_equal(one.mend, points[9])

    @pytest.mark.parametrize(
        ("kind", "words", "change"),
        [
            (
                "decimal",
                "the x of landmark 11 seems to be ten times too small",
                lambda place: place * (0.1, 1),
            ),
            (
                "decimal",
                "the y of landmark 11 seems to be ten times too large",
                lambda place: place * (1, 10),
            ),
            ("exchanged", "x and y of landmark 11 seem to be swapped", lambda place: place[::-1].copy()),
        ],
    )
    def test_mistyped(self, points, spoilt, kind, words, change):
        def mistype(shape):
            shape[11] = change(shape[11])

        (one,), _ = self.found_in(spoilt, points, mistype)
        assert (one.kind, one.landmarks) == (kind, (11,))
        assert words in one.reason
        np.testing.assert_allclose(one.mend, points[9])

    def test_a_shift_near_the_diagonal_is_no_exchange(self):
        """Exchanging x and y moves such a landmark a little nearer, below the limit, and proves nothing."""
        expected = np.array([45.0, 46.0])
        scene = SimpleNamespace(
            points=np.array([[50.0, 41.0]]),
            label=str,
            limit=6.0,
            score=lambda landmark, places: np.linalg.norm(places - expected, axis=-1),
        )
        assert scene.score(0, np.array([41.0, 50.0])) < scene.limit < scene.score(0, scene.points[0])
        assert _mistyped(scene, 0) is None

    def test_on_another(self, points, spoilt):
        def change(shape):
            shape[7] = shape[9] + 0.3

        (one,), wrong = self.found_in(spoilt, points, change)
        assert (one.kind, one.landmarks) == ("on another", (7,))
        assert "landmark 7 is on landmark 9" in one.reason
        off = np.linalg.norm(one.mend - points[9], axis=1)
        assert off.max() == off[7] < 0.3 * np.linalg.norm(wrong[7] - points[9, 7])

    def test_copied(self, points, spoilt):
        spoilt[11, 5] = points[9, 5] + (0, 31.7)
        (one,), _ = self.found_in(spoilt, points, lambda shape: shape.__setitem__(5, spoilt[11, 5]))
        assert (one.kind, one.landmarks) == ("copied", (5,))

    def test_mislabelled(self, points, spoilt):
        def change(shape):
            shape[4], shape[13] = shape[13].copy(), np.nan

        (one,), _ = self.found_in(spoilt, points, change)
        assert (one.kind, set(one.landmarks)) == ("mislabelled", {4, 13})
        assert "landmark 4 is where landmark 13 should be, and landmark 13 is missing" in one.reason
        np.testing.assert_array_equal(one.mend[13], points[9, 13])
        assert np.isnan(one.mend[4]).all()

    def test_another_scale(self, points, spoilt):
        def change(shape):
            shape *= 0.1

        found, _ = self.found_in(spoilt, points, change)
        assert found[0].kind == "scale"
        assert "10 times smaller than usual" in found[0].reason
        np.testing.assert_allclose(found[0].mend, points[9])

    def test_what_is_not_annotated_yet_is_left_out(self, points, spoilt):
        """A landmark that nobody has placed, and images that are hardly begun, keep nothing from being found."""
        spoilt[:, 5] = np.nan
        spoilt[11, 3:] = np.nan
        spoilt[9, [3, 14]] = points[9, [14, 3]]
        found = suspicious_points(spoilt)
        (one,) = (one for one in found if one.number == 9)
        assert (one.kind, one.landmarks) == ("swapped", (3, 14))
        np.testing.assert_array_equal(np.delete(one.mend, 5, axis=0), np.delete(points[9], 5, axis=0))
        assert np.isnan(one.mend[5]).all()
        assert 11 not in {one.number for one in found}

    def test_poses_do_not_matter(self, points, spoilt):
        plain = [(one.number, one.kind, one.landmarks) for one in suspicious_points(spoilt) if one.landmarks]
        moved = 0.5 * spoilt @ np.array([[0.6, 0.8], [-0.8, 0.6]]) + (400, 30)
        kinds = {(one.number, one.kind, one.landmarks) for one in suspicious_points(moved)}
        assert len(kinds & set(plain)) > 0.9 * len(plain)


def annotated_files(folder, names, **stated):
    """Annotations of synthetic faces in a folder, with what a file states about each."""
    return [
        Annotation(name, sample.points(), **{key: value[number] for key, value in stated.items()})
        for number, (name, sample) in enumerate(zip(names, load_dataset(folder), strict=True))
    ]


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    """24 faces of 96 x 96 pixels in `photographs`; the working folder is theirs."""
    monkeypatch.chdir(tmp_path)
    write_faces(tmp_path / "photographs", 24, seed=3, image_size=96)
    return sorted(file.name for file in (tmp_path / "photographs").glob("*.jpg"))


def found_in(command, *words):
    said = command(
        "check", *words, "--images", "photographs", "--json", "--skip", "shape,order,facing", code=None
    )
    return {(one["sample"].rsplit("/", 1)[-1], one["check"]): one for one in json.loads(said.out)["suspects"]}


def test_an_image_that_is_not_as_large_as_the_file_says(photographs, command):
    sizes = [(96, 96)] * 24
    sizes[5], sizes[6] = (48, 48), (96, 64)
    files = annotated_files("photographs", photographs, size=sizes)
    files[5] = replace(files[5], points=(files[5].points + 0.5) / 2 - 0.5)
    write_annotations("faces.json", files)
    found = found_in(command, "faces.json")
    assert {name for name, check in found if check == "resized"} == set(photographs[5:7])
    halved = found[photographs[5], "resized"]
    assert "48 x 48 pixels, but it has 96 x 96" in halved["reason"]
    np.testing.assert_allclose(halved["mend"], load_dataset("photographs")[5].points(), atol=0.02)
    assert found[photographs[6], "resized"]["mend"] is None
    said = command("check", "faces.json", "--images", "photographs", "--skip", "resized", code=None).out
    assert "pixels, but it has" not in said


def test_landmarks_outside_an_image_that_was_shrunk(photographs, command):
    write_annotations("faces.json", annotated_files("photographs", photographs, size=[(96, 96)] * 24))
    with Image.open(f"photographs/{photographs[3]}") as image:
        image.resize((24, 24)).save(f"photographs/{photographs[3]}")
    said = command("check", "faces.json", "--images", "photographs", code=3).out
    assert (
        "far outside the image of 24 x 24 pixels. The landmark file says that the image has 96 x 96" in said
    )


def test_scales_that_cannot_be(photographs, command):
    scales = [0.02] * 24
    scales[4], scales[9] = 0.2, None
    write_annotations(
        "faces.tps", annotated_files("photographs", photographs, size=[(96, 96)] * 24, spacing=scales)
    )
    found = found_in(command, "faces.tps")
    assert {name for name, check in found if check == "scale"} == {photographs[4], photographs[9]}
    assert "10 times larger than usual" in found[photographs[4], "scale"]["reason"]
    assert "no scale" in found[photographs[9], "scale"]["reason"]


def test_another_magnification_is_no_wrong_scale(photographs, command):
    files = annotated_files("photographs", photographs, size=[(96, 96)] * 24, spacing=[0.02] * 24)
    with Image.open(f"photographs/{photographs[2]}") as image:
        image.resize((768, 768)).save(f"photographs/{photographs[2]}")
    files[2] = replace(files[2], points=files[2].points * 8, size=(768, 768), spacing=0.02 / 8)
    write_annotations("faces.tps", files)
    assert "scale" not in {check for _, check in found_in(command, "faces.tps")}


def test_copies_come_before_small_deviations(good):
    def slip(points):
        points[30] += (4, 0)
        return points

    def elsewhere(points):
        return points + 0.5

    copy = replace(good[3], name="copy", points_source=lambda: elsewhere(good[3].points()))
    slipped = with_points(good, 7, slip)
    found = suspects_of(Dataset((*slipped, copy), good.source))
    assert (found[0].check, found[0].name) == ("duplicate", "copy")
    assert found[0].severity >= 10
    assert any(one.check == "shape" for one in found[1:])


def test_it_explains_severity_and_repeats_the_arguments(photographs, command):
    for name in photographs[:15]:
        with open(f"photographs/{name}", "wb") as file:
            file.write(b"no image")
    said = command("check", "photographs", "--from", "pts", code=3).out
    assert "and 12 more like these: pliant check photographs --from pts --json lists all" in said
    said = command("train", "photographs", "--from", "pts", "-o", "m.pliant", code=1).err
    assert "pliant check photographs --from pts --json lists all" in said
