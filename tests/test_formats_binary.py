"""Formats of binary files, each against one that pliant did not write.

Samples are put together byte by byte from the description of the format, or by the tool's own library.
"""

import io
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.recfunctions import repack_fields
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from pliant.data.annotation import Annotation
from pliant.data.archives import read_array
from pliant.data.formats import format_of, formats, read_annotations, write_annotations
from pliant.data.formats.parquet import names_in, names_metadata
from pliant.files import IrregularFile

NAN = np.nan


def npy_bytes(described: str, values: bytes) -> bytes:
    """An array by the description of the format in numpy.lib.format: magic, 1.0, length of the header, header."""
    header = described.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


class TestNumpy:
    def test_npy_sample(self, tmp_path):
        values = struct.pack(">6d", 1.5, 2, NAN, NAN, 0, 0.25)
        (tmp_path / "a.npy").write_bytes(
            npy_bytes("{'descr': '>f8', 'fortran_order': False, 'shape': (3, 2)}", values)
        )
        (only,) = read_annotations(tmp_path / "a.npy")
        assert_allclose(only.points, [[1.5, 2], [NAN, NAN], [0, 0.25]])

    def test_npz_sample(self, tmp_path):
        points = struct.pack("<8i", *range(8))
        images = "a, b.jpgc d.jpg\0".encode("utf-32-le")
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr(
                "points.npy",
                npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2, 2)}", points),
            )
            file.writestr(
                "images.npy", npy_bytes("{'descr': '<U8', 'fortran_order': False, 'shape': (2,)}", images)
            )
        first, second = read_annotations(tmp_path / "a.npz")
        assert_allclose([first.points, second.points], [[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
        assert [first.image, second.image] == ["a, b.jpg", "c d.jpg"]

    def test_boxes_survive(self, tmp_path):
        boxed = Annotation("a", np.ones((3, 2)), box=np.array([1, 2.5, 3, 4]))
        write_annotations(tmp_path / "a.npz", [boxed, Annotation("b", np.ones((3, 2)))])
        first, second = read_annotations(tmp_path / "a.npz")
        assert_allclose(first.box, boxed.box)
        assert second.box is None
        write_annotations(tmp_path / "b.npz", [boxed, boxed])
        assert_allclose([one.box for one in read_annotations(tmp_path / "b.npz")], [boxed.box] * 2)

    def test_half_a_box_is_none(self, tmp_path):
        boxes = np.array([[1, 2.5, 3, 4], [1, 2.5, 3, NAN]])
        np.savez(tmp_path / "a.npz", points=np.ones((2, 3, 2)), images=np.array(["a", "b"]), boxes=boxes)
        whole, half = read_annotations(tmp_path / "a.npz")
        assert_allclose(whole.box, boxes[0])
        assert half.box is None

    def test_arrays_are_written_only_if_something_is_in_them(self, tmp_path):
        plain, told = Annotation("a", np.ones((3, 2))), Annotation("b", np.ones((3, 2)), group="g")
        for made, arrays in (
            ([plain], {"points", "images"}),
            ([plain, told], {"points", "images", "groups"}),
        ):
            write_annotations(tmp_path / "a.npz", made)
            with np.load(tmp_path / "a.npz") as file:
                assert set(file) == arrays

    def test_pickles_are_never_read(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("unpickled",))

        np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
        np.savez(tmp_path / "b.npz", points=np.ones((1, 3, 2)), images=np.array([Trap()], dtype=object))
        for name in ("a.npy", "b.npz"):
            with pytest.raises(ValueError, match=f"{name}.* cannot be read, because it holds Python objects"):
                read_annotations(tmp_path / name)

    @pytest.mark.parametrize(
        ("arrays", "sentence"),
        [
            ({"points": np.ones((2, 3, 2))}, r"expected the arrays points .* found points"),
            ({"points": np.ones((3, 2)), "images": np.array(["a"])}, r"must be numbers of shape \(k, v, 2\)"),
            ({"points": np.ones((2, 3, 2)), "images": np.array(["a"])}, r"images must be text \(2,\)"),
            (
                {"points": np.ones((1, 3, 2)), "images": np.array([1])},
                r"images must be text \(1,\), not int64",
            ),
        ],
    )
    def test_wrong_arrays(self, tmp_path, arrays, sentence):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.npz")

    @pytest.mark.parametrize(
        "value",
        [
            np.ones(4),
            np.ones((3, 3)),
            np.ones((2, 3, 2)),
            np.ones((0, 2)),
            np.ones((3, 2), bool),
            np.ones((3, 2), "U"),
        ],
    )
    def test_arrays_that_are_no_points(self, tmp_path, value):
        np.save(tmp_path / "a.npy", value)
        with pytest.raises(ValueError, match=r"a.npy: expected numbers of shape \(v, 2\)"):
            read_annotations(tmp_path / "a.npy")

    @pytest.mark.parametrize("kind", [np.float32, np.int16, np.uint8])
    def test_numbers_of_any_kind(self, tmp_path, kind):
        np.save(tmp_path / "a.npy", np.array([[1, 2]], kind))
        assert_array_equal(read_annotations(tmp_path / "a.npy")[0].points, [[1, 2]])

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"points": np.ones((2, 3, 3))}, "points must be numbers"),
            ({"points": np.ones((2, 0, 2))}, "points must be numbers"),
            ({"points": np.ones((2, 3, 2), "U")}, "points must be numbers"),
            ({"names": np.array(["a", "b"])}, r"names must be text \(3,\)"),
            ({"groups": np.array(["a"])}, r"groups must be text \(2,\)"),
            ({"boxes": np.ones((2, 3))}, r"boxes must be numbers \(2, 4\)"),
            ({"boxes": np.array([["1"] * 4] * 2)}, r"boxes must be numbers \(2, 4\)"),
        ],
    )
    def test_arrays_that_do_not_fit_together(self, tmp_path, changes, sentence):
        whole = {"points": np.ones((2, 3, 2)), "images": np.array(["a", "b"])}
        np.savez(tmp_path / "a.npz", **whole | {"other": np.ones(7)})
        assert len(read_annotations(tmp_path / "a.npz")) == 2
        np.savez(tmp_path / "a.npz", **whole | changes)
        with pytest.raises(ValueError, match=sentence):
            read_annotations(tmp_path / "a.npz")

    def test_damage(self, tmp_path):
        np.save(tmp_path / "a.npy", np.ones((3, 3)))
        with pytest.raises(ValueError, match=r"expected numbers of shape \(v, 2\), found float64 \(3, 3\)"):
            read_annotations(tmp_path / "a.npy")
        np.savez(tmp_path / "b.npz", points=np.ones((1, 3, 2)), images=np.array(["a"]))
        for name, whole in (("a.npy", tmp_path / "a.npy"), ("b.npz", tmp_path / "b.npz")):
            whole.write_bytes(whole.read_bytes()[:-20])
            with pytest.raises(ValueError, match=f"{name}: .*cannot be read"):
                read_annotations(whole)


def roi_bytes(points, *, kind=10, subpixel=True) -> bytes:
    """A ROI by the layout in ImageJ's RoiDecoder: 64 bytes, then shorts from the left top, then floats."""
    points = np.asarray(points, dtype=float)
    whole = np.floor(points).astype(int)
    left, top = whole.min(axis=0)
    right, bottom = whole.max(axis=0) + 1
    header = bytearray(64)
    header[:4] = b"Iout"
    struct.pack_into(">hBB5h", header, 4, 227, kind, 0, top, left, bottom, right, len(points))
    struct.pack_into(">h", header, 50, 128 if subpixel else 0)
    body = b"".join(struct.pack(f">{len(points)}h", *axis) for axis in (whole - (left, top)).T)
    floats = b"".join(struct.pack(f">{len(points)}f", *axis) for axis in points.T)
    return bytes(header) + body + (floats if subpixel else b"")


class TestImageJ:
    def test_subpixel_points(self, tmp_path):
        # Integers are centres of pixels in ImageJ's points, so that nothing is added.
        (tmp_path / "a.roi").write_bytes(roi_bytes([[10.5, 20.25], [30, 2]]))
        assert_allclose(read_annotations(tmp_path / "a.roi")[0].points, [[10.5, 20.25], [30, 2]])

    def test_whole_pixels_are_counted_from_the_left_top_of_the_roi(self, tmp_path):
        (tmp_path / "a.roi").write_bytes(roi_bytes([[10, 20], [30, 2]], subpixel=False))
        assert_allclose(read_annotations(tmp_path / "a.roi")[0].points, [[10, 20], [30, 2]])

    @pytest.mark.parametrize(
        ("files", "names"),
        [(("nose.roi", "chin.roi"), ("nose", "chin")), (("0002-0010.roi", "0003-0030.roi"), ())],
    )
    def test_roi_manager(self, tmp_path, files, names):
        with zipfile.ZipFile(tmp_path / "RoiSet.zip", "w") as file:
            for name, x in zip(files, (10, 30), strict=True):
                file.writestr(name, roi_bytes([[x, 2]]))
        (only,) = read_annotations(tmp_path / "RoiSet.zip")
        assert_allclose(only.points, [[10, 2], [30, 2]])
        assert only.names == names

    @pytest.mark.parametrize(
        "members",
        [
            [("nose.roi", 1)],
            [("nose.roi", 1), ("0003-0030.roi", 1)],
            [("nose.roi", 1), ("0003-0030-0002.roi", 1)],
            [("nose.roi", 1), ("chin.roi", 2)],
        ],
    )
    def test_names_only_if_every_landmark_was_given_one(self, tmp_path, members):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            for name, count in members:
                file.writestr(name, roi_bytes([[1, 2]] * count))
            file.writestr("notes.txt", "nothing")
        (only,) = read_annotations(tmp_path / "a.zip")
        assert only.names == ()
        assert len(only.points) == sum(count for _, count in members)

    def test_an_archive_is_known_by_the_name_of_its_first_member(self, tmp_path):
        """What lies behind the name is not looked at, however long it is."""
        for name, known in (("nose.roi", True), ("nose.txt", False)):
            member = zipfile.ZipInfo(name)
            member.extra = struct.pack("<HH", 0xCAFE, 4) + b".roi"
            with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
                file.writestr(member, roi_bytes([[1, 2]]))
            head = (tmp_path / "a.zip").read_bytes()[:8192]
            assert formats()["imagej"].recognises(tmp_path / "a.zip", head) == known

    def test_landmarks_without_names_are_numbered(self, tmp_path):
        write_annotations(tmp_path / "a.zip", [Annotation("", np.array([[1.5, 2], [3, 4]]))], "imagej")
        (back,) = read_annotations(tmp_path / "a.zip")
        assert back.names == ("landmark 0", "landmark 1")
        with zipfile.ZipFile(tmp_path / "a.zip") as file:
            assert file.namelist() == ["0000 landmark 0.roi", "0001 landmark 1.roi"]

    def test_points_of_one_roi_may_be_counted_but_only_in_one_slice(self, tmp_path):
        import roifile

        for slices in ([3, 3], [3, 4]):
            roi = roifile.ImagejRoi.frompoints(np.array([[1.0, 2], [3, 4]]))
            roi.roitype = roifile.ROI_TYPE.POINT
            roi.counters, roi.counter_positions = np.array([0, 1], np.uint8), np.array(slices, np.uint32)
            (tmp_path / "a.roi").write_bytes(roi.tobytes())
            if slices == [3, 3]:
                assert_allclose(read_annotations(tmp_path / "a.roi")[0].points, [[1, 2], [3, 4]])
        with pytest.raises(ValueError, match="the points of a.roi are in several slices"):
            read_annotations(tmp_path / "a.roi")

    def test_an_archive_without_points_is_a_sentence(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            file.writestr("notes.txt", "nothing")
        with pytest.raises(ValueError, match="a.zip: there are no points in this file"):
            read_annotations(tmp_path / "a.zip", "imagej")

    def test_what_imagej_reads(self, tmp_path):
        write_annotations(tmp_path / "a.roi", [Annotation("", np.array([[10.5, 20.25], [30, 2]]))])
        written = (tmp_path / "a.roi").read_bytes()
        version, kind = struct.unpack_from(">hB", written, 4)
        assert written[:4] == b"Iout"
        assert version >= 222  # before, there are no floats
        assert (kind, struct.unpack_from(">h", written, 16)[0]) == (10, 2)
        assert struct.unpack_from(">h", written, 50)[0] & 128
        assert struct.unpack_from(">4f", written, 64 + 8) == (10.5, 30, 20.25, 2)

    def test_zip_keeps_names(self, tmp_path):
        annotation = Annotation("", np.array([[1.5, 2], [3, 4]]), ("eye/left", "nose"))
        write_annotations(tmp_path / "a.zip", [annotation], "imagej")
        (back,) = read_annotations(tmp_path / "a.zip")
        assert back.names == annotation.names
        assert_allclose(back.points, annotation.points)

    def test_what_is_no_landmark(self, tmp_path):
        (tmp_path / "a.roi").write_bytes(roi_bytes([[1, 2], [3, 4], [5, 1]], kind=0))
        with pytest.raises(ValueError, match="a.roi is a polygon, not a point"):
            read_annotations(tmp_path / "a.roi")
        moved = bytearray(roi_bytes([[1, 2]]))
        struct.pack_into(">i", moved, 56, 7)
        with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
            file.writestr("a.roi", roi_bytes([[1, 2]]))
            file.writestr("b.roi", bytes(moved))
        with pytest.raises(ValueError, match="several slices"):
            read_annotations(tmp_path / "b.zip")

    @pytest.mark.parametrize("length", [5, 40, 66])
    def test_damage(self, tmp_path, length):
        (tmp_path / "a.roi").write_bytes(roi_bytes([[1, 2], [3, 4]])[:length])
        with pytest.raises(ValueError, match="a.roi: this ROI is damaged"):
            read_annotations(tmp_path / "a.roi")

    def test_damaged_zip(self, tmp_path):
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as file:
            file.writestr("a.roi", roi_bytes([[1, 2]]))
        (tmp_path / "a.zip").write_bytes(whole.getvalue()[:-10])
        with pytest.raises(ValueError, match="a.zip: this archive cannot be read"):
            read_annotations(tmp_path / "a.zip")


class TestSleap:
    @staticmethod
    def labels(video, frames):
        """Labels made by SLEAP's own library: the two nodes of frame k are at (1.5 + k, 2) and nowhere."""
        import sleap_io

        skeleton = sleap_io.Skeleton(["nose", "tail"])
        points = {k: np.array([[1.5 + k, 2], [NAN, NAN]]) for k in frames}
        labelled = [
            sleap_io.LabeledFrame(
                video=video,
                frame_idx=k,
                instances=[
                    sleap_io.Instance.from_numpy(points[k], skeleton=skeleton),
                    sleap_io.PredictedInstance.from_numpy(points[k] + 50, skeleton=skeleton),
                ],
            )
            for k in frames
        ]
        return sleap_io.Labels(labelled, videos=[video], skeletons=[skeleton])

    def test_embedded_frames(self, tmp_path, rng):
        import sleap_io

        pictures = rng.integers(0, 255, (3, 20, 30, 3)).astype(np.uint8)
        files = [str(tmp_path / f"image {k}.png") for k in range(3)]
        for file, picture in zip(files, pictures, strict=True):
            Image.fromarray(picture).save(file)
        labels = self.labels(sleap_io.Video.from_filename(files), (0, 2))
        sleap_io.save_slp(labels, str(tmp_path / "a.pkg.slp"), embed=True, verbose=False)
        first, second = read_annotations(tmp_path / "a.pkg.slp")
        assert_allclose(first.points, [[1.5, 2], [NAN, NAN]])
        assert_allclose(second.points, [[3.5, 2], [NAN, NAN]])
        assert (first.names, first.image) == (("nose", "tail"), files[0])
        assert_array_equal(second.pixels(), pictures[2])

    def test_frames_of_a_video(self, tmp_path):
        import sleap_io

        video = sleap_io.Video(filename="/far/away/mouse run.mp4", open_backend=False)
        sleap_io.save_slp(self.labels(video, (0, 12)), str(tmp_path / "a.slp"), embed=False)
        _, second = read_annotations(tmp_path / "a.slp")
        assert (second.image, second.group) == ("mouse run 000012", "mouse run.mp4")
        with pytest.raises(
            ValueError, match=r"a.slp: frame 12 of .*mouse run.mp4 .* not a file on this machine"
        ):
            second.pixels()

    def test_a_damaged_video_is_a_sentence(self, tmp_path):
        import sleap_io

        (tmp_path / "mouse.mp4").write_bytes(b"no video")
        video = sleap_io.Video(filename=str(tmp_path / "mouse.mp4"), open_backend=False)
        sleap_io.save_slp(self.labels(video, (3,)), str(tmp_path / "a.slp"), embed=False)
        [only] = read_annotations(tmp_path / "a.slp")
        with pytest.raises(ValueError, match=r"a.slp: frame 3 of .*mouse.mp4 cannot be read \("):
            only.pixels()

    def test_nothing_is_opened_that_a_file_names(self, tmp_path, monkeypatch):
        """A name may be an address, and whoever opens it asks for it."""
        import sleap_io

        asked = []
        load, video = sleap_io.load_slp, sleap_io.Video
        monkeypatch.setattr(
            sleap_io,
            "load_slp",
            lambda *args, **how: [asked.append(how["open_videos"]), load(*args, **how)][1],
        )
        monkeypatch.setattr(
            sleap_io, "Video", lambda **how: [asked.append(how["open_backend"]), video(**how)][1]
        )
        write_annotations(tmp_path / "a.slp", [Annotation("a.png", np.ones((2, 2)), ("a", "b"))])
        read_annotations(tmp_path / "a.slp")
        assert asked == [False, False]

    def test_what_cannot_be_weighed_is_not_unpacked(self, tmp_path, monkeypatch):
        import h5py

        def damaged(*args):
            raise RuntimeError("a part is damaged")

        write_annotations(tmp_path / "a.slp", [Annotation("a.png", np.ones((2, 2)), ("a", "b"))])
        monkeypatch.setattr(h5py.Group, "visititems", damaged)
        with pytest.raises(ValueError, match=r"a.slp: this file cannot be read \(a part is damaged\)"):
            read_annotations(tmp_path / "a.slp")

    def test_recognised_by_its_first_bytes_and_its_ending(self):
        head = b"\x89HDF\r\n\x1a\n"
        known = [("a.slp", head), ("a.SLP", head), ("a.h5", head), ("a.slp", b"scorer")]
        found = [formats()["sleap"].recognises(Path(name), begin) for name, begin in known]
        assert found == [True, True, False, False]

    def test_a_folder_is_no_file(self, tmp_path):
        """HDF5 opens files by their names: without a look, it would wait for a pipe."""
        (tmp_path / "a.slp").mkdir()
        with pytest.raises(IrregularFile, match="a folder, but a plain file is needed"):
            read_annotations(tmp_path / "a.slp", "sleap")

    def test_old_files_count_from_the_corner(self, tmp_path):
        import h5py
        import sleap_io

        video = sleap_io.Video(filename="a.mp4", open_backend=False)
        sleap_io.save_slp(self.labels(video, (0,)), str(tmp_path / "a.slp"), embed=False)
        with h5py.File(tmp_path / "a.slp", "a") as file:
            file["metadata"].attrs["format_id"] = 1.0
            instances = file["instances"][:]
            del file["instances"]  # which had nine columns then
            file["instances"] = repack_fields(instances[list(instances.dtype.names[:9])])
        assert_allclose(read_annotations(tmp_path / "a.slp")[0].points[0], [1, 1.5])

    def test_predictions_alone_are_refused(self, tmp_path):
        import sleap_io

        labels = self.labels(sleap_io.Video(filename="a.mp4", open_backend=False), (0,))
        labels[0].instances = labels[0].instances[1:]
        sleap_io.save_slp(labels, str(tmp_path / "a.slp"), embed=False)
        with pytest.raises(ValueError, match="no instances placed by a person"):
            read_annotations(tmp_path / "a.slp")

    def test_what_would_unpack_to_too_much_is_refused(self, tmp_path, monkeypatch):
        """Frames of videos stay packed, and are not counted."""
        import h5py

        monkeypatch.setattr("pliant.data.archives._FREE", 10_000)
        monkeypatch.setattr("pliant.data.archives._GROWTH", 1)
        for name, sentence in (("points", "would unpack to"), ("video0/video", "this file cannot be read")):
            with h5py.File(tmp_path / "a.slp", "w") as file:
                file.create_dataset(name, data=np.zeros(100_000), compression="gzip")
            with pytest.raises(ValueError, match=f"a.slp: .*{sentence}"):
                read_annotations(tmp_path / "a.slp")

    def test_what_is_written(self, tmp_path):
        """Instances of one image share a frame; images stay in the order in which they came."""
        import sleap_io

        points = np.array([[1.5, 2], [3, 4]])
        made = [
            Annotation(image, points + k, ("a", "b")) for k, image in enumerate(("y.png", "x.png", "y.png"))
        ]
        write_annotations(tmp_path / "a.slp", made)
        labels = sleap_io.load_slp(str(tmp_path / "a.slp"), open_videos=False)
        assert [frame.frame_idx for frame in labels] == [0, 1]
        assert [len(frame.instances) for frame in labels] == [2, 1]
        back = read_annotations(tmp_path / "a.slp")
        assert [one.image for one in back] == ["y.png", "y.png", "x.png"]
        assert [one.points[0, 0] for one in back] == [1.5, 3.5, 2.5]
        assert {(one.group, one.pixels) for one in back} == {("", None)}

    def test_damage(self, tmp_path):
        (tmp_path / "a.slp").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
        with pytest.raises(ValueError, match="a.slp: this file cannot be read"):
            read_annotations(tmp_path / "a.slp")


@pytest.mark.parametrize(
    ("name", "library", "head"),
    [("sleap", "sleap_io", b"\x89HDF\r\n\x1a\n"), ("imagej", "roifile", b"Iout")],
)
def test_a_missing_library_is_named(name, library, head, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    path = tmp_path / f"a{formats()[name].EXTENSIONS[0]}"
    path.write_bytes(head)
    assert name == format_of(path)[0].NAME
    with pytest.raises(ValueError, match=rf"pip install 'pliant\[{name}\]'"):
        read_annotations(path)
    with pytest.raises(ValueError, match=rf"pip install 'pliant\[{name}\]'"):
        write_annotations(path, [Annotation("a", np.ones((3, 2)))])


class TestParquet:
    def test_a_table_that_another_tool_wrote(self, tmp_path):
        """Columns as pyarrow writes them: the landmark at the centre of column 2, row 1 is (2, 1)."""
        import pyarrow as pa
        from pyarrow import parquet

        columns = {
            "image": ["a.jpg", "bad.jpg", "b.jpg"],
            "x": [[2.0, 3.5], None, [0.0, float("nan")]],
            "y": [[1.0, 4.25], None, [0.0, float("nan")]],
            "width": [64, None, None],
            "height": [48, None, None],
        }
        parquet.write_table(pa.table(columns), tmp_path / "fits.parquet")
        first, second = read_annotations(tmp_path / "fits.parquet")
        assert (first.image, first.size, second.image, second.size) == ("a.jpg", (64, 48), "b.jpg", None)
        assert_allclose(first.points, [[2, 1], [3.5, 4.25]])
        assert_allclose(second.points, [[0, 0], [np.nan, np.nan]])

    @pytest.mark.parametrize(
        ("columns", "sentence"),
        [
            ({"image": ["a"], "x": [[1.0]]}, "there is no column y"),
            (
                {"image": ["a"], "x": [[1.0]], "y": [[1.0, 2.0]]},
                "row 1: x and y must be .* of the same length",
            ),
            ({"image": ["a"], "x": [[1.0]], "y": [None]}, "row 1: x and y must be lists"),
            ({"image": ["a"], "x": [None], "y": [[1.0]]}, "row 1: x and y must be lists"),
            ({"image": ["a"], "x": [1.0], "y": [2.0]}, "row 1: x and y must be lists"),
            ({"x": [[1.0]], "y": [[1.0]]}, "there is no column image"),
            ({"image": ["a"], "x": [[1.0]], "y": [1.0]}, "row 1: x and y must be lists"),
            ({"image": ["a", "b"], "x": [None, ["u"]], "y": [None, ["v"]]}, "row 2: x and y must be lists"),
            ({"image": ["a"], "x": [[[1.0]]], "y": [[[2.0]]]}, "row 1: x and y must be lists of numbers"),
            (
                {"image": ["a"], "x": [[1.0]], "y": [[2.0]], "width": [4], "height": [4.5]},
                "row 1: width and height must be whole",
            ),
            ({"image": ["a"], "x": [[1.0]], "y": [[2.0]], "names": ["n"]}, "row 1: names must be a list"),
            (
                {"image": ["a"], "x": [[1.0]], "y": [[2.0]], "names": [["n", "m"]]},
                "1 landmarks of a, but 2 names",
            ),
        ],
    )
    def test_other_tables_get_a_sentence(self, tmp_path, columns, sentence):
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=f"t.parquet.*{sentence}"):
            read_annotations(tmp_path / "t.parquet")

    def test_what_else_is_known_is_kept(self, tmp_path):
        points = np.array([[1.5, 2], [NAN, NAN]])
        made = [
            Annotation("a", points, ("n", "m"), size=(30, 20), group="g", spacing=0.5),
            Annotation("b", points, ("n", "m")),
        ]
        write_annotations(tmp_path / "t.parquet", made)
        first, second = read_annotations(tmp_path / "t.parquet")
        assert (first.names, first.size, first.group, first.spacing) == (("n", "m"), (30, 20), "g", 0.5)
        assert (second.names, second.size, second.group, second.spacing) == (("n", "m"), None, "", None)
        assert_array_equal(first.points, points)
        with pytest.raises(ValueError, match="the same landmarks in each image"):
            write_annotations(tmp_path / "t.parquet", [made[0], Annotation("c", points)])

    @pytest.mark.parametrize(("column", "name"), [("scale", "spacing"), ("confidence", "score")])
    @pytest.mark.parametrize("value", [0.5, None])
    def test_what_one_object_has_is_a_column(self, tmp_path, column, name, value):
        from pyarrow import parquet

        write_annotations(tmp_path / "t.parquet", [Annotation("a", np.ones((2, 2)), **{name: value})])
        assert (column in parquet.read_schema(tmp_path / "t.parquet").names) == (value is not None)
        assert getattr(read_annotations(tmp_path / "t.parquet")[0], name) == value

    def test_names_for_the_metadata(self):
        assert names_in(names_metadata(("n", "m"))) == ("n", "m")
        assert names_metadata(()) == {}

    @pytest.mark.parametrize("side", ["width", "height"])
    def test_a_size_has_two_sides(self, tmp_path, side):
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(
            pa.table({"image": ["a"], "x": [[1.0]], "y": [[2.0]], side: [4]}), tmp_path / "t.parquet"
        )
        assert read_annotations(tmp_path / "t.parquet")[0].size is None

    @pytest.mark.parametrize(
        ("told", "names"),
        [('["n", "m"]', ("n", "m")), ('["n"]', ()), ('["n", 3]', ()), ('"nm"', ()), ("[", ())],
    )
    def test_names_of_a_whole_table(self, tmp_path, told, names):
        """They count if there are as many as landmarks, and all are text."""
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table({"image": ["a"], "x": [[1.0, 2.0]], "y": [[1.0, 2.0]]})
        parquet.write_table(table.replace_schema_metadata({"landmark_names": told}), tmp_path / "t.parquet")
        assert read_annotations(tmp_path / "t.parquet")[0].names == names

    def test_damage_gets_a_sentence(self, tmp_path):
        (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
        with pytest.raises(ValueError, match=r"t.parquet: this Parquet file cannot be read"):
            read_annotations(tmp_path / "t.parquet")


def test_an_error_without_a_message_is_named(monkeypatch):
    """Some readers raise an exception that says nothing; an empty pair of brackets would help nobody."""

    def silent(file):
        raise EOFError

    monkeypatch.setattr("pliant.data.archives._array_header", silent)
    with pytest.raises(ValueError, match=r"faces.npz: this array cannot be read \(EOFError\)"):
        read_array(b"", "faces.npz")
