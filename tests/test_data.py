"""Images, landmark files, folders, and what is said when they are wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image as PIL

from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
from pliant.data.formats import write_landmarks
from pliant.data.images import ImageError, as_image, read_image
from pliant.data.loading import load_dataset
from pliant.data.validation import validate
from pliant.synthetic import faces

POINTS = np.array([[10.0, 12], [50, 14], [52, 60], [8, 58], [30, 34]])


def picture(mode: str = "RGB") -> PIL.Image:
    """Red at the top left, green, blue, and white at the bottom right."""
    image = PIL.new("RGB", (40, 30))
    for colour, box in (
        ((255, 0, 0), (0, 0, 20, 15)),
        ((0, 255, 0), (20, 0, 40, 15)),
        ((0, 0, 255), (0, 15, 20, 30)),
        ((255, 255, 255), (20, 15, 40, 30)),
    ):
        image.paste(colour, box)
    return image.convert(mode)


class TestImages:
    def test_rgb(self, tmp_path):
        picture().save(tmp_path / "a.png")
        image = read_image(tmp_path / "a.png")
        assert image.dtype == np.uint8
        assert image.shape == (30, 40, 3)
        assert image[2, 2].tolist() == [255, 0, 0]
        assert image[2, 30].tolist() == [0, 255, 0]

    def test_grey_stays_one_plane(self, tmp_path):
        picture("L").save(tmp_path / "a.png")
        assert read_image(tmp_path / "a.png").shape == (30, 40)

    def test_transparent_pixels_are_white(self, tmp_path):
        image = picture("RGBA")
        image.putpixel((2, 2), (10, 20, 30, 0))
        image.save(tmp_path / "a.png")
        loaded = read_image(tmp_path / "a.png")
        assert loaded[2, 2].tolist() == [255, 255, 255]
        assert loaded[3, 3].tolist() == [255, 0, 0]

    def test_sixteen_bits_are_kept(self, tmp_path):
        """No two of 40,000 values become one."""
        values = np.arange(40000, dtype=np.uint16).reshape(200, 200)
        PIL.fromarray(values).save(tmp_path / "a.png")
        PIL.fromarray(values).save(tmp_path / "b.tif")
        for name in ("a.png", "b.tif"):
            loaded = read_image(tmp_path / name)
            assert loaded.dtype == np.float32
            assert np.all(np.diff(loaded.ravel()) > 0)

    def test_floating_point(self, tmp_path):
        values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
        PIL.fromarray(values).save(tmp_path / "a.tif")
        assert_allclose(read_image(tmp_path / "a.tif"), values)

    @pytest.mark.parametrize("mode", ["CMYK", "YCbCr"])
    def test_other_colour_spaces_become_rgb(self, tmp_path, mode):
        picture(mode).save(tmp_path / "a.jpg", quality=98)
        image = read_image(tmp_path / "a.jpg").astype(int)
        assert image.shape == (30, 40, 3)
        assert np.abs(image[7, 7] - [254, 0, 0]).max() < 12
        assert np.abs(image[22, 30] - 255).max() < 12

    @pytest.mark.parametrize("colours", [4, 256])
    def test_palettes_become_rgb(self, tmp_path, colours):
        picture().quantize(colours).save(tmp_path / "a.png")
        assert read_image(tmp_path / "a.png")[2, 30].tolist() == [0, 255, 0]

    def test_one_bit(self, tmp_path):
        PIL.new("1", (4, 4), 1).save(tmp_path / "a.png")
        assert read_image(tmp_path / "a.png").tolist() == [[255] * 4] * 4

    @pytest.mark.parametrize(
        ("orientation", "corner"), [(1, (0, 0)), (3, (29, 39)), (6, (0, 29)), (8, (39, 0))]
    )
    def test_exif_rotation_is_carried_out(self, tmp_path, orientation, corner):
        """The red corner of the stored picture ends where the camera says it was."""
        exif = PIL.Exif()
        exif[0x0112] = orientation
        picture().save(tmp_path / "a.jpg", exif=exif, quality=98)
        image = read_image(tmp_path / "a.jpg").astype(int)
        assert image.shape[:2] == ((30, 40) if orientation in (1, 3) else (40, 30))
        assert np.abs(image[corner] - [254, 0, 0]).max() < 10

    def test_what_cannot_be_read_is_a_sentence(self, tmp_path):
        picture().save(tmp_path / "whole.jpg")
        (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:400])
        (tmp_path / "text.jpg").write_text("not an image")
        (tmp_path / "empty.jpg").touch()
        for name, sentence in (
            ("missing.jpg", "no such image"),
            ("cut.jpg", "damaged or incomplete"),
            ("text.jpg", "not an image of a known format"),
            ("empty.jpg", "not an image of a known format"),
        ):
            with pytest.raises(ImageError, match=f"{name}: .*{sentence}"):
                read_image(tmp_path / name)

    @pytest.mark.parametrize(
        ("array", "sentence"),
        [
            (np.zeros((3, 3, 4)), "the shape \\(height, width\\)"),
            (np.zeros((0, 3)), "the shape \\(height, width\\)"),
            (np.zeros((3, 3), dtype=bool), "integers or floats, not bool"),
            (np.full((3, 3), "white"), "integers or floats"),
            (np.full((3, 3), np.nan), "not finite"),
        ],
    )
    def test_arrays_that_are_no_images_get_a_sentence(self, array, sentence):
        with pytest.raises(ImageError, match=sentence):
            as_image(array)


class TestFolders:
    def test_images_find_their_landmarks(self, tmp_path):
        for name in ("b", "a"):
            picture().save(tmp_path / f"{name}.png")
            write_landmarks(tmp_path / f"{name}.pts", POINTS)
        picture().save(tmp_path / "c.jpg")
        dataset = load_dataset(tmp_path)
        assert [sample.name.rsplit("/", 1)[-1] for sample in dataset] == ["a.png", "b.png", "c.jpg"]
        assert_allclose(dataset[0].points(), POINTS, atol=1e-5)
        with pytest.raises(ValueError, match=r"c\.jpg: there is no landmark file"):
            dataset[2].points()
        assert isinstance(dataset[:2], Dataset)
        assert len(dataset + dataset[1:]) == 5

    def test_nothing_is_read_before_it_is_asked_for(self, tmp_path):
        (tmp_path / "a.png").write_text("no image at all")
        (tmp_path / "a.pts").write_text("no landmarks either")
        assert len(load_dataset(tmp_path)) == 1

    def test_missing_and_empty_folders_get_a_sentence(self, tmp_path):
        with pytest.raises(ValueError, match="no such folder"):
            load_dataset(tmp_path / "nowhere")
        (tmp_path / "train").mkdir()
        with pytest.raises(ValueError, match="no images in this folder. Its folders are train"):
            load_dataset(tmp_path)


def good(number: int) -> Sample:
    image = np.full((70, 70), number, dtype=np.uint8)
    return Sample(f"good {number}", lambda: image, lambda: POINTS + number * 0.1)


def bad(name: str, points=POINTS, image=None) -> Sample:
    array = np.zeros((70, 70), dtype=np.uint8) if image is None else image
    return Sample(name, lambda: array, lambda: np.asarray(points))


class TestValidation:
    def test_good_samples_pass(self):
        valid = validate(Dataset(tuple(good(k) for k in range(6)), "test"), jobs=2)
        assert valid.problems == ()
        assert valid.points.shape == (6, 5, 2)
        assert_allclose(valid.points[3], POINTS + 0.3)

    @pytest.mark.parametrize(
        ("sample", "sentence"),
        [
            (bad("x", np.where(np.arange(5)[:, None] == 3, np.nan, POINTS)), "landmark 3 is missing"),
            (bad("x", np.where(np.arange(5)[:, None] == 3, -np.inf, POINTS)), "landmark 3 is not finite"),
            (bad("x", POINTS[:4]), "has 4 landmarks, but most have 5"),
            (bad("x", POINTS + [100, 0]), "landmarks 0-4 lie far outside the image of 70 x 70"),
            (bad("x", np.where(np.arange(5)[:, None] == 2, 500.0, POINTS)), "landmark 2 lies far outside"),
            (bad("x", np.full((5, 2), 20.0)), "collapsed"),
            (bad("x", np.arange(5)[:, None] * [10.0, 10]), "collapsed onto one line"),
            (bad("x", POINTS, np.zeros((70, 70, 2), np.uint8)), "an image must have the shape"),
            (Sample("x", good(9).image_source, None), "no landmark file"),
        ],
    )
    def test_each_kind_of_problem_names_the_sample(self, sample, sentence):
        dataset = Dataset((*(good(k) for k in range(4)), sample), "test")
        (problem,) = validate(dataset).problems
        assert problem.startswith("x: ")
        assert sentence in problem

    def test_repeated_samples_are_found_and_shared_images_are_not(self):
        twin, other_object = good(1), Sample("other", good(1).image_source, lambda: POINTS + 3)
        valid = validate(Dataset((good(0), good(1), twin, other_object), "test"))
        assert valid.problems == ("good 1: is the same as good 1, both image and landmarks.",)
        assert len(valid.dataset) == 3

    def test_closed_lips_are_no_problem(self):
        """Landmarks of touching parts coincide in half of the real faces."""
        touching = np.concatenate([POINTS, POINTS[-1:]])
        dataset = dataset_from_arrays(
            [np.full((70, 70), k, np.uint8) for k in range(3)], [touching + k for k in range(3)]
        )
        assert validate(dataset).problems == ()

    @pytest.mark.parametrize(("keep", "kept"), [(0, 0), (2 * 70 * 70, 2), (1e9, 5)])
    def test_images_are_kept_within_bounds_and_not_read_again(self, keep, kept):
        read = []

        def sample(number):
            def image():
                read.append(number)
                return good(number).image()

            return Sample(f"s{number}", image, good(number).points_source)

        valid = validate(Dataset(tuple(map(sample, range(5))), "test"), jobs=2, keep=keep)
        assert sorted(read) == list(range(5))
        images = [one.image() for one in valid.dataset]
        assert len(read) == 10 - kept
        for number, image in enumerate(images):
            assert np.array_equal(image, good(number).image())
        assert sum(one.decoded is not None for one in valid.dataset) == kept
        assert all(one.mirrored(range(5)).decoded is None for one in valid.dataset)

    def test_arrays_that_do_not_belong_together_get_a_sentence(self):
        image = np.zeros((70, 70), np.uint8)
        with pytest.raises(ValueError, match="there are 2 images and 1 shape: give the landmarks of each"):
            dataset_from_arrays([image, image], [POINTS])
        for shape in (POINTS[None].transpose(0, 2, 1), POINTS[0], POINTS.T, POINTS[:, :1]):
            with pytest.raises(
                ValueError, match=r"sample 1: its landmarks must be an array \(v, 2\), .* not of"
            ):
                dataset_from_arrays([image, image], [POINTS, shape])
        assert len(dataset_from_arrays(iter([image]), (POINTS for _ in range(1)))) == 1

    def test_all_problems_of_a_sample_are_reported(self):
        (first, second) = validate(
            Dataset((good(0), good(1), bad("x", POINTS * np.nan, np.zeros((3, 3, 2)))), "test")
        ).problems
        assert "an image must have the shape" in first
        assert "landmarks 0-4 are missing" in second

    def test_synthetic_faces_are_valid(self):
        valid = validate(faces(5, image_size=96))
        assert valid.problems == ()
        assert valid.colour
