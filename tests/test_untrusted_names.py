"""Names in landmark files are names: reading a file never opens an address that somebody else wrote into it."""

import json
import socket

import fsspec
import numpy as np
import PIL.Image
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pliant.data.annotation import Annotation
from pliant.data.formats import formats, write_annotations
from pliant.data.image_lookup import image_of
from pliant.data.images import ImageError, read_image
from pliant.data.loading import load_dataset

POINTS = np.array([[10.0, 20], [30, 20], [20, 40]])


class Spy(MemoryFileSystem):
    """A store that notes what it is asked for."""

    protocol = "spy"
    store: dict = {}  # noqa: RUF012 - fsspec's own name, apart from that of memory://
    pseudo_dirs = [""]  # noqa: RUF012
    asked: list = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.removeprefix("spy://").strip("/") if path.strip("/") else ""

    def unstrip_protocol(self, name):
        return f"spy://{name.strip('/')}"

    def info(self, path, **options):
        self.asked.append(self._strip_protocol(path))
        return super().info(path, **options)

    def isfile(self, path):
        self.asked.append(self._strip_protocol(path))
        return super().isfile(path)

    def _open(self, path, *rest, **options):
        self.asked.append(self._strip_protocol(path))
        return super()._open(path, *rest, **options)


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """What the spying store was asked for; no socket can be opened."""
    fsspec.register_implementation("spy", Spy, clobber=True)
    Spy.asked.clear()
    Spy.store.clear()

    def refuse(*_):
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return Spy.asked


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    PIL.Image.fromarray(np.full((70, 70), 99, np.uint8)).save(tmp_path / "images" / "a.png")
    return tmp_path


ADDRESSES = [
    "spy://other/b.png",
    "spy://b.png::spy://other/x.zip",
    "zip://b.png::spy://other/x.zip",
    "simplecache::spy://other/b.png",
    "reference://b.png::spy://evil.json",
    "http://127.0.0.1:9/b.png",
    "github://o:r@main/b.png",
    "file:///etc/hostname",
    "//server/share/b.png",
    "\\\\server\\share\\b.png",
]


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_in_a_landmark_file_is_not_opened(name, folder, asked):
    document = {
        "images": [{"id": 1, "file_name": name}],
        "annotations": [{"id": 1, "image_id": 1, "keypoints": [1, 1, 2, 9, 9, 2, 5, 9, 2]}],
    }
    (folder / "coco.json").write_text(json.dumps(document))
    (sample,) = load_dataset(folder / "coco.json", images=folder / "images")
    with pytest.raises(ImageError, match="coco.json: .*an address.* there is no .* next to this file"):
        sample.image()
    # The same file in a store: now the folder is an address as well, and the chain must not grow.
    Spy.store.clear()
    fsspec.filesystem("spy").pipe("/set/coco.json", (folder / "coco.json").read_bytes())
    (sample,) = load_dataset("spy://set/coco.json")
    with pytest.raises(ImageError):
        sample.image()
    assert [path for path in asked if path and not path.startswith("/set")] == []


@pytest.mark.parametrize("name", sorted(name for name, module in formats().items() if module.MANY))
def test_no_format_is_another_way_in(name, folder, asked):
    """Also formats that need the size of an image while they are read."""
    module = formats()[name]
    path = folder / f"all{module.EXTENSIONS[0]}"
    image = Annotation(
        "spy://other/b.png", POINTS, size=(70, 70), pixels=lambda: np.zeros((96, 96), np.uint8)
    )
    write_annotations(path, [image], name)
    try:
        for sample in load_dataset(path, format=name):
            sample.image()
    except ValueError:
        pass
    assert asked == []


def test_the_last_part_of_an_address_is_looked_for(folder):
    table = folder / "all.csv"
    write_annotations(table, [Annotation("s3://bucket/far/a.png", POINTS)])
    (sample,) = load_dataset(table, images=folder / "images")
    assert sample.image().shape == (70, 70)


def test_local_files_may_name_local_files_anywhere(folder):
    (folder / "labels").mkdir()
    landmarks = folder / "labels" / "all.csv"
    there = (folder / "images" / "a.png").resolve()
    assert image_of("../images/a.png", landmarks).resolve() == there
    assert image_of(str(there), landmarks) == there


@pytest.mark.parametrize(
    "name", ["../out.png", "%2e%2e/out.png", "..\\out.png", "/out.png", "sub/../../out.png"]
)
def test_a_file_in_a_store_names_what_is_below_it(name, folder, asked):
    system = fsspec.filesystem("spy")
    system.pipe("/out.png", (folder / "images" / "a.png").read_bytes())
    (folder / "out.png").write_bytes((folder / "images" / "a.png").read_bytes())
    system.pipe("/set/labels.csv", f"image,x0,y0\n{name},1,1\n".encode())
    asked.clear()
    for place in (None, folder / "images"):
        (sample,) = load_dataset("spy://set/labels.csv", images=place)
        with pytest.raises(ImageError, match="is not in"):
            sample.image()
    assert {path for path in asked if path} <= {"/set", "/set/labels.csv", "/set/out.png"}


class TestManifests:
    def write(self, path, name):
        path.write_text(f"image,group\n{name},x\n")
        return path

    def test_one_that_the_user_names_may_hold_addresses(self, folder):
        fsspec.filesystem("spy").pipe("/set/a.png", (folder / "images" / "a.png").read_bytes())
        (sample,) = load_dataset(self.write(folder / "list.csv", "spy://set/a.png"))
        assert sample.image().shape == (70, 70)

    def test_one_that_was_found_may_not(self, folder, asked):
        self.write(folder / "images" / "list.csv", "spy://set/a.png")
        with pytest.raises(
            ValueError,
            match=r"list.csv, line 2: spy://set/a.png is not read, because .* give the manifest itself",
        ):
            load_dataset(folder / "images")
        assert asked == []

    @pytest.mark.parametrize("name", ["http://127.0.0.1:9/a.png", "spy://other/a.png", "../a.png", "/a.png"])
    def test_one_in_a_store_stays_in_it(self, name, asked):
        fsspec.filesystem("spy").pipe("/set/list.csv", f"image,group\n{name},x\n".encode())
        with pytest.raises(ValueError, match="list.csv, line 2: .* is not"):
            load_dataset("spy://set/list.csv")
        assert [path for path in asked if path and not path.startswith("/set")] == []


def test_files_that_list_addresses_are_refused_wherever_they_stand_in_a_chain():
    for address in ("reference://x::spy://a.json", "zip://x::reference://y::spy://a.json"):
        with pytest.raises(ValueError, match="reference:// is not read"):
            read_image(address)


def test_what_is_inside():
    from pliant.data.addresses import inside, same_store

    assert inside("zip://faces::a.zip", "sub\\b.png") == "zip://faces/sub/b.png::a.zip"
    assert same_store("s3://a/x", "s3://a/y/z")
    assert same_store("zip://x::a.zip", "zip://y::a.zip")
    assert not same_store("s3://a/x", "s3://b/x")
    assert not same_store("zip://x::a.zip", "zip://x::b.zip")
    assert not same_store("s3://a/../b/x", "s3://a/x")


def test_converted_files_hold_no_addresses(folder, command):
    system = fsspec.filesystem("spy")
    system.pipe("/set/a.png", (folder / "images" / "a.png").read_bytes())
    system.pipe("/set/a.pts", b"1 1\n2 2\n3 5\n")
    command("convert", "spy://set", folder / "all.csv")
    assert (folder / "all.csv").read_text().splitlines()[1].startswith("set/a.png,")
    (sample,) = load_dataset(folder / "all.csv", images="spy://set")
    assert sample.image().shape == (70, 70)


def test_videos_of_sleap_are_not_asked_for(tmp_path, asked):
    sleap_io = pytest.importorskip("sleap_io")
    video = sleap_io.Video(filename="http://127.0.0.1:9/mouse.mp4", open_backend=False)
    skeleton = sleap_io.Skeleton(["a", "b", "c"])
    instance = sleap_io.Instance.from_numpy(POINTS, skeleton=skeleton)
    frame = sleap_io.LabeledFrame(video=video, frame_idx=3, instances=[instance])
    labels = sleap_io.Labels([frame], videos=[video], skeletons=[skeleton])
    sleap_io.save_slp(labels, str(tmp_path / "a.slp"), embed=False)
    (sample,) = load_dataset(tmp_path / "a.slp")
    with pytest.raises(ImageError, match="it is not a file on this machine"):
        sample.image()
