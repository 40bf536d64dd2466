"""The compiled kernel against the specification."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.appearance.features import find_feature
from pliant.appearance.pyramid import feature_view, scale_to_frame
from pliant.appearance.subspace import restrict
from pliant.kernels.cpu import cpu_kernel
from pliant.kernels.reference import ReferenceKernel
from pliant.kernels.system import Needs, System


def problem(model, dataset, level_number: int, sampling: float, count: int = 5):
    """A level, its subspace, and a few images with shapes and appearances near the truth."""
    level = model.levels[level_number]
    rng = np.random.default_rng(level_number)
    pixels = None if sampling == 1 else level.motion.frame.sample(sampling)
    subspace = restrict(level.appearance, level.channels, pixels)
    images, shapes = [], []
    for sample in dataset[:count]:
        points = sample.points()
        seen = feature_view(
            sample.image(), points, scale_to_frame(level.shape.mean, points), find_feature(level.features), 10
        )
        images.append(seen.pixels)
        shapes.append(seen.to_view(points) + rng.normal(0, 0.3, points.shape))
    coordinates = rng.normal(size=(count, len(subspace.variances))) * np.sqrt(subspace.variances)
    return level, subspace, pixels, images, np.array(shapes), coordinates


@pytest.mark.parametrize("sampling", [1.0, 0.5, 0.12])
@pytest.mark.parametrize("level_number", [0, 1])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("solves", [True, False])
def test_kernels_agree(model, dataset, level_number, sampling, jobs, solves):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, level_number, sampling)
    c = c if solves else np.zeros_like(c)
    m = len(subspace.variances)
    reference = ReferenceKernel(level, subspace, pixels)
    compiled = cpu_kernel(level, subspace, pixels, Needs(appearance=solves, moving_basis=True), jobs)
    for needs in (
        Needs(),
        Needs(image=False),
        Needs(model=False),
        Needs(False, False),
        Needs(curvature=(1.0, np.zeros(m)), moving_basis=solves),
        Needs(curvature=(0.7, np.linspace(0.1, 0.6, m))),
        Needs(image=False, curvature=(1.0, np.zeros(m)), moving_basis=True),
    ):
        needs = dataclasses.replace(needs, appearance=solves)
        one = reference.system(images, shapes, c, needs)
        other = compiled.system(images, shapes, c, needs)
        for field in dataclasses.fields(System):
            expected, found = getattr(one, field.name), getattr(other, field.name)
            if expected is None:
                assert found is None, field.name
                continue
            scale = np.abs(expected).max() + 1e-9
            assert_allclose(found, expected, atol=3e-5 * scale, err_msg=f"{field.name} {needs}")
    assert_allclose(compiled.appearance(images, shapes), reference.appearance(images, shapes), atol=1e-4)


def test_a_batch_equals_its_items(model, dataset):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 1, 1.0, count=11)
    kernel = cpu_kernel(level, subspace, pixels, Needs(), jobs=2)
    together = kernel.system(images, shapes, c, Needs())
    for k in range(11):
        alone = kernel.system(images[k : k + 1], shapes[k : k + 1], c[k : k + 1], Needs())
        assert_allclose(together.basis_image[k], alone.basis_image[0], rtol=1e-6, atol=1e-6)
        assert_allclose(together.image_image[k], alone.image_image[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unit", [True, False])
def test_the_subspace_of_some_pixels_is_exact(model, unit):
    """The covariance that the prior gives the sampled pixels is kept, whatever the basis."""
    level = model.levels[1]
    pixels = level.motion.frame.sample(0.1)
    subspace = restrict(level.appearance, level.channels, pixels, unit_variances=unit)
    rows = level.appearance.components.reshape(level.appearance.modes, -1, level.channels)[:, pixels]
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    variances = np.ones(len(rows)) if unit else level.appearance.eigenvalues
    basis = subspace.basis.astype(np.float64)
    assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-4)
    expected = rows.T @ (variances[:, None] * rows)
    assert_allclose(
        basis.T @ (subspace.variances[:, None] * basis), expected, atol=1e-4 * np.abs(expected).max()
    )
    coordinates = np.random.default_rng(0).normal(size=len(basis))
    assert_allclose(subspace.model_parameters(coordinates) @ rows, coordinates @ basis, atol=1e-4)


def test_positions_that_are_not_numbers_do_not_crash(model, dataset):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 0, 1.0, count=2)
    shapes[0, 3] = np.nan
    shapes[1] += 1e7
    system = cpu_kernel(level, subspace, pixels, Needs()).system(images, shapes, c, Needs())
    assert np.all(np.isfinite(system.image_image))
