"""Fitting: every algorithm finds what the model itself has drawn, and bad input gets a status."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.appearance.interpolation import resample
from pliant.experts.sightings import Sightings
from pliant.fitting.algorithm import catalogue
from pliant.fitting.fitter import make_fitter
from pliant.fitting.landmarks import landmark_term
from pliant.fitting.quadratic import needs_of, quadratic
from pliant.fitting.status import Status
from pliant.kernels.system import Needs
from pliant.motion import ThinPlateSpline, compose, rasterise
from pliant.motion.compose import update_jacobian
from pliant.motion.frame import barycentric_maps
from pliant.pca import PCA
from pliant.settings import Stopping
from pliant.shape import SIMILARITY, Similarity, align, shape_size
from pliant.starts.noise import perturbed

NAMES = [entry.name for entry in catalogue()]


class Waves:
    """Smooth functions of the frame: images can be painted from them exactly, at any place."""

    def __init__(self, rng, count):
        self.k = rng.uniform(0.15, 0.45, (count, 6, 1)) * _directions(rng, (count, 6))
        self.phase = rng.uniform(0, 6, (count, 6))

    def __call__(self, places):
        return np.sin(np.einsum("kjd,...d->k...j", self.k, places) + self.phase[:, None]).sum(axis=-1)


def _directions(rng, shape):
    angle = rng.uniform(0, 2 * np.pi, shape)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


@pytest.fixture(scope="module")
def world(dataset):
    """The shape model of faces with an appearance made of waves: a mean and four modes."""
    rng = np.random.default_rng(7)
    model = pliant.train(
        dataset, size=60, scales=(1.0,), shape_modes=4, features="intensity", confidence=False
    )
    (level,) = model.levels
    waves = Waves(rng, 5)
    raw = waves(level.motion.frame.pixels.astype(float))
    mix = np.linalg.inv(np.linalg.cholesky(raw[1:] @ raw[1:].T))
    variances = np.array([4.0, 3.0, 2.0, 1.5])
    appearance = PCA(
        (0.5 + 0.04 * raw[0]).astype(np.float32), (mix @ raw[1:]).astype(np.float32), variances, 10.51, 20
    )
    return replace(model, levels=(replace(level, appearance=appearance),)), waves, mix


@pytest.fixture(scope="module")
def plain(world):
    return world[0]


def paint(world, parameters, appearance, offset=(22.0, 24.0), shape=(110, 110)):
    """An image of the model's own instance, and its points."""
    model, waves, mix = world
    level = model.levels[-1]
    frame = level.motion.frame
    points = level.shape.instance(parameters) + np.asarray(offset)
    y, x = np.mgrid[: shape[0], : shape[1]]
    # Around the object, the waves go on as if it were moved as a whole.
    places = align(points, frame.vertices).apply(np.stack([x, y], axis=-1).reshape(-1, 2).astype(float))
    owner = rasterise(points, frame.triangles, shape).ravel()
    inside = owner >= 0
    maps = barycentric_maps(points, frame.triangles)[owner[inside]]
    homogeneous = np.stack([x.ravel()[inside], y.ravel()[inside], np.ones(inside.sum())], axis=-1)
    corners = frame.vertices[frame.triangles[owner[inside]]]
    places[inside] = np.einsum("fkd,fd,fke->fe", maps, homogeneous, corners)
    values = waves(places)
    return (0.5 + 0.04 * values[0] + appearance @ mix @ values[1:]).reshape(shape).astype(np.float32), points


@pytest.fixture(scope="module")
def painted(world):
    """Three painted instances with known parameters, and starts beside them, near and less near."""
    rng = np.random.default_rng(4)
    level = world[0].levels[-1]
    images, truths, starts, near = [], [], [], []
    for _ in range(3):
        p = np.concatenate([np.zeros(4), rng.normal(size=4) * 0.6 * np.sqrt(level.shape.eigenvalues)])
        c = rng.normal(size=4) * 0.6 * np.sqrt(level.appearance.eigenvalues)
        image, points = paint(world, p, c)
        images.append(image)
        truths.append(points)
        q = np.concatenate([np.zeros(4), p[4:] * 0.8])
        starts.append(level.shape.instance(q) + (22, 24) + rng.uniform(-1, 1, 2))
        near.append(points + rng.uniform(-0.3, 0.3, 2))
    return images, truths, starts, near


def error(fit, truth):
    return float(np.mean(np.linalg.norm(fit.points - truth, axis=1)))


class TestRecovery:
    @pytest.mark.parametrize("sampling", [1.0, 0.5, 0.25])
    @pytest.mark.parametrize("prior", ["", ":map"])
    @pytest.mark.parametrize("name", NAMES)
    def test_every_algorithm_finds_what_the_model_painted(self, plain, painted, name, prior, sampling):
        images, truths, starts, near = painted
        cost, rest = name.split("-", 1)
        # Newton's method is local: it is started where its quadratic model holds.
        begin = near if "-n" in rest.replace("-gn", "") else starts
        fits = pliant.fit(
            plain, images, begin, algorithm=f"{cost}{prior}-{rest}", iterations=60, sampling=sampling
        )
        for fit, truth in zip(fits, truths, strict=True):
            assert fit.ok, fit.status
            assert error(fit, truth) < 0.15

    @pytest.mark.parametrize("name", NAMES)
    def test_a_plain_ridge_is_minimised_though_it_pulls_away_from_the_truth(self, plain, painted, name):
        """In pixels and grey values, the ridge weighs a thousand times what the data does."""
        if "-n" in name.replace("-gn", ""):
            name = name.replace("-n", "-n:safe")
        images, truths, _, _ = painted
        cost, rest = name.split("-", 1)
        mean = [truth.mean(axis=0) - plain.levels[-1].shape.mean.mean(axis=0) for truth in truths]
        for fit, shift in zip(
            pliant.fit(plain, images, truths, algorithm=f"{cost}:ridge-{rest}", iterations=30),
            mean,
            strict=True,
        ):
            assert fit.trace[0].costs[-1] < 0.05 * fit.trace[0].costs[0]
            assert np.abs(fit.points - (plain.levels[-1].shape.mean + shift)).max() < 8

    @pytest.mark.parametrize("variant", ["safe", "printed"])
    def test_the_other_newtons(self, plain, painted, variant):
        images, truths, starts, near = painted
        begin = starts if variant == "safe" else near
        for fit, truth in zip(
            pliant.fit(plain, images, begin, algorithm=f"ssd-inv-n:{variant}-sch", iterations=60),
            truths,
            strict=True,
        ):
            assert error(fit, truth) < 0.3

    def test_appearance_and_cost_are_found_too(self, plain, painted):
        images, _, starts, _ = painted
        for name in ("ssd-asy-gn-sch", "po-asy-gn"):
            for fit, image in zip(
                pliant.fit(plain, images, starts, algorithm=name, iterations=40), images, strict=True
            ):
                costs = fit.trace[0].costs
                assert costs[-1] < 0.2 * costs[0]
                assert fit.cost == costs[-1]
                assert len(costs) == len(fit.trace[0].points) == fit.iterations + 1
                assert_allclose(fit.trace[0].points[-1], fit.points)
                drawn = fit.reconstruction((image * 255).astype(np.uint8))
                assert drawn.shape[:2] == image.shape

    @pytest.mark.parametrize("order", ["exact", "first-order"])
    @pytest.mark.parametrize("motion", ["piecewise-affine", "thin-plate-spline", "patches"])
    def test_all_motions_and_both_orders(self, dataset, order, motion):
        model = pliant.train(
            dataset,
            size=40,
            scales=(1.0,),
            shape_modes=4,
            appearance_modes=0.8,
            features="intensity",
            motion=motion,
            confidence=False,
        )
        rng = np.random.default_rng(0)
        samples = dataset[:6]
        truths = [sample.points() for sample in samples]
        starts = [perturbed(model, truth, 0.02, rng) for truth in truths]
        fits = pliant.fit(
            model, list(samples), starts, algorithm="ssd-asy-gn-sch", order=order, iterations=30
        )
        before = np.mean([np.linalg.norm(s - t, axis=1).mean() for s, t in zip(starts, truths, strict=True)])
        assert np.mean([error(fit, truth) for fit, truth in zip(fits, truths, strict=True)]) < 0.8 * before


class TestGradients:
    """The whole chain (view, warp, stencil, System, quadratic) against differences of the cost that is reported."""

    @pytest.mark.parametrize("name", ["ssd-for-gn-sch", "ssd:map-for-gn-sch", "po:0-for-gn", "po:map-for-gn"])
    @pytest.mark.parametrize("sampling", [1.0, 0.4])
    @pytest.mark.parametrize("seen", [False, True])
    def test_the_gradient_is_that_of_the_cost(self, plain, painted, name, sampling, seen):
        images, _, starts, _ = painted
        level, _, problem = make_fitter(
            plain, algorithm=name, sampling=sampling, device="reference"
        ).prepared[0]
        image = images[0][:, :, None]
        p = level.shape.project(starts[0])[None]
        c = np.full((1, len(problem.weights.appearance)), 0.3 if problem.weights.solves_appearance else 0.0)
        # About as steep as the pixels are.
        sure = np.broadcast_to(0.2 * problem.weights.unit * np.eye(2), (1, level.shape.landmarks, 2, 2))
        seen_at = Sightings(level.shape.instance(p) + (1.0, -0.5), sure)
        landmarks = landmark_term(level.shape, seen_at) if seen else None

        def cost(dp):
            moved = compose(level.motion, level.shape, p, dp[None])
            system = problem.kernel.system([image], level.shape.instance(moved), c, Needs())
            return float(problem.weights.value(system, moved, c, landmarks)[0])

        system = problem.kernel.system([image], level.shape.instance(p), c, Needs())
        jacobian = update_jacobian(level.motion, level.shape, p)
        composition = problem.algorithm.composition
        model = quadratic(system, problem.weights, composition, p, c, jacobian, landmarks=landmarks)
        unit = np.eye(level.shape.parameters) * 0.05
        differences = np.array([(cost(e) - cost(-e)) / 0.1 for e in unit])
        # A stencil of a pixel sees waves of 14 to 42 pixels too flat, most of all at the border of the mask.
        assert_allclose(model.gu[0], differences, atol=0.1 * np.abs(differences).max())
        assert np.corrcoef(model.gu[0], differences)[0, 1] > 0.99


class TestProperties:
    def test_asymmetric_ends_are_forward_and_inverse(self, plain, painted):
        images, _, starts, _ = painted
        for cost in ("po", "ssd"):
            tail = "-gn" if cost == "po" else "-gn-sch"
            for alpha, pure in ((1, "for"), (0, "inv")):
                one = pliant.fit(plain, images, starts, algorithm=f"{cost}-asy:{alpha}{tail}", iterations=8)
                other = pliant.fit(plain, images, starts, algorithm=f"{cost}-{pure}{tail}", iterations=8)
                for a, b in zip(one, other, strict=True):
                    assert_allclose(a.points, b.points, atol=1e-4)

    @pytest.mark.parametrize("tail", ["gn", "n", "n:printed"])
    @pytest.mark.parametrize("sampling", [1.0, 0.3])
    def test_asymmetric_ends_are_computed_as_forward_and_inverse(self, model, dataset, tail, sampling):
        """The same slopes are looked at, by the same kernel, so that not even rounding differs."""
        samples = list(dataset[:3])
        starts = [perturbed(model, sample.points(), 0.03, np.random.default_rng(2)) for sample in samples]
        for cost in ("po", "ssd"):
            for alpha, pure in ((1, "for"), (0, "inv")):
                fitters = [
                    make_fitter(
                        model, algorithm=f"{cost}-{kind}-{tail}", iterations=3, sampling=sampling, jobs=1
                    )
                    for kind in (f"asy:{alpha}", pure)
                ]
                needs, same = (needs_of(f.algorithm, f.prepared[0][2].weights) for f in fitters)
                assert (needs.image, needs.model) == (same.image, same.model) == (alpha == 1, alpha == 0)
                images = [sample.image() for sample in samples]
                one, other = ([fit.points for fit in f.block(images, starts)] for f in fitters)
                np.testing.assert_array_equal(one, other)

    def test_newton_with_shares_ends_where_it_must(self, model, dataset):
        """Gauss-Newton without curvature, the paper's sign for po-inv with it turned, neither in between."""
        samples = list(dataset[:3])
        starts = [perturbed(model, sample.points(), 0.03, np.random.default_rng(2)) for sample in samples]

        def points(name):
            fits = pliant.fit(model, samples, starts, algorithm=name, iterations=(3, 2))
            return np.array([fit.points for fit in fits])

        for cost, kind, tail in (("ssd", "asy", "-sch"), ("ssd", "bid", "-alt"), ("po", "inv", "")):
            plain, none, some, whole = (
                points(f"{cost}-{kind}-{how}{tail}") for how in ("gn", "n:0", "n:0.25", "n")
            )
            assert_allclose(none, plain, atol=1e-3)
            assert np.abs(some - plain).max() > 0.01
            assert np.abs(some - whole).max() > 0.01
        assert_allclose(points("po-inv-n:turned"), points("po-inv-n:printed"), atol=1e-9)
        assert np.abs(points("po-inv-n:turned") - points("po-inv-n")).max() > 0.01

    def test_no_share_asks_for_no_curvature(self, plain):
        for name, other in (("ssd-bid-n:0-sch", "ssd-bid-gn-sch"), ("po-for-n:printed:0", "po-for-gn")):
            needs, same = (
                needs_of(problem.algorithm, problem.weights)
                for ((_, _, problem),) in (make_fitter(plain, algorithm=a).prepared for a in (name, other))
            )
            assert needs == same

    def test_a_batch_equals_its_items(self, model, dataset):
        samples = list(dataset[:5])
        rng = np.random.default_rng(1)
        starts = [perturbed(model, sample.points(), 0.04, rng) for sample in samples]
        together = pliant.fit(model, samples, starts, iterations=(6, 4))
        for sample, start, fit in zip(samples, starts, together, strict=True):
            (alone,) = pliant.fit(model, [sample], [start], iterations=(6, 4), jobs=1)
            assert_allclose(alone.points, fit.points, atol=1e-3)
            assert alone.status == fit.status

    @pytest.mark.parametrize("name", ["po-asy-gn", "ssd-bid-gn-alt", "ssd-inv-n:safe-sch"])
    @pytest.mark.parametrize("sampling", [1.0, 0.3])
    def test_devices_agree(self, model, dataset, name, sampling):
        samples = list(dataset[:3])
        starts = [perturbed(model, sample.points(), 0.03, np.random.default_rng(2)) for sample in samples]
        settings = {"algorithm": name, "iterations": (4, 3), "sampling": sampling}
        one = pliant.fit(model, samples, starts, device="cpu", **settings)
        other = pliant.fit(model, samples, starts, device="reference", **settings)
        for a, b in zip(one, other, strict=True):
            assert_allclose(a.points, b.points, atol=5e-3)
            assert a.cost == pytest.approx(b.cost, rel=1e-3)

    def test_a_shifted_and_enlarged_image_gives_the_same_fit_there(self, model, dataset):
        sample = dataset[2]
        image, truth = sample.image(), sample.points()
        start = perturbed(model, truth, 0.03, np.random.default_rng(3))
        larger = resample(image, np.array([-8.5, -4.25]), 2.0, (220, 240))
        moved = Similarity(np.asarray(2.0 + 0j), np.asarray(17 + 8.5j))
        one, other = pliant.fit(model, [image, larger], [start, moved.apply(start)], iterations=(12, 8))
        assert np.abs(moved.apply(one.points) - other.points).max() < 0.02 * shape_size(other.points)

    @pytest.mark.parametrize("quarters", [1, 2, 3])
    def test_an_image_turned_by_a_quarter_gives_the_turned_fit(self, calibrated, dataset, quarters):
        sample = dataset[2]
        image, truth = sample.image(), sample.points()
        start = perturbed(calibrated, truth, 0.03, np.random.default_rng(3))
        turned, turn = np.ascontiguousarray(np.rot90(image, -quarters)), 1j**quarters
        # The corner that becomes the upper left one.
        corner = [
            0,
            image.shape[0] - 1,
            image.shape[0] - 1 + 1j * (image.shape[1] - 1),
            1j * (image.shape[1] - 1),
        ]
        moved = Similarity(np.asarray(turn), np.asarray(corner[quarters]))
        one, other = pliant.fit(calibrated, [image, turned], [start, moved.apply(start)], iterations=(12, 8))
        assert np.abs(moved.apply(one.points) - other.points).max() < 1e-3 * shape_size(other.points)
        assert other.confidence() == pytest.approx(one.confidence(), abs=1e-3)
        rotation = np.array([[turn.real, -turn.imag], [turn.imag, turn.real]])
        assert_allclose(other.covariance, rotation @ one.covariance @ rotation.T, rtol=1e-2, atol=1e-3)

    @pytest.mark.parametrize("degrees", [30, 45, -100])
    def test_an_image_turned_by_any_angle_gives_nearly_the_turned_fit(self, model, dataset, degrees):
        sample = dataset[2]
        image, truth = sample.image(), sample.points()
        start = perturbed(model, truth, 0.03, np.random.default_rng(3))
        angle = np.radians(degrees)
        back = Similarity(np.asarray(np.exp(-1j * angle)), np.zeros((), np.complex128))
        middle = truth.mean(axis=0)
        origin = middle - back.apply(np.full((1, 2), 70.0))[0]
        turned = resample(image, origin, 1.0, (140, 140), angle=-angle)
        one = pliant.fit(model, image, start, iterations=(12, 8))
        other = pliant.fit(model, turned, back.inverse().apply(start - origin), iterations=(12, 8))
        found = back.apply(other.points) + origin
        assert np.linalg.norm(found - one.points, axis=1).mean() < 0.01 * shape_size(one.points)

    def test_the_update_jacobian_is_the_derivative_of_composition(self, plain, dataset):
        level = plain.levels[-1]
        for kind in (level.motion, ThinPlateSpline(level.motion.frame)):
            rng = np.random.default_rng(5)
            p = rng.normal(size=(2, level.shape.parameters)) * 3
            analytic = update_jacobian(kind, level.shape, p)
            for k in range(level.shape.parameters):
                nudge = np.zeros(level.shape.parameters)
                nudge[k] = 1e-3
                ahead, behind = compose(kind, level.shape, p, nudge), compose(kind, level.shape, p, -nudge)
                assert_allclose(analytic[:, :, k], (ahead - behind) / 2e-3, atol=1e-5)

    def test_sampling_and_full_fits_are_close(self, model, dataset):
        samples = list(dataset[:6])
        starts = [perturbed(model, sample.points(), 0.03, np.random.default_rng(4)) for sample in samples]
        full = pliant.fit(model, samples, starts)
        some = pliant.fit(model, samples, starts, sampling=0.5)
        gaps = [np.linalg.norm(a.points - b.points, axis=1).mean() for a, b in zip(full, some, strict=True)]
        assert np.median(gaps) < 0.5


class TestBadInput:
    def test_bad_images_and_starts_do_not_stop_the_others(self, model, dataset, tmp_path):
        good = dataset[0]
        box = np.array([20, 20, 70, 70])
        start = perturbed(model, good.points(), 0.02, np.random.default_rng(0))
        (tmp_path / "text.png").write_text("no image")
        nan = np.full((96, 96), np.nan)
        noise = np.random.default_rng(0).integers(0, 255, (96, 96), dtype=np.uint8)
        cases = [
            (good, start, None),
            (tmp_path / "text.png", box, "not an image"),
            (tmp_path / "nothing.png", box, "no such image"),
            (nan, box, "not finite"),
            (np.zeros((1, 1), np.uint8), box, "outside the image"),
            (good, start + 500, "outside the image"),
            (good, np.zeros(4), "is empty"),
            (good, np.full((68, 2), np.nan), "not finite"),
            (noise, box, None),
            (np.zeros((96, 96), np.uint8), box, None),
            (good, start, None),
        ]
        images, begins = [image for image, _, _ in cases], [begin for _, begin, _ in cases]
        with pytest.warns(pliant.NotFitted, match="7 of 11 images could not be fitted"):
            fits = pliant.fit(model, images, begins, iterations=(5, 5))
        for fit, (_, _, reason) in zip(fits, cases, strict=True):
            if reason:
                assert fit.status is Status.FAILED
                assert reason in fit.reason
                assert not fit.ok
            else:
                assert fit.status is not Status.FAILED
                assert np.all(np.isfinite(fit.points))
        assert_allclose(fits[0].points, fits[-1].points, atol=1e-3)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"algorithm": "po-asy-gm"}, "Did you mean 'po-asy-gn'"),
            ({"iterations": (1, 2, 3)}, "the model has 2 levels"),
            ({"iterations": 0}, "iterations=0: it must be a whole number of at least 1"),
            ({"sampling": 0.0}, "sampling=0.0: it must be a share above 0"),
            ({"device": "abacus"}, "device=abacus: it must be cpu, cuda, torch or reference"),
            ({"order": "second"}, "order=second: it must be exact or first-order"),
        ],
    )
    def test_settings_without_meaning_get_a_sentence(self, model, dataset, settings, sentence):
        with pytest.raises(ValueError, match=sentence):
            pliant.fit(model, [dataset[0]], [dataset[0].points()], **settings)

    def test_every_image_needs_a_start(self, model, dataset):
        with pytest.raises(ValueError, match="2 images and 1 start: "):
            pliant.fit(model, list(dataset[:2]), [dataset[0].points()])
        for box in ([10, 10, 60, 60], np.array([10.0, 10, 60, 60])):
            with pytest.raises(ValueError, match="this is one box for many images"):
                pliant.fit(model, list(dataset[:2]), box)


class TestStopping:
    def test_it_stops_when_nothing_moves(self, plain, painted):
        images, truths, _, _ = painted
        loose = pliant.fit(plain, images, truths, iterations=50, stopping=Stopping(tolerance=0.3))
        strict = pliant.fit(plain, images, truths, iterations=50, stopping=Stopping(tolerance=0.0))
        assert all(fit.status is Status.CONVERGED and fit.iterations < 10 for fit in loose)
        assert all(fit.status is Status.ITERATIONS and fit.iterations == 50 for fit in strict)

    def test_patience_returns_the_best_estimate(self, model, dataset):
        samples = list(dataset[:8])
        starts = [
            perturbed(model, sample.points(), 0.15, np.random.default_rng(k))
            for k, sample in enumerate(samples)
        ]
        fits = pliant.fit(
            model, samples, starts, algorithm="po-for-gn", iterations=40, stopping=Stopping(0.0, patience=4)
        )
        rising = [fit for fit in fits if fit.status is Status.RISING]
        assert rising
        for fit in rising:
            last = fit.trace[-1]
            assert_allclose(fit.points, last.points[np.argmin(last.costs)], atol=1e-6)
            assert fit.cost == last.costs.min()

    def test_newton_is_lost_with_a_status_and_without_nan(self, model, dataset):
        samples = list(dataset[:8])
        starts = [
            perturbed(model, sample.points(), 0.1, np.random.default_rng(k))
            for k, sample in enumerate(samples)
        ]
        fits = pliant.fit(model, samples, starts, algorithm="ssd-for-n-sch")
        assert any(fit.status in (Status.OUTSIDE, Status.DIVERGED, Status.IMPLAUSIBLE) for fit in fits)
        assert all(np.all(np.isfinite(fit.points)) for fit in fits)

    def test_the_clamp_keeps_shapes_on_the_ellipsoid(self, model):
        shape = model.levels[-1].shape
        wild = np.random.default_rng(0).normal(size=(5, shape.parameters)) * 100
        tame = shape.clamped(wild, 2.0)
        assert_allclose(shape.mahalanobis(tame), 2.0)
        assert_allclose(tame[:, :SIMILARITY], wild[:, :SIMILARITY])
        assert_allclose(shape.clamped(tame * 0.5, 2.0), tame * 0.5)

    def test_an_implausible_shape_says_so(self, model, dataset):
        sample = dataset[0]
        start = perturbed(model, sample.points(), 0.02, np.random.default_rng(0))
        (fit,) = pliant.fit(model, [sample], [start], stopping=Stopping(ellipsoid=0.01))
        assert fit.status is Status.IMPLAUSIBLE
        (held,) = pliant.fit(model, [sample], [start], stopping=Stopping(ellipsoid=0.5, clamp=True))
        assert model.levels[-1].shape.mahalanobis(held.shape_parameters) <= 0.5 + 1e-9

    def test_traces_are_left_out_on_request(self, model, dataset):
        fitter = make_fitter(model, trace=False)
        (fit,) = fitter.block([dataset[0].image()], [dataset[0].points()])
        assert fit.trace == ()
        assert np.isfinite(fit.cost)
