"""Pipes, sockets, folders and links that go round, where a plain file is needed: a sentence, and no waiting."""

import os
import signal
import socket
import subprocess
import sys

import pytest

import pliant
from pliant.container import ModelFileError
from pliant.data.formats import read_annotations
from pliant.data.images import ImageError, image_size, read_image
from pliant.data.manifest import read_boxes
from pliant.data.sources import find_images
from pliant.data.video import read_video
from pliant.files import IrregularFile, open_plain, read_plain, real_path, replaced, require_plain


def read_all(path, most=1000):
    return read_plain(path, most)


@pytest.fixture
def pipe(tmp_path):
    """A function that makes a FIFO of a name."""

    def make(name):
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture
def circle(tmp_path):
    """A function that makes two symbolic links that lead to each other."""

    def make(name):
        (tmp_path / name).symlink_to(tmp_path / f"other-{name}")
        (tmp_path / f"other-{name}").symlink_to(tmp_path / name)
        return tmp_path / name

    return make


READERS = {
    "x.jpg": "from pliant.data.images import read_image; read_image(path)",
    "y.jpg": "from pliant.data.images import image_size; image_size(path)",
    "x.pts": "from pliant.data.formats import read_annotations; read_annotations(path)",
    "y.npy": "from pliant.data.formats import read_annotations; read_annotations(path, 'npy')",
    "x.csv": "from pliant.data.manifest import read_boxes; read_boxes(path)",
    "x.pliant": "import pliant; pliant.load(path)",
    "x.mp4": "from pliant.data.video import read_video; read_video(path)",
    "y.csv": "import pliant; pliant.load_dataset(path)",
    "z.jpg": "from pliant.data.sources import find_images; find_images([str(path)])",
}


def test_a_pipe_is_not_waited_for(pipe):
    """In a process of its own, which can be stopped: the old code waits for the other end without an end."""
    lines = ["from pathlib import Path"]
    for name, statement in READERS.items():
        said = "except (ValueError, OSError) as error: print(error)"
        lines += [f"path = Path({str(pipe(name))!r})", f"try: {statement}", said]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60
    )
    sentences = [line.rsplit("/", 1)[-1] for line in done.stdout.splitlines()]
    assert sentences == [f"{name}: this is a pipe (FIFO), but a plain file is needed." for name in READERS]


def test_a_pipe_among_the_images_fails_alone(pipe, dataset, model):
    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        with pytest.warns(pliant.NotFitted, match="x.jpg: this is a pipe"):
            fits = pliant.fit(model, [dataset[0], pipe("x.jpg")], [dataset[0].points()] * 2)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert fits[0].ok
    assert "x.jpg: this is a pipe" in fits[1].reason


@pytest.mark.parametrize(
    "read",
    [read_image, image_size, read_annotations, pliant.load, read_boxes, open_plain, read_all, require_plain],
)
def test_folders_and_sockets_are_named(tmp_path, read):
    (tmp_path / "folder.csv").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket.csv"))
        for kind in ("folder", "socket"):
            with pytest.raises(
                (ValueError, OSError), match=rf"{kind}\.csv: this is a {kind}, but a plain file"
            ):
                read(tmp_path / f"{kind}.csv")


@pytest.mark.parametrize("read", [pliant.load_dataset, lambda path: find_images([str(path)]), read_video])
def test_links_that_go_round_get_a_sentence(circle, read):
    with pytest.raises((ValueError, OSError), match=r"x\.jpg: this symbolic link is broken or circular"):
        read(circle("x.jpg"))


def test_errors_of_readers_keep_their_kind(pipe, circle, tmp_path):
    with pytest.raises(ImageError):
        read_image(pipe("x.jpg"))
    with pytest.raises(ModelFileError):
        pliant.load(pipe("x.pliant"))
    with pytest.raises(IrregularFile):
        open_plain(circle("y.jpg"))
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "nothing")
    require_plain(tmp_path / "nothing")


def test_files_are_read_whole_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(range(200)))
    assert read_all(tmp_path / "a", 200) == bytes(range(200))
    assert read_all(tmp_path / "a", 199) is None
    read = os.read
    # A disk on a network may give less than it was asked for.
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, min(size, 70)))
    assert read_all(tmp_path / "a") == bytes(range(200))
    # What was cut off meanwhile does not come.
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, size) if size == 200 else b"")
    found = os.fstat
    monkeypatch.setattr(os, "fstat", lambda handle: Longer(found(handle)))
    assert read_all(tmp_path / "a") == b""


class Longer:
    """What is known of a file that had ten bytes more a moment ago."""

    def __init__(self, found):
        self.st_mode, self.st_size = found.st_mode, found.st_size + 10


def test_handles_are_closed(tmp_path, pipe):
    (tmp_path / "a").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    read_all(tmp_path / "a")
    read_all(tmp_path / "a", 0)
    with pytest.raises(IrregularFile):
        read_all(pipe("p"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_that_go_round_among_others_are_left_alone(circle, tmp_path, face_folders):
    image = next((face_folders / "train").glob("*.png"))
    (tmp_path / "a.png").write_bytes(image.read_bytes())
    (tmp_path / "a.pts").write_bytes(image.with_suffix(".pts").read_bytes())
    circle("x.png")
    assert len(pliant.load_dataset(tmp_path)) == 1
    assert find_images([str(tmp_path)]) == [str(tmp_path / "a.png")]
    # A pattern names the links too; they fail when they are read.
    assert len(find_images([str(tmp_path / "*.png")])) == 3
    assert real_path(tmp_path / "x.png").parent == real_path(tmp_path)


def test_convert_beside_a_circle(circle, tmp_path, face_folders, command):
    """The target is compared with what is read, links resolved."""
    target = circle("out.csv")
    assert "already exists" in command("convert", face_folders / "test", target, code=1).err


class TestReplaced:
    @pytest.fixture(params=[False, True])
    def alone(self, request):
        return request.param

    def test_the_new_file_has_the_name_and_the_usual_permissions(self, tmp_path, alone):
        (tmp_path / "usual").write_text("")
        for content in ("one", "two"):
            with replaced(tmp_path / "a.csv", alone=alone) as partial:
                assert partial.name.endswith("a.csv")
                partial.write_text(content)
                assert not (tmp_path / "a.csv").exists() or content == "two"
            assert (tmp_path / "a.csv").read_text() == content
        assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert {path.name for path in tmp_path.iterdir()} == {"usual", "a.csv"}

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_failure_leaves_what_was_there(self, tmp_path, alone, error):
        def half(file):
            file.write_text("half")
            raise error

        (tmp_path / "a.csv").write_text("old")
        with pytest.raises(error), replaced(tmp_path / "a.csv", alone=alone) as partial:
            half(partial)
        with pytest.raises(FileNotFoundError), replaced(tmp_path / "a.csv", alone=alone):
            pass
        assert (tmp_path / "a.csv").read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]

    def test_what_a_killed_process_left_is_written_over(self, tmp_path):
        (tmp_path / ".part-a.csv").write_text("half of something longer")
        with replaced(tmp_path / "a.csv", alone=True) as partial:
            partial.write_text("whole")
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
        assert (tmp_path / "a.csv").read_text() == "whole"

    def test_an_error_of_the_disk_names_the_file(self, tmp_path, alone):
        with (
            pytest.raises(OSError, match=r"No space left on device: '.*model.pliant'"),
            replaced(tmp_path / "model.pliant", alone=alone),
        ):
            raise OSError(28, "No space left on device")
