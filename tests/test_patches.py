"""Models whose landmarks carry patches: every algorithm fits them, and files and commands know them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.container import ModelFileError
from pliant.data.dataset import dataset_from_arrays
from pliant.fitting.algorithm import catalogue
from pliant.fitting.fitter import make_fitter
from pliant.fitting.quadratic import quadratic
from pliant.kernels.cpu import CpuKernel
from pliant.kernels.system import Needs
from pliant.motion import Patches, compose
from pliant.motion.compose import update_jacobian
from pliant.pca import PCA
from pliant.starts.noise import perturbed

NAMES = [entry.name for entry in catalogue()]

APART = [0, 8, 16, 19, 24, 30, 48, 54]
"""Landmarks of a face whose patches do not meet."""

OFFSET = np.array([20.0, 22.0])


def waves(rng, count):
    """Smooth functions of the frame, from places `(..., 2)` to values `(count, ...)`."""
    angle = rng.uniform(0, 2 * np.pi, (count, 6))
    k = rng.uniform(0.15, 0.45, (count, 6, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    phase = rng.uniform(0, 6, (count, 6))
    return lambda places: np.sin(np.einsum("kjd,...d->k...j", k, places) + phase[:, None]).sum(axis=-1)


@pytest.fixture(scope="module")
def world(dataset):
    """A shape model of eight landmarks with an appearance made of waves: a mean and four modes."""
    few = dataset_from_arrays(
        [sample.image() for sample in dataset], [sample.points()[APART] for sample in dataset]
    )
    model = pliant.train(
        few, size=60, scales=(1.0,), shape_modes=4, features="intensity", motion="patches", confidence=False
    )
    (level,) = model.levels
    functions = waves(np.random.default_rng(7), 5)
    raw = functions(level.motion.frame.pixels.astype(float))
    mix = np.linalg.inv(np.linalg.cholesky(raw[1:] @ raw[1:].T))
    variances = np.array([0.3, 0.25, 0.2, 0.15])
    appearance = PCA(
        (0.5 + 0.04 * raw[0]).astype(np.float32), (mix @ raw[1:]).astype(np.float32), variances, 0.91, 20
    )
    return replace(model, levels=(replace(level, appearance=appearance),)), functions, mix


@pytest.fixture(scope="module")
def plain(world):
    return world[0]


def paint(world, parameters, appearance, shape=(110, 110)):
    """An image of the model's own instance, and its points: about each landmark, the waves move with it."""
    model, functions, mix = world
    level = model.levels[-1]
    points = level.shape.instance(parameters) + OFFSET
    y, x = np.mgrid[: shape[0], : shape[1]]
    places = np.stack([x, y], axis=-1).reshape(-1, 2).astype(float)
    nearest = np.argmin(np.abs(places[:, None] - points).max(axis=-1), axis=1)
    values = functions(places - (points - level.shape.mean)[nearest])
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
        starts.append(
            level.shape.instance(np.concatenate([np.zeros(4), p[4:] * 0.8])) + OFFSET + rng.uniform(-1, 1, 2)
        )
        near.append(points + rng.uniform(-0.3, 0.3, 2))
    return images, truths, starts, near


def error(fit, truth):
    return float(np.mean(np.linalg.norm(fit.points - truth, axis=1)))


@pytest.mark.parametrize("sampling", [1.0, 0.5])
@pytest.mark.parametrize("prior", ["", ":map"])
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_finds_what_the_model_painted(plain, painted, name, prior, sampling):
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


@pytest.mark.parametrize("name", ["ssd-for-gn-sch", "ssd:map-for-gn-sch", "po:0-for-gn", "po:map-for-gn"])
@pytest.mark.parametrize("sampling", [1.0, 0.4])
def test_the_gradient_is_that_of_the_cost(plain, painted, name, sampling):
    images, _, starts, _ = painted
    fitter = make_fitter(plain, algorithm=name, sampling=sampling, device="reference")
    level, _, problem = fitter.prepared[0]
    image = images[0][:, :, None]
    p = level.shape.project(starts[0])[None]
    c = np.full((1, len(problem.weights.appearance)), 0.3 if problem.weights.solves_appearance else 0.0)

    def cost(dp):
        moved = compose(level.motion, level.shape, p, dp[None])
        system = problem.kernel.system([image], level.shape.instance(moved), c, Needs())
        return float(problem.weights.value(system, moved, c)[0])

    system = problem.kernel.system([image], level.shape.instance(p), c, Needs())
    jacobian = update_jacobian(level.motion, level.shape, p)
    assert_allclose(jacobian[0], np.eye(level.shape.parameters), atol=1e-8)
    model = quadratic(system, problem.weights, problem.algorithm.composition, p, c, jacobian)
    unit = np.eye(level.shape.parameters) * 0.05
    differences = np.array([(cost(e) - cost(-e)) / 0.1 for e in unit])
    # A stencil of a pixel sees waves of 14 to 42 pixels too flat, most of all at the border of a patch.
    assert_allclose(model.gu[0], differences, atol=0.1 * np.abs(differences).max())
    assert np.corrcoef(model.gu[0], differences)[0, 1] > 0.99


@pytest.fixture(scope="module")
def model(dataset):
    """Faces in two levels, with patches that overlap."""
    return pliant.train(dataset, size=60, shape_modes=(2, 5), motion="patches", confidence=False)


def test_patches_overlap_and_are_fitted_by_the_compiled_kernel(model):
    for level, _, problem in make_fitter(model, algorithm="ssd-asy-gn-sch").prepared:
        assert isinstance(level.motion, Patches)
        assert len(np.unique(level.motion.frame.pixels, axis=0)) < len(level.motion.frame.pixels)
        assert isinstance(problem.kernel, CpuKernel)
        assert level.basis_slopes is not None


@pytest.mark.parametrize("name", ["po-asy-gn", "po-inv-gn", "ssd-bid-gn-alt", "ssd-inv-n:safe-sch"])
@pytest.mark.parametrize("sampling", [1.0, 0.3])
def test_devices_agree(model, dataset, name, sampling):
    samples = list(dataset[:3])
    starts = [perturbed(model, sample.points(), 0.03, np.random.default_rng(2)) for sample in samples]
    settings = {"algorithm": name, "iterations": (4, 3), "sampling": sampling}
    one = pliant.fit(model, samples, starts, device="cpu", **settings)
    other = pliant.fit(model, samples, starts, device="reference", **settings)
    for a, b in zip(one, other, strict=True):
        assert_allclose(a.points, b.points, atol=5e-3)
        assert a.cost == pytest.approx(b.cost, rel=1e-3)


class TestFiles:
    def test_a_model_is_the_same_once_it_was_saved(self, model, dataset, tmp_path):
        model.save(tmp_path / "patches.pliant")
        loaded = pliant.load(tmp_path / "patches.pliant")
        assert loaded.settings.motion == "patches"
        for one, other in zip(model.levels, loaded.levels, strict=True):
            assert isinstance(other.motion, Patches)
            assert_array_equal(other.motion.frame.pixels, one.motion.frame.pixels)
            assert other.motion.frame.side == one.motion.frame.side
        start = perturbed(model, dataset[0].points(), 0.03, np.random.default_rng(1))
        fits = [pliant.fit(some, dataset[0], start, iterations=(3, 3)) for some in (model, loaded)]
        assert_array_equal(fits[0].points, fits[1].points)

    @pytest.mark.parametrize(
        ("name", "change", "complaint"),
        [
            ("pixels", lambda pixels: np.concatenate([pixels[1:], pixels[:1]]), "outside their patches"),
            ("pixels", lambda pixels: pixels + 1, "outside their patches|point outside"),
            ("first_pixel", lambda first: np.concatenate([[0], first[1:-1] + 1, first[-1:]]), "not square"),
            ("first_pixel", lambda first: first[[0, -1]], "point outside"),
            ("vertices", lambda vertices: vertices - 1, "far away"),
        ],
    )
    def test_patches_that_training_could_not_have_made_are_refused(
        self, model, name, change, complaint, tmp_path, monkeypatch
    ):
        taken_apart = pliant.store._taken_apart

        def changed(model):
            arrays, numbers = taken_apart(model)
            key = f"levels.0.frame.{name}"
            return {**arrays, key: change(arrays[key]).astype(arrays[key].dtype)}, numbers

        with monkeypatch.context() as patch:
            patch.setattr(pliant.store, "_taken_apart", changed)
            model.save(tmp_path / "x.pliant")
        with pytest.raises(ModelFileError, match=complaint):
            pliant.load(tmp_path / "x.pliant")


def test_every_command_knows_patches(face_folders, tmp_path, command):
    file, page = tmp_path / "faces.pliant", tmp_path / "page.html"
    command(
        "train", face_folders / "train", "-o", file, "--motion", "patches", "--size", 30, "--shape-modes", "2,3",
        "--no-confidence", "--quiet",
    )  # fmt: skip
    assert "patches" in command("inspect", file, "--report", page).out
    assert "patches" in page.read_text()
    command("evaluate", file, face_folders / "test", "--iterations", "3,2", "--quiet")
    command("fit", file, face_folders / "test", "-o", tmp_path / "fits.csv", "--iterations", "3,2", "--quiet")
    assert (tmp_path / "fits.csv").stat().st_size
