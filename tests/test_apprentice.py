"""The apprentice: what it learns image by image, what it proposes, which image it wants, and its process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PIL

from pliant.arrays import Float64, Image
from pliant.data.dataset import Dataset
from pliant.model import Model
from pliant.quick.filling import filled
from pliant.quick.learning import Finished, Learner
from pliant.quick.model import QuickModel
from pliant.shape import shape_size
from pliant.studio.proposing.apprentice import Apprentice
from pliant.studio.proposing.next_image import Doubt, suggestions, thumbnail
from pliant.studio.proposing.process import some_of
from pliant.studio.proposing.proposals import follow, free_shape, proposal

LANDMARKS = 8


def picture(seed: int, place: tuple[float, float] | None = None, side: int = 96) -> tuple[Image, Float64]:
    """A bright polygon with corners that differ, on grey, and where these are."""
    import cv2

    rng = np.random.default_rng([7, seed])
    angles = np.linspace(0, 2 * np.pi, LANDMARKS, endpoint=False)
    lengths = np.array([24, 14, 26, 15, 22, 16, 28, 15]) * rng.normal(1, 0.06, LANDMARKS)
    centre = np.array([48.0, 46.0]) + rng.normal(0, 3, 2) if place is None else np.array(place)
    turn = rng.normal(0, 0.08)
    points = centre + lengths[:, None] * np.stack([np.cos(angles + turn), np.sin(angles + turn)], axis=1)
    image = np.full((side, side), 90, dtype=np.uint8)
    cv2.fillPoly(image, [np.round(points * 16).astype(np.int32)], 200, cv2.LINE_AA, 4)
    noise = rng.normal(0, 6, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8), points


def finished(seeds: range) -> dict[Any, Finished]:
    return {seed: Finished(lambda seed=seed: picture(seed)[0], picture(seed)[1]) for seed in seeds}


def error(points: Float64, truth: Float64) -> float:
    return float(np.mean(np.linalg.norm(points - truth, axis=1)) / shape_size(truth))


@cache
def learned() -> QuickModel:
    return Learner().learn(finished(range(12)))


def test_it_proposes_better_than_the_mean_place() -> None:
    model = learned()
    errors = [error(proposal(model, 1, picture(seed)[0]).points, picture(seed)[1]) for seed in range(50, 58)]
    assert np.mean(errors) < 0.03
    assert model.placement.error > 2 * np.mean(errors)


def test_learning_one_after_the_other_is_learning_all_at_once() -> None:
    learner = Learner()
    for count in (6, 9, 10):
        grown = learner.learn(finished(range(count)))
    # The frame of the sums is that of the first six; so they agree, and not to the last digit.
    at_once = Learner().learn(finished(range(10)))
    image, _ = picture(60)
    one, other = (proposal(model, 1, image).points for model in (grown, at_once))
    assert np.max(np.linalg.norm(one - other, axis=1)) < 1.0


def test_only_what_is_new_is_read() -> None:
    read: list[int] = []

    def reading(seed: int) -> Callable[[], Image]:
        return lambda: (read.append(seed), picture(seed)[0])[1]

    learner = Learner()
    for count in (6, 8):
        learner.learn({k: Finished(reading(k), picture(k)[1]) for k in range(count)})
    assert sorted(read) == list(range(8))


def test_judging_can_wait() -> None:
    learner = Learner()
    first = learner.learn(finished(range(6)), judge=False)
    assert not learner.outdated
    later = learner.learn(finished(range(9)), judge=False)
    assert learner.outdated
    assert later.usual == first.usual
    judged = learner.learn(finished(range(9)))
    assert not learner.outdated
    assert judged.usual != first.usual
    np.testing.assert_array_equal(judged.expert.filters[0].weights, later.expert.filters[0].weights)


def test_an_image_that_was_corrected_or_taken_back_is_unlearned() -> None:
    learner, clean = Learner(), finished(range(8))
    wrong = {**clean, 3: Finished(clean[3].read, clean[3].points[::-1])}
    learner.learn({**wrong, 9: finished(range(9, 10))[9]})
    again, fresh = learner.learn(clean), Learner().learn(clean)
    image, _ = picture(61)
    one, other = (proposal(model, 1, image).points for model in (again, fresh))
    assert np.max(np.linalg.norm(one - other, axis=1)) < 1.0


def test_landmarks_that_are_absent_are_filled_in_and_those_never_seen_are_unknown() -> None:
    images = finished(range(8))
    points = {k: np.array(one.points) for k, one in images.items()}
    for k in points:
        points[k][7] = np.nan
    points[2][4] = np.nan
    model = Learner().learn({k: Finished(images[k].read, points[k]) for k in images})
    made = proposal(model, 1, picture(62)[0])
    assert np.isnan(made.points[7]).all()
    assert 7 not in made.order
    assert error(made.points[:7], picture(62)[1][:7]) < 0.05


def test_images_without_a_shape_are_left_out() -> None:
    images = finished(range(6))
    flat = np.full((LANDMARKS, 2), 40.0)
    model = Learner().learn(
        {**images, 6: Finished(images[0].read, flat), 7: Finished(images[0].read, flat * np.nan)}
    )
    assert model.samples == 6


def test_filling_keeps_what_is_known() -> None:
    shapes = np.array([picture(k)[1] for k in range(10)])
    holes = shapes.copy()
    holes[3, 2], holes[5, 6] = np.nan, np.nan
    found = filled(holes)
    known = np.isfinite(holes)
    np.testing.assert_array_equal(found[known], holes[known])
    assert error(found[3], shapes[3]) < 0.05
    assert error(found[5], shapes[5]) < 0.05


def test_a_model_that_was_given_proposes_until_a_better_one_is_learned(
    model: Model, dataset: Dataset, tmp_path: Path
) -> None:
    model.save(tmp_path / "faces.pliant")
    PIL.fromarray(dataset[20].image()).save(tmp_path / "face.png")
    apprentice = Apprentice(lambda event: None, tmp_path / "faces.pliant")
    truth = dataset[20].points()
    made = apprentice.propose(tmp_path / "face.png")
    assert made is not None
    assert (made.model, apprentice.number, apprentice.samples, apprentice.landmarks) == (0, 0, 24, 68)
    assert error(made.points, truth) < 0.1
    held = apprentice.propose(tmp_path / "face.png", {30: tuple(truth[30] + 3)})
    assert held is not None
    np.testing.assert_array_equal(held.points[30], truth[30] + 3)
    assert Apprentice(lambda event: None, tmp_path / "faces.pliant", ["a", "b"]).propose("face.png") is None


@pytest.mark.filterwarnings("ignore::pliant.NotFitted")
def test_where_the_given_model_finds_nothing_nothing_is_proposed(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "faces.pliant")
    PIL.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "tiny.png")
    assert Apprentice(lambda event: None, tmp_path / "faces.pliant").propose(tmp_path / "tiny.png") is None


def test_too_few_images_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="needs 5 finished images"):
        Learner().learn(finished(range(4)))


def test_the_object_is_found_where_it_has_no_usual_place() -> None:
    rng = np.random.default_rng(0)
    places = [tuple(rng.uniform(35, 125, 2)) for _ in range(12)]
    scenes = [picture(k, place, 160) for k, place in enumerate(places)]  # type: ignore[arg-type]
    model = Learner().learn({k: Finished(lambda k=k: scenes[k][0], scenes[k][1]) for k in range(7)})  # type: ignore[misc]
    assert model.object_filter is not None
    errors = [error(proposal(model, 1, image).points, truth) for image, truth in scenes[7:]]
    assert np.median(errors) < 0.05


def test_held_points_stay_and_bring_a_lost_fit_back() -> None:
    model = learned()
    image, truth = picture(63)
    away = np.roll(image, (30, -25), axis=(0, 1))
    there = truth + (-25, 30)
    held = {k: tuple(there[k]) for k in (0, 3, 6)}
    made = proposal(model, 1, away, held)
    for k, where in held.items():
        np.testing.assert_array_equal(made.points[k], where)
        assert k not in made.order
    assert error(made.points, there) < 0.05


def test_the_least_certain_come_first_and_confidence_is_a_share() -> None:
    made = proposal(learned(), 3, picture(64)[0])
    deviations = np.trace(made.covariance, axis1=1, axis2=2)[made.order]
    assert np.all(np.diff(deviations) <= 0)
    assert 0 <= made.confidence <= 1
    assert made.model == 3
    assert "12 images" in made.reason


def test_the_rest_follows_a_point_and_stays_if_nothing_is_moved() -> None:
    model = learned()
    image, truth = picture(65)
    first = proposal(model, 1, image)
    np.testing.assert_allclose(follow(first, None, first.points, {}), first.points)
    moved = follow(first, None, first.points, {0: tuple(truth[0] + 40), 4: tuple(truth[4] + 40)})
    assert error(moved, truth + 40) < 0.15
    again = proposal(model, 1, image, {0: tuple(truth[0])})
    kept = follow(first, again, again.points, {0: tuple(truth[0])})
    np.testing.assert_allclose(kept, again.points, atol=1e-9)


def test_without_a_model_points_follow_as_they_lie() -> None:
    _, truth = picture(66)
    fixed = {0: tuple(truth[0] + 30), 4: tuple(truth[4] + 30)}
    assert error(free_shape((), truth, fixed), truth + 30) < 0.1
    holes = truth.copy()
    holes[2] = np.nan
    assert np.isnan(free_shape((), holes, fixed)[2]).all()


def test_typical_images_come_first_then_unlike_ones() -> None:
    rng = np.random.default_rng(0)
    plain, odd = rng.integers(0, 255, (40, 40)), rng.integers(0, 255, (40, 40))
    images = [np.clip(plain + rng.normal(0, 5, plain.shape), 0, 255).astype(np.uint8) for _ in range(5)]
    pictures = [thumbnail(one) for one in (*images, odd.astype(np.uint8))]
    order = suggestions([], pictures)
    assert order[0].index != 5
    assert order[1].index == 5
    assert "typical" in order[0].reason
    unlike = suggestions(pictures[:1], pictures[1:])
    assert unlike[0].index == 4
    assert suggestions(pictures, []) == []
    # A model may be given, or learned while a reason is shown: none may say that there is no model.
    assert not any("model" in one.reason for one in (*order, *unlike))


def test_the_model_wants_what_it_is_unsure_of_and_says_so() -> None:
    pictures = [thumbnail(picture(k)[0]) for k in range(6)]
    doubts = {k: Doubt(4.0 if k == 3 else 0.2, 8, 6.0, "tip") for k in range(6)}
    best = suggestions(pictures[:2], pictures, doubts)[0]
    assert best.index == 3
    assert best.reason == "The model is unsure of 4 points here (± 6 px at 'tip')."


class Heard:
    """What an apprentice tells, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def __call__(self, event: dict[str, Any]) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, kind: str, count: int = 1) -> dict[str, Any]:
        def there() -> list[dict[str, Any]]:
            return [event for event in self.events if event["type"] == kind]

        with self._changed:
            assert self._changed.wait_for(lambda: len(there()) >= count, 60), self.events
            return there()[count - 1]


def test_a_first_model_is_of_images_from_all_over() -> None:
    samples = {(str(k), 0): k for k in range(100)}
    part = list(some_of(samples, 24).values())
    assert len(part) == len(set(part)) == 24
    assert min(part) < 5
    assert max(part) > 94


def test_the_process_learns_survives_and_ends(tmp_path: Path) -> None:
    sources = []
    for seed in range(12):
        PIL.fromarray(picture(seed)[0]).save(tmp_path / f"{seed}.png")
        sources.append(tmp_path / f"{seed}.png")
    (tmp_path / "broken.png").write_text("no image")
    samples = [(sources[k], picture(k)[1]) for k in range(8)]
    heard = Heard()
    apprentice = Apprentice(heard)
    try:
        assert apprentice.propose(sources[9]) is None
        begin = time.perf_counter()
        apprentice.learn(samples[:4])
        apprentice.learn([*samples, (tmp_path / "broken.png", samples[0][1])], [f"p{k}" for k in range(8)])
        assert time.perf_counter() - begin < 5
        apprentice.rank(sources, range(8))
        assert "broken.png" in heard.wait("trouble")["sentence"]
        told = heard.wait("model")
        assert (told["number"], told["samples"]) == (1, 8)
        made = apprentice.propose(sources[9])
        assert made is not None
        assert error(made.points, picture(9)[1]) < 0.05
        np.testing.assert_allclose(apprentice.follow(sources[9], made.points, []), made.points)
        assert apprentice.propose(sources[9], None, np.zeros((3, 2))) is None

        assert apprentice._worker is not None
        apprentice._worker.process.kill()
        assert "restarted" in heard.wait("trouble", 2)["sentence"]
        assert heard.wait("model", 2)["number"] == 2
        deadline = time.monotonic() + 60
        while len(apprentice.rank(sources, range(8))) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        order = apprentice.rank(sources, range(8))
        assert sorted(one.index for one in order) == [8, 9, 10, 11]
        assert all(one.reason for one in order)
        process = apprentice._worker.process
    finally:
        apprentice.stop()
    process.join(10)
    assert not process.is_alive()
    apprentice.stop()
