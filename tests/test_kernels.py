"""The compiled kernels against the specification, on a trained model and on meshes drawn at random."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.testing import assert_allclose

from pliant.appearance.features import find_feature
from pliant.appearance.subspace import restrict
from pliant.appearance.view import (
    feature_view,
    scale_to_frame,
)
from pliant.kernels.basis_pass import LANES
from pliant.kernels.cpu import basis_slopes, cpu_kernel
from pliant.kernels.dense import dense_mesh
from pliant.kernels.descents import descent_kernel, project_slopes
from pliant.kernels.panels import empty, make_layout
from pliant.kernels.projected import projected_kernel
from pliant.kernels.reference import ReferenceKernel, bilinear
from pliant.kernels.system import Needs, System
from pliant.level import Level
from pliant.motion import ThinPlateSpline, build_motion, delaunay, margin_around
from pliant.pca import PCA
from pliant.shape import ShapeModel
from pliant.shape.pdm import similarity_vectors


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


@pytest.fixture(scope="module")
def with_splines(model):
    """The model, as if its pixels moved with a spline; what was computed for its own motion is dropped."""
    levels = [
        dataclasses.replace(level, motion=ThinPlateSpline(level.motion.frame)) for level in model.levels
    ]
    return dataclasses.replace(model, levels=tuple(levels))


def kinds_of_needs(m: int, appearance: bool) -> list[Needs]:
    kinds = [
        Needs(),
        Needs(image=False),
        Needs(model=False),
        Needs(False, False),
        Needs(curvature=(1.0, np.zeros(m)), moving_basis=appearance),
        Needs(curvature=(0.7, np.linspace(0.1, 0.6, m))),
        Needs(image=False, curvature=(1.0, np.zeros(m)), moving_basis=True),
        Needs(model=False, curvature=(1.0, np.zeros(m))),
    ]
    return [dataclasses.replace(needs, appearance=appearance) for needs in kinds]


def assert_systems_agree(found: System, expected: System, what: object) -> None:
    for field in dataclasses.fields(System):
        one, other = getattr(expected, field.name), getattr(found, field.name)
        if one is None:
            assert other is None, field.name
        else:
            scale = np.abs(one).max() + 1e-9
            assert_allclose(other, one, atol=3e-5 * scale, err_msg=f"{field.name} {what}")


@pytest.mark.parametrize("sampling", [1.0, 0.5, 0.12])
@pytest.mark.parametrize("level_number", [0, 1])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("solves", [True, False])
def test_kernels_agree(model, dataset, level_number, sampling, jobs, solves):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, level_number, sampling)
    c = c if solves else np.zeros_like(c)
    reference = ReferenceKernel(level, subspace, pixels)
    compiled = cpu_kernel(level, subspace, pixels, Needs(appearance=solves, moving_basis=True), jobs)
    for needs in kinds_of_needs(len(subspace.variances), solves):
        one = reference.system(images, shapes, c, needs)
        assert_systems_agree(compiled.system(images, shapes, c, needs), one, needs)
    assert_allclose(compiled.appearance(images, shapes), reference.appearance(images, shapes), atol=1e-4)


def present(system: System) -> set[str]:
    return {field.name for field in dataclasses.fields(System) if getattr(system, field.name) is not None}


def test_all_but_rare_things_is_asked_for_by_default():
    assert Needs() == Needs(True, True, True, None, False, True, 0)
    rare = Needs(curvature=(1.0, np.ones(2)), moving_basis=True, cost=False, stage=3)
    assert rare.cost_alone() == Needs(False, False, True, None, False, True, 3)
    with pytest.raises(ValueError, match="the kernel was not asked for basis_image: add it to Needs"):
        System().needed("basis_image")


@pytest.mark.parametrize("count", [1, 7, 100, 4099, 300_001])
def test_arrays_begin_at_a_line_of_the_cache(count):
    rooms = [empty(count, 2) for _ in range(9)]
    assert all(room.shape == (count, 2) and room.ctypes.data % 64 == 0 for room in rooms)


def test_what_was_not_asked_for_is_absent(model, dataset):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 0, 1.0, count=9)
    sides = {side: {f"{side}_{side}", f"{side}_residual", f"basis_{side}"} for side in ("image", "model")}
    cost = {"residual_residual", "basis_residual"}
    curved = (1.0, np.zeros(c.shape[1]))
    everything = Needs(moving_basis=True)
    for kernel in (
        ReferenceKernel(level, subspace, pixels),
        cpu_kernel(level, subspace, pixels, everything),
    ):
        for needs, expected in (
            (Needs(), cost | sides["image"] | sides["model"] | {"image_model"}),
            (Needs(model=False), cost | sides["image"]),
            (Needs(image=False), cost | sides["model"]),
            (Needs(model=False, curvature=curved), cost | sides["image"] | {"image_curvature"}),
            (Needs(image=False, curvature=curved), cost | sides["model"] | {"model_curvature"}),
            (everything.cost_alone(), cost),
        ):
            assert present(kernel.system(images, shapes, c, needs)) == expected


@pytest.mark.parametrize("sampling", [1.0, 0.5])
def test_a_kernel_that_was_made_for_less_says_so(model, dataset, sampling):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 0, sampling, count=1)
    curved = (1.0, np.zeros(c.shape[1]))
    for made, asked in (
        (Needs(model=False), Needs(image=False, appearance=False)),
        (Needs(appearance=False), Needs()),
        (Needs(), Needs(curvature=curved, moving_basis=True)),
    ):
        kernel = cpu_kernel(level, subspace, pixels, made)
        with pytest.raises(ValueError, match="asked for more than it was made for"):
            kernel.system(images, shapes, c, asked)
    with pytest.raises(ValueError, match="without slopes of the model"):
        projected_kernel(cpu_kernel(level, subspace, pixels, Needs(model=False)), 1.0, np.ones(c.shape[1]))


def random_level(
    rng: np.random.Generator, vertices: int, channels: int, modes: int, shape_modes: int, motion: str
) -> Level:
    """A level with a random mesh and random orthonormal bases, of any number of channels and modes."""
    mean = rng.uniform(2, 30, (vertices, 2))
    mean += margin_around(motion, mean) - mean.min(axis=0)
    shape = ShapeModel(
        mean=mean,
        basis=np.linalg.qr(np.c_[similarity_vectors(mean), rng.normal(size=(2 * vertices, shape_modes))])[0],
        eigenvalues=np.sort(rng.uniform(0.1, 2, shape_modes))[::-1],
        total_variance=10.0,
        rank=20,
    )
    moving = build_motion(motion, mean, delaunay(mean))
    values = len(moving.frame.pixels) * channels
    appearance = PCA(
        mean=rng.normal(size=values).astype(np.float32),
        components=np.linalg.qr(rng.normal(size=(values, modes)))[0].T.astype(np.float32).copy(),
        eigenvalues=np.sort(rng.uniform(0.5, 3, modes))[::-1],
        total_variance=20.0,
        rank=50,
    )
    return Level(1.0, shape, moving, "none", channels, appearance)


@given(
    seed=some.integers(0, 10**6),
    vertices=some.integers(4, 12),
    channels=some.sampled_from([1, 2, 3, 8]),
    modes=some.integers(1, 11),
    shape_modes=some.integers(1, 3),
    share=some.sampled_from([None, 0.1, 0.6]),
    appearance=some.booleans(),
    jobs=some.sampled_from([1, 3]),
    motion=some.sampled_from(["piecewise-affine", "patches", "thin-plate-spline"]),
)
@settings(max_examples=60, deadline=None)
def test_kernels_agree_on_any_mesh_patches_and_splines(
    seed, vertices, channels, modes, shape_modes, share, appearance, jobs, motion
):
    rng = np.random.default_rng(seed)
    level = random_level(rng, vertices, channels, modes, shape_modes, motion)
    pixels = None
    if share is not None:
        chosen = rng.random(len(level.motion.frame.pixels)) < share
        chosen[rng.integers(len(chosen), size=modes + 2)] = True
        pixels = np.flatnonzero(chosen).astype(np.int32)
    subspace = restrict(level.appearance, channels, pixels)
    images = [rng.random((40, 37, channels), dtype=np.float32) for _ in range(2)]
    shapes = level.shape.mean + rng.normal(0, 0.5, (2, vertices, 2))
    c = appearance * rng.normal(size=(2, len(subspace.variances)))
    reference = ReferenceKernel(level, subspace, pixels)
    compiled = cpu_kernel(level, subspace, pixels, Needs(appearance=appearance, moving_basis=True), jobs)
    for needs in kinds_of_needs(len(subspace.variances), appearance):
        one = reference.system(images, shapes, c, needs)
        assert_systems_agree(compiled.system(images, shapes, c, needs), one, needs)


@pytest.mark.parametrize("sampling", [1.0, 0.25])
@pytest.mark.parametrize("level_number", [0, 1])
@pytest.mark.parametrize("solves", [True, False])
@pytest.mark.parametrize("room", [1, 2**14])
def test_kernels_agree_on_splines(with_splines, dataset, level_number, sampling, solves, room, monkeypatch):
    """Also where a pass leaves its sums panel by panel, and where several panels share the room for them."""
    monkeypatch.setattr("pliant.kernels.dense._ROOM", room)
    level, subspace, pixels, images, shapes, c = problem(with_splines, dataset, level_number, sampling, 2)
    c = c if solves else np.zeros_like(c)
    reference = ReferenceKernel(level, subspace, pixels)
    compiled = cpu_kernel(level, subspace, pixels, Needs(appearance=solves, moving_basis=True))
    for needs in kinds_of_needs(len(subspace.variances), solves):
        one = reference.system(images, shapes, c, needs)
        for kernel in (compiled, compiled.threaded(2)):
            assert_systems_agree(kernel.system(images, shapes, c, needs), one, needs)
    assert_allclose(compiled.appearance(images, shapes), reference.appearance(images, shapes), atol=1e-4)


@pytest.mark.parametrize("sampling", [1.0, 0.25])
def test_what_is_projected_beforehand_is_what_the_metric_projects(model, dataset, sampling):
    """Ja'Mr and Ja'MJa, from all inner products and from the rows of J alone."""
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 1, sampling)
    none = np.zeros_like(c)
    w0, w = 0.7, np.linspace(0.1, 0.6, c.shape[1])
    needs = Needs(image=False, appearance=False)
    full = ReferenceKernel(level, subspace, pixels).system(images, shapes, none, needs)
    kernel = projected_kernel(cpu_kernel(level, subspace, pixels, needs), w0, w)
    found = kernel.system(images, shapes, none, dataclasses.replace(needs, cost=False))
    weighted = np.swapaxes(full.basis_model, 1, 2) * w
    gradient = w0 * full.model_residual - (weighted @ full.basis_residual[:, :, None])[:, :, 0]
    hessian = w0 * full.model_model - weighted @ full.basis_model
    assert_allclose(found.projected_residual, gradient, atol=3e-5 * np.abs(gradient).max())
    assert_allclose(found.projected_model, hessian, atol=3e-5 * np.abs(hessian).max())
    assert present(found) == {"projected_residual", "projected_model"}
    asked = kernel.system(images, shapes, none, needs)
    assert present(asked) == present(found) | {"residual_residual", "basis_residual"}
    assert_allclose(asked.residual_residual, full.residual_residual, rtol=1e-5)
    assert_allclose(asked.basis_residual, full.basis_residual, atol=1e-4)
    alone = kernel.system(images, shapes, none, needs.cost_alone())
    assert present(alone) == {"residual_residual", "basis_residual"}


def test_learned_slopes_are_projected_as_the_metric_says(rng):
    slopes, basis = rng.normal(size=(3, 40)), np.linalg.qr(rng.normal(size=(40, 5)))[0].T
    w0, w = 0.7, np.linspace(0.1, 0.6, 5)
    metric = w0 * np.eye(40) - basis.T @ np.diag(w) @ basis
    projected, model = project_slopes(slopes.astype(np.float32), basis.astype(np.float32), w0, w)
    assert_allclose(projected, slopes @ metric / w0, atol=1e-5)
    assert_allclose(model, slopes @ metric @ slopes.T, atol=1e-4)


def test_appearance_needs_no_slopes(model, dataset):
    level, subspace, pixels, images, shapes, _ = problem(model, dataset, 0, 1.0, count=2)
    found = cpu_kernel(level, subspace, pixels, Needs(False, False)).appearance(images, shapes)
    assert_allclose(found, ReferenceKernel(level, subspace, pixels).appearance(images, shapes), atol=1e-4)


@pytest.mark.parametrize("splines", [False, True])
def test_slopes_of_the_basis_are_products_with_moved_components(model, with_splines, splines):
    """A'JA is by columns what A'Ja of the reference is for unit coordinates, less that of the mean."""
    level = (with_splines if splines else model).levels[0]
    subspace = restrict(level.appearance, level.channels, None)
    m = len(subspace.variances)
    image = [np.zeros((60, 60, level.channels), dtype=np.float32)] * (m + 1)
    shapes = np.repeat(level.shape.mean[None], m + 1, axis=0)
    units = np.concatenate([np.eye(m), np.zeros((1, m))])
    products = ReferenceKernel(level, subspace).system(image, shapes, units, Needs(image=False)).basis_model
    expected = np.moveaxis(products[:-1] - products[-1], 0, -1)
    for jobs in (1, 2):
        assert_allclose(basis_slopes(level, jobs), expected, atol=1e-4 * np.abs(expected).max())
    if not splines:
        assert level.basis_slopes is not None
        assert_allclose(level.basis_slopes, expected, atol=1e-4 * np.abs(expected).max())
    assert dataclasses.replace(level).basis_slopes is None


def test_every_pixel_has_one_lane_in_a_panel_of_its_triangle(model):
    motion = model.levels[1].motion
    for pixels in (np.arange(len(motion.frame.pixels), dtype=np.int32), motion.frame.sample(0.2)):
        layout = make_layout(motion, pixels)
        lanes = layout.own[layout.own >= 0]
        assert sorted(lanes) == list(range(len(pixels)))
        panel = np.repeat(np.arange(layout.panels), np.diff(layout.starts))
        for number in range(layout.panels):
            own = layout.own[panel == number]
            triangles = motion.frame.triangle_of_pixel[pixels[own[own >= 0]]]
            assert np.all(motion.frame.triangles[triangles] == layout.corners[number])
        weights = np.moveaxis(layout.weights, 1, -1)
        assert_allclose(weights[layout.own >= 0].sum(axis=1), 1, atol=1e-5)
        assert not weights[layout.own < 0].any()


def test_every_pixel_of_a_patch_has_one_lane_in_a_panel_of_its_landmark():
    motion = random_level(np.random.default_rng(0), 7, 2, 3, 2, "patches").motion
    for pixels in (np.arange(len(motion.frame.pixels), dtype=np.int32), motion.frame.sample(0.2)):
        layout = make_layout(motion, pixels)
        assert sorted(layout.own[layout.own >= 0]) == list(range(len(pixels)))
        landmark = np.repeat(layout.corners[:, 0], np.diff(layout.starts))
        for own, moved_by in zip(layout.own, landmark, strict=True):
            assert np.all(motion.frame.vertex_of_pixel[pixels[own[own >= 0]]] == moved_by)


@pytest.mark.parametrize("splines", [False, True])
def test_a_batch_equals_its_items(model, with_splines, dataset, splines):
    moving = with_splines if splines else model
    level, subspace, pixels, images, shapes, c = problem(moving, dataset, 1, 1.0, count=11)
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


@pytest.mark.parametrize("splines", [False, True])
def test_positions_that_are_not_numbers_do_not_crash(model, with_splines, dataset, splines):
    moving = with_splines if splines else model
    level, subspace, pixels, images, shapes, c = problem(moving, dataset, 0, 1.0, count=2)
    shapes[0, 3] = np.nan
    shapes[1] += 1e7
    system = cpu_kernel(level, subspace, pixels, Needs()).system(images, shapes, c, Needs())
    assert np.all(np.isfinite(system.image_image))


def test_no_slopes_of_the_basis_are_made_that_are_known_or_not_needed(model, dataset):
    level, subspace, *_ = problem(model, dataset, 1, 1.0, count=1)
    known = level.with_basis_slopes(basis_slopes(level))
    whole = cpu_kernel(known, subspace, None, Needs())
    assert whole.basis_basis is known.basis_slopes
    assert whole.slope_rows is None
    for needs in (Needs(model=False), Needs(appearance=False)):
        less = cpu_kernel(known, subspace, None, needs)
        assert less.basis_basis is None
        assert less.slope_rows is None
        some = cpu_kernel(level, *_some(level), dataclasses.replace(needs, moving_basis=True))
        assert some.basis_basis is None
        assert some.slope_rows is None


def test_a_subspace_without_modes_has_no_slopes(model):
    level = model.levels[1].truncated(2, 0)
    assert basis_slopes(level).shape == (0, level.shape.parameters, 0)


def test_some_pixels_keep_their_place_on_the_frame(model):
    """The first pixel too."""
    level = model.levels[1]
    chosen = np.array([0, 3, 40, 41, 90], dtype=np.int32)
    subspace = restrict(level.appearance, level.channels, chosen)
    mesh = cpu_kernel(level, subspace, chosen, Needs()).mesh
    own = mesh.on_frame().own
    assert sorted(own[own >= 0]) == chosen.tolist()
    # Each has four neighbours at most, and no other pixel is looked at.
    assert set(chosen) <= set(mesh.support)
    assert len(mesh.support) <= 5 * len(chosen)


def test_as_many_panels_share_a_part_as_there_is_room_for(with_splines, monkeypatch):
    level = with_splines.levels[1]
    mesh = dense_mesh(level, None)
    panel, modes = int(np.diff(mesh.layout.starts).max()), 3
    for room in (0, 2 * panel, 5 * panel):
        monkeypatch.setattr("pliant.kernels.dense._ROOM", room * modes * 2 * LANES)
        parts = list(mesh._parts((1, 17), 2, modes))
        ends = [first for (first, _), _ in parts] + [parts[-1][0][1]]
        assert (ends[0], ends[-1]) == (1, 17)
        for (first, last), kept in parts:
            assert last == ends[ends.index(first) + 1] > first
            vectors = int(mesh.layout.starts[last] - mesh.layout.starts[first])
            assert kept.shape == (2, modes, vectors, 2, LANES)
            assert vectors <= room or last == first + 1
            assert last == 17 or mesh.layout.starts[last + 1] - mesh.layout.starts[first] > room


def test_every_stage_of_a_descent_has_slopes_of_its_own(model, dataset, rng):
    level, subspace, pixels, *_ = problem(model, dataset, 1, 1.0, count=1)
    kernel = cpu_kernel(level, subspace, pixels, Needs(appearance=False))
    descents = rng.normal(size=(2, 3, len(subspace.mean))).astype(np.float32)
    made = descent_kernel(kernel, descents, pixels, 1.0, np.ones(len(subspace.variances)))
    assert len(made.stages) == 2
    assert not np.allclose(made.stages[0].rows, made.stages[1].rows)


def _some(level):
    pixels = level.motion.frame.sample(0.5)
    return restrict(level.appearance, level.channels, pixels), pixels


def test_what_does_not_fit_the_level_is_refused_whatever_it_is(model, dataset):
    level, subspace, pixels, images, shapes, _ = problem(model, dataset, 1, 1.0, count=1)
    mesh, image, shape = cpu_kernel(level, subspace, pixels, Needs()).mesh, images[0], shapes[0]
    assert_allclose(mesh.checked(image, shape), shape)
    for wrong, own in ((image[:, :, :-1], shape), (image[:0], shape), (image, shape[:-1])):
        with pytest.raises(
            ValueError, match=r"an image of \(.*\) with a shape of \(.*\) does not match this level"
        ):
            mesh.checked(wrong, own)


def test_the_reference_reads_every_pixel_to_the_edges_and_their_values_beyond():
    image = np.arange(12.0).reshape(3, 4, 1) ** 2
    y, x = (axis.ravel() for axis in np.mgrid[:3, :4])
    assert_allclose(bilinear(image, np.stack([x, y], axis=-1).astype(float)).ravel(), image.ravel())
    # Between the last two columns and rows, on the border, and beyond each side of it.
    at = np.array([[2.5, 1], [1, 1.5], [2.75, 2], [3, 1.25], [9, 1], [-9, 1], [1, 9], [1, -9], [9, 9]])
    plain = image[..., 0]
    expected = [
        (plain[1, 2] + plain[1, 3]) / 2,
        (plain[1, 1] + plain[2, 1]) / 2,
        0.25 * plain[2, 2] + 0.75 * plain[2, 3],
        0.75 * plain[1, 3] + 0.25 * plain[2, 3],
        *(plain[1, 3], plain[1, 0], plain[2, 1], plain[0, 1], plain[2, 3]),
    ]
    assert_allclose(bilinear(image, at)[:, 0], expected)
