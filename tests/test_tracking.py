"""Tracking: on videos whose landmarks are known, with losses, restarts and damage; and the command."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import cv2
import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import pliant
from pliant.appearance.features import find_feature
from pliant.appearance.view import (
    angle_to_frame,
    feature_view,
    scale_to_frame,
)
from pliant.bulk.video import VideoTask, checked_box, run_video, video_refusal
from pliant.cli import app
from pliant.data.dataset import dataset_from_arrays
from pliant.data.video import read_video
from pliant.fitting.fitter import make_fitter
from pliant.kernels.reference import bilinear
from pliant.metrics import normalised_error, point_subset
from pliant.synthetic.video import face_video, write_video
from pliant.table import read_head
from pliant.tracking import Event, track
from pliant.training import train
from pliant.trust.calibration import calibrate

FRAMES, WIDTH = 64, 128
EVERY = point_subset("all", 68)


@pytest.fixture(scope="module")
def film():
    """A face that is hidden and leaves, with its truth."""
    return list(face_video(FRAMES, seed=3, width=WIDTH))


@pytest.fixture(scope="module")
def model(film):
    """Of this person, so that a small model is enough to tell the face from the room."""
    seen = [frame for frame in film if frame.visible == 1][::2]
    dataset = dataset_from_arrays([frame.image for frame in seen], [frame.points for frame in seen])
    return train(dataset, preset="paper", size=40, shape_modes=(2, 6), licence="synthetic", confidence=False)


@pytest.fixture(scope="module")
def calibrated(model, film):
    seen = [frame for frame in film if frame.visible == 1]
    dataset = dataset_from_arrays([frame.image for frame in seen], [frame.points for frame in seen])
    return calibrate(model, dataset, images=20, progress=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("video")
    write_video(folder, frames=16, seed=3, width=WIDTH)
    return folder


@pytest.fixture(scope="module")
def model_file(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.pliant"
    model.save(file)
    return file


def box_of(points):
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def followed(model, film, **options):
    """Records of a film, with a detector that knows the truth but sees only what can be seen, and its calls."""
    asked = []
    numbers = iter(range(len(film)))
    current = [0]

    def frames():
        for frame, current[0] in zip(film, numbers, strict=True):
            yield frame.image

    def find(image):
        asked.append(current[0])
        return box_of(film[current[0]].points) if film[current[0]].visible > 0.6 else None

    return list(track(model, frames(), find, jobs=1, **options)), asked


def test_a_calibrated_model_is_believed_where_the_common_limit_is_too_strict(model, calibrated, film):
    """Here that limit refuses everything: without confidence nothing is found, and with it all that can be seen."""
    records, _ = followed(model, film[:20], most_mismatch=0.0)
    assert {record.event for record in records} == {Event.LOST}
    records, _ = followed(calibrated, film, most_mismatch=0.0)
    found = [record.event is not Event.LOST for record in records]
    assert np.mean([f for f, frame in zip(found, film, strict=True) if frame.visible == 1]) > 0.8
    errors = [
        normalised_error(record.result.points, frame.points, EVERY)
        for record, frame, f in zip(records, film, found, strict=True)
        if f
    ]
    assert max(errors) < 0.15


# The synthetic video


def test_a_face_is_followed_lost_and_found_again(model, film):
    records, asked = followed(model, film, objects=1)
    assert [record.number for record in records] == list(range(FRAMES))
    assert records[0].event is Event.RESTARTED
    for record, frame in zip(records, film, strict=True):
        if record.event is Event.LOST:
            assert np.isnan(record.result.points).all()
            assert not record.result.ok
            assert record.result.reason
        elif frame.visible == 1:
            assert normalised_error(record.result.points, frame.points, EVERY) < 0.06
    found = np.array([record.event is not Event.LOST for record in records])
    visible = np.array([frame.visible for frame in film])
    assert found[visible == 1].mean() > 0.9
    assert not found[visible < 0.1].any()
    # The detector is asked at first and when the face is lost, and never while it is tracked.
    assert not {record.number for record in records if record.event is Event.TRACKED} & set(asked)


def test_nothing_is_found_in_an_empty_room(model, rng):
    rooms = [np.full((96, 128), grey, np.uint8) for grey in (0, 128, 255)]
    rooms.append(rng.integers(0, 256, (96, 128, 3), dtype=np.uint8))
    records = list(track(model, rooms, lambda image: np.array([40.0, 20, 90, 75]), jobs=1))
    assert [record.event for record in records] == [Event.LOST] * 4


def test_while_lost_it_is_looked_for_every_nth_frame(model, film):
    asked = []
    frames = [film[0].image] * 7
    records = list(track(model, frames, asked.append, look_every=3, new_every=100, jobs=1))
    assert len(asked) == 3
    assert {record.event for record in records} == {Event.LOST}
    assert "not searched" in records[1].result.reason
    assert "nothing was found" in records[3].result.reason


def test_a_hidden_face_is_found_where_it_was_without_a_detector(model, film):
    wall = np.full_like(film[0].image, 90)
    frames = [film[0].image, film[1].image, wall, wall, film[2].image]
    starts = iter([box_of(film[0].points)])
    records = list(track(model, frames, lambda image: next(starts, None), jobs=1))
    events = [record.event for record in records]
    assert events == [Event.RESTARTED, Event.TRACKED, Event.LOST, Event.LOST, Event.RESTARTED]


def test_finders_may_give_boxes_shapes_nothing_or_a_sentence(model, film):
    image, points = film[0].image, film[0].points

    def outcome(found):
        def find(image):
            if isinstance(found, str):
                raise ValueError(found)
            return found

        return next(track(model, [image], find, jobs=1))

    single = outcome(box_of(points)).result.points
    assert np.array_equal(outcome(np.stack([box_of(points), np.zeros(4)])).result.points, single)
    assert outcome(points).event is Event.RESTARTED
    assert outcome(np.empty((0, 4))).event is Event.LOST
    assert outcome("no face in sight.").result.reason == "no face in sight."
    assert "a start must be a shape" in outcome(np.zeros(3)).result.reason


def test_a_frame_that_cannot_be_read_is_lost_and_the_next_goes_on(model, film, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    frames = [film[0].image, broken, film[1].image]
    records = list(track(model, frames, lambda image: box_of(film[0].points), jobs=1))
    assert [record.event for record in records] == [Event.RESTARTED, Event.LOST, Event.RESTARTED]
    assert "broken.png" in records[1].result.reason
    assert records[1].image is None


def test_a_sudden_change_of_size_is_not_believed(model, film):
    frames = [film[0].image, film[0].image]
    find = lambda image: box_of(film[0].points)  # noqa: E731
    assert [r.event for r in track(model, frames, find, most_growth=1.0, jobs=1)][1] is Event.RESTARTED
    assert [r.event for r in track(model, frames, find, jobs=1)][1] is Event.TRACKED


@pytest.mark.parametrize("sampling", [1.0, 0.3])
@pytest.mark.parametrize(
    "algorithm", ["ssd:map-asy:0.2-gn-sch", "ssd-inv-gn-sch", "po:0-for-gn", "po-asy-gn", "po:map-inv-gn"]
)
def test_mismatch_is_what_the_pixels_say(model, film, algorithm, sampling):
    """Without a look at them, it is |i - a|² / |a|² of the image warped to where the fit ended."""
    fitter = make_fitter(model, algorithm=algorithm, sampling=sampling, jobs=1, trace=False)
    result = fitter.block([film[0].image], [box_of(film[0].points)])[0]
    level, subspace, problem = fitter.prepared[-1]
    # The view of the last level: where its fit began does not matter for a few pixels of margin.
    feature = find_feature(level.features)
    scale = scale_to_frame(level.shape.mean, result.points)
    angle = angle_to_frame(level.shape.mean, result.points) if level.upright else 0.0
    view = feature_view(film[0].image, result.points, scale, feature, 12, angle=angle)
    explained = problem.kernel.appearance([view.pixels], view.to_view(result.points)[None])[0]
    pixels = (
        np.arange(len(level.motion.frame.pixels)) if sampling == 1 else level.motion.frame.sample(sampling)
    )
    warped = bilinear(view.pixels, level.motion.positions(view.to_view(result.points)))[pixels].ravel()
    modelled = subspace.mean + explained @ subspace.basis
    expected = np.sum((warped - modelled) ** 2) / np.sum(modelled**2)
    # The features are computed at a slightly other scale than in the fit.
    assert result.mismatch == pytest.approx(expected, rel=0.2)


def test_a_model_of_one_level_tracks_as_well(model, film):
    single = replace(model, levels=model.levels[-1:])
    records, _ = followed(single, film[:5])
    assert [record.event for record in records][1:] == [Event.TRACKED] * 4
    assert records[1].result.model is single


def test_the_guess_moves_on_as_the_object_did(model, film):
    """A picture that slides by 7 pixels a frame is followed without a restart, and much nearer than 7 pixels."""
    wide = np.pad(film[0].image, ((0, 0), (60, 60), (0, 0)), mode="edge")
    frames = [wide[:, 60 - 7 * k : 60 - 7 * k + WIDTH] for k in range(5)]
    records = list(track(model, frames, lambda image: box_of(film[0].points), jobs=1))
    assert [record.event for record in records][1:] == [Event.TRACKED] * 4
    moved = records[4].result.points - records[0].result.points
    assert np.abs(moved - (28, 0)).max() < 1.5


def test_what_cannot_work_is_said_at_once(model):
    with pytest.raises(ValueError, match="rho below 1"):
        track(model, [], lambda image: None, algorithm="po:1-asy-gn")
    with pytest.raises(ValueError, match="look_every"):
        track(model, [], lambda image: None, look_every=0)


# Several objects


WALL = 96


def beside(film, places):
    """A frame with the first face of the film at each of the places (left edges), in front of a wall."""
    low, high = np.floor(box_of(film[0].points) - 4).astype(int).reshape(2, 2) + ((0, 0), (8, 8))
    face = film[0].image[low[1] : high[1], low[0] : high[0]]
    frame = np.full((WALL, 3 * WIDTH, 3), 120, np.uint8)
    for left in places:
        frame[10 : 10 + len(face), left : left + face.shape[1]] = face
    return frame, [film[0].points - low + (left, 10) for left in places]


def seen_at(film, places, model, **options):
    """Records of frames with faces at such places, by a detector that sees all of them."""
    frames = [beside(film, where) for where in places]
    shown = iter(frames)
    current = []

    def images():
        for frame in shown:
            current[:] = [frame]
            yield frame[0]

    def find(image):
        return np.array([box_of(points) for points in current[0][1]]).reshape(-1, 4)

    return list(track(model, images(), find, jobs=1, **options)), [truth for _, truth in frames]


def found_in(record):
    return {one.number: one.result.points for one in record.objects if one.event is not Event.LOST}


def test_two_objects_keep_their_numbers(model, film):
    """Also when one is hidden for a while, and when both move."""
    places = (
        [(20 + 4 * k, 250 - 4 * k) for k in range(6)] + [(44,)] * 3 + [(44, 226 - 4 * k) for k in range(3)]
    )
    records, truths = seen_at(film, places, model)
    for record, truth in zip(records, truths, strict=True):
        found = found_in(record)
        assert list(found) == list(range(len(truth)))
        for number, points in found.items():
            assert normalised_error(points, truth[number], EVERY) < 0.06
    assert [one.event for one in records[7].objects] == [Event.TRACKED, Event.LOST]
    assert [one.event for one in records[9].objects] == [Event.TRACKED, Event.RESTARTED]


def test_an_object_that_appears_is_found_at_the_next_look(model, film):
    records, _ = seen_at(film, [(30,)] * 2 + [(30, 200)] * 4, model, new_every=4)
    assert [len(record.objects) for record in records] == [1, 1, 1, 1, 2, 2]
    assert records[4].objects[1].event is Event.RESTARTED
    assert records[5].objects[1].event is Event.TRACKED


def test_no_more_objects_are_followed_than_asked_for(model, film):
    places = [(30, 200)] * 2 + [(120,)] * 2
    records, truths = seen_at(film, places, model, objects=1)
    assert [list(found_in(record)) for record in records] == [[0]] * 4
    # After a cut, the one object is wherever one is.
    assert normalised_error(records[2].result.points, truths[2][0], EVERY) < 0.06


def test_two_tracks_never_sit_on_one_object(model, film):
    frame, [points] = beside(film, (100,))
    boxes = np.array([box_of(points), box_of(points) + 3])
    records = list(track(model, [frame] * 3, lambda image: boxes, jobs=1))
    assert [len(record.objects) for record in records] == [1] * 3
    # Two that meet are one: the other is lost, and has its number when they part.
    places = [(60 + 12 * k, 204 - 12 * k) for k in range(7)] + [
        (204 - 12 * k, 60 + 12 * k) for k in range(7)
    ][::-1]
    records, _ = seen_at(film, places, model)
    for record in records:
        shapes = [shape.mean(axis=0) for shape in found_in(record).values()]
        assert len(shapes) < 2 or np.linalg.norm(shapes[0] - shapes[1]) > 20
    assert len(found_in(records[-1])) == 2
    assert {one.number for record in records for one in record.objects} == {0, 1}


def test_a_lost_object_is_given_up_after_a_while(model, film):
    places = [(30, 200)] * 2 + [(30,)] * 5
    records, _ = seen_at(film, places, model, forget_after=3)
    assert [len(record.objects) for record in records] == [2, 2, 2, 2, 1, 1, 1]
    records, _ = seen_at(film, [(30,), (), (), (), (30,)], model, forget_after=2)
    assert [(record.objects[0].number, str(record.event)) for record in records] == [
        (0, "restarted"),
        (0, "lost"),
        (1, "lost"),
        (1, "lost"),
        (1, "restarted"),
    ]


def test_places_for_the_first_frame_say_which_objects_are_followed(model, film):
    frame, truth = beside(film, (30, 200))
    records = list(track(model, [frame] * 2, box_of(truth[1]), jobs=1))
    assert [len(record.objects) for record in records] == [1, 1]
    assert normalised_error(records[1].result.points, truth[1], EVERY) < 0.06
    both = list(track(model, [frame] * 2, np.array([box_of(points) for points in truth]), jobs=1))
    assert [list(found_in(record)) for record in both] == [[0, 1]] * 2


def test_what_fit_trusts_is_not_lost(calibrated, film):
    """Whatever came before: cuts to other places, sizes and light."""
    seen = [frame.image for frame in film if frame.visible == 1]
    dark = [(0.35 * image).astype(np.uint8) for image in seen]
    small = [cv2.resize(image, None, fx=0.8, fy=0.8, interpolation=cv2.INTER_AREA) for image in seen]
    shots = [seen[0], dark[20], seen[-1], small[3], dark[-4], np.full_like(seen[0], 90), seen[10], dark[30]]
    fits = pliant.fit(calibrated, shots, jobs=1)
    records = list(track(calibrated, shots, jobs=1))
    trusted = [fit.ok and fit.confidence() >= 0.5 for fit in fits]
    assert sum(trusted) >= 4
    for record, fit, sure in zip(records, fits, trusted, strict=True):
        assert not sure or record.event is not Event.LOST, fit


# Videos


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pliant", "track", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command_writes_a_table_and_an_overlay(model_file, folder, film, tmp_path):
    out = tmp_path / "out"
    first = next(face_video(16, seed=3, width=WIDTH))
    box = ",".join(f"{value:.0f}" for value in box_of(first.points))
    done = run(model_file, folder / "face.mp4", "-o", out, "--box", box, "--csv", "--json", "--every", 2)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["frames"] == 8
    assert outcome["tracked"] + outcome["restarted"] + outcome["lost"] == 8
    rows = parquet.read_table(out / "track.parquet").to_pylist()
    assert [row["frame"] for row in rows] == list(range(0, 16, 2))
    assert rows[1]["time"] == pytest.approx(0.08)
    fits = pliant.read_fits(out / "track.parquet")
    assert np.all(fits["seconds"][fits["event"] != "lost"] > 0)
    np.testing.assert_array_equal(fits["points"][0, :, 0], rows[0]["x"])
    # Tables of older versions called the time of the video seconds.
    older = parquet.read_table(out / "track.parquet")
    older = older.drop_columns(["seconds"]).rename_columns({"time": "seconds"}).replace_schema_metadata(None)
    parquet.write_table(older, tmp_path / "older.parquet")
    assert pliant.read_fits(tmp_path / "older.parquet")["time"][1] == pytest.approx(0.08)
    assert "seconds" not in pliant.read_fits(tmp_path / "older.parquet")
    assert rows[0]["event"] == "restarted"
    points = np.stack([rows[0]["x"], rows[0]["y"]], axis=1)
    assert normalised_error(points, first.points, EVERY) < 0.06
    lines = (out / "track.csv").read_text().splitlines()
    assert len(lines) == 9
    assert lines[0].endswith("x67,y67")
    overlay = list(read_video(out / "overlay.mp4"))
    assert len(overlay) == 8
    # Landmarks were drawn over the face, and nowhere else but in the corner.
    changed = np.abs(overlay[0].astype(int) - first.image).max(axis=2) > 90
    assert changed[30:].sum() > 68
    assert not changed[30:, : int(first.points[:, 0].min()) - 6].any()
    assert "would be replaced" in run(model_file, out / "overlay.mp4", "-o", out, "--overwrite").stderr
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    words = (model_file, folder / "face.mp4", "-o", out, "--no-overlay", "--every", 4)
    assert "replace them with --overwrite" in run(*words, "--box", box).stderr
    # What cannot be finished leaves what was there.
    assert "found in none" in run(*words, "--box", "1,1,4,4", "--overwrite").stderr
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert run(*words, "--box", box, "--overwrite").returncode == 0
    assert [path.name for path in out.iterdir()] == ["track.parquet"]
    assert len(pliant.read_fits(out / "track.parquet")["frame"]) == 4


def test_a_video_to_a_folder_in_python(model_file, folder, tmp_path):
    model, settings = pliant.load(model_file), pliant.Tracking()
    first = next(face_video(16, seed=3, width=WIDTH))
    find = checked_box(box_of(first.points))
    task = VideoTask(read_video(folder / "face.mp4", 4), tmp_path, overlay=False)
    seen = []
    done = run_video(task, model, settings, find, jobs=1, each=lambda number, frame: seen.append(number))
    assert seen == [0, 4, 8, 12]
    assert (done.frames, done.overlay) == (4, None)
    fits = pliant.read_fits(tmp_path)
    assert fits["frame"].tolist() == seen
    assert fits["event"].tolist().count("lost") == done.events["lost"]
    assert set(fits["image"]) == {str(folder / "face.mp4")}
    assert fits["width"].tolist() == [WIDTH] * 4
    assert set(fits["object"]) == {0}
    lost = fits["event"] == "lost"
    assert np.array_equal(np.isnan(fits["points"]).all(axis=(1, 2)), lost)
    assert read_head(tmp_path / "track.parquet")["settings"] == settings.to_dict()
    assert "replace them with overwrite=True" in video_refusal(task)
    assert video_refusal(task, overwrite=True) == ""
    with pytest.raises(ValueError, match="box=5,5,5,9 is empty"):
        checked_box(np.array([5, 5, 5, 9]))


def test_every_object_has_a_row_and_is_drawn(model, film, tmp_path):
    frame, truth = beside(film, (30, 200))
    files = tmp_path / "frames"
    files.mkdir()
    for number in range(3):
        cv2.imwrite(str(files / f"{number}.png"), frame[:, :, ::-1])
    task = VideoTask(read_video(files), tmp_path / "out", csv=True)
    boxes = np.array([box_of(points) for points in truth])
    done = run_video(task, model, pliant.Tracking(), boxes, jobs=1)
    assert (done.frames, done.found, done.objects) == (3, 3, 2)
    fits = pliant.read_fits(tmp_path / "out")
    assert fits["object"].tolist() == [0, 1] * 3
    assert fits["frame"].tolist() == [0, 0, 1, 1, 2, 2]
    assert len((tmp_path / "out" / "track.csv").read_text().splitlines()) == 7
    drawn = next(iter(read_video(tmp_path / "out" / "overlay.mp4")))
    changed = np.abs(drawn.astype(int) - frame).max(axis=2) > 90
    for points in truth:
        left, top, right, bottom = box_of(points).astype(int)
        assert changed[top:bottom, left:right].sum() > 68


def test_wrong_input_gets_sentences(model_file, folder, tmp_path):
    video = folder / "face.mp4"
    for options, sentence in (
        ((tmp_path / "none.mp4", "-o", tmp_path / "o"), "there is no such video"),
        ((video, "-o", tmp_path / "o", "--box", "1,2,3"), "--box takes left,top,right,bottom"),
        ((video, "-o", video), "this is a file, but the output must be a folder"),
        ((video, "-o", tmp_path / "o", "--box", "1,1,4,4"), "found in none of 16 frames"),
    ):
        done = CliRunner().invoke(app, ["track", *map(str, (model_file, *options))])
        assert isinstance(done.exception, ValueError)
        assert sentence in str(done.exception)
    plan = CliRunner().invoke(
        app, ["track", *map(str, (model_file, video, "-o", tmp_path / "new", "--dry-run"))]
    )
    assert "16 frames" in plan.stdout
    assert not (tmp_path / "new").exists()


def test_a_video_that_ends_early_keeps_what_was_done(model_file, tmp_path):
    """The index of an AVI that is cut off still promises all frames."""
    whole, cut = tmp_path / "whole.avi", tmp_path / "cut.avi"
    writer = cv2.VideoWriter(str(whole), cv2.VideoWriter.fourcc(*"MJPG"), 25, (WIDTH, 96))
    film = list(face_video(12, seed=3, width=WIDTH, interrupted=False))
    for frame in film:
        writer.write(np.ascontiguousarray(frame.image[:, :, ::-1]))
    writer.release()
    content = whole.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    box = ",".join(f"{value:.0f}" for value in box_of(film[0].points))
    done = run(model_file, cut, "-o", tmp_path / "out", "--no-overlay", "--box", box)
    rows = parquet.read_table(tmp_path / "out" / "track.parquet").num_rows
    assert 3 <= rows < 10
    assert done.returncode == 3, done.stderr
    assert f"ended after {rows} of 12 frames" in done.stderr


def test_ctrl_c_leaves_a_table_that_can_be_read(model_file, folder, tmp_path):
    frames = tmp_path / "frames"
    frames.mkdir()
    image = next(iter(read_video(folder / "face.mp4")))
    cv2.imwrite(str(frames / "0.png"), image)
    for number in range(1, 4000):
        (frames / f"{number}.png").hardlink_to(frames / "0.png")
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "pliant", "track", str(model_file), f"{frames}/*.png", "-o", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    overlay, unfinished = out / "overlay.mp4", out / "track.unfinished" / "overlay.mp4"
    until = time.monotonic() + 60
    while not (unfinished.exists() and unfinished.stat().st_size > 1000) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    rows = parquet.read_table(out / "track.parquet").num_rows
    assert 0 < rows < 4000
    assert len(list(read_video(overlay))) in (rows, rows - 1)


def test_a_video_is_followed_by_its_name(model_file, folder):
    first = next(pliant.track(pliant.load(model_file), str(folder / "face.mp4"), lambda image: None))
    assert first.image is not None
    assert first.image.ndim == 3
