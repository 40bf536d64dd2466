"""Faults of the machine: what a user finds is the old or the new version, and a run that goes on is as undisturbed.

`make chaos` provokes these and more in real processes; here are those that it has found, each in a moment.
"""

import resource
from contextlib import contextmanager

import pytest

import pliant
from pliant import cli
from pliant.bulk.overlay import overlay_writer
from pliant.bulk.video import VideoTask, run_video, video_refusal
from pliant.data.images import read_image
from pliant.data.video import read_video
from pliant.experiments import findings
from pliant.fitting.fitter import Fitter
from pliant.synthetic import write_faces
from pliant.synthetic.video import write_video
from pliant.table import rows_of
from pliant.tracking import track


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    folder = tmp_path_factory.mktemp("video")
    write_video(folder, frames=6, seed=3, width=96)
    return read_video(folder / "face.mp4")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_faces(folder, 6, seed=5, image_size=64)
    return folder


class TestTrack:
    def test_nothing_is_seen_before_it_is_whole(self, model, video, tmp_path):
        seen = []

        def each(number, frame):
            seen.append({path.name for path in tmp_path.iterdir()})

        run_video(VideoTask(video, tmp_path, csv=True), model, pliant.Tracking(), jobs=1, each=each)
        assert seen == [{"track.unfinished"}] * 6
        assert {path.name for path in tmp_path.iterdir()} == {"track.parquet", "track.csv", "overlay.mp4"}

    def test_what_a_killed_run_left_does_not_come_back(self, model, video, tmp_path):
        (tmp_path / "track.unfinished").mkdir()
        (tmp_path / "track.unfinished" / "track.csv").write_text("frame,ti")
        run_video(VideoTask(video, tmp_path, overlay=False), model, pliant.Tracking(), jobs=1)
        assert {path.name for path in tmp_path.iterdir()} == {"track.parquet"}

    def test_a_run_killed_while_it_moved_its_files_can_be_done_again(self, video, tmp_path):
        task = VideoTask(video, tmp_path, csv=True)
        (tmp_path / "track.csv").write_text("frame\n")
        assert "would be replaced" in video_refusal(task)
        (tmp_path / "track.unfinished").mkdir()
        (tmp_path / "track.unfinished" / "track.parquet").touch()
        assert video_refusal(task) == ""

    def test_only_one_process_writes_to_a_folder(self, model, video, tmp_path):
        task = VideoTask(video, tmp_path, overlay=False)

        def again(number, frame):
            with pytest.raises(ValueError, match="another process is writing"):
                run_video(task, model, pliant.Tracking(), jobs=1)

        run_video(task, model, pliant.Tracking(), jobs=1, each=again)
        assert len(list(rows_of(tmp_path / "track.parquet"))) == 6

    def test_a_video_that_the_disk_has_no_room_for_is_told(self, model, video, tmp_path):
        frames = list(track(model, video, jobs=1))
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)

        def write_all():
            with overlay_writer(tmp_path, 25, ()) as write:
                for number, frame in enumerate(frames):
                    write(number, frame)

        # OpenCV writes without a word to a file that must not grow any more.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
        try:
            with pytest.raises(OSError, match=r"overlay.mp4: only 0 of 6 frames .* may be full"):
                write_all()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)


class TestReports:
    def found(self):
        table = findings.Table("errors", ("algorithm", "error"), [["po-inv-gn", 0.5], ["po-asy-gn", 0.25]])
        return {"rho": findings.Findings("Weights", [table])}

    def test_a_page_that_cannot_be_written_leaves_the_old_one(self, tmp_path, monkeypatch):
        findings.write(tmp_path, self.found())
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        monkeypatch.setattr(findings.report, "page", lambda *parts: "<html>\ud800")
        with pytest.raises(UnicodeEncodeError):
            findings.write(tmp_path, self.found())
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_a_table_that_cannot_be_written_leaves_the_old_one(self, tmp_path, monkeypatch):
        findings.write(tmp_path, self.found())
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

        def fail(cell):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(findings, "_plain", fail)
        with pytest.raises(OSError, match="No space"):
            findings.write(tmp_path, self.found())
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class TestMemory:
    @pytest.fixture
    def short_of_memory(self, monkeypatch):
        """Memory for two blocks of images, until the context that this begins ends."""

        @contextmanager
        def begun():
            block, done = Fitter._block, []

            def some(self, *arguments):
                done.append(arguments)
                if len(done) > 2:
                    raise MemoryError("Unable to allocate 9.31 GiB")
                return block(self, *arguments)

            with monkeypatch.context() as patch:
                patch.setattr(Fitter, "_block", some)
                yield

        return begun

    def test_an_image_is_not_to_blame(self, model, dataset, short_of_memory):
        images = [sample.image() for sample in dataset[:4]]
        with short_of_memory(), pytest.raises(MemoryError):
            pliant.fit(model, images, "centre", iterations=2, jobs=1)

    def test_a_run_goes_on_when_there_is_memory(self, model, images, tmp_path, command, short_of_memory):
        model.save(tmp_path / "faces.pliant")
        quick = ("--iterations", "2,2", "--start", "centre", "--jobs", "1")
        words = ("fit", tmp_path / "faces.pliant", images, *quick)
        command(*words, "-o", tmp_path / "undisturbed")
        with short_of_memory():
            said = command(*words, "-o", tmp_path / "out", code=1).err
        assert "there is not enough memory (Unable to allocate 9.31 GiB)" in said
        assert "--resume" in said
        command(*words, "-o", tmp_path / "out", "--resume")
        tables = [
            [{**row, "seconds": 0} for row in rows_of(tmp_path / name / "fits.parquet")]
            for name in ("out", "undisturbed")
        ]
        assert tables[0] == tables[1]
        assert all(row["status"] != "failed" for row in tables[0])

    def test_no_memory_for_a_thread_is_a_sentence(self, command, monkeypatch):
        def refuse(*some):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(cli, "app", refuse)
        assert "error: there is not enough memory (can't start new thread)." in command("version", code=1).err


def test_a_full_disk_is_a_sentence_without_numbers(command, monkeypatch):
    def refuse(*some):
        raise OSError(28, "No space left on device", "out/fits.parquet")

    monkeypatch.setattr(cli, "app", refuse)
    said = command("version", code=1).err
    assert said == "error: out/fits.parquet: No space left on device. Make room on the disk, and try again.\n"


def test_a_landmark_file_without_room_is_named(model, images, tmp_path, command, monkeypatch):
    def refuse(*some):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pliant.data.formats.write_annotations", refuse)
    model.save(tmp_path / "faces.pliant")
    words = ("--start", "centre", "--iterations", "2,2", "--landmarks", "pts", "-o", tmp_path / "out")
    said = command("fit", tmp_path / "faces.pliant", images, *words, code=1).err
    assert "face-0000.pts: No space left on device. Make room on the disk" in said


def test_an_image_that_must_not_be_read_is_not_called_damaged(images, monkeypatch):
    def refuse(*some, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pliant.data.images, "read_plain", refuse)
    with pytest.raises(
        pliant.data.ImageError, match=r"face-0000.jpg: this image cannot be read \(Permission"
    ):
        read_image(images / "face-0000.jpg")


def test_a_video_that_must_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    (tmp_path / "film.mp4").write_bytes(b"")
    monkeypatch.setattr("pliant.data.video.os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"film.mp4: this video cannot be read \(Permission denied\)\.$"):
        read_video(tmp_path / "film.mp4")
