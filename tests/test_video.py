"""Videos: the synthetic one whose landmarks are known, and reading any."""

import cv2
import numpy as np
import pytest

from pliant.data.video import read_video
from pliant.synthetic.video import face_video, write_video

FRAMES, WIDTH = 64, 128


@pytest.fixture(scope="module")
def film():
    """A face that is hidden and leaves, with its truth."""
    return list(face_video(FRAMES, seed=3, width=WIDTH))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("video")
    write_video(folder, frames=16, seed=3, width=WIDTH)
    return folder


def test_the_video_is_the_same_every_time_and_another_with_another_seed(film):
    again = next(face_video(FRAMES, seed=3, width=WIDTH))
    other = next(face_video(FRAMES, seed=4, width=WIDTH))
    assert np.array_equal(again.image, film[0].image)
    assert np.array_equal(again.points, film[0].points)
    assert np.abs(other.points - film[0].points).max() > 1
    assert film[0].image.shape == (3 * WIDTH // 4, WIDTH, 3)


def test_motion_is_smooth_but_there_is_motion():
    shapes = np.array([frame.points for frame in face_video(12, seed=3, width=64, interrupted=False)])
    steps = np.abs(np.diff(shapes, axis=0))
    assert steps.max() < 0.08 * 64
    assert np.abs(shapes[-1] - shapes[0]).max() > 0.5


def test_the_face_is_hidden_and_leaves_once_each(film):
    visible = np.array([frame.visible for frame in film])
    falls = np.flatnonzero((visible[1:] < 0.5) & (visible[:-1] >= 0.5))
    assert len(falls) == 2
    assert visible[0] == visible[-1] == 1
    gone = film[falls[1] + 6]
    height, width = gone.image.shape[:2]
    assert gone.visible == 0
    assert np.all(np.any((gone.points < 0) | (gone.points > (width - 1, height - 1)), axis=1))


# Tracking


def test_a_video_is_read_as_it_was_written(folder):
    video = read_video(folder / "face.mp4")
    images = list(video)
    drawn = [frame.image for frame in face_video(16, seed=3, width=WIDTH)]
    assert video.count == len(images) == 16
    assert video.rate == 25
    assert np.abs(np.array(images).astype(int) - drawn).mean() < 4
    others = read_video(folder / "face.mp4", every=3)
    assert others.count == 6
    assert others.rate == pytest.approx(25 / 3)
    assert np.array_equal(np.array(list(others)), images[::3])


def test_frames_of_a_folder_go_by_their_numbers(tmp_path):
    for number in (1, 2, 10):
        cv2.imwrite(str(tmp_path / f"f{number}.png"), np.full((8, 8), number, np.uint8))
    for source in (tmp_path, f"{tmp_path}/f*.png"):
        assert [file.stem for file in read_video(source)] == ["f1", "f2", "f10"]
    assert [file.stem for file in read_video(tmp_path, every=2)] == ["f1", "f10"]


def test_what_is_no_video_is_said(tmp_path):
    text = tmp_path / "a.mp4"
    text.write_text("no video")
    with pytest.raises(ValueError, match="OpenCV cannot read this video"):
        read_video(text)
    with pytest.raises(ValueError, match="there is no such video"):
        read_video(tmp_path / "none.mp4")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images in this folder"):
        read_video(tmp_path / "empty")


# The command


def test_old_versions_of_opencv_have_the_level_of_the_log_elsewhere(folder, monkeypatch):
    """As in 4.10 to 4.12."""
    levels = [3]

    def set_level(level):
        levels.append(level)
        return levels[-2]

    monkeypatch.setattr(cv2, "setLogLevel", set_level, raising=False)
    monkeypatch.delattr(cv2.utils, "logging", raising=False)
    assert len(list(read_video(folder / "face.mp4"))) == 16
    assert levels[-1] == 3  # As it was.
    assert 2 in levels
