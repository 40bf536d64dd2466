"""DICOM images, made here: the window, slope and intercept, what is black, the size of a pixel, and refusals."""

import sys

import numpy as np
import pydicom
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, JPEGLSLossless, SecondaryCaptureImageStorage, generate_uid

import pliant
from pliant.appearance.tones import stretched
from pliant.data.annotation import Annotation
from pliant.data.dataset import Sample
from pliant.data.formats import write_landmarks
from pliant.data.images import ImageError, image_size, image_spacing, read_image


def write(path, stored, **tags):
    """A file of one image `(h, w)` or `(h, w, 3)`, or several `(frames, h, w)`."""
    header = Dataset()
    header.file_meta = FileMetaDataset()
    header.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header.file_meta.MediaStorageSOPClassUID = header.SOPClassUID = SecondaryCaptureImageStorage
    header.file_meta.MediaStorageSOPInstanceUID = header.SOPInstanceUID = generate_uid()
    colour = stored.ndim == 3 and stored.shape[2] == 3
    header.SamplesPerPixel = 3 if colour else 1
    if colour:
        header.PlanarConfiguration = 0
    header.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    header.Rows, header.Columns = stored.shape[:2] if colour else stored.shape[-2:]
    header.BitsAllocated = 8 * stored.dtype.itemsize
    header.BitsStored, header.HighBit = header.BitsAllocated, header.BitsAllocated - 1
    header.PixelRepresentation = int(stored.dtype.kind == "i")
    header.PixelData = stored.tobytes()
    for name, value in tags.items():
        setattr(header, name, value)
    header.save_as(path, enforce_file_format=True)
    return path


@pytest.fixture
def twelve(rng):
    return rng.integers(200, 3900, (40, 30)).astype(np.uint16)


def test_eight_bits_stay(tmp_path, rng):
    grey = rng.integers(0, 256, (12, 10), dtype=np.uint8)
    assert_array_equal(read_image(write(tmp_path / "a.dcm", grey)), grey)
    assert_array_equal(
        read_image(write(tmp_path / "b.dcm", grey, PhotometricInterpretation="MONOCHROME1")), 255 - grey
    )
    colour = rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)
    assert_array_equal(read_image(write(tmp_path / "c.dcm", colour)), colour)


def test_the_range_is_found_where_there_is_no_window(tmp_path, twelve):
    write(tmp_path / "a.dcm", twelve, BitsStored=12, HighBit=11)
    assert_allclose(read_image(tmp_path / "a.dcm"), stretched(twelve), atol=1e-6)
    write(tmp_path / "b.dcm", twelve, PhotometricInterpretation="MONOCHROME1")
    assert_allclose(read_image(tmp_path / "b.dcm"), 1 - stretched(twelve), atol=1e-6)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    # The standard, C.11.2.1.2: LINEAR begins at c - 0.5 - (w - 1) / 2, LINEAR_EXACT at c - w / 2.
    [("LINEAR", 1000, 1999), ("LINEAR_EXACT", 1000, 2000)],
)
def test_the_window_is_applied_after_slope_and_intercept(tmp_path, function, low, high):
    stored = np.array([[500, 1000], [1200, 1499], [1500, 4000]], dtype=np.int16)
    window = {"WindowCenter": [1500, 40], "WindowWidth": [1000, 400], "VOILUTFunction": function}
    write(tmp_path / "a.dcm", stored, RescaleSlope=2, RescaleIntercept=-1000, **window)
    expected = np.clip((stored * 2.0 - 1000 - low) / (high - low), 0, 1)
    assert_allclose(read_image(tmp_path / "a.dcm"), expected, atol=1e-6)


def test_padding_has_no_say_in_the_range(tmp_path, twelve):
    values = twelve.astype(np.int16)
    values[:15] = -2000
    write(tmp_path / "a.dcm", values, PixelPaddingValue=-2000)
    assert np.ptp(read_image(tmp_path / "a.dcm")[15:]) > 0.95


def test_size_and_spacing_come_from_the_head(tmp_path, twelve):
    path = write(tmp_path / "a.dcm", twelve, PixelSpacing=[0.2, 0.2])
    cut = tmp_path / "cut.dcm"
    cut.write_bytes(path.read_bytes()[:-1000])
    assert image_size(cut) == (30, 40)
    assert image_spacing(cut) == pytest.approx(0.2)
    assert image_spacing(write(tmp_path / "b.dcm", twelve, ImagerPixelSpacing=[0.1, 0.1])) == pytest.approx(
        0.1
    )
    assert image_spacing(write(tmp_path / "c.dcm", twelve, PixelSpacing=[0.2, 0.3])) is None
    assert image_spacing(write(tmp_path / "d.dcm", twelve)) is None
    with pytest.raises(ImageError, match=r"cut\.dcm: "):
        read_image(cut)


def test_what_is_not_read_gets_a_sentence(tmp_path, twelve):
    write(tmp_path / "film.dcm", np.stack([twelve] * 3), NumberOfFrames=3)
    for read in (read_image, image_size):
        with pytest.raises(ImageError, match=r"film\.dcm: this DICOM file has 3 frames"):
            read(tmp_path / "film.dcm")
    header = pydicom.dcmread(write(tmp_path / "a.dcm", twelve))
    header.file_meta.TransferSyntaxUID = JPEGLSLossless
    header.PixelData = pydicom.encaps.encapsulate([b"\xff\xd8\xff\xd9"])
    header["PixelData"].VR = "OB"
    header.save_as(tmp_path / "jpegls.dcm")
    with pytest.raises(
        ImageError, match=r"jpegls\.dcm: its pixels \(JPEG-LS .*\) cannot be decoded here: try pip install"
    ):
        read_image(tmp_path / "jpegls.dcm")
    del header.Rows, header.PixelData
    header.save_as(tmp_path / "report.dcm")
    for read in (read_image, image_size):
        with pytest.raises(ImageError, match=r"report\.dcm: this DICOM file has no image"):
            read(tmp_path / "report.dcm")


def test_without_pydicom_the_pip_line_is_said(tmp_path, twelve, monkeypatch):
    write(tmp_path / "a.dcm", twelve)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    for read in (read_image, image_size, image_spacing):
        with pytest.raises(ImageError, match=r"a\.dcm: .*pip install 'pliant\[dicom\]'"):
            read(tmp_path / "a.dcm")


def test_a_folder_of_radiographs(tmp_path, dataset):
    """Files that end in .dcm find the landmarks beside them, and train a model."""
    for number, sample in enumerate(dataset[:4]):
        write(tmp_path / f"{number}.dcm", sample.image()[:, :, 0].astype(np.uint16) * 12)
        write_landmarks(tmp_path / f"{number}.pts", sample.points())
    found = pliant.load_dataset(tmp_path)
    assert len(found) == 4
    assert pliant.train(found, size=40, detector=None, confidence=False).provenance["more_than_8_bits"] == 4


def test_a_sample_knows_the_length_of_its_pixels(tmp_path, twelve):
    """The landmark file comes first, then the image; other images have none."""
    image = write(tmp_path / "a.dcm", twelve, PixelSpacing=[0.2, 0.2])
    points = np.zeros((3, 2))
    assert Sample("a", image, Annotation("", points)).spacing() == pytest.approx(0.2)
    assert Sample("a", image, Annotation("", points, spacing=0.5)).spacing() == 0.5
    assert Sample("a", lambda: np.zeros((4, 4)), Annotation("", points)).spacing() is None
