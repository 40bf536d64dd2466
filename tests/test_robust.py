"""Robust weights: what hides the object is weighted down, by all kernels alike, and nothing else changes."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.appearance.features import find_feature
from pliant.appearance.subspace import restrict
from pliant.appearance.view import feature_view, scale_to_frame
from pliant.fitting.algorithm import catalogue
from pliant.kernels import robust
from pliant.kernels.cpu import cpu_kernel
from pliant.kernels.projected import projected_kernel
from pliant.kernels.reference import ReferenceKernel
from pliant.kernels.system import Needs, System
from pliant.starts.noise import perturbed

NAMES = [entry.name for entry in catalogue()]


@pytest.fixture(scope="module", params=["piecewise-affine", "patches", "thin-plate-spline"])
def moving(request, dataset, model):
    """A model of each motion."""
    if request.param == "piecewise-affine":
        return model
    return pliant.train(dataset, size=40, shape_modes=(2, 5), motion=request.param, confidence=False)


def hidden(image, points, share=0.5):
    """The image with a textured board before the left part of the object."""
    (left, top), (right, bottom) = points.min(axis=0).astype(int), points.max(axis=0).astype(int)
    out = image.copy()
    part = out[top : bottom + 1, left : left + round(share * (right - left))]
    part[...] = np.random.default_rng(0).integers(0, 255, part.shape)
    return out


def problem(model, dataset, sampling, count=3):
    level = model.levels[-1]
    pixels = None if sampling == 1 else level.motion.frame.sample(sampling)
    subspace = restrict(level.appearance, level.channels, pixels)
    images, shapes = [], []
    for sample in dataset[:count]:
        points = sample.points()
        scale = scale_to_frame(level.shape.mean, points)
        image = hidden(sample.image(), points)
        seen = feature_view(image, points, scale, find_feature(level.features), 10)
        images.append(seen.pixels)
        shapes.append(seen.to_view(points))
    c = np.random.default_rng(1).normal(size=(count, len(subspace.variances))) * np.sqrt(subspace.variances)
    return level, subspace, pixels, images, np.array(shapes), 0.3 * c


def assert_systems_agree(found: System, expected: System, atol: float) -> None:
    for field in dataclasses.fields(System):
        one, other = getattr(expected, field.name), getattr(found, field.name)
        assert (one is None) == (other is None), field.name
        if one is not None:
            assert_allclose(other, one, atol=atol * (np.abs(one).max() + 1e-9), err_msg=field.name)


@pytest.mark.parametrize("sampling", [1.0, 0.4])
@pytest.mark.parametrize("solves", [True, False])
def test_kernels_agree(moving, dataset, sampling, solves):
    level, subspace, pixels, images, shapes, c = problem(moving, dataset, sampling)
    c = c if solves else np.zeros_like(c)
    reference = ReferenceKernel(level, subspace, pixels, robust=True)
    all_needs = Needs(appearance=solves, moving_basis=True)
    compiled = cpu_kernel(level, subspace, pixels, all_needs, robust=True)
    unweighted = cpu_kernel(level, subspace, pixels, all_needs)
    curved = (0.7, np.linspace(0.1, 0.6, c.shape[1]))
    for needs in (Needs(), Needs(image=False), Needs(False, False), Needs(curvature=curved)):
        needs = dataclasses.replace(needs, appearance=solves)
        one = reference.system(images, shapes, c, needs)
        assert_systems_agree(compiled.system(images, shapes, c, needs), one, 1e-4)
        assert np.all(
            one.residual_residual < 0.98 * unweighted.system(images, shapes, c, needs).residual_residual
        )
    assert_allclose(compiled.appearance(images, shapes), reference.appearance(images, shapes), atol=1e-3)


def test_what_is_projected_beforehand_is_weighted_too(moving, dataset):
    level, subspace, pixels, images, shapes, c = problem(moving, dataset, 1.0)
    w0, w = 0.7, np.linspace(0.1, 0.6, c.shape[1])
    needs = Needs(image=False, appearance=False)
    none = np.zeros_like(c)
    full = ReferenceKernel(level, subspace, pixels, robust=True).system(images, shapes, none, needs)
    kernel = projected_kernel(cpu_kernel(level, subspace, pixels, needs, robust=True), w0, w)
    found = kernel.system(images, shapes, none, dataclasses.replace(needs, cost=False))
    weighted = np.swapaxes(full.basis_model, 1, 2) * w
    gradient = w0 * full.model_residual - (weighted @ full.basis_residual[:, :, None])[:, :, 0]
    assert_allclose(found.projected_residual, gradient, atol=1e-4 * np.abs(gradient).max())


def test_hidden_panels_weigh_less_than_others(model, dataset):
    level, subspace, _, images, shapes, _ = problem(model, dataset, 1.0)
    reference = ReferenceKernel(level, subspace, robust=True)
    middle = np.mean(level.shape.mean[:, 0])
    left = level.motion.frame.pixels[:, 0] < middle - 2
    right = level.motion.frame.pixels[:, 0] > middle + 2
    for image, shape in zip(images, shapes, strict=True):
        e = reference._warped(image, shape).ravel() - subspace.mean
        _, root = reference._weighted(e, None)
        assert root.min() >= 0
        assert root.max() == 1
        assert root[left].mean() < root[right].mean() - 0.2


def assert_same_fits(model, dataset, monkeypatch, **settings):
    """With weights of one as without any, to the last bit."""
    monkeypatch.setattr("pliant.kernels.robust.USUAL", 0.0)
    sample = dataset[0]
    start = perturbed(model, sample.points(), 0.03, np.random.default_rng(2))
    one, other = (
        pliant.fit(model, sample, start, robust=on, iterations=2, jobs=1, **settings) for on in (True, False)
    )
    assert_array_equal(one.points, other.points)
    assert one.cost == other.cost


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_one_change_nothing(model, dataset, name, monkeypatch):
    assert_same_fits(model, dataset, monkeypatch, algorithm=name)


@pytest.mark.parametrize("name", ["po-inv-gn", "ssd-bid-gn-sch"])
def test_weights_of_one_change_nothing_on_some_pixels(moving, dataset, name, monkeypatch):
    assert_same_fits(moving, dataset, monkeypatch, algorithm=name, sampling=0.4)


class TestWeights:
    def test_they_are_one_for_what_agrees_as_usual_and_zero_for_what_does_not(self):
        agreement = np.array([0.9, 0.8, 0.8, 0.7, 0.05, -0.3])
        roots = robust.roots_of_weights(agreement, np.full(6, 100))
        assert_array_equal(roots[:4], 1)
        assert 0 < roots[4] < 0.2
        assert roots[5] == 0

    def test_panels_count_by_their_pixels(self):
        agreement, counts = np.array([0.9, 0.1, 0.1]), np.array([500, 1, 1])
        assert robust.roots_of_weights(agreement, counts)[1] < 0.5

    def test_where_nothing_agrees_nothing_is_judged(self):
        assert_array_equal(robust.roots_of_weights(np.array([-0.2, -0.1, 0.3]), np.full(3, 9)), 1)

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_twice_what_is_common_to_both_over_what_is_in_either(self, unit):
        """A billionth of what the strongest panel has is nothing, whatever the unit."""
        faint = [[0, 0.9e-9, 1e-9], [0, 1.1e-9, 1e-9]]
        products = unit * np.array([[3, 1, 9], [1, 1, 1], *(10 / 2 * np.array(faint))])
        assert_allclose(robust.agreement_of(products), [0.6, 1, 1, 0], atol=1e-12)

    def test_nothing_where_nothing_is_expected_agrees(self):
        products = np.array([[0.0, 0, 0], [4, 4, 4], [0, 4, 4], [-4, 4, 4]])
        assert_allclose(robust.agreement_of(products), [1, 1, 0, -1])


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_fits_of_hidden_objects_are_better(model, dataset, device):
    samples = list(dataset[:10])
    truths = [sample.points() for sample in samples]
    images = [hidden(s.image(), t, 0.35) for s, t in zip(samples, truths, strict=True)]
    starts = [perturbed(model, truth, 0.02, np.random.default_rng(3)) for truth in truths]
    errors = [
        np.mean(
            [
                np.linalg.norm(fit.points - truth, axis=1).mean()
                for fit, truth in zip(
                    pliant.fit(model, images, starts, algorithm="ssd-asy-gn-sch", robust=on, device=device),
                    truths,
                    strict=True,
                )
            ]
        )
        for on in (True, False)
    ]
    assert errors[0] < 0.9 * errors[1]
