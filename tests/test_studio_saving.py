"""Nothing is ever lost: not by a crash, a full disk, a second tab, a second server or another program."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import PIL.Image
import pytest

from pliant.data.annotation import Annotation
from pliant.data.formats import read_annotations, read_landmarks, write_annotations, write_landmarks
from pliant.studio.storage import kept, writing
from pliant.studio.storage.collection import open_collection
from pliant.studio.storage.history import History
from pliant.studio.storage.locking import Lock
from pliant.studio.storage.marks import ABSENT, HIDDEN, VISIBLE, Change
from pliant.studio.storage.saving import Beside

SQUARE = np.array([[1.0, 2.0], [11.0, 2.0], [11.0, 12.0], [1.0, 12.0]])
KINDS = ("beside", "together")


def put(collection, landmark, x, y, state=VISIBLE, index=0, client="me", id=""):
    return collection.apply(index, Change(id, client, {landmark: (x, y, state)}))


def wait_for(is_so, seconds=20):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "this did not come to be in time"
        time.sleep(0.01)


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    """Two annotated images, with files beside them, or one file for both."""
    for name in "ab":
        PIL.Image.new("L", (60, 40)).save(tmp_path / f"{name}.png")
        if request.param == "beside":
            write_landmarks(tmp_path / f"{name}.pts", SQUARE)
    if request.param == "together":
        write_annotations(tmp_path / "all.json", [Annotation(f"{name}.png", SQUARE) for name in "ab"])
    return tmp_path


def landmark_file(folder):
    return folder / "all.json" if (folder / "all.json").exists() else folder / "a.pts"


def in_file(folder):
    """The landmarks of the first image as its file has them."""
    path = landmark_file(folder)
    return read_landmarks(path) if path.suffix == ".pts" else read_annotations(path)[0].points


def rewrite(folder, landmark, x, y):
    """What another program does."""
    path = landmark_file(folder)
    found = read_annotations(path)
    found[0].points[landmark] = x, y
    write_annotations(path, found)
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 10**9))


def history(folder):
    (path,) = folder.glob(".pliant-studio/*/history.jsonl")
    return path


LOOP = """
import sys
from pathlib import Path
from pliant.studio.storage.collection import open_collection
from pliant.studio.storage.marks import Change
faces = open_collection(Path(sys.argv[1]))
for number in range(10**6):
    faces.apply(number % 2, Change(f"c{number}", "loop", {number % 4: (number % 50, number / 1000, 2)}))
    print(number, flush=True)
"""


def test_a_killed_process_loses_no_change_that_it_acknowledged(folder):
    with subprocess.Popen([sys.executable, "-c", LOOP, folder], stdout=subprocess.PIPE, text=True) as loop:
        seen = [loop.stdout.readline() for _ in range(60)]
        # At any moment a reader finds a whole file.
        assert np.isfinite(in_file(folder)).all()
        time.sleep(0.05)
        loop.send_signal(signal.SIGKILL)
        seen += loop.stdout.readlines()
    last = int([line for line in seen if line.endswith("\n")][-1])
    assert np.isfinite(in_file(folder)).all()
    with open_collection(folder) as faces:
        assert faces.read_only == "", "a lock of the dead is no lock"
        for number in range(last - 7, last + 1):
            assert f"c{number}" in faces._memory.ids
        # One more may have been written that nobody was told of.
        for number in range(last - 2, last + 1):
            expected = (number % 50, number / 1000)
            later = ((number + 4) % 50, (number + 4) / 1000)
            point = faces.marks(number % 2).points[number % 4]
            assert np.allclose(point, expected) or np.allclose(point, later)
    np.testing.assert_allclose(in_file(folder), faces.marks(0).points, atol=1e-5)


def test_what_the_history_has_and_the_file_has_not_is_written_at_opening(folder, monkeypatch):
    faces = open_collection(folder)
    faces._writer.stop()
    put(faces, 0, 30, 20)
    put(faces, 0, 31, 21)
    np.testing.assert_allclose(in_file(folder)[0], SQUARE[0])
    monkeypatch.setattr(faces._writer, "write", lambda: True)
    faces.close()  # as if the power was lost: nothing more is written
    with open_collection(folder) as again:
        np.testing.assert_allclose(again.marks(0).points[0], (31, 21))
    np.testing.assert_allclose(in_file(folder)[0], (31, 21))


@pytest.mark.parametrize("torn", [b'{"n":99,"image":"a.p', b"\0\0\0", b'{"n": 99, "image": "a.png"'])
def test_a_torn_last_line_is_cut_off_and_kept_aside(folder, torn):
    with open_collection(folder) as faces:
        put(faces, 0, 30, 20)
    path = history(folder)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with open_collection(folder) as faces:
        np.testing.assert_allclose(faces.marks(0).points[0], (30, 20))
        put(faces, 1, 31, 21)
    assert path.read_bytes().startswith(whole)
    assert torn not in path.read_bytes()
    assert all(json.loads(line) for line in path.read_text().splitlines())
    (aside,) = path.parent.glob("torn-*")
    assert aside.read_bytes().rstrip(b"\n") == torn


def test_a_damaged_line_is_passed_over(folder):
    with open_collection(folder) as faces:
        put(faces, 0, 30, 20)
        put(faces, 1, 31, 21)
    path = history(folder)
    path.write_bytes(path.read_bytes().replace(b'"marks":{"0"', b'"marks":{"0', 1))
    with open_collection(folder) as faces:
        np.testing.assert_allclose(faces.marks(0).points[:2], [(30, 20), (31, 21)])


class TestOtherPrograms:
    def test_a_change_in_the_file_is_seen_while_we_run(self, folder):
        with open_collection(folder) as faces:
            put(faces, 0, 30, 20)
            faces.flush()
            events = []
            faces.listen(events.append)
            revision = faces.revision(0)
            rewrite(folder, 2, 7, 8)
            marks = faces.marks(0)
            np.testing.assert_allclose(marks.points[[0, 2]], [(30, 20), (7, 8)])
            assert faces.revision(0) > revision
            assert events[-1].type == "changed"
            assert faces.history(0)[-1].what == "changed in the file: placed 1"

    def test_both_win_where_they_touch_different_points_and_we_do_where_they_are_the_same(self, folder):
        with open_collection(folder) as faces:
            faces._writer.stop()
            put(faces, 0, 30, 20)
            rewrite(folder, 0, 5, 5)
            rewrite(folder, 2, 7, 8)
            faces.flush()
            np.testing.assert_allclose(in_file(folder)[[0, 2]], [(30, 20), (7, 8)])
            np.testing.assert_allclose(faces.marks(0).points[[0, 2]], [(30, 20), (7, 8)])

    def test_a_change_in_the_file_while_we_were_closed_wins_and_can_be_undone_to(self, folder):
        with open_collection(folder) as faces:
            put(faces, 0, 30, 20, HIDDEN)
            put(faces, 1, 31, 21, HIDDEN)
        rewrite(folder, 0, 5, 5)
        with open_collection(folder) as faces:
            marks = faces.marks(0)
            np.testing.assert_allclose(marks.points[:2], [(5, 5), (31, 21)])
            assert marks.states[1] == HIDDEN
            lines = [json.loads(line) for line in history(folder).read_text().splitlines()]
            (outside,) = [line for line in lines if line.get("outside")]
            assert outside["before"]["marks"]["0"][:2] == [30, 20], "the history keeps both"
            np.testing.assert_allclose(faces.undo(0).points[1], SQUARE[1])

    def test_the_file_wins_against_changes_that_a_crash_kept_from_it(self, folder, monkeypatch):
        faces = open_collection(folder)
        faces._writer.stop()
        put(faces, 0, 30, 20)
        put(faces, 1, 31, 21)
        monkeypatch.setattr(faces._writer, "write", lambda: True)
        faces.close()
        rewrite(folder, 0, 5, 5)
        with open_collection(folder) as again:
            np.testing.assert_allclose(again.marks(0).points[:2], [(5, 5), (31, 21)])
        np.testing.assert_allclose(in_file(folder)[:2], [(5, 5), (31, 21)])

    def test_a_file_that_is_gone_comes_back_with_the_next_change(self, folder):
        with open_collection(folder) as faces:
            put(faces, 0, 30, 20)
            faces.flush()
            landmark_file(folder).unlink()
            put(faces, 1, 31, 21)
            faces.flush()
            np.testing.assert_allclose(faces.marks(0).points, [(30, 20), (31, 21), *SQUARE[2:]])
        np.testing.assert_allclose(in_file(folder), [(30, 20), (31, 21), *SQUARE[2:]])

    def test_a_file_that_another_program_broke_is_not_written_over(self, folder):
        with open_collection(folder) as faces:
            events = []
            faces.listen(events.append)
            put(faces, 0, 30, 20)
            faces.flush()
            path = landmark_file(folder)
            content = path.read_bytes()
            path.write_bytes(b"half a fi")
            with pytest.raises(ValueError, match=path.name):
                put(faces, 1, 31, 21)
            path.write_bytes(content)
            put(faces, 1, 31, 21)
        np.testing.assert_allclose(in_file(folder)[:2], [(30, 20), (31, 21)])


class TestSeveral:
    def test_many_threads_lose_nothing(self, folder):
        with open_collection(folder) as faces:

            def annotate(landmark):
                for step in range(15):
                    put(faces, landmark, landmark, step, client=f"tab {landmark}", index=step % 2)

            threads = [threading.Thread(target=annotate, args=(landmark,)) for landmark in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for index, last in ((0, 14), (1, 13)):
                np.testing.assert_allclose(faces.marks(index).points, [(k, last) for k in range(4)])
            assert len(faces.history(0)) + len(faces.history(1)) == 60
        np.testing.assert_allclose(in_file(folder), [(k, 14) for k in range(4)], atol=1e-5)

    def test_a_second_server_looks_only_and_sees_what_the_first_does(self, folder):
        with open_collection(folder) as first:
            second = open_collection(folder)
            assert str(os.getpid()) in second.read_only
            with pytest.raises(ValueError, match=str(os.getpid())):
                put(second, 0, 1, 1)
            put(first, 0, 30, 20, HIDDEN)
            assert second.marks(0).states[0] == HIDDEN
            np.testing.assert_allclose(second.marks(0).points[0], (30, 20))
            assert second.revision(0) == first.revision(0)
            second.close()
            put(first, 1, 31, 21)
        with open_collection(folder) as third:
            assert third.read_only == ""

    def test_a_lock_on_another_machine_counts_while_it_is_fresh(self, tmp_path):
        path = tmp_path / "lock"
        path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "now"}))
        assert "elsewhere" in Lock(path).holder
        os.utime(path, (time.time() - 3600,) * 2)
        lock = Lock(path)
        assert lock.held
        lock.release()

    @pytest.mark.parametrize("folder", ["beside"], indirect=True)
    def test_a_file_that_somebody_else_is_just_writing_does_not_end_all_writing(self, folder, monkeypatch):
        save, path, torn = Beside._save, folder / "a.pts", threading.Event()

        def save_and_tear(self, index, edit):
            saved = save(self, index, edit)
            path.write_text("version: 1\nn_points: 4\n{\n1.0")
            torn.set()
            return saved._replace(found=(0, 0))

        with open_collection(folder) as collection:
            with monkeypatch.context() as patch:
                patch.setattr(Beside, "_save", save_and_tear)
                put(collection, 0, 30, 20)
                assert torn.wait(10)
                # The writer holds this until it has noted what it wrote.
                with collection._writer._files, collection._lock:
                    pass
            write_landmarks(path, SQUARE)
            put(collection, 1, 31, 21)
            wait_for(lambda: np.allclose(read_landmarks(path)[1], (31, 21), atol=1e-3))

    def test_a_history_without_room_does_not_end_all_writing(self, folder, monkeypatch):
        append, refused = History.append, []

        def refuse_some(self, line, sync=True):
            if "holds" in line and len(refused) < 2:
                refused.append(line)
                raise OSError("there is no room.")
            return append(self, line, sync)

        monkeypatch.setattr(writing, "_AGAIN", 0.05)
        monkeypatch.setattr(History, "append", refuse_some)
        with open_collection(folder) as collection:
            put(collection, 0, 30, 20)
            wait_for(lambda: len(refused) == 2)
            put(collection, 1, 31, 21)
            wait_for(lambda: not collection._memory.unsaved)
        with open_collection(folder) as again:
            np.testing.assert_allclose(again.marks(0).points[:2], [(30, 20), (31, 21)], atol=1e-3)

    def test_a_change_that_the_disk_has_no_room_for_is_a_sentence(self, folder, monkeypatch):
        def refuse(*_):
            raise OSError(28, "No space left on device")

        with open_collection(folder) as collection:
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", refuse)
                with pytest.raises(
                    OSError, match=r"history.*: this change could not be saved \(No space"
                ) as told:
                    put(collection, 0, 30, 20)
            assert told.value.errno is None
            put(collection, 0, 30, 20)

    def test_a_lock_from_a_clock_that_was_ahead_does_not_hold(self, tmp_path):
        path = tmp_path / "lock"
        path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "tomorrow"}))
        os.utime(path, (time.time() + 86400,) * 2)
        lock = Lock(path)
        assert lock.held
        lock.release()

    def test_a_folder_that_cannot_be_written_is_for_looking(self, folder, monkeypatch):
        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pathlib.Path.mkdir", refuse)
        with open_collection(folder) as faces:
            assert "Permission denied" in faces.read_only
            assert faces.marks(0).placed == 4


class TestTrouble:
    def test_a_full_disk_is_told_and_nothing_is_acknowledged_or_torn(self, folder, monkeypatch):
        with open_collection(folder) as faces:
            put(faces, 0, 30, 20)
            write = os.write

            def full(handle, content):
                write(handle, content[:10])
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                put(faces, 1, 31, 21)
            monkeypatch.undo()
            np.testing.assert_allclose(faces.marks(0).points[1], SQUARE[1])
            put(faces, 2, 32, 22)
        assert all(json.loads(line) for line in history(folder).read_text().splitlines())
        with open_collection(folder) as faces:
            np.testing.assert_allclose(faces.marks(0).points[:3], [(30, 20), SQUARE[1], (32, 22)])

    def test_a_file_that_cannot_be_written_now_is_tried_again(self, folder, monkeypatch):
        events = []
        with open_collection(folder) as faces:
            faces.listen(events.append)

            def refuse(*_):
                raise OSError(28, "No space left on device")

            with monkeypatch.context() as patch:
                patch.setattr("pliant.studio.storage.saving.put", refuse)
                put(faces, 0, 30, 20)
                faces.flush()
            assert [event.type for event in events] == ["changed", "trouble"]
            assert "No space" in events[-1].sentence
            faces.flush()
            assert events[-1].type == "saved"
            np.testing.assert_allclose(in_file(folder)[0], (30, 20))

    def test_what_a_format_cannot_hold_stays_in_the_history_and_keeps_nobody_back(self, tmp_path):
        for name in "ab":
            PIL.Image.new("L", (60, 40)).save(tmp_path / f"{name}.png")
        made = [Annotation(f"{name}.png", SQUARE, size=(60, 40)) for name in "ab"]
        write_annotations(tmp_path / "all.tps", made)
        events = []
        with open_collection(tmp_path) as faces:
            faces.listen(events.append)
            faces._writer.stop()
            put(faces, 0, -9, 5, index=0)
            put(faces, 0, 5, 5, index=1)
            faces.flush()
            assert [(event.type, event.index) for event in events[-2:]] == [("trouble", 0), ("saved", 1)]
            assert "negative" in events[-2].sentence
        np.testing.assert_allclose(read_annotations(tmp_path / "all.tps")[1].points[0], (5, 5))
        with open_collection(tmp_path) as faces:
            np.testing.assert_allclose(faces.marks(0).points[0], (-9, 5))
            put(faces, 0, 9, 5, index=0)
        np.testing.assert_allclose(read_annotations(tmp_path / "all.tps")[0].points[0], (9, 5))

    def test_whole_pixels_of_dlib_are_exact_in_the_history(self, tmp_path):
        PIL.Image.new("L", (60, 40)).save(tmp_path / "a.png")
        write_annotations(tmp_path / "all.xml", [Annotation("a.png", SQUARE)])
        with open_collection(tmp_path) as faces:
            put(faces, 0, 3.3, 4.6)
        np.testing.assert_allclose(read_annotations(tmp_path / "all.xml")[0].points[0], (3, 5))
        with open_collection(tmp_path) as faces:
            np.testing.assert_allclose(faces.marks(0).points[0], (3.3, 4.6))
            assert faces.revision(0) == faces.history(0)[-1].number
            assert not any("file" in one.what for one in faces.history(0))


def test_only_the_image_that_changed_is_written(folder):
    others = {path: path.read_bytes() for path in folder.iterdir() if path.name.startswith("b.")}
    with open_collection(folder) as faces:
        for index in range(2):
            faces.marks(index)
        put(faces, 0, None, None, ABSENT)
    assert all(path.read_bytes() == content for path, content in others.items())
    if landmark_file(folder).suffix == ".json":
        np.testing.assert_allclose(read_annotations(landmark_file(folder))[1].points, SQUARE)


def test_marks_are_kept_of_so_many_images_and_no_more(folder, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 1)
    with open_collection(folder) as faces:
        for index in (0, 1, 0, 1):
            put(faces, 0, index, 5, index=index)
        assert len(faces._marks) == 1
        assert [faces.marks(index).points[0, 0] for index in range(2)] == [0, 1]
    np.testing.assert_allclose(in_file(folder)[0], (0, 5), atol=1e-5)
