"""Pliant reaches no network and starts no program unless it is told to: here, both raise an error."""

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

import pliant
from pliant.cli.studio import _listen

_blocked = False
_seen: list[str] = []
_installed: list = []


class Reached(RuntimeError):
    """Not an OSError, which is what the library expects of files and may catch."""


def _watch(event: str, arguments: tuple) -> None:
    """Python tells of each socket and program, whoever asks for it; sockets between own threads are no network."""
    if not _blocked:
        return
    inside = event == "socket.__new__" and arguments[1] not in (socket.AF_INET, socket.AF_INET6)
    named = event.startswith("socket.") and event != "socket.gethostname"
    if (named and not inside) or event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        _seen.append(event)
        raise Reached(f"{event} {arguments[1:]}")


@pytest.fixture
def alone() -> Iterator[None]:
    """Whatever opens a socket or starts a program fails, even if somebody catches the error."""
    global _blocked
    if _watch not in _installed:
        sys.addaudithook(_watch)
        _installed.append(_watch)  # A hook stays until the process ends.
    _seen.clear()
    _blocked = True
    try:
        yield
    finally:
        _blocked = False
    assert not _seen


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: urllib.request.urlopen("http://127.0.0.1:9/"),
        lambda: subprocess.run(["true"]),
    ],
)
def test_the_watch_sees_what_it_should(alone, reach):
    with pytest.raises(Reached):
        reach()
    assert _seen
    _seen.clear()


def test_the_library_is_alone(model, dataset, alone, face_folders, tmp_path):
    # The samples of `model`, whose filter is then known: learning one takes most of the time.
    model = pliant.train(dataset, size=40, shape_modes=(2, 5), confidence=False, progress=False)
    model.save(tmp_path / "faces.pliant")
    model = pliant.load(tmp_path / "faces.pliant")
    images = [sample.image() for sample in pliant.load_dataset(face_folders / "test")]
    assert len(pliant.fit(model, images[:2], iterations=2)) == 2


def test_commands_are_alone(model, face_folders, command, tmp_path, alone):
    file, out = tmp_path / "m.pliant", tmp_path / "out"
    model.save(file)
    command("version")
    command("check", face_folders / "test", code=None)  # 3 if a face looks odd
    command("fit", file, face_folders / "test", "-o", out, "--iterations", "2", "--draw", "--csv", code=None)
    assert (out / "fits.parquet").is_file()
    report = tmp_path / "report.html"
    command("evaluate", file, face_folders / "test", "--iterations", "2", "--report", report)
    assert report.is_file()
    command("inspect", file)
    command("convert", face_folders / "test", tmp_path / "all.csv")
    command("synthetic", tmp_path / "drawn", "--count", "2")


def test_the_studio_listens_at_home_alone():
    with _listen("127.0.0.1", None) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
