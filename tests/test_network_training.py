"""Training of network experts: what is folded, what is shown, what is learned, and how far it can be trusted."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.experts import network_learning
from pliant.experts.frames import crop_frame
from pliant.experts.lesson import Jitter, Lesson
from pliant.experts.network import NetworkExpert, Stage, _shapes
from pliant.experts.network_learning import Course, Plan, learn_network, like, trusted
from pliant.experts.windows import make_lesson
from pliant.shape import shape_size
from pliant.starts.noise import perturbed_mean

torch = pytest.importorskip("torch")

from pliant.experts import network_training as training  # noqa: E402

MEAN = np.array([[-1.0, -0.6], [1.0, -0.6], [0.0, 0.9]])
BRIGHTNESS = (1.0, -1.0, 0.5)
"""Of the spots at the three landmarks; the third is a ring."""


def picture(points, side=72):
    """Three spots that can be told apart, on grey."""
    y, x = np.mgrid[:side, :side]
    away = [np.hypot(x - px, y - py) for px, py in points]
    light = np.exp(-((away[0] / 3) ** 2)) - np.exp(-((away[1] / 3) ** 2))
    light += np.exp(-(((away[2] - 4) / 1.5) ** 2))
    return np.round(120 + 100 * np.clip(light, -1, 1)).astype(np.uint8)


def samples_of(count, seed):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        shape = MEAN + 0.12 * rng.normal(size=MEAN.shape)
        points = 14 * shape + 36 + rng.uniform(-3, 3, 2)
        made.append((picture(points), points))
    return made


@pytest.fixture(autouse=True)
def one_thread():
    with training.some_threads(1):
        yield


def with_plan(patch, plan):
    patch.setattr(network_learning, "plan_for", lambda samples, device: plan)
    patch.setattr(network_learning, "training_device", lambda: "cpu")


class TestFolding:
    @pytest.mark.parametrize(("widths", "left_out"), [((4, 6), 0), ((4, 4, 6), 1), ((3, 5, 7, 9), 2)])
    def test_folded_weights_are_the_trained_network(self, widths, left_out):
        torch.manual_seed(1)
        net = training.Network(5, widths, left_out)
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.normal_(module.weight, 1, 0.3)
                torch.nn.init.normal_(module.bias)
                module.running_mean.normal_()
                module.running_var.uniform_(0.3, 3)
        frame = crop_frame(MEAN, 24, 0.3, 2 ** len(widths))
        window = torch.rand(1, 1, frame.height, frame.width)
        net.eval()
        with torch.no_grad():
            expected = net(training.standardised(window))[0].numpy()
        weights = training.folded(net)
        ups = len(widths) - 1 - left_out
        assert {name: array.shape for name, array in weights.items()} == _shapes(widths, ups, 5)
        stage = Stage(frame, weights, 1.0, np.tile(np.eye(2), (5, 1, 1)))
        found = stage.maps(window[0, 0].numpy())
        assert_allclose(found, expected, atol=1e-4 * np.max(np.abs(expected)))

    def test_maps_are_read_as_they_are_learned(self):
        """The mean of a map is at the same place for the loss and for whoever uses the network."""
        from pliant.experts.maps import moments

        rng = np.random.default_rng(0)
        for cell in (2, 4):
            logits = rng.normal(size=(1, 3, 6, 8)).astype(np.float32)
            points, _ = moments(logits[0], 6 * cell, 8 * cell)
            x, y = training.centres(6 * cell, 8 * cell, (6, 8), "cpu")
            p = torch.softmax(torch.from_numpy(logits).flatten(2), -1).view(1, 3, 6, 8)[0]
            expected = torch.stack([(p.sum(1) * x).sum(-1), (p.sum(2) * y).sum(-1)], -1)
            assert_allclose(points, expected.numpy(), atol=1e-4)


class TestAugmentation:
    """A spot at a landmark stays under it, whatever is done to the picture."""

    @staticmethod
    def windows(monkeypatch, jitter, mirror=None, spots=(0,)):
        monkeypatch.setattr(training, "_disguised", lambda x: x)
        monkeypatch.setattr(training, "standardised", lambda x: x)
        frame = crop_frame(MEAN, 64, 0.35, 8)
        truth = 14.0 * MEAN + 40.3
        y, x = np.mgrid[:90, :90]
        light = sum(np.exp(-((x - truth[k, 0]) ** 2 + (y - truth[k, 1]) ** 2) / 8) for k in spots)
        lesson = make_lesson([((255 * light).astype(np.uint8), truth)], frame, jitter, mirror)
        torch.manual_seed(3)
        pixels, target = training._windows(
            training._Material(lesson, "cpu"), torch.zeros(40, dtype=torch.long)
        )
        return pixels[:, 0].numpy().astype(np.float64), target.numpy().astype(np.float64), frame

    @staticmethod
    def centres_of_light(pixels):
        y, x = np.mgrid[: pixels.shape[1], : pixels.shape[2]]
        weight = np.where(pixels > 0.3, pixels, 0)
        total = weight.sum(axis=(1, 2))
        return (
            np.stack([(weight * x).sum(axis=(1, 2)), (weight * y).sum(axis=(1, 2))], axis=-1) / total[:, None]
        )

    @pytest.mark.parametrize(
        "jitter",
        [
            Jitter(0, 0, 0, stretch=0, bend=0),
            Jitter(0.08, 0, 0, stretch=0, bend=0),
            Jitter(0, 0.2, 0, stretch=0, bend=0),
            Jitter(0, 0, 0.4, stretch=0, bend=0),
            Jitter(0, 0, 0, stretch=0.2, bend=0),
            Jitter(0, 0, 0, stretch=0, bend=0.02),
            Jitter(0.05, 0.15, 0.3),
        ],
        ids=["none", "shift", "zoom", "turn", "stretch", "bend", "all"],
    )
    @pytest.mark.parametrize("landmark", [0, 2])
    def test_landmarks_follow_the_pixels(self, monkeypatch, jitter, landmark):
        pixels, target, frame = self.windows(monkeypatch, jitter, spots=(landmark,))
        away = np.linalg.norm(self.centres_of_light(pixels) - target[:, landmark], axis=-1)
        assert np.max(away) < 0.5
        assert np.median(away) < 0.2
        moved = np.linalg.norm(target - frame.mean, axis=-1).max()
        assert (moved < 1e-3) == (jitter == Jitter(0, 0, 0, stretch=0, bend=0))

    def test_a_mirror_swaps_landmarks_with_the_pixels(self, monkeypatch):
        """With a spot at the left one alone: it is the right one where the picture is mirrored."""
        mirror = np.array([1, 0, 2], dtype=np.int32)
        pixels, target, _ = self.windows(monkeypatch, Jitter(0.05, 0.1, 0.2), mirror)
        light = self.centres_of_light(pixels)
        away = np.linalg.norm(light[:, None] - target[:, :2], axis=-1)
        assert np.max(away.min(axis=1)) < 0.5
        as_right = np.argmin(away, axis=1) == 1
        assert 8 < np.sum(as_right) < 32
        # Numbers go with the place: the first landmark is on the left in every window.
        assert np.all(target[:, 0, 0] < target[:, 1, 0])

    def test_windows_stay_in_what_was_cut(self):
        """The network's window, moved as far as it may be, does not leave the wider one by much."""
        jitter = Jitter(0.3, 0.2, 0.35)
        frame = crop_frame(MEAN, 48, 0.4, 8)
        lesson = make_lesson(samples_of(1, 0), frame, jitter)
        half = np.array([frame.width - 1, frame.height - 1]) / 2
        corners = half * [(-1, -1), (-1, 1), (1, -1), (1, 1)]
        low, high = np.array([np.inf] * 2), np.array([-np.inf] * 2)
        for turn in (-0.35, 0, 0.35):
            matrix = np.exp(0.2) * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            for shift in (-1, 1):
                there = corners @ matrix.T + lesson.centre + shift * 0.3 * frame.extent
                low, high = np.minimum(low, there.min(axis=0)), np.maximum(high, there.max(axis=0))
        sides = np.array(lesson.windows.shape[2:0:-1])
        assert np.all(low > -2)
        assert np.all(high < sides + 1)

    def test_disguises_do_not_move_pixels(self):
        """On the average over many, a spot stays where it is."""
        torch.manual_seed(0)
        y, x = np.mgrid[:40, :40]
        spot = np.exp(-((x - 13) ** 2 + (y - 22) ** 2) / 18)
        plain = torch.tensor(spot, dtype=torch.float32).expand(200, 1, 40, 40)
        mean = training._disguised(plain).mean(0)[0].numpy()
        assert np.unravel_index(np.argmax(mean), mean.shape) == (22, 13)


def errors(expert, samples, seed=0):
    """How far off starts are, and what each look makes of them, as shares of the object's size."""
    rng = np.random.default_rng(seed)
    truth = np.array([points for _, points in samples])
    found = np.array([perturbed_mean(expert.stages[0].frame.mean, points, 0.1, rng) for points in truth])
    out = [found]
    for number in range(expert.looks):
        out.append(expert.look([image for image, _ in samples], out[-1], number).points)
    return [np.mean(np.linalg.norm(points - truth, axis=-1), axis=-1) / shape_size(truth) for points in out]


@pytest.fixture(scope="module")
def expert() -> NetworkExpert:
    """A tiny one, of a few hundred steps."""
    with pytest.MonkeyPatch.context() as patch:
        with_plan(patch, Plan(Course(24, (8, 12), 150, 16), Course(32, (8, 12, 16), 220, 16), 0.1))
        return learn_network(samples_of(24, 0), MEAN)


class TestLearning:
    def test_spots_are_found_in_images_that_it_has_not_seen(self, expert):
        before, _, after = errors(expert, samples_of(20, 1))
        assert np.mean(after) < 0.4 * np.mean(before)
        assert np.mean(after) < 0.05

    def test_it_can_be_stored(self, expert):
        again = NetworkExpert.from_parts(expert.arrays(), expert.numbers())
        for one, other in zip(errors(expert, samples_of(2, 1)), errors(again, samples_of(2, 1)), strict=True):
            assert_array_equal(one, other)

    def test_trust_is_as_large_as_errors_are(self, expert):
        """Half of the squared errors, in the measure of the precision, are below 2 log 2 if all is normal."""
        known = trusted(expert, samples_of(30, 2))
        fresh = samples_of(20, 3)
        truth = np.array([points for _, points in fresh])
        shapes = truth + np.random.default_rng(0).uniform(-2, 2, (20, 1, 2))
        seen = known.look([image for image, _ in fresh], shapes, 1)
        away = seen.points - truth
        squares = np.einsum("bva,bvac,bvc->bv", away, seen.precision, away)
        assert 0.3 < np.median(squares) / (2 * np.log(2)) < 3
        # Only what is trusted has changed.
        assert_array_equal(seen.points, expert.look([image for image, _ in fresh], shapes, 1).points)

    def test_strange_images_are_trusted_less(self, expert):
        """With other landmarks than it has learned, the word of the same network counts for less."""
        usual = samples_of(20, 4)
        rng = np.random.default_rng(5)
        strange = [(image, points + rng.normal(size=points.shape) * 4) for image, points in usual]
        one, other = trusted(expert, usual), trusted(expert, strange)
        image, points = usual[0]
        for number in range(2):
            sure, unsure = (which.look([image], points[None], number).precision for which in (one, other))
            assert np.all(np.linalg.eigvalsh(unsure)[..., 1] < 0.6 * np.linalg.eigvalsh(sure)[..., 1])

    def test_few_held_out_images_make_landmarks_alike(self, expert):
        few, many = (trusted(expert, samples_of(count, 6)).stages[1].spread for count in (2, 40))

        def unlike(spread):
            return np.std(np.trace(spread, axis1=1, axis2=2)) / np.mean(np.trace(spread, axis1=1, axis2=2))

        assert np.all(np.linalg.eigvalsh(few) > 0)
        assert np.all(np.linalg.eigvalsh(many) > 0)
        assert unlike(few) < 0.5

    def test_one_lost_image_does_not_spoil_the_trust(self, expert):
        usual = samples_of(20, 7)
        lost = [(np.zeros((72, 72), dtype=np.uint8), usual[0][1]), (np.full((72, 72), np.nan), usual[1][1])]
        one, other = trusted(expert, usual), trusted(expert, [*usual, *lost])
        for first, second in zip(one.stages, other.stages, strict=True):
            assert np.all(np.isfinite(second.spread))
            assert np.trace(second.spread.mean(axis=0)) < 3 * np.trace(first.spread.mean(axis=0))

    def test_like_takes_the_trust_and_keeps_the_rest(self, expert):
        other = NetworkExpert(
            tuple(replace(stage, share=0.25, spread=3 * stage.spread) for stage in expert.stages)
        )
        found = like(expert, other)
        for stage, own, known in zip(found.stages, expert.stages, other.stages, strict=True):
            assert stage.share == 0.25
            assert_array_equal(stage.spread, known.spread)
            assert stage.weights is own.weights
            assert stage.frame is own.frame


class TestRepeating:
    @staticmethod
    def lesson() -> Lesson:
        return make_lesson(samples_of(4, 0), crop_frame(MEAN, 16, 0.4, 4), Jitter(0.1, 0.1, 0.1))

    def test_a_seed_decides_it(self):
        first, again, other = (
            training.train_network(self.lesson(), (4, 6), 6, batch=4, seed=seed) for seed in (1, 1, 2)
        )
        for name, array in first.items():
            assert_array_equal(array, again[name])
        assert not np.array_equal(first["head.weight"], other["head.weight"])
        assert all(np.all(np.isfinite(array)) and array.dtype == np.float32 for array in first.values())

    def test_nobody_elses_chance_is_touched(self):
        """Training has its seed, and leaves the user's random numbers as they were."""
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        training.train_network(self.lesson(), (4, 6), 1, batch=2, seed=1)
        assert torch.equal(torch.rand(3), expected)

    def test_threads_are_as_before(self):
        before = torch.get_num_threads()
        inside = []

        def interrupted():
            with training.some_threads(before + 1):
                inside.append(torch.get_num_threads())
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert inside == [before + 1]
        assert torch.get_num_threads() == before

    def test_it_tells_how_far_it_is(self, monkeypatch):
        with_plan(monkeypatch, Plan(Course(16, (4, 6), 60, 4), Course(16, (4, 6), 3, 4), 0.1))
        told = []
        learn_network(samples_of(6, 0), MEAN, tell=lambda *what: told.append(what))
        assert [what[:3] for what in told] == [("far", 50, 60), ("far", 60, 60), ("near", 3, 3)]
        assert all(0 < what[3] < 2 for what in told)


def test_without_pytorch_a_sentence_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"pip install 'pliant\[experts\]'"):
        learn_network(samples_of(4, 0), MEAN)
