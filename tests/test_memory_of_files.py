"""A small file asks for little memory, whatever it claims to hold."""

import io
import json
import resource
import zipfile

import numpy as np
import pytest

from pliant.data import addresses
from pliant.data.formats import read_annotations
from pliant.data.images import ImageError, read_image
from pliant.data.landmark_files import annotations_in
from pliant.data.manifest import read_manifest

BOMB = "bytes would unpack to"


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def array(shape, dtype="<f8", data=b""):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    return head.getvalue() + data


@pytest.fixture(autouse=True)
def little_memory():
    """Three gigabytes more than there is now, so that a test that fails does not take the machine with it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 3 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class TestArrays:
    def test_what_unpacks_to_a_thousand_times_its_size(self, tmp_path):
        points = array((1, 2**23, 2), data=bytes(2**27))
        path = zipped(tmp_path / "a.npz", {"points.npy": points, "images.npy": b""})
        with pytest.raises(ValueError, match=f"a.npz: .*{BOMB} 134,"):
            read_annotations(path)

    def test_members_of_other_names_are_not_unpacked(self, tmp_path):
        good, images = io.BytesIO(), io.BytesIO()
        np.save(good, np.ones((1, 3, 2)))
        np.save(images, np.array(["a.jpg"]))
        members = {"points.npy": good.getvalue(), "images.npy": images.getvalue(), "z.npy": bytes(2**27)}
        (annotation,) = read_annotations(zipped(tmp_path / "a.npz", members))
        assert annotation.points.shape == (3, 2)

    @pytest.mark.parametrize("shape", [(10**12, 2), (2**62, 2), (2**64, 2), (-1, 2), (3, -2)])
    def test_headers_that_announce_more_than_there_is(self, shape, tmp_path):
        (tmp_path / "a.npy").write_bytes(array(shape, data=bytes(64)))
        with pytest.raises(ValueError, match="a.npy: .*, but 64 bytes follow"):
            read_annotations(tmp_path / "a.npy")
        path = zipped(tmp_path / "b.npz", {"points.npy": array((1, *shape), data=bytes(64))})
        with pytest.raises(ValueError, match="b.npz, points: .*, but 64 bytes follow"):
            read_annotations(path)

    @pytest.mark.parametrize("header", ["(" * 9000, "{[]: 1}", "{'descr': 1}", "1" * 9000, "'''", "{1:"])
    def test_headers_that_are_no_literals(self, header, tmp_path):
        head = header.encode().ljust(9984) + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
        (tmp_path / "a.npy").write_bytes(content)
        with pytest.raises(ValueError, match="a.npy: this array cannot be read"):
            read_annotations(tmp_path / "a.npy")

    def test_large_and_honest_files_are_read(self, tmp_path, rng):
        names = np.array([f"faces/person {number:06d}/photograph.jpg" for number in range(5000)])
        points = rng.uniform(0, 500, (5000, 68, 2)).round(1)
        np.savez_compressed(tmp_path / "a.npz", points=points, images=names)
        assert len(read_annotations(tmp_path / "a.npz")) == 5000


def test_rois(tmp_path):
    path = zipped(tmp_path / "a.zip", {f"{number}.roi": bytes(2**24) for number in range(8)})
    with pytest.raises(ValueError, match=f"a.zip: .*{BOMB} 134,"):
        read_annotations(path)


class TestParquet:
    def test_rows_that_repeat(self, tmp_path):
        import pyarrow as pa
        from pyarrow import parquet

        rows = 30_000_000
        image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["a.jpg"]))
        parquet.write_table(pa.table({"image": image, "group": image}), tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 10**6
        with pytest.raises(ValueError, match=f"a.parquet: .*{BOMB}"):
            read_manifest(tmp_path / "a.parquet")

    @pytest.mark.parametrize("plain", [False, True])
    def test_texts_that_repeat(self, plain, tmp_path):
        import pyarrow as pa
        from pyarrow import parquet

        rows = 20_000
        image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int16)), pa.array(["a" * 100_000]))
        if plain:  # As other writers have it: the text stands once in the file all the same.
            image = pa.chunked_array([image.slice(0, 100).dictionary_decode()] * (rows // 100))
        nothing = pa.array([[1.0]] * rows)
        parquet.write_table(pa.table({"image": image, "x": nothing, "y": nothing}), tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=f"a.parquet: .*{BOMB}"):
            read_annotations(tmp_path / "a.parquet")


def test_sleap(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.slp", "w") as file:
        file.create_dataset("points", (2**24,), "<f8", chunks=(2**20,), compression="gzip")
    with pytest.raises(ValueError, match=f"a.slp: .*{BOMB} 134,"):
        read_annotations(tmp_path / "a.slp")


def test_objects_that_share_no_landmark(tmp_path):
    """A table of objects by names, filled along its diagonal alone."""
    count = 3000
    (tmp_path / "a.csv").write_text(
        "image,landmark,x,y\n" + "".join(f"{number}.jpg,p{number},1,1\n" for number in range(count))
    )
    parts = "".join(
        f"<image file='{n}'><box top='1' left='1' width='9' height='9'>"
        f"<part name='p{n}' x='1' y='1'/></box></image>"
        for n in range(count)
    )
    (tmp_path / "b.xml").write_text(f"<dataset><images>{parts}</images></dataset>")
    skeletons = "".join(
        f"<image name='{n}'><skeleton label='a'><points label='p{n}' points='1,1'/></skeleton></image>"
        for n in range(count)
    )
    (tmp_path / "c.xml").write_text(f"<annotations>{skeletons}</annotations>")
    tasks = [
        {
            "data": {"image": f"{n}.jpg"},
            "annotations": [
                {
                    "result": [
                        {
                            "type": "keypointlabels",
                            "original_width": 9,
                            "original_height": 9,
                            "value": {"x": 1, "y": 1, "keypointlabels": [f"p{n}"]},
                        }
                    ]
                }
            ],
        }
        for n in range(count)
    ]
    (tmp_path / "d.json").write_text(json.dumps(tasks))
    for name in ("a.csv", "b.xml", "c.xml", "d.json"):
        with pytest.raises(
            ValueError, match=f"{name}: 3000 objects have 3000 landmarks with different names"
        ):
            read_annotations(tmp_path / name)


def test_images_in_images_are_read_once(tmp_path):
    depth = 3000
    box = "<box top='1' left='1' width='9' height='9'><part name='0' x='1' y='1'/></box>" * depth
    text = "<image file='a'>" * depth + box + "</image>" * depth
    (tmp_path / "a.xml").write_text(f"<dataset><images>{text}</images></dataset>")
    assert len(read_annotations(tmp_path / "a.xml")) == depth


def test_what_an_archive_unpacks_to_is_bounded(tmp_path, monkeypatch):
    """Also where an archive is an address, and its member an image or a landmark file."""
    monkeypatch.setattr(addresses, "_MOST", 10_000)
    home = f"::{zipped(tmp_path / 'bomb.zip', {'a.jpg': bytes(20_000), 'a.pts': b' ' * 20_000})}"
    with pytest.raises(ImageError, match="larger than 10,000 bytes"):
        read_image(f"zip://a.jpg{home}")
    with pytest.raises(ValueError, match="larger than 10,000 bytes"):
        annotations_in(f"zip://a.pts{home}", "", None)
