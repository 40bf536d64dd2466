"""Costs, compositions and methods against the derivatives of an analytic world.

Image, mean appearance and basis are sums of sines, the warps are linear in their parameters, and every
derivative is known exactly: what the algebra claims can be checked to rounding.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.experts.sightings import Sightings
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.composition import Asymmetric, Bidirectional, Forward, Inverse, shares
from pliant.fitting.cost import PRIORS, SSD, ProjectOut, weigh
from pliant.fitting.landmarks import landmark_term
from pliant.fitting.method import (
    Alternated,
    Dense,
    GaussNewton,
    Newton,
    Schur,
    Wiberg,
)
from pliant.fitting.quadratic import Quadratic, needs_of, quadratic
from pliant.fitting.solve import increments, least_norm, least_norm_of_two, solve
from pliant.kernels.reference import along_warp, curvature, inner_products
from pliant.kernels.system import System, united
from pliant.shape import SIMILARITY, ShapeModel

COSTS = [
    SSD(),
    SSD("ridge"),
    SSD("map"),
    ProjectOut(0.0),
    ProjectOut(0.5),
    ProjectOut(0.3, "ridge"),
    ProjectOut(0.5, "map"),
]
COMPOSITIONS = [Forward(), Inverse(), Asymmetric(0.5), Asymmetric(0.2), Bidirectional()]


class Waves:
    """A function of the plane with its first and second derivatives: sums of sines, `count` of them."""

    def __init__(self, rng, count: int, amplitude: float) -> None:
        self.k = rng.uniform(-0.35, 0.35, (count, 5, 2))
        self.phase = rng.uniform(0, 6, (count, 5))
        self.amplitude = amplitude * rng.normal(size=(count, 5))

    def value(self, x):
        return np.einsum(
            "kj,kjf->kf", self.amplitude, np.sin(np.einsum("kja,fa->kjf", self.k, x) + self.phase[..., None])
        )

    def gradient(self, x):
        cosines = np.cos(np.einsum("kja,fa->kjf", self.k, x) + self.phase[..., None])
        return np.einsum("kj,kja,kjf->kaf", self.amplitude, self.k, cosines)

    def hessian(self, x):
        sines = np.sin(np.einsum("kja,fa->kjf", self.k, x) + self.phase[..., None])
        return -np.einsum("kj,kja,kjb,kjf->kabf", self.amplitude, self.k, self.k, sines)


class World:
    """120 pixels, 7 shape and 5 appearance parameters; `residual` is the truth that Systems approximate."""

    def __init__(self, seed: int = 0, misfit: float = 1.0, mode: float = 1.3) -> None:
        """An image with this much of the first wave of the modes, and of what the model does not know."""
        rng = np.random.default_rng(seed)
        self.x = rng.uniform(0, 30, (120, 2))
        self.W = rng.normal(size=(120, 2, 7)) * 0.5
        self.mean = Waves(rng, 1, 1.0)
        self.modes = Waves(rng, 5, 1.0)
        self.other = Waves(rng, 1, 0.5 * misfit)
        # An orthonormal basis at zero increment: the same combination of waves everywhere.
        raw = self.modes.value(self.x)
        self.mix = np.linalg.inv(np.linalg.cholesky(raw @ raw.T))
        self.mode = mode
        self.c = rng.normal(size=5) * 2
        self.p = rng.normal(size=7)
        self.shape_variances = rng.uniform(1, 4, 3)
        self.variances = np.sort(rng.uniform(1, 9, 5))[::-1]
        self.noise = 0.4

    def image(self, dp):
        """The warped image: the model's own appearance at other coordinates, and something unexplained."""
        at = self.x + self.W @ dp
        return self.mean.value(at)[0] + self.mode * self.modes.value(at)[0] + self.other.value(at)[0]

    def basis(self, dq):
        return self.mix @ self.modes.value(self.x + self.W @ dq)

    def appearance(self, c, dq):
        return self.mean.value(self.x + self.W @ dq)[0] + c @ self.basis(dq)

    def system(self, cost, c):
        weights = weigh(cost, self.shape_variances, self.variances, self.noise)
        x, W = self.x, self.W
        r = self.image(np.zeros(7)) - self.appearance(c, np.zeros(7))
        A = self.basis(np.zeros(7))
        image_parts = ((self.mean, 1.0), (self.other, 1.0))
        slope_i = (
            sum(w * part.gradient(x)[0] for part, w in image_parts) + self.mode * self.modes.gradient(x)[0]
        )
        bend_i = sum(w * part.hessian(x)[0] for part, w in image_parts) + self.mode * self.modes.hessian(x)[0]
        slope_a = self.mean.gradient(x)[0] + np.einsum("k,kl,laf->af", c, self.mix, self.modes.gradient(x))
        bend_a = self.mean.hessian(x)[0] + np.einsum("k,kl,labf->abf", c, self.mix, self.modes.hessian(x))
        system = inner_products(r, A, along_warp(slope_i[..., None], W), along_warp(slope_a[..., None], W))
        y = weights.residual * r - (weights.appearance * system.basis_residual) @ A
        slope_A = np.einsum("kl,laf->kaf", self.mix, self.modes.gradient(x))
        system = replace(
            system,
            image_curvature=curvature(bend_i[..., None], y, W),
            model_curvature=curvature(bend_a[..., None], y, W),
            basis_curvature=np.einsum("kaf,fan,f->kn", slope_A, W, r),
        )
        return united([system], np.stack), weights

    def true_cost(self, cost, weights, composition, c, dc, u):
        """The cost itself after an increment, nothing linearised; p + dp - dq stands for the update."""
        dp, dq = shares(composition) @ u.reshape(-1, 7)
        p = self.p + dp - dq
        prior = np.sum(weights.shape_precision * p**2) + np.sum(weights.appearance_precision * (c + dc) ** 2)
        r = self.image(dp) - self.appearance(c + dc, dq)
        A = self.basis(np.zeros(7))
        within = np.sum(weights.appearance * (A @ r) ** 2)
        return (weights.residual * r @ r - within + prior) / 2


def current(world, cost):
    """Project-out starts with no appearance parameters, by its definition."""
    return world.c if isinstance(cost, SSD) else np.zeros(5)


def model_of(world, cost, composition, kind="derived", share=1.0, landmarks=None):
    c = current(world, cost)
    system, weights = world.system(cost, c)
    newton = None if kind == "none" else Newton(variant=kind, share=share)
    model = quadratic(system, weights, composition, world.p[None], c[None], None, newton, landmarks)
    return model, weights, system


def sighted(seed=5):
    """A shape model with the parameters of the world, what is seen of one object, and the sum that it adds."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(12, 7)))[0]
    shape = ShapeModel(rng.normal(size=(6, 2)) * 5, basis, np.ones(3), 4.0, 8)
    roots = rng.normal(size=(1, 6, 2, 2))
    seen = Sightings(shape.mean + rng.normal(size=(1, 6, 2)) * 3, roots @ np.swapaxes(roots, -1, -2))

    def added(p):
        apart = shape.instance(p) - seen.points[0]
        return 0.7 * np.einsum("vi,vij,vj", apart, seen.precision[0], apart) / 2

    return landmark_term(shape, seen, 0.7), added


def by_hand(Huu, gu, *, Hcc=(), Hcu=(), gc=(), blocks=1):
    """A quadratic model of one item, from its numbers."""
    Hcc, gc, gu = (np.array(numbers, dtype=float) for numbers in (Hcc, gc, gu))
    Hcu = np.reshape(np.array(Hcu, dtype=float), (len(Hcc), len(gu)))
    return Quadratic(gc[None], gu[None], Hcc, Hcu[None], np.array(Huu, dtype=float)[None], blocks, False)


def differences(function, size: int, step: float):
    """Gradient and Hessian of a function at zero by central differences."""
    unit = np.eye(size) * step
    gradient = np.array([(function(e) - function(-e)) / (2 * step) for e in unit])
    hessian = np.array(
        [
            [
                (function(a + b) - function(a - b) - function(b - a) + function(-a - b)) / (4 * step**2)
                for b in unit
            ]
            for a in unit
        ]
    )
    return gradient, hessian


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=str)
@pytest.mark.parametrize("cost", COSTS, ids=str)
class TestDerivatives:
    def test_value_gradient_and_hessian_are_those_of_the_cost(self, cost, composition):
        world = World()
        model, weights, system = model_of(world, cost, composition)
        c = current(world, cost)
        m, k = len(model.Hcc), model.gu.shape[1]

        def truth(x):
            dc = x[:m] if m else np.zeros(5)
            return world.true_cost(cost, weights, composition, c, dc, x[m:])

        assert_allclose(weights.value(system, world.p[None], c[None])[0], truth(np.zeros(m + k)), rtol=1e-10)
        gradient, hessian = differences(truth, m + k, 1e-4)
        assert_allclose(np.concatenate([model.gc[0], model.gu[0]]), gradient, rtol=1e-5, atol=1e-5)
        analytic = np.block([[np.diag(model.Hcc), model.Hcu[0]], [model.Hcu[0].T, model.Huu[0]]])
        assert_allclose(analytic, hessian, rtol=1e-4, atol=2e-4 * np.abs(hessian).max())

    def test_landmarks_that_are_seen_add_their_distances(self, cost, composition):
        world, (landmarks, added) = World(), sighted()
        without, weights, system = model_of(world, cost, composition)
        model, _, _ = model_of(world, cost, composition, landmarks=landmarks)
        c, k = current(world, cost)[None], model.gu.shape[1]
        more = weights.value(system, world.p[None], c, landmarks) - weights.value(system, world.p[None], c)
        assert_allclose(more, added(world.p), rtol=1e-10)

        def truth(u):
            dp, dq = shares(composition) @ u.reshape(-1, 7)
            return added(world.p + dp - dq)

        # A quadratic: steps can be large.
        gradient, hessian = differences(truth, k, 0.1)
        assert_allclose((model.gu - without.gu)[0], gradient, atol=1e-9 * np.abs(gradient).max())
        assert_allclose((model.Huu - without.Huu)[0], hessian, atol=1e-9 * np.abs(hessian).max())
        assert_array_equal(model.gc, without.gc)
        assert_array_equal(model.Hcu, without.Hcu)
        nothing = replace(landmarks, hessian=landmarks.hessian * 0, linear=landmarks.linear * 0)
        nothing = replace(nothing, constant=landmarks.constant * 0)
        same, _, _ = model_of(world, cost, composition, landmarks=nothing)
        assert_array_equal(same.gu, without.gu)
        assert_array_equal(same.Huu, without.Huu)

    def test_gauss_newton_is_the_hessian_of_the_linearised_residual(self, cost, composition):
        """Where image and model agree, the residual is zero and both Hessians are one.

        For project-out the model is its mean, and the image must be just that.
        """
        world = World(misfit=0.0, mode=1.3 if isinstance(cost, SSD) else 0.0)
        world.c = np.linalg.solve(world.mix.T, world.mode * np.eye(5)[0])
        exact, _, system = model_of(world, cost, composition)
        assert_allclose(system.residual_residual, 0, atol=1e-20)
        linearised, _, _ = model_of(world, cost, composition, "none")
        assert np.abs(linearised.Huu).max() > 1
        assert_allclose(linearised.Huu, exact.Huu, atol=1e-8)
        assert_allclose(linearised.Hcu, exact.Hcu, atol=1e-8)

    def test_schur_equals_dense(self, cost, composition):
        for kind, method in (("none", GaussNewton), ("derived", Newton)):
            model, _, _ = model_of(World(1), cost, composition, kind)
            for one, other in zip(solve(method(Schur()), model), solve(method(Dense()), model), strict=True):
                assert_allclose(one, other, rtol=1e-8, atol=1e-8 * max(np.abs(other).max(initial=0), 1))

    def test_alternation_converges_to_schur(self, cost, composition):
        model, _, _ = model_of(World(2), cost, composition, "none")
        together = solve(GaussNewton(Schur()), model)
        for joint in (False, True):
            few = solve(GaussNewton(Alternated(1, joint)), model)
            many = solve(GaussNewton(Alternated(2000, joint)), model)
            for a, b in zip(many, together, strict=True):
                assert_allclose(a, b, atol=1e-3 * max(np.abs(b).max(initial=0), 1))
            if len(model.Hcc) or (isinstance(composition, Bidirectional) and not joint):
                assert np.abs(few[1] - together[1]).max() > 1e-3

    def test_wibergs_shape_step_is_schurs(self, cost, composition):
        model, _, system = model_of(World(3), cost, composition, "none")
        dc, u = solve(Wiberg(), model)
        assert_allclose(u, solve(GaussNewton(Schur()), model)[1])
        # The best for a shape that stays.
        assert_allclose(model.gc + model.Hcc * dc, 0, atol=1e-9)
        if cost == SSD():
            assert_allclose(dc, system.basis_residual)

    def test_a_newton_step_on_a_quadratic_lands_on_its_minimum(self, cost, composition):
        model, _, _ = model_of(World(4), cost, composition)
        dc, u = solve(Newton(Schur()), model)
        left = model.gu + np.einsum("bmk,bm->bk", model.Hcu, dc) + np.einsum("bkl,bl->bk", model.Huu, u)
        assert_allclose(left, 0, atol=1e-6 * np.abs(model.gu).max())


class TestPrintedWiberg:
    """Bidirectional Wiberg as appendix B prints it, against its own equations with matrices of pixels."""

    def random_parts(self, seed):
        rng = np.random.default_rng(seed)
        A = np.linalg.qr(rng.normal(size=(90, 6)))[0].T
        Ji = rng.normal(size=(90, 5))
        Ja = Ji + 0.5 * rng.normal(size=(90, 5))
        return A, Ji, Ja, rng.normal(size=90)

    def increments(self, name, seed):
        """What the algebra makes of inner products alone, and what appendix B says."""
        A, Ji, Ja, r = self.random_parts(seed)
        algorithm = Algorithm.parse(name)
        system = united([inner_products(r, A, Ji, Ja)], np.stack)
        weights = weigh(algorithm.cost, np.ones(3), np.ones(6), 1.0)
        model = quadratic(system, weights, algorithm.composition, np.zeros((1, 5)), np.zeros((1, 6)))
        dc, u = solve(algorithm.method, model)
        A_bar = np.eye(90) - A.T @ A
        H_i = Ji.T @ A_bar @ Ji
        P = A_bar - A_bar @ Ji @ np.linalg.inv(H_i) @ Ji.T @ A_bar
        printed = {
            "dp": -np.linalg.inv(H_i) @ Ji.T @ A_bar @ r,
            "dq": np.linalg.inv(Ja.T @ P @ Ja) @ Ja.T @ P @ r,
            "dc": A @ r,
        }
        coupled = -np.linalg.inv(H_i) @ Ji.T @ A_bar @ (r - Ja @ printed["dq"])
        return dc[0], *u[0].reshape(2, 5), printed, coupled

    @pytest.mark.parametrize("name", ["ssd-bid-w:printed", "po:0-bid-w:printed"])
    def test_it_is_what_the_appendix_says(self, name):
        for seed in range(5):
            dc, dp, dq, printed, _ = self.increments(name, seed)
            assert_allclose(dp, printed["dp"], rtol=1e-9)
            assert_allclose(dq, printed["dq"], rtol=1e-9)
            if name.startswith("ssd"):
                assert_allclose(dc, printed["dc"], rtol=1e-9)

    @pytest.mark.parametrize("name", ["ssd-bid-w", "po:0-bid-w"])
    def test_derived_has_the_same_dq_and_the_dp_that_goes_with_it(self, name):
        for seed in range(5):
            _, dp, dq, printed, coupled = self.increments(name, seed)
            assert_allclose(dq, printed["dq"], rtol=1e-9)
            assert_allclose(dp, coupled, rtol=1e-9)
            assert np.abs(dp - printed["dp"]).max() > 0.01

    @pytest.mark.parametrize("name", ["ssd-bid-w:printed", "po:0-bid-w:printed"])
    def test_it_is_no_minimum_of_the_linearised_cost(self, name):
        """With its own dq, a smaller cost is left with the dp of Schur."""
        for seed in range(5):
            A, Ji, Ja, r = self.random_parts(seed)
            _, dp, dq, _, coupled = self.increments(name, seed)
            A_bar = np.eye(90) - A.T @ A
            left = [x @ A_bar @ x for x in (r + Ji @ dp - Ja @ dq, r + Ji @ coupled - Ja @ dq)]
            assert left[0] > left[1] + 1e-6

    def test_items_that_are_not_finite_do_not_stop_the_others(self):
        model, _, _ = model_of(World(3), SSD(), Bidirectional(), "none")
        model = replace(
            model,
            **{key: np.concatenate([getattr(model, key)] * 2) for key in ("gc", "gu", "Hcu", "Huu")},
        )
        one = solve(Wiberg("printed"), model)[1][0]
        model.Huu[1] = np.nan
        both = solve(Wiberg("printed"), model)[1]
        assert_allclose(both[0], one)
        assert not np.isfinite(both[1]).any()


@pytest.mark.parametrize("kind", ["derived", "printed", "turned"])
@pytest.mark.parametrize("composition", COMPOSITIONS, ids=str)
@pytest.mark.parametrize("cost", COSTS, ids=str)
class TestShares:
    def test_no_share_is_gauss_newton(self, cost, composition, kind):
        for seed in range(3):
            without, _, _ = model_of(World(seed, misfit=3.0), cost, composition, kind, 0.0)
            plain, _, _ = model_of(World(seed, misfit=3.0), cost, composition, "none")
            for strategy in (Schur(), Alternated(2), Dense()):
                ours = solve(Newton(strategy, kind, 0.0), without)
                for a, b in zip(ours, solve(GaussNewton(strategy), plain), strict=True):
                    assert_allclose(a, b, rtol=1e-12)

    def test_the_hessian_is_linear_in_the_share(self, cost, composition, kind):
        world = World(1, misfit=3.0)
        plain, whole = (model_of(world, cost, composition, k)[0] for k in ("none", kind))
        scale = np.abs(whole.Huu).max()
        assert np.abs(whole.Huu - plain.Huu).max() > 1e-3 * scale
        # JA'r is curvature too: where the model is warped, c is solved and the derivative is taken.
        moving = kind == "derived" and isinstance(cost, SSD) and composition != Forward()
        assert moving == (not np.array_equal(whole.Hcu, plain.Hcu))
        for share in (0.1, 0.25, 0.5, 1.0):
            model, _, _ = model_of(world, cost, composition, kind, share)
            for name in ("Huu", "Hcu"):
                start, end = getattr(plain, name), getattr(whole, name)
                assert_allclose(
                    getattr(model, name), start + share * (end - start), rtol=1e-10, atol=1e-12 * scale
                )
            for name in ("gc", "gu", "Hcc"):
                assert_allclose(getattr(model, name), getattr(plain, name), rtol=0)


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=str)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_turned_curvature_is_the_derived_one_with_the_other_sign(cost, composition):
    world = World(1, misfit=3.0)
    plain, derived, turned = (
        model_of(world, cost, composition, kind)[0] for kind in ("none", "derived", "turned")
    )
    assert_allclose(turned.Huu - plain.Huu, plain.Huu - derived.Huu, atol=1e-9 * np.abs(plain.Huu).max())
    assert_allclose(turned.Hcu, plain.Hcu)


def test_schur_once_equals_schur_twice():
    """Equations 52 and 55 to 57: eliminating dp as well gives the same dp and dq."""
    model, _, _ = model_of(World(5), ProjectOut(0.0), Bidirectional(), "none")
    _, u = solve(GaussNewton(Schur()), model)
    n = 7
    V, W, U = model.Huu[0, :n, :n], model.Huu[0, n:, :n], model.Huu[0, n:, n:]
    v, uu = model.gu[0, :n], model.gu[0, n:]
    dq = -np.linalg.solve(U - W @ np.linalg.solve(V, W.T), uu - W @ np.linalg.solve(V, v))
    dp = -np.linalg.solve(V, v + W.T @ dq)
    assert_allclose(u[0], np.concatenate([dp, dq]), rtol=1e-8)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_asymmetric_contains_forward_and_inverse(cost):
    world = World(6)
    for alpha, pure, sign in ((1.0, Forward(), 1), (0.0, Inverse(), -1)):
        for kind, method in (("none", GaussNewton()), ("derived", Newton())):
            a = solve(method, model_of(world, cost, Asymmetric(alpha), kind)[0])
            b = solve(method, model_of(world, cost, pure, kind)[0])
            assert_allclose(a[0], b[0])
            assert_allclose(a[1], sign * b[1])
        assert_allclose(shares(Asymmetric(alpha)), sign * shares(pure))


def test_without_appearance_the_warp_of_the_model_is_solved_first():
    """Equations 69 and 98: dq as if there were no dp, and dp for that dq."""
    model, _, _ = model_of(World(2), ProjectOut(), Bidirectional(), "none")
    _, u = solve(GaussNewton(Alternated()), model)
    H, g, n = model.Huu[0], model.gu[0], model.gu.shape[1] // 2
    dq = -np.linalg.solve(H[n:, n:], g[n:])
    dp = -np.linalg.solve(H[:n, :n], g[:n] + H[:n, n:] @ dq)
    assert_allclose(u[0], [*dp, *dq], rtol=1e-6)


def test_image_and_model_share_alike_unless_told_otherwise():
    assert_array_equal(shares(Asymmetric()), [[0.5], [-0.5]])


def test_without_a_prior_the_cost_is_half_of_the_squared_residual():
    world = World(1)
    c = current(world, SSD())
    system, weights = world.system(SSD(), c)
    assert np.abs(system.basis_residual).max() > 0.01
    assert_allclose(weights.value(system, world.p[None], c[None]), system.residual_residual / 2)


def test_the_project_out_metric_is_idempotent_and_blind_to_the_basis():
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.normal(size=(40, 5)))[0]
    weights = weigh(ProjectOut(0.0), np.ones(2), np.ones(5), 1.0)
    M = weights.residual * np.eye(40) - A @ np.diag(weights.appearance) @ A.T
    assert_allclose(M, M.T)
    assert_allclose(M @ M, M, atol=1e-12)
    assert_allclose(M @ A, 0, atol=1e-12)


def test_the_bayesian_metric_is_the_inverse_covariance():
    """Equation 22, and its weighted form at both ends."""
    rng = np.random.default_rng(1)
    A = np.linalg.qr(rng.normal(size=(40, 5)))[0]
    variances, noise = np.array([9.0, 5, 3, 2, 1]), 0.3

    def metric(rho):
        weights = weigh(ProjectOut(rho), np.ones(2), variances, noise)
        return weights.residual * np.eye(40) - A @ np.diag(weights.appearance) @ A.T

    assert_allclose(metric(0.5), np.linalg.inv(A @ np.diag(variances) @ A.T + noise * np.eye(40)), atol=1e-10)
    assert_allclose(metric(0.0), (np.eye(40) - A @ A.T) / noise, atol=1e-10)
    assert_allclose(metric(1.0), A @ np.diag(1 / (variances + noise)) @ A.T, atol=1e-10)


def test_bayesian_tends_to_classic_as_the_appearance_is_freed():
    world = World(7)
    classic, _, _ = model_of(world, ProjectOut(0.0), Forward(), "none")
    gaps = []
    for factor in (1, 1e2, 1e4):
        world.variances = np.sort(World(7).variances)[::-1] * factor
        bayesian, _, _ = model_of(world, ProjectOut(0.5), Forward(), "none")
        gaps.append(np.abs(solve(GaussNewton(), bayesian)[1] - solve(GaussNewton(), classic)[1]).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


def test_the_symmetric_residual_has_a_cubic_remainder():
    """ESM, equations 105 to 108: half of each Jacobian errs in dp³ if the image is the warped model, one in dp²."""
    world = World(8, misfit=0.0)
    c = np.linalg.solve(world.mix.T, 1.3 * np.eye(5)[0])
    direction = np.random.default_rng(0).normal(size=7)
    direction /= np.abs(world.W @ direction).max()

    def remainder(alpha, size):
        """The image is the model warped by -size: warping it forward by `size` must give the model."""
        step = size * direction
        at = world.x - world.W @ step
        J_i = along_warp((world.mean.gradient(at)[0] + 1.3 * world.modes.gradient(at)[0])[..., None], world.W)
        J_a = along_warp(
            (world.mean.gradient(world.x)[0] + 1.3 * world.modes.gradient(world.x)[0])[..., None], world.W
        )
        r = world.image(-step) - world.appearance(c, np.zeros(7))
        return np.linalg.norm(r + (alpha * J_i + (1 - alpha) * J_a) @ step)

    sizes = np.array([0.4, 0.2, 0.1, 0.05])
    slopes = {
        alpha: np.polyfit(np.log(sizes), np.log([remainder(alpha, size) for size in sizes]), 1)[0]
        for alpha in (0, 0.5, 1)
    }
    assert slopes[0] == pytest.approx(2, abs=0.1)
    assert slopes[1] == pytest.approx(2, abs=0.1)
    assert slopes[0.5] == pytest.approx(3, abs=0.1)


class TestSums:
    """Costs and their weights by their definitions, with matrices of pixels and numbers to follow by hand."""

    noise, shape_variances, variances = 0.5, np.array([4.0, 0.25]), np.array([9.0, 4.0, 1.0])

    @pytest.mark.parametrize("prior", PRIORS)
    @pytest.mark.parametrize("kind", [SSD, ProjectOut])
    def test_a_cost_is_half_of_the_distance_and_of_the_prior(self, kind, prior):
        """Equations 11 to 14, and the Bayesian project-out of 19 to 24, where the appearance is no unknown."""
        rng = np.random.default_rng(3)
        A = np.linalg.qr(rng.normal(size=(12, 3)))[0]
        r, p, c = rng.normal(size=(2, 12)), rng.normal(size=(2, 6)), rng.normal(size=(2, 3))
        if kind is SSD:
            metric = np.eye(12) / (self.noise if prior == "map" else 1)
        else:
            metric = np.linalg.inv(A @ np.diag(self.variances) @ A.T + self.noise * np.eye(12))
            metric = metric * (self.noise if prior == "ridge" else 1)
        modes = p[:, SIMILARITY:]
        priors = {
            "none": ([0, 0], [0, 0, 0]),
            "ridge": ([1, 1], [1, 1, 1]),
            "map": (1 / self.shape_variances, 1 / self.variances),
        }
        of_shape, of_appearance = priors[prior]
        expected = np.einsum("bi,ij,bj->b", r, metric, r) + modes**2 @ of_shape
        if kind is SSD:
            expected = expected + c**2 @ of_appearance
        system = System(residual_residual=np.sum(r**2, axis=1), basis_residual=r @ A)
        weights = weigh(kind(prior=prior), self.shape_variances, self.variances, self.noise)
        assert_allclose(weights.value(system, p, c), expected / 2)

    @pytest.mark.parametrize("cost", [*COSTS, ProjectOut(0.9), ProjectOut(0.9, "ridge")], ids=str)
    def test_the_unit_is_what_a_squared_deviation_of_one_costs(self, cost):
        """Of the noise in a pixel; or of the appearance, for a project-out cost that looks at it above all."""
        weights = weigh(cost, self.shape_variances, self.variances, self.noise)
        if isinstance(cost, ProjectOut) and cost.rho > 0.5:
            assert_allclose(
                (weights.residual - weights.appearance) * (self.variances + self.noise), weights.unit
            )
        else:
            assert weights.residual * self.noise == pytest.approx(weights.unit)

    def test_a_model_that_keeps_all_of_the_variance_has_a_millionth_of_the_largest_as_noise(self):
        def noise(variances, known=0.0):
            return 1 / weigh(SSD("map"), self.shape_variances, np.array(variances), known).residual

        assert noise([2.0, 8.0]) == pytest.approx(8e-6)
        assert noise([2.0, 8.0], known=1e-7) == pytest.approx(8e-6)
        assert noise([2.0, 8.0], known=1e-5) == pytest.approx(1e-5)
        # Nothing varies: the scale is that of a variance of a millionth.
        assert noise([]) == pytest.approx(1e-12, rel=1e-6, abs=0)

    def test_without_a_weight_landmarks_count_as_they_were_seen(self):
        """A square is seen 3 to the right and 4 below, with a precision of 2: each corner costs 2 x 25 / 2."""
        square = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
        two_corners = np.eye(8)[:, :4]
        shape = ShapeModel(square, two_corners, np.zeros(0), 1.0, 8)
        seen = Sightings((square + [3, 4])[None], np.tile(2 * np.eye(2), (1, 4, 1, 1)))
        term = landmark_term(shape, seen)
        assert_allclose(term.value(np.zeros((1, 4))), 100)
        assert_allclose(term.value(np.array([[3.0, 4, 0, 0]])), 75)


class TestBounds:
    """Costs, compositions and methods that have no meaning are refused when they are made."""

    @pytest.mark.parametrize(
        ("kind", "name", "meaning"),
        [
            (ProjectOut, "rho", "the weight of the project-out cost"),
            (Asymmetric, "alpha", "the share of the image's warp"),
            (Newton, "share", "the share of the curvature"),
        ],
    )
    def test_weights_and_shares_go_from_0_to_1(self, kind, name, meaning):
        for value in (0, 0.5, 1):
            assert getattr(kind(**{name: value}), name) == value
        for value in (-0.001, 1.001, 1.5, np.nan):
            with pytest.raises(ValueError, match=f"{name} = {value}: {meaning} must be between 0 and 1"):
                kind(**{name: value})

    def test_sweeps_are_counted_from_one(self):
        assert Alternated(1).sweeps == 1
        for value in (0, -1, 2.7):
            with pytest.raises(
                ValueError, match=f"sweeps = {value}: .* a whole number of sweeps, at least one"
            ):
                Alternated(value)

    def test_what_limits_the_curvature_by_itself_takes_no_share(self):
        assert Newton(variant="safe").share == 1
        with pytest.raises(ValueError, match=r"share = 0\.5: newton-safe limits the curvature by itself"):
            Newton(variant="safe", share=0.5)


class TestSafety:
    def test_newton_safe_descends_where_newton_climbs(self):
        climbed = 0
        for seed in range(30):
            world = World(seed, misfit=6.0)
            exact, _, _ = model_of(world, SSD(), Forward())
            linearised, _, _ = model_of(world, SSD(), Forward(), "none")
            slope = {}
            for name, variant in (("derived", "derived"), ("safe", "safe")):
                dc, u = solve(Newton(Schur(), variant), exact, linearised)
                slope[name] = float(np.sum(exact.gc * dc) + np.sum(exact.gu * u))
            assert slope["safe"] < 0
            climbed += slope["derived"] > 0
        assert climbed > 0

    def test_newton_safe_is_newton_where_that_is_safe(self):
        """But for the coupling of appearance and shape, which stays Gauss-Newton's."""
        world = World(3, misfit=0.02)
        world.c = np.linalg.solve(world.mix.T, 1.3 * np.eye(5)[0])
        exact, _, _ = model_of(world, SSD(), Inverse())
        linearised, _, _ = model_of(world, SSD(), Inverse(), "none")
        uncoupled = replace(exact, Hcu=linearised.Hcu)
        safe = solve(Newton(Schur(), "safe"), exact, linearised)[1]
        assert_allclose(safe, solve(Newton(), uncoupled)[1], rtol=1e-6)

    def test_newton_safe_steps_are_at_most_twice_those_of_gauss_newton(self):
        for seed in range(20):
            for composition in COMPOSITIONS[:4]:
                world = World(seed, misfit=6.0)
                exact, _, _ = model_of(world, SSD(), composition)
                linearised, _, _ = model_of(world, SSD(), composition, "none")
                safe = solve(Newton(Schur(), "safe"), exact, linearised)[1][0]
                plain = solve(GaussNewton(), linearised)[1][0]
                coupling = linearised.Hcu[0].T @ (linearised.Hcu[0] / linearised.Hcc[:, None])
                metric = linearised.Huu[0] - coupling
                assert safe @ metric @ safe <= 4 * (plain @ metric @ plain) * (1 + 1e-6)

    def test_newton_safe_has_at_least_half_of_the_curvature_of_gauss_newton(self):
        """Once c is eliminated, Gauss-Newton has 6 - 2 * 2 / 2 = 4, 1 and 1, and Newton 3 - 2 = 1, -3 and 5."""
        appearance = {"Hcc": [2], "Hcu": [[2, 0, 0]], "gc": [2]}
        linearised = by_hand(np.diag([6, 1, 1]), [6, 1, 10], **appearance)
        exact = by_hand(np.diag([3, -3, 5]), [6, 1, 10], **appearance)
        dc, u = solve(Newton(Schur(), "safe"), exact, linearised)
        # The gradient that is left is 6 - 2 * 2 / 2 = 4, 1 and 10, and the curvature 4 / 2, 1 / 2 and 5.
        assert_allclose(u, [[-2, -2, -2]])
        assert_allclose(dc, [[1]])

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_newton_safe_leaves_out_what_changes_no_pixel(self, unit):
        """Rounding may leave such a direction a curvature below zero."""
        linearised = by_hand(unit * np.diag([4, -1e-17]), [unit * 8, unit * 3])
        exact = by_hand(unit * np.diag([4, 0]), [unit * 8, unit * 3])
        assert_allclose(solve(Newton(Schur(), "safe"), exact, linearised)[1], [[-2, 0]])

    def test_newton_safe_stays_where_nothing_can_be_seen(self):
        flat = by_hand(np.zeros((2, 2)), [0, 0])
        assert_array_equal(solve(Newton(Schur(), "safe"), flat, flat)[1], [[0, 0]])
        rounded = by_hand([[-1e-17]], [0])
        assert_array_equal(solve(Newton(Schur(), "safe"), rounded, rounded)[1], [[0]])

    def test_newton_safe_says_that_it_needs_both_models(self):
        with pytest.raises(ValueError, match="newton-safe needs the Gauss-Newton model of the same system"):
            solve(Newton(Schur(), "safe"), by_hand([[1]], [1]))

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_singular_systems_get_the_least_norm_solution(self, unit):
        """Whatever the unit: what is small is small beside the largest eigenvalue."""
        for faint, along in ((0, 0), (1e-11, 0), (1e-6, 3e6)):
            matrix, right = np.diag([4.0, faint])[None], np.array([[8.0, 3.0]])
            assert_allclose(least_norm(unit * matrix, unit * right), [[2, along]])

    def test_a_system_of_zeros_is_solved_by_zeros(self):
        assert_array_equal(least_norm(np.zeros((1, 2, 2)), np.array([[8.0, 3.0]])), [[0, 0]])

    def test_only_what_is_known_to_be_positive_is_factored(self, monkeypatch):
        """On devices, where that is faster: Newton's matrices may have either sign."""
        monkeypatch.setattr("pliant.fitting.solve.is_tensor", lambda array: True)
        monkeypatch.setattr("pliant.fitting.solve.positive_solution", lambda *known: "factored")
        matrix, right = np.diag([2.0, -4.0])[None], np.array([[2.0, 4.0]])
        assert_allclose(least_norm(matrix, right), [[1, -1]])
        assert least_norm(matrix, right, positive=True) == "factored"

    @pytest.mark.parametrize("composition", COMPOSITIONS, ids=str)
    @pytest.mark.parametrize("cost", [SSD(), ProjectOut(0.0)], ids=str)
    def test_curvature_may_have_either_sign(self, cost, composition):
        assert model_of(World(), cost, composition, "none")[0].positive
        assert not model_of(World(), cost, composition)[0].positive

    def test_bidirectional_is_solved_when_both_sides_are_the_same(self):
        world = World(4)
        system, weights = world.system(ProjectOut(), np.zeros(5))
        same = replace(
            system,
            image_model=system.model_model,
            image_image=system.model_model,
            image_residual=system.model_residual,
            basis_image=system.basis_model,
        )
        model = quadratic(same, weights, Bidirectional(), world.p[None], np.zeros((1, 5)))
        _, u = solve(GaussNewton(), model)
        assert np.all(np.isfinite(u))
        assert_allclose(u[0, :7], -u[0, 7:], atol=1e-6)

    @pytest.mark.parametrize("strategy", [Schur(), Alternated(1, joint=True)], ids=str)
    @pytest.mark.parametrize("cost", [SSD(), ProjectOut(0.0)], ids=str)
    def test_modes_of_any_size_are_solved_for_in_both_directions(self, cost, strategy):
        """A mode that moves a thousandth as far has a step a thousand times as long, and no other changes."""
        sizes = np.geomspace(1, 1e-3, 7)
        world, unequal = World(4), World(4)
        unequal.W = world.W * sizes
        unequal.p = world.p / sizes
        method = GaussNewton(strategy)
        _, expected = solve(method, model_of(world, cost, Bidirectional(), "none")[0])
        _, found = solve(method, model_of(unequal, cost, Bidirectional(), "none")[0])
        assert_allclose(found[0] * np.tile(sizes, 2), expected[0], rtol=1e-5)

    def test_directions_that_cancel_are_left_out_whatever_the_sizes_of_modes(self):
        """Image and model all but agree, so that dp = dq says nothing: what they differ in is solved exactly."""
        rng = np.random.default_rng(2)
        sizes = np.geomspace(1, 1e-3, 5)
        J, r = rng.normal(size=(60, 5)) * sizes, rng.normal(size=60)
        K = np.concatenate([J + 1e-3 * sizes * rng.normal(size=J.shape), -J], axis=1)
        u = -least_norm_of_two((K.T @ K)[None], (K.T @ r)[None])[0]
        step = u[:5] - u[5:]
        assert_allclose(step * sizes, -np.linalg.lstsq(J, r, rcond=None)[0] * sizes, atol=2e-3)
        assert np.abs((u[:5] + u[5:]) * sizes).max() < 1e-2

    @pytest.mark.parametrize("strategy", [Schur(), Alternated(1, joint=True)], ids=str)
    def test_bidirectional_steps_leave_out_what_all_but_cancels(self, strategy):
        """Along dp = dq, a gradient of 0.1 and a curvature of 2e-4 would make a step of -500, which is noise."""
        model = by_hand([[1.0001, -1], [-1, 1.0001]], [1, -0.9], blocks=2)
        u = solve(GaussNewton(strategy), model)[1]
        assert_allclose(u, [[-0.95 / 2.0001, 0.95 / 2.0001]])

    @pytest.mark.parametrize("joint", [False, True])
    @pytest.mark.parametrize("composition", [Inverse(), Bidirectional()], ids=str)
    def test_alternation_leaves_out_what_changes_nothing_and_nothing_else(self, composition, joint):
        """One mode moves no pixel, and one moves them a little: the first stays, the second is solved."""
        world, faint = World(4), World(4)
        world.W[..., 6] = 0
        faint.W[..., 6] = 0
        faint.W[..., 5] *= 1e-4
        method = GaussNewton(Alternated(3, joint))
        _, expected = solve(method, model_of(world, SSD(), composition, "none")[0])
        _, found = solve(method, model_of(faint, SSD(), composition, "none")[0])
        by_set = found[0].reshape(-1, 7)
        assert_allclose(by_set[:, 6], 0)
        assert_allclose(by_set * [1, 1, 1, 1, 1, 1e-4, 1], expected[0].reshape(-1, 7), rtol=1e-5, atol=1e-8)

    def test_an_item_that_defeats_the_decomposition_is_lost_alone(self, monkeypatch):
        """LAPACK may give up on a finite matrix, and does so for the whole batch."""
        plain = np.linalg.eigh

        def fussy(matrices):
            if np.any(matrices == 13.0):
                raise np.linalg.LinAlgError("Eigenvalues did not converge")
            return plain(matrices)

        monkeypatch.setattr(np.linalg, "eigh", fussy)
        matrix = np.stack([np.diag([2.0, 4.0]), np.diag([13.0, 1.0]), np.array([[3.0, 1.0], [1.0, 2.0]])])
        right = np.array([[2.0, 4.0], [1.0, 1.0], [5.0, 5.0]])
        solution = least_norm(matrix, right)
        assert_allclose(solution[[0, 2]], [[1, 1], [1, 2]])
        assert np.isnan(solution[1]).all()

    @pytest.mark.parametrize("broken", [np.nan, np.inf, 1e308])
    def test_newton_safe_survives_an_item_that_is_broken(self, broken):
        world = World(2)
        exact, _, _ = model_of(world, SSD(), Inverse())
        linearised, _, _ = model_of(world, SSD(), Inverse(), "none")

        def doubled(model):
            spoilt = np.where(np.eye(7) > 0, broken, model.Huu[0])
            return replace(
                model,
                gc=np.repeat(model.gc, 2, axis=0),
                gu=np.repeat(model.gu, 2, axis=0),
                Hcu=np.repeat(model.Hcu, 2, axis=0),
                Huu=np.stack([model.Huu[0], spoilt]),
            )

        with np.errstate(all="ignore"):
            _, u = solve(Newton(Schur(), "safe"), doubled(exact), doubled(linearised))
        assert_allclose(u[0], solve(Newton(Schur(), "safe"), exact, linearised)[1][0], rtol=1e-9)

    def test_nan_in_one_item_does_not_reach_the_others(self):
        matrix = np.stack([np.eye(3), np.full((3, 3), np.nan)])
        solution = least_norm(matrix, np.ones((2, 3)))
        assert_allclose(solution[0], 1)
        assert np.isnan(solution[1]).all()

    @pytest.mark.parametrize("broken", [np.nan, np.inf])
    def test_one_number_that_is_not_finite_never_reaches_the_decomposition(self, monkeypatch, broken):
        """LAPACK would give up on all items, and each would be done by itself."""
        plain = np.linalg.eigh

        def finite_alone(matrices):
            assert np.isfinite(matrices).all()
            return plain(matrices)

        monkeypatch.setattr(np.linalg, "eigh", finite_alone)
        matrix = np.stack([np.eye(3), np.eye(3)])
        matrix[1, 0, 0] = broken
        solution = least_norm(matrix, np.ones((2, 3)))
        assert_allclose(solution[0], 1)
        assert np.isnan(solution[1]).all()


NEEDS = [
    ("ssd-for-gn-sch", {"image"}),
    ("ssd-inv-gn-sch", {"model"}),
    ("ssd-asy:1-gn-sch", {"image"}),
    ("ssd-asy:0-gn-sch", {"model"}),
    ("ssd-asy-w", {"image", "model"}),
    ("ssd-bid-gn-alt", {"image", "model"}),
    ("po-asy:1-n", {"image"}),
    ("po-asy:0-n", {"model"}),
    ("po-bid-n-sch", {"image", "model"}),
    ("ssd-for-n-sch", {"image"}),
    ("ssd-asy:0-n-alt", {"model"}),
    ("ssd-asy-n:printed-sch", {"image", "model"}),
    ("ssd-inv-n:safe-sch", {"model"}),
    ("ssd-bid-n:0-sch", {"image", "model"}),
]


class TestNeeds:
    """What an algorithm asks for is all that it looks at, and what it looks at it must have asked for."""

    def parts(self, name):
        """An algorithm, its weights, where it is, and a System with everything."""
        algorithm, world = Algorithm.parse(name), World(2)
        c = current(world, algorithm.cost)
        system, weights = world.system(algorithm.cost, c)
        return algorithm, weights, system, (world.p[None], c[None])

    def asked_for(self, name):
        """The fields of a System that an algorithm asks for, besides r'r."""
        algorithm, weights, _, _ = self.parts(name)
        needs = needs_of(algorithm, weights)
        fields = {"basis_residual"} | ({"image_model"} if needs.image and needs.model else set())
        for side in ("image", "model"):
            if getattr(needs, side):
                fields |= {f"{side}_{side}", f"{side}_residual", f"basis_{side}"}
                fields |= {f"{side}_curvature"} if needs.curvature is not None else set()
        return fields | ({"basis_curvature"} if needs.moving_basis else set())

    @pytest.mark.parametrize(("name", "sides"), NEEDS)
    def test_they_follow_from_what_the_composition_warps(self, name, sides):
        algorithm, weights, _, _ = self.parts(name)
        needs = needs_of(algorithm, weights)
        assert {side for side in ("image", "model") if getattr(needs, side)} == sides

    @pytest.mark.parametrize("name", [name for name, _ in NEEDS])
    def test_nothing_else_is_looked_at(self, name):
        algorithm, weights, system, at = self.parts(name)
        asked = System(**{field: getattr(system, field) for field in self.asked_for(name)})
        with_all = increments(algorithm, weights, system, *at)
        for a, b in zip(increments(algorithm, weights, asked, *at), with_all, strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize("name", [name for name, _ in NEEDS])
    def test_what_was_forgotten_is_named_in_a_sentence(self, name):
        algorithm, weights, system, at = self.parts(name)
        for field in self.asked_for(name):
            with pytest.raises(ValueError, match=f"the kernel was not asked for {field}:"):
                increments(algorithm, weights, replace(system, **{field: None}), *at)

    @pytest.mark.parametrize("composition", [Inverse(), Asymmetric(0.0)], ids=str)
    @pytest.mark.parametrize("cost", [ProjectOut(0.0), ProjectOut(0.5, "map")], ids=str)
    def test_a_metric_that_was_applied_beforehand_is_not_applied_again(self, cost, composition):
        algorithm, world = Algorithm(cost, composition), World(2)
        system, weights = world.system(cost, np.zeros(5))
        at = world.p[None], np.zeros((1, 5))
        weighted = np.swapaxes(system.basis_model, 1, 2) * weights.appearance
        projected = System(
            projected_model=weights.residual * system.model_model - weighted @ system.basis_model,
            projected_residual=weights.residual * system.model_residual
            - (weighted @ system.basis_residual[:, :, None])[:, :, 0],
        )
        _, expected = increments(algorithm, weights, system, *at)
        _, found = increments(algorithm, weights, projected, *at)
        assert_allclose(found, expected, rtol=1e-9)
        # Nothing but the model stands still: a composition that warps the image cannot do with it.
        for warps_both in (Asymmetric(), Bidirectional()):
            with pytest.raises(ValueError, match="was not asked for image_residual"):
                increments(replace(algorithm, composition=warps_both), weights, projected, *at)
