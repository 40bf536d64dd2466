"""Network experts in use: the graph is the network, maps are distributions, and sightings move with the object."""

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.experts.frames import CropFrame, crop_frame
from pliant.experts.lesson import Jitter
from pliant.experts.maps import moments
from pliant.experts.network import NetworkExpert, Stage, _shapes
from pliant.experts.onnx_graph import as_onnx
from pliant.experts.windows import cut, make_lesson
from pliant.shape import Similarity, align

MEAN = np.array([[-1.0, -0.5], [1.0, -0.5], [0.9, 0.6], [-0.2, 0.7]])


def random_weights(widths, ups, landmarks, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: (rng.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 4))).astype(np.float32)
        for name, shape in _shapes(widths, ups, landmarks).items()
    }


def spots(landmarks=4, ups=1, gain=3.0):
    """Weights of a network whose even landmarks are where it is bright, and whose odd ones where it is dark."""
    weights = {
        name: np.zeros(shape, dtype=np.float32) for name, shape in _shapes((2, 3, 4), ups, landmarks).items()
    }
    weights["stem.weight"][:, 0, 2, 2] = 1, -1
    for k in range(2):
        weights[f"down.{k + 1}.skip.weight"][:2, :2, 0, 0] = np.eye(2)
    for k in range(ups):
        # Behind what comes from below are the maps of the same size.
        deep = (4, 3)[k]
        weights[f"up.{k}.skip.weight"][:2, deep : deep + 2, 0, 0] = np.eye(2)
    weights["head.weight"][::2, 0] = weights["head.weight"][1::2, 1] = gain
    return weights


def stage_of(weights, frame, share=0.5):
    spread = np.tile(np.diag([0.5, 2.0]), (len(frame.mean), 1, 1))
    return Stage(frame, weights, share, spread)


@pytest.fixture(scope="module")
def expert() -> NetworkExpert:
    """One that sees a bright and a dark spot: twice, far around and near."""
    stages = [
        stage_of(spots(2, ups=ups), crop_frame(MEAN[[0, 2]], pixels, margin, 8))
        for pixels, margin, ups in ((64, 0.5, 1), (64, 0.2, 2))
    ]
    return NetworkExpert(tuple(stages))


def picture(points, height=110, width=130, wide=2.5):
    """A bright spot at one point and a dark one at the other, in 8 bits."""
    y, x = np.mgrid[:height, :width]
    light, dark = (
        np.exp(-((x - point[0]) ** 2 + (y - point[1]) ** 2) / (2 * wide**2)) for point in points[:2]
    )
    return np.round(127 + 100 * (light - dark)).astype(np.uint8)


TRUTH = np.array([[40.3, 37.6], [80.1, 59.2]])


class TestGraph:
    """What OpenCV computes is the network, written down a second time in NumPy."""

    @staticmethod
    def convolved(x, weight, bias=None, stride=1):
        pad = weight.shape[-1] // 2
        padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[-2:], axis=(1, 2))
        out = np.einsum("chwij,ocij->ohw", patches[:, ::stride, ::stride], weight.astype(np.float64))
        return out if bias is None else out + bias[:, None, None]

    def block(self, x, weights, name):
        skip = weights.get(f"{name}.skip.weight")
        inner = self.convolved(x, weights[f"{name}.a.weight"], weights[f"{name}.a.bias"])
        inner = self.convolved(np.maximum(inner, 0), weights[f"{name}.b.weight"], weights[f"{name}.b.bias"])
        return np.maximum(inner + (x if skip is None else self.convolved(x, skip)), 0)

    def network(self, window, weights, depth, ups):
        x, seen = self.convolved(window[None], weights["stem.weight"], weights["stem.bias"], 2), []
        for k in range(depth):
            if k:
                c, h, w = x.shape
                x = x.reshape(c, h // 2, 2, w // 2, 2).max(axis=(2, 4))
            x = self.block(x, weights, f"down.{k}")
            seen.append(x)
        for k in range(ups):
            wider = x.repeat(2, axis=1).repeat(2, axis=2)
            x = self.block(np.concatenate([wider, seen[-2 - k]]), weights, f"up.{k}")
        return self.convolved(x, weights["head.weight"], weights["head.bias"])

    @pytest.mark.parametrize(
        ("widths", "ups", "height", "width"),
        [
            ((3, 5), 1, 8, 8),
            ((4, 4), 1, 12, 20),
            ((4, 6, 8), 2, 16, 24),
            ((4, 6, 8), 1, 40, 16),
            ((5, 5, 3, 7), 3, 32, 48),
            ((5, 5, 3, 7), 2, 48, 32),
            ((2, 3, 4, 5, 6), 2, 64, 32),
        ],
    )
    def test_opencv_computes_the_network(self, widths, ups, height, width):
        weights = random_weights(widths, ups, 7, seed=height)
        window = np.random.default_rng(1).normal(size=(height, width)).astype(np.float32)
        net = cv2.dnn.readNetFromONNX(np.frombuffer(as_onnx(weights, height, width), np.uint8))
        net.setInput(window[None, None])
        found = net.forward()[0]
        expected = self.network(window, weights, len(widths), ups)
        assert found.shape == expected.shape
        assert np.ptp(expected) > 0.1
        assert_allclose(found, expected, atol=2e-4 * np.max(np.abs(expected)))

    def test_light_and_contrast_of_a_window_do_not_count(self):
        stage = stage_of(random_weights((3, 5), 1, 4), crop_frame(MEAN, 16, 0.2, 4))
        window = np.random.default_rng(2).uniform(0.2, 0.8, (stage.frame.height, stage.frame.width))
        window = window.astype(np.float32)
        one, other = stage.maps(window), stage.maps(0.3 * window + 0.4)
        # A thousandth is added to the contrast, which makes a small difference.
        assert_allclose(other, one, atol=0.03 * np.ptp(one))
        assert np.all(np.isfinite(stage.maps(0 * window)))


class TestMaps:
    @pytest.mark.parametrize(("rows", "columns", "cell"), [(5, 7, 2), (8, 4, 4), (1, 9, 2), (6, 6, 8)])
    def test_moments_are_those_of_a_softmax(self, rng, rows, columns, cell):
        logits = (4 * rng.normal(size=(3, rows, columns))).astype(np.float32)
        points, covariance = moments(logits, rows * cell, columns * cell)
        # Cells of two pixels are centred on the first one, and larger ones are made of those.
        x, y = (np.arange(count) * cell + (cell - 2) / 2 for count in (columns, rows))
        places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        for k in range(3):
            p = np.exp(logits[k].astype(np.float64).ravel())
            p /= p.sum()
            mean = p @ places
            # What is left out adds less than a millionth for each cell.
            assert_allclose(points[k], mean, atol=1e-3 * cell)
            away = places - mean
            assert_allclose(covariance[k], (p[:, None] * away).T @ away, atol=1e-2 * cell**2)

    def test_a_flat_map_is_unsure_by_the_whole_window(self):
        points, covariance = moments(np.full((1, 16, 32), -3.0, dtype=np.float32), 32, 64)
        assert_allclose(points, [[31, 15]])
        assert_allclose(covariance[0], np.diag([4 * (32**2 - 1) / 12, 4 * (16**2 - 1) / 12]), atol=1e-9)

    def test_a_map_with_one_cell_is_sure(self):
        logits = np.full((1, 9, 9), -100.0, dtype=np.float32)
        logits[0, 4, 7] = 100
        points, covariance = moments(logits, 36, 36)
        assert_allclose(points, [[4 * 7 + 1, 4 * 4 + 1]])
        assert_allclose(covariance, 0, atol=1e-9)

    def test_adding_to_all_logits_changes_nothing(self, rng):
        logits = rng.normal(size=(2, 6, 6)).astype(np.float32)
        for one, other in zip(moments(logits, 12, 12), moments(logits + 8192, 12, 12), strict=True):
            assert_allclose(one, other, atol=0.01)

    @pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
    def test_a_map_without_numbers_stays_without(self, odd):
        points, _ = moments(np.full((2, 4, 4), odd, dtype=np.float32), 8, 8)
        assert not np.any(np.isfinite(points))


class TestFrames:
    @pytest.mark.parametrize("stretch", [(1, 1), (6, 1), (1, 9), (1, 0)])
    @pytest.mark.parametrize(("pixels", "margin", "multiple"), [(64, 0.5, 16), (40, 0.1, 32), (10, 0.02, 8)])
    def test_the_object_is_in_the_middle_with_its_margin(self, stretch, pixels, margin, multiple):
        mean = 17 * MEAN * stretch + (300, -20)
        frame = crop_frame(mean, pixels, margin, multiple)
        sides = np.array([frame.width, frame.height])
        assert np.all(sides % multiple == 0)
        assert np.all(sides > 0)
        low, high = frame.mean.min(axis=0), frame.mean.max(axis=0)
        assert_allclose((low + high) / 2, (sides - 1) / 2)
        # From edge to edge a window is as wide as it has pixels.
        around = np.minimum(low + 0.5, sides - 0.5 - high)
        assert np.all(around >= margin * frame.extent - 1e-9)
        placed = align(mean, frame.mean)
        assert_allclose(placed.apply(mean), frame.mean, atol=1e-9)
        assert_allclose(placed.angle, 0, atol=1e-12)
        assert np.max(sides) <= 3 * max(pixels, multiple) or max(stretch) > 1 or min(stretch) < 1

    def test_it_has_about_so_many_pixels(self):
        frame = crop_frame(MEAN, 64, 0.3, 4)
        assert abs(np.sqrt(frame.height * frame.width) - 64) < 4


class TestWindows:
    def test_a_window_shows_what_the_similarity_says(self):
        """A straight ramp of light is read exactly, wherever and however the window lies."""
        y, x = np.mgrid[:90, :100]
        image = (0.002 * x + 0.004 * y).astype(np.float32)
        for angle, scale in ((0.0, 1.0), (0.4, 0.7), (-2.0, 1.6)):
            place = Similarity(np.asarray(scale * np.exp(1j * angle)), np.asarray(48 + 40j))
            window = cut(image, 12, 16, place)
            rows, columns = np.mgrid[:12, :16]
            there = place.apply(np.stack([columns, rows], axis=-1).reshape(1, -1, 2))[0]
            assert window.shape == (12, 16)
            assert_allclose(window.ravel(), there @ (0.002, 0.004), atol=2e-3)

    def test_a_mean_shaped_object_lies_where_the_mean_does(self):
        frame = crop_frame(MEAN, 32, 0.3, 8)
        jitter = Jitter(shift=0.1, zoom=0.2, turn=0.3)
        truth = Similarity(np.asarray(9 * np.exp(0.3j)), np.asarray(60 + 50j)).apply(MEAN)
        lesson = make_lesson([(picture(truth[:2]), truth)] * 2, frame, jitter)
        middle = (np.array([frame.width, frame.height]) - 1) / 2
        own = (lesson.points - lesson.centre) / lesson.ratio + middle
        assert_allclose(own, np.stack([frame.mean] * 2), atol=1e-9)
        assert lesson.windows.shape[1] >= frame.height
        assert lesson.windows.shape[2] >= frame.width
        # The network's own window, however it is moved, lies in the wider one.
        assert lesson.extent == frame.extent

    def test_a_spot_stays_under_its_landmark(self):
        frame = crop_frame(TRUTH - TRUTH.mean(axis=0), 48, 0.3, 8)
        for angle in (0.0, 0.7, 3.0):
            turn = Similarity(np.asarray(np.exp(1j * angle)), np.asarray(0j))
            truth = turn.apply(TRUTH - TRUTH.mean(axis=0)) + (60, 55)
            lesson = make_lesson([(picture(truth), truth)], frame, Jitter(0.1, 0.1, 0.1))
            window, points = lesson.windows[0].astype(float) - 127, lesson.points[0]
            for sign, point in zip((1, -1), points, strict=True):
                weight = np.where(sign * window > 40, sign * window, 0)
                y, x = np.mgrid[: window.shape[0], : window.shape[1]]
                centre = np.array([np.sum(weight * x), np.sum(weight * y)]) / weight.sum()
                assert_allclose(centre, point, atol=0.15)


class TestLooking:
    @pytest.mark.parametrize(("number", "wide", "most"), [(0, 6.0, 1.0), (1, 2.5, 0.4)])
    def test_spots_are_seen_where_they_are(self, expert, number, wide, most):
        """Cells of four pixels are coarser than those of two, but not off to one side."""
        rng = np.random.default_rng(3)
        starts = TRUTH + rng.uniform(-3, 3, (12, 1, 2)) + rng.uniform(-1, 1, (12, 2, 2))
        seen = expert.look([picture(TRUTH, wide=wide)] * 12, starts, number)
        assert np.all(seen.seen)
        assert_allclose(seen.points, np.stack([TRUTH] * 12), atol=most)
        assert_allclose(seen.points.mean(axis=0), TRUTH, atol=0.3)

    @pytest.mark.parametrize(("angle", "scale"), [(0.0, 1.7), (0.5, 1.0), (-2.4, 1.3), (np.pi, 0.8)])
    def test_a_similarity_of_image_and_start_moves_what_is_seen(self, expert, angle, scale):
        move = Similarity(np.asarray(scale * np.exp(1j * angle)), np.asarray(0j))
        offset = np.array([90.0, 80.0]) - move.apply(TRUTH).mean(axis=0)
        start = TRUTH + [[2.0, -1.0], [1.0, 1.5]]
        here = expert.look([picture(TRUTH, 180, 190)], start[None], 1)
        image = picture(move.apply(TRUTH) + offset, 180, 190, 2.5 * scale)
        there = expert.look([image], move.apply(start)[None] + offset, 1)
        assert_allclose(there.points, move.apply(here.points) + offset, atol=0.25 * scale)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        expected = turn @ here.precision @ turn.T / scale**2
        assert_allclose(there.precision, expected, atol=0.1 * np.max(expected))

    def test_precision_is_that_of_the_map_and_the_spread(self, expert):
        """Upright and at the size of the frame, nothing is turned or scaled."""
        stage = expert.stages[1]
        place = Similarity(np.asarray(1 + 0j), np.asarray(20 + 15j))
        truth = place.apply(stage.frame.mean)
        seen = expert.look([picture(truth)], truth[None], 1)
        _, covariance, _ = stage.seen(picture(truth), truth)
        assert_allclose(np.linalg.inv(seen.precision[0]), 0.5 * covariance + np.diag([0.5, 2.0]), rtol=1e-9)

    def test_many_are_as_one_by_one(self, expert):
        rng = np.random.default_rng(5)
        images = [picture(TRUTH + rng.uniform(-9, 9, 2)) for _ in range(4)]
        images[1] = np.dstack([images[1]] * 3)
        images[2] = images[2][:, ::-1]
        starts = TRUTH + rng.uniform(-4, 4, (4, 2, 2))
        together = expert.look(images, starts, 0)
        for k in range(4):
            alone = expert.look(images[k : k + 1], starts[k : k + 1], 0)
            assert_array_equal(alone.points[0], together.points[k])
            assert_array_equal(alone.precision[0], together.precision[k])

    def test_threads_look_at_once(self, expert):
        rng = np.random.default_rng(6)
        images = [picture(TRUTH + rng.uniform(-9, 9, 2)) for _ in range(24)]
        starts = TRUTH + rng.uniform(-4, 4, (24, 2, 2))

        def look(k):
            return expert.look(images[k : k + 1], starts[k : k + 1], k % 2)

        alone = [look(k) for k in range(24)]
        with ThreadPoolExecutor(4) as pool:
            at_once = list(pool.map(look, range(24)))
        for one, other in zip(alone, at_once, strict=True):
            assert_array_equal(one.points, other.points)
            assert_array_equal(one.precision, other.precision)

    def test_many_experts_are_not_taken_for_each_other(self):
        """More of them than engines are kept, and gone again, so that their places in memory are taken anew."""
        image, frame = picture(TRUTH), crop_frame(MEAN[[0, 2]], 16, 0.3, 4)
        found = []
        for seed in [*range(12), *range(12)]:
            expert = NetworkExpert((stage_of(random_weights((3, 4), 1, 2, seed), frame),))
            found.append(expert.look([image], TRUTH[None], 0).points)
            del expert
        for first, again in zip(found[:12], found[12:], strict=True):
            assert_array_equal(first, again)
        assert len({points.tobytes() for points in found}) == 12

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("number", [0, 1])
    def test_odd_images_and_shapes_do_no_harm(self, expert, number):
        """Objects half or wholly outside, images of one pixel, noise, shapes that are a point or not finite."""
        image, rng = picture(TRUTH), np.random.default_rng(0)
        nothing = [
            (image, TRUTH * 1e300),
            (image, TRUTH * 0),
            (image, TRUTH * np.nan),
            (image, np.where([[True], [False]], np.inf, TRUTH)),
            (np.zeros((1, 1), dtype=np.uint8), TRUTH),
            (np.full((110, 130), np.nan, dtype=np.float32), TRUTH),
        ]
        odd = [
            (image, TRUTH - (60, 0)),
            (image, TRUTH + (0, 5000)),
            (image, TRUTH * 1e-6),
            (image, TRUTH[::-1]),
            (np.zeros((1, 500), dtype=np.uint8), TRUTH),
            (np.zeros((110, 130, 3), dtype=np.uint8), TRUTH),
            (rng.uniform(0, 255, (110, 130)).astype(np.float32), TRUTH),
            (rng.integers(0, 65535, (110, 130)).astype(np.uint16), TRUTH),
        ]
        seen = expert.look(
            [pair[0] for pair in nothing + odd], np.array([pair[1] for pair in nothing + odd]), number
        )
        assert not np.any(seen.seen[: len(nothing)])
        assert np.all(np.isfinite(seen.precision))
        assert np.all(np.linalg.eigvalsh(seen.precision) >= 0)
        assert np.all(np.isfinite(seen.points[seen.seen]))


class TestParts:
    def test_they_make_the_same_expert(self, expert):
        again = NetworkExpert.from_parts(expert.arrays(), expert.numbers())
        assert (again.looks, again.landmarks) == (2, 2)
        assert again.numbers() == expert.numbers()
        for number in range(2):
            one, other = (which.look([picture(TRUTH)], TRUTH[None], number) for which in (expert, again))
            assert_array_equal(one.points, other.points)
            assert_array_equal(one.precision, other.precision)

    @pytest.mark.parametrize(
        ("name", "spoil", "sentence"),
        [
            ("stages.0.mean", lambda a: a[:, :1], "'stages.0.mean' of a network expert has type float64"),
            ("stages.0.mean", lambda a: a.astype(np.float32), "has type float32"),
            ("stages.0.mean", lambda a: 0 * a, "has no extent"),
            ("stages.1.mean", lambda a: a * np.nan, "not finite numbers"),
            ("stages.1.mean", None, "lacks 'stages.1.mean'"),
            ("stages.1.mean", lambda a: a + 1e9, "outside its window"),
            ("stages.0.spread", lambda a: -a, "not a covariance"),
            ("stages.0.spread", lambda a: a + [[0, 9], [0, 0]], "not a covariance"),
            ("stages.0.spread", lambda a: 0 * a, "not a covariance"),
            ("stages.0.spread", lambda a: a[:1], "'stages.0.spread'"),
            ("stages.0.spread", None, "lacks 'stages.0.spread'"),
            ("stages.0.weights.head.weight", lambda a: a[:1], "'head.weight' of a network expert has type"),
            ("stages.0.weights.head.bias", lambda a: a.astype(np.float64), "type float64"),
            ("stages.0.weights.down.0.b.weight", lambda a: a * np.nan, "'down.0.b.weight'.*finite"),
            ("stages.0.weights.down.1.a.weight", lambda a: a.ravel(), "'down.1"),
            ("stages.0.weights.down.1.a.weight", lambda a: a.sum(), "down"),
            ("stages.0.weights.down.1.a.weight", None, "cannot have 1 layers"),
            ("stages.1.weights.up.0.a.bias", None, "'up.0.a.bias'"),
            ("stages.1.weights.more", lambda _: np.zeros(3, dtype=np.float32), "'more'"),
            ("stages.1.weights.stem.weight", lambda a: a[:, :, :3, :3], "'stem.weight'"),
        ],
    )
    def test_wrong_arrays_are_refused(self, expert, name, spoil, sentence):
        arrays = expert.arrays()
        if spoil is None:
            del arrays[name]
        else:
            arrays[name] = spoil(arrays.get(name))
        with pytest.raises(ValueError, match=sentence):
            NetworkExpert.from_parts(arrays, expert.numbers())

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("height", 60),
            ("height", 0),
            ("height", -8),
            ("height", 2**20),
            ("height", 64.0),
            ("height", True),
            ("width", "64"),
            ("width", None),
            ("share", None),
            ("share", -1),
            ("share", float("nan")),
            ("share", True),
            ("share", "1"),
        ],
    )
    def test_wrong_numbers_are_refused(self, expert, name, value):
        numbers = expert.numbers()
        numbers["stages"][0][name] = value
        with pytest.raises(ValueError, match=f"the {name} of a network"):
            NetworkExpert.from_parts(expert.arrays(), numbers)

    @pytest.mark.parametrize("stages", [None, [], {}, 3, [3, 4], [{}], "ab", [{}] * 10**5])
    def test_what_is_no_list_of_tables_is_refused(self, expert, stages):
        with pytest.raises(ValueError, match="of a network|a network expert|networks of an expert"):
            NetworkExpert.from_parts(expert.arrays(), {"stages": stages})

    def test_arrays_that_nobody_asked_for_are_refused(self, expert):
        """Of a network that the numbers do not name, or of none at all."""
        numbers = {"stages": expert.numbers()["stages"][:1]}
        with pytest.raises(ValueError, match="'stages.1"):
            NetworkExpert.from_parts(expert.arrays(), numbers)
        with pytest.raises(ValueError, match="'extra'"):
            NetworkExpert.from_parts(expert.arrays() | {"extra": np.zeros(2)}, expert.numbers())

    def test_networks_that_differ_in_their_landmarks_are_refused(self, expert):
        other = NetworkExpert((expert.stages[0], stage_of(spots(4), crop_frame(MEAN, 64, 0.3, 8))))
        with pytest.raises(ValueError, match="have different landmarks"):
            NetworkExpert.from_parts(other.arrays(), other.numbers())

    def test_depths_that_differ_need_other_multiples(self):
        """Sides need only be multiples of what the network halves them by, the first layer included."""
        frame = CropFrame(12, 20, crop_frame(MEAN, 12, 0.1, 4).mean + (3, 0))
        expert = NetworkExpert((stage_of(random_weights((3, 4), 1, 4), frame),))
        again = NetworkExpert.from_parts(expert.arrays(), expert.numbers())
        assert again.stages[0].maps(np.eye(12, 20, dtype=np.float32)).shape == (4, 6, 10)
