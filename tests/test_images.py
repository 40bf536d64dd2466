"""The range of the numbers in an image, grey, 8 bits to look at, and images that decoders stumble over."""

import struct
import warnings
import zlib
from io import BytesIO

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image as PIL

import pliant
from pliant.appearance.features import find_feature
from pliant.appearance.interpolation import resample
from pliant.appearance.tones import LUMA, as_bytes, as_grey, as_grey_bytes, in_range, stretched
from pliant.data.dataset import dataset_from_arrays
from pliant.data.formats import write_landmarks
from pliant.data.images import ImageError, as_image, image_size, read_image
from pliant.data.jpeg import plain_head
from pliant.data.validation import validate
from pliant.plots import paint_overlay
from pliant.starts.detectors import haar_face

KINDS = {
    "12 bits in 16": lambda image: image.astype(np.uint16) * 16,
    "16 bits": lambda image: image.astype(np.uint16) * 257,
    "16 bits, offset": lambda image: 30000 + image.astype(np.uint16) * 8,
    "signed": lambda image: image.astype(np.int16) * 12 - 1024,
    "32 bits": lambda image: image.astype(np.int32) * 100_000,
    "floats": lambda image: image.astype(np.float64) * 3.7 - 20,
}


def portrait(size: int = 120):
    [sample] = pliant.synthetic.faces(1, seed=5, image_size=size)
    return sample.image()


class TestRange:
    def test_eight_bits_and_floats_from_0_to_1_stay(self, rng):
        for image in (
            rng.integers(40, 120, (9, 8, 3), dtype=np.uint8),
            rng.random((9, 8), dtype=np.float32) / 3,
            np.full((9, 8), 77, dtype=np.uint8),
        ):
            assert_array_equal(as_image(image), image)
            assert as_image(image).dtype == image.dtype
            assert in_range(image) is image

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("grey", [True, False])
    def test_features_and_pictures_do_not_depend_on_the_range(self, kind, grey):
        eight = portrait()
        eight = as_grey_bytes(eight) if grey else eight
        expected, image = stretched(eight), as_image(KINDS[kind](eight))
        assert image.dtype == np.float32
        assert_allclose(image, expected, atol=1e-5)
        assert_allclose(as_bytes(image), as_bytes(expected), atol=1)
        for name in ("intensity", "normalized", "gradient", "igo", "dsift"):
            compute = find_feature(name).compute
            assert_allclose(compute(as_grey(image)), compute(as_grey(expected)), atol=2e-3)

    def test_what_is_stretched_stays_so(self, rng):
        image = stretched(rng.normal(2000, 100, (300, 500)).astype(np.uint16))
        assert image.min() < 0
        assert image.max() > 1
        assert_allclose(as_image(image), image, atol=1e-6)

    def test_a_few_odd_pixels_do_not_count(self, rng):
        image = rng.integers(1000, 3000, (200, 200)).astype(np.uint16)
        plain = as_image(image)
        image[3, 4:7], image[100, 100:104] = 65535, 0
        assert_allclose(
            np.delete(as_image(image), [3, 100], axis=0), np.delete(plain, [3, 100], axis=0), atol=0.01
        )

    def test_a_small_object_on_a_plain_ground_is_seen(self):
        image = np.full((400, 400), 500, dtype=np.uint16)
        image[200:204, 200:204] = np.arange(600, 760, 10).reshape(4, 4)
        assert np.ptp(as_image(image)) == 1
        assert_array_equal(as_image(np.full((5, 5), 500, dtype=np.uint16)), np.zeros((5, 5)))

    def test_parts_of_an_image_share_its_range(self):
        """Views are cut from the whole image, and so is the part of it that is drawn."""
        image = (portrait().astype(np.uint16) * 16)[:, :, 0]
        whole = resample(image, np.zeros(2), 1.0, image.shape)[:, :, 0]
        part = resample(image, np.array([30.0, 40]), 1.0, (20, 25))[:, :, 0]
        assert_allclose(part, whole[40:60, 30:55], atol=1e-6)

    @pytest.mark.parametrize("kind", ["12 bits in 16", "16 bits, offset", "signed"])
    def test_fits_do_not_depend_on_the_range(self, kind, dataset, model):
        images = [sample.image() for sample in dataset[:6]]
        starts = [sample.points() + 2 for sample in dataset[:6]]
        expected = pliant.fit(model, [stretched(image) for image in images], starts)
        for fit, other in zip(
            pliant.fit(model, [KINDS[kind](i) for i in images], starts), expected, strict=True
        ):
            assert fit.ok
            assert_allclose(fit.points, other.points, atol=0.05)

    def test_a_faint_image_is_stretched_and_others_are_not(self, tmp_path):
        faint, clear = (portrait() // 16 + 238).astype(np.uint8), (portrait() // 2 + 90).astype(np.uint8)
        for image, expected in ((faint, stretched(faint)), (clear, clear)):
            floats = image / np.float32(255)
            assert_allclose(as_image(image), expected, atol=1e-6)
            assert_allclose(as_image(floats), expected if image is faint else floats, atol=1e-5)
            cv2.imwrite(str(tmp_path / "a.png"), image[:, :, ::-1])
            assert_allclose(read_image(tmp_path / "a.png"), expected, atol=1e-6)
        # A few pixels are enough to see that an image is not, and none of its own grid.
        spotted = np.full((300, 300), 128, dtype=np.uint8)
        spotted.flat[5::200], spotted.flat[105::200] = 0, 255
        assert as_image(spotted).dtype == np.uint8
        # One pixel of a marker does not hide it.
        faint[0, 0] = 0
        assert as_image(faint).dtype == np.float32

    def test_faint_images_are_fitted_as_clear_ones(self, model, dataset):
        samples = dataset[:4]
        faint = [(sample.image() // 12 + 120).astype(np.uint8) for sample in samples]
        starts = [sample.points() + 1 for sample in samples]
        found = pliant.fit(model, faint, starts)
        expected = pliant.fit(model, samples, starts)
        for one, other in zip(found, expected, strict=True):
            assert np.abs(one.points - other.points).max() < 1.5

    @pytest.mark.parametrize("kind", ["12 bits in 16", "16 bits, offset"])
    @pytest.mark.parametrize("name", ["a.png", "a.tif"])
    @pytest.mark.parametrize("grey", [True, False])
    def test_files_of_more_bits(self, tmp_path, kind, name, grey):
        """Pillow cuts 16 bits of colour down to the upper 8."""
        eight = portrait()[:, :, 0] if grey else portrait()
        cv2.imwrite(str(tmp_path / name), KINDS[kind](eight)[..., ::-1] if not grey else KINDS[kind](eight))
        assert_allclose(read_image(tmp_path / name), stretched(eight), atol=1e-5)

    def test_transparent_colour_of_16_bits_lies_on_white(self, tmp_path):
        image = KINDS["12 bits in 16"](portrait())
        alpha = np.full(image.shape[:2], 65535, dtype=np.uint16)
        alpha[:50] = 0
        cv2.imwrite(str(tmp_path / "a.png"), np.dstack([image[:, :, ::-1], alpha]))
        read = read_image(tmp_path / "a.png")
        assert np.all(read[:50] >= 1)
        image[:50] = image.max()
        assert_allclose(read, stretched(image), atol=1e-5)

    @pytest.mark.parametrize("mode", ["I", "F"])
    def test_integers_and_floats_of_32_bits(self, tmp_path, mode):
        eight = portrait()[:, :, 0]
        values = (
            eight.astype(np.int32) * 5000 - 70000 if mode == "I" else eight.astype(np.float32) * 11 - 1000
        )
        PIL.fromarray(values).save(tmp_path / "a.tif")
        assert_allclose(read_image(tmp_path / "a.tif"), stretched(eight), atol=1e-5)

    def test_train_and_check_say_it(self, tmp_path, dataset, command):
        for number, sample in enumerate(dataset[:5]):
            image = sample.image()[:, :, 0]
            PIL.fromarray(image if number > 2 else image.astype(np.uint16) * 16).save(
                tmp_path / f"{number}.png"
            )
            write_landmarks(tmp_path / f"{number}.pts", sample.points())
        sentence = "3 images have more than 8 bits or very little contrast"
        assert sentence in command("check", tmp_path).out
        options = ("--size", 40, "--no-confidence", "--detector", "none")
        assert sentence in command("train", tmp_path, "-o", tmp_path / "m.pliant", *options).err
        assert validate(pliant.load_dataset(tmp_path)).deep == 3


class TestGrey:
    def test_one_set_of_weights(self, rng, dataset, model):
        """The mean of the channels would be another picture."""
        colour = np.zeros((60, 60, 3), dtype=np.uint8)
        colour[:, :20], colour[:, 20:40], colour[:, 40:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
        luma = np.repeat(LUMA, 20)
        for image in (colour, colour.astype(np.uint16) * 257, colour / 255.0):
            assert_allclose(as_grey(image)[30], luma, atol=1e-3)
            assert_allclose(as_grey_bytes(image)[30] / 255, luma, atol=2.1e-3)
            assert_allclose(resample(image, np.zeros(2), 1.0, (60, 60), grey=True)[30, :, 0], luma, atol=1e-5)

    def test_a_grey_model_draws_over_grey(self, dataset):
        samples = [(sample.image()[:, :, 0], sample.points()) for sample in dataset[:5]]
        grey = pliant.train(
            dataset_from_arrays(*zip(*samples, strict=True)), size=40, detector=None, confidence=False
        )
        image = np.zeros((96, 96, 3), dtype=np.uint8)
        image[:, :, 1] = 255
        assert_allclose(grey.reconstruct(image, dataset[0].points())[0, 0], LUMA[1], atol=1e-3)

    def test_suspects_see_what_features_see(self, dataset):
        """Red and blue of the same mean are of another brightness: the picture is not blank."""
        from pliant.data.suspects import find_suspects

        def painted(sample):
            image = np.zeros((96, 96, 3), dtype=np.uint8)
            image[:48, :, 0] = image[48:, :, 2] = 240
            return image

        twins = dataset_from_arrays([painted(s) for s in dataset[:4]], [s.points() for s in dataset[:4]])
        found = find_suspects(validate(twins))
        assert "blank" not in {suspect.check for suspect in found}

    def test_one_way_to_8_bits(self, rng):
        image = KINDS["12 bits in 16"](portrait())
        eight = as_bytes(image)
        assert_array_equal(paint_overlay(image, np.full((3, 2), np.nan)), eight)
        assert_array_equal(haar_face(image), haar_face(eight))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def huge_png(side: int) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")


class TestJpeg:
    """OpenCV decodes them, and pixels are those of Pillow."""

    WAYS = (
        {"quality": 95, "subsampling": 0},
        {"quality": 60, "subsampling": 2},
        {"quality": 60, "progressive": True},
        {"quality": 75, "restart_marker_rows": 1},
    )

    UPRIGHT = PIL.Exif()
    UPRIGHT[0x0112] = 1
    SILENT = b"\xff\xe1\x00\x08Exif\0\0"
    """A part with EXIF that says nothing."""

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
    @pytest.mark.parametrize("shape", [(1, 1), (50, 37), (64, 96)])
    @pytest.mark.parametrize("exif", [None, UPRIGHT])
    def test_pixels_are_those_of_pillow(self, tmp_path, rng, mode, way, shape, exif, monkeypatch):
        monkeypatch.setattr("pliant.data.images.legible", lambda image: image)  # One pixel has no contrast.
        noise = PIL.fromarray(rng.integers(0, 256, (5, 4, 3), dtype=np.uint8))
        noise = noise.resize(shape[::-1], PIL.Resampling.BICUBIC).convert(mode)
        noise.save(tmp_path / "a.jpg", **way, **({} if exif is None else {"exif": exif}))
        with PIL.open(tmp_path / "a.jpg") as file:
            expected = np.asarray(file if mode != "CMYK" else file.convert("RGB"))
        image = read_image(tmp_path / "a.jpg")
        assert_array_equal(image, expected)
        assert image.flags.c_contiguous

    @pytest.mark.skipif(not hasattr(cv2, "IMREAD_COLOR_RGB"), reason="OpenCV before 4.11")
    @pytest.mark.parametrize("mode", ["L", "RGB"])
    def test_pillow_reads_no_more_than_the_head(self, tmp_path, monkeypatch, mode):
        PIL.new(mode, (6, 4)).save(tmp_path / "a.jpg")
        PIL.new(mode, (6, 4)).save(tmp_path / "b.jpg", exif=self.UPRIGHT)
        monkeypatch.setattr("PIL.ImageFile.ImageFile.load", None)
        assert read_image(tmp_path / "b.jpg").shape[:2] == (4, 6)
        monkeypatch.setattr("pliant.data.images.PIL.open", None)
        assert read_image(tmp_path / "a.jpg").shape[:2] == (4, 6)
        with pytest.raises(ImageError):
            read_image(tmp_path / "b.jpg")

    @staticmethod
    def encoded(mode="RGB", **way):
        file = BytesIO()
        PIL.new(mode, (6, 4)).save(file, "JPEG", **way)
        return file.getvalue()

    @pytest.mark.parametrize("way", [*WAYS, {"comment": "by hand"}, {"icc_profile": b"colours"}])
    def test_most_heads_are_plain(self, way):
        assert plain_head(self.encoded(**way)) == (4, 6, 3)
        assert plain_head(self.encoded("L", **way)) == (4, 6, 1)

    def test_heads_that_want_a_closer_look_are_not_plain(self):
        plain = self.encoded()
        scan, frame = plain.index(b"\xff\xda"), plain.index(b"\xff\xc0")
        for other in (
            self.encoded("CMYK"),
            self.encoded(exif=self.UPRIGHT),
            plain[:scan] + self.SILENT + plain[scan:],
            plain[:frame] + b"\xff" + plain[frame:],
            plain[:frame] + b"\xff\xc9" + plain[frame + 2 :],
            plain[: frame + 4] + b"\x0c" + plain[frame + 5 :],
            plain[: frame + 5] + b"\0\0" + plain[frame + 7 :],
            plain[: frame + 5] + b"\xff\xff\xff\xff" + plain[frame + 9 :],
            b"\xff\xd8" + plain[scan:],
            b"\xff\xd8\xff\xe0\0\0" + plain[2:],
            b"\x89PNG" + plain[4:],
        ):
            assert plain_head(other) is None
        assert all(plain_head(plain[:end]) is None for end in range(scan + 2))

    def test_a_cut_file_is_damaged_wherever_it_ends(self, tmp_path, rng):
        PIL.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
        content = (tmp_path / "a.jpg").read_bytes()
        for end in range(700, len(content) - 2, 97):
            (tmp_path / "b.jpg").write_bytes(content[:end])
            with pytest.raises(ImageError, match=r"b\.jpg: the image is damaged or incomplete"):
                read_image(tmp_path / "b.jpg")


class TestOddImages:
    @pytest.mark.parametrize("raised", [struct.error, TypeError, NotImplementedError, KeyError, MemoryError])
    @pytest.mark.parametrize("read", [read_image, image_size])
    def test_whatever_a_decoder_raises_is_a_sentence(self, tmp_path, monkeypatch, raised, read):
        def stumble(*_, **__):
            raise raised("deep inside")

        PIL.new("L", (4, 4)).save(tmp_path / "a.png")
        monkeypatch.setattr("pliant.data.images.PIL.open", stumble)
        with pytest.raises(ImageError, match=r"a\.png: "):
            read(tmp_path / "a.png")

    @pytest.mark.parametrize("read", [read_image, image_size])
    def test_the_size_of_a_huge_image_and_the_limit_are_said(self, tmp_path, read):
        (tmp_path / "slide.png").write_bytes(huge_png(60000))
        with pytest.raises(ImageError, match=r"slide\.png: .* 3600000000 pixels, but at most 178956970"):
            read(tmp_path / "slide.png")

    @pytest.mark.parametrize("value", [0, 9, 65535])
    def test_an_orientation_that_does_not_exist_is_none(self, tmp_path, value):
        exif = PIL.Exif()
        exif[0x0112] = value
        PIL.new("L", (6, 4)).save(tmp_path / "a.jpg", exif=exif)
        assert read_image(tmp_path / "a.jpg").shape == (4, 6)
        assert image_size(tmp_path / "a.jpg") == (6, 4)

    def test_damaged_exif_does_not_cost_the_image(self, tmp_path):
        """The type of the orientation becomes that of pairs of numbers, which are not in the file."""
        exif = PIL.Exif()
        exif[0x0112] = 6
        PIL.new("L", (6, 4)).save(tmp_path / "a.jpg", exif=exif)
        content = (tmp_path / "a.jpg").read_bytes()
        for kind in range(14):
            entry = content.index(struct.pack(">HHI", 0x0112, 3, 1))
            damaged = struct.pack(">HHI", 0x0112, kind, 1)
            (tmp_path / "b.jpg").write_bytes(content[:entry] + damaged + content[entry + 8 :])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shape = read_image(tmp_path / "b.jpg").shape
                assert image_size(tmp_path / "b.jpg") == shape[::-1]

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("name", ["a.tif", "a.png", "a.jpg", "a.webp"])
    def test_the_size_is_that_of_the_image(self, tmp_path, name, orientation):
        exif = PIL.Exif()
        exif[0x0112] = orientation
        image = PIL.new("RGB", (24, 16))
        image.paste((255, 255, 255), (0, 0, 8, 8))
        image.save(tmp_path / name, exif=exif)
        read = read_image(tmp_path / name)
        assert image_size(tmp_path / name) == (read.shape[1], read.shape[0])
        # Where the first row and column of the file are seen: EXIF 2.32, table 4.6.6.1.
        top = orientation in (1, 2, 5, 6)
        left = orientation in (1, 4, 5, 8)
        top, left = {5: (True, True), 6: (True, False), 7: (False, False), 8: (False, True)}.get(
            orientation, (top, left)
        )
        assert read[2 if top else -3, 2 if left else -3].min() > 200

    def test_one_odd_image_does_not_stop_the_others(self, tmp_path, dataset, command):
        for number, sample in enumerate(dataset[:4]):
            PIL.fromarray(sample.image()).save(tmp_path / f"{number}.png")
            write_landmarks(tmp_path / f"{number}.pts", sample.points())
        (tmp_path / "slide.png").write_bytes(huge_png(60000))
        write_landmarks(tmp_path / "slide.pts", dataset[4].points())
        said = command("check", tmp_path, code=3)
        assert "slide.png: the image has 3600000000 pixels" in " ".join(said.out.split())
        options = ("--size", 40, "--no-confidence", "--skip-invalid", "--detector", "none")
        command("train", tmp_path, "-o", tmp_path / "m.pliant", *options)
        assert pliant.load(tmp_path / "m.pliant").provenance["left_out"] == 1
        assert "5 objects" in command("convert", tmp_path, tmp_path / "all.csv").out
