"""Cascaded regression: slopes that are learned, stage by stage, in place of those of the mean."""

import numpy as np
import pytest

import pliant
from pliant.appearance.subspace import restrict
from pliant.building.descents import learn_descents
from pliant.data.dataset import dataset_from_arrays
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.method import CascadedRegression
from pliant.kernels.cpu import cpu_kernel
from pliant.kernels.system import Needs
from pliant.shape import shape_size
from pliant.starts.noise import perturbed


@pytest.fixture(scope="module")
def painted(model):
    """Faces that a model has drawn, with landmarks that are exact: thirty to learn from, and six others."""
    rng = np.random.default_rng(2)
    drawn = []
    for _ in range(36):
        picture, points = model.draw(rng.normal(size=2), rng.normal(size=3), height=70)
        drawn.append((np.pad(picture, ((15, 15), (15, 15), (0, 0)), constant_values=1.0), points + 15))
    return drawn[:30], drawn[30:]


@pytest.fixture(scope="module")
def plain(painted):
    images, points = zip(*painted[0], strict=True)
    return pliant.train(
        dataset_from_arrays(images, points),
        size=50,
        scales=(0.5, 1.0),
        shape_modes=2,
        appearance_modes=5,
        confidence=False,
        progress=False,
    )


@pytest.fixture(scope="module")
def learned(plain, painted):
    return learn_descents(plain, painted[0], stages=4, levels=2)


def errors(model, painted, algorithm, noise=0.05):
    rng = np.random.default_rng(3)
    off, begun = [], []
    for image, truth in painted[1]:
        start = perturbed(model, truth, noise, rng)
        fit = pliant.fit(model, image, start, algorithm=algorithm)
        size = shape_size(truth)
        off.append(np.linalg.norm(fit.points - truth, axis=-1).mean() / size)
        begun.append(np.linalg.norm(start - truth, axis=-1).mean() / size)
    return np.array(off), np.array(begun)


def test_it_finds_what_the_model_has_drawn(learned, painted):
    off, begun = errors(learned, painted, "po-inv-cr")
    assert np.mean(begun) > 0.04
    assert np.max(off) < 0.02


def test_the_prior_is_heard(learned, painted):
    assert np.max(errors(learned, painted, "po:map-inv-cr")[0]) < 0.02


def test_some_pixels_are_enough(learned, painted):
    image, truth = painted[1][0]
    start = perturbed(learned, truth, 0.03, np.random.default_rng(1))
    fit = pliant.fit(learned, image, start, algorithm="po-inv-cr", sampling=0.5)
    assert np.linalg.norm(fit.points - truth, axis=-1).mean() < 0.02 * shape_size(truth)


def test_with_the_slopes_of_the_mean_it_is_gauss_newton(plain, painted):
    levels = tuple(level.with_descents(slopes_of_the_mean(level)[None]) for level in plain.levels)
    from dataclasses import replace

    same = replace(plain, levels=levels)
    image, truth = painted[1][0]
    start = perturbed(plain, truth, 0.05, np.random.default_rng(0))
    one = pliant.fit(same, image, start, algorithm="po-inv-cr", cascade=False)
    other = pliant.fit(plain, image, start, algorithm="po-inv-gn")
    np.testing.assert_allclose(one.points, other.points, atol=1e-2)


def slopes_of_the_mean(level):
    """Ja `(n, F c)` in the order of the frame's pixels."""
    needs = Needs(image=False, appearance=False)
    mesh_of = cpu_kernel(level, restrict(level.appearance, level.channels, None), None, needs)
    mesh = mesh_of.mesh
    basis = level.shape.basis.reshape(-1, 2, level.shape.parameters)
    corners = np.repeat(mesh.layout.corners, np.diff(mesh.layout.starts), axis=0)
    warp = np.einsum("kvl,vkan->vlan", np.moveaxis(mesh.layout.weights, 1, 0), basis[corners])
    blocks = np.einsum("vcal,vlan->nvcl", mesh_of.mean_slopes, warp).astype(np.float32)
    return np.stack([mesh.gathered(np.ascontiguousarray(block)).ravel() for block in blocks])


def test_levels_that_have_not_learned_have_the_slopes_of_the_mean(plain, painted):
    coarse = learn_descents(plain, painted[0], stages=2)
    assert [level.descents is not None for level in coarse.levels] == [True, False]
    assert np.max(errors(coarse, painted, "po-inv-cr")[0]) < 0.02


def test_other_algorithms_do_not_notice(plain, learned, painted):
    image, truth = painted[1][0]
    start = perturbed(plain, truth, 0.05, np.random.default_rng(0))
    for name in ("po-inv-gn", "ssd-asy-gn-sch"):
        one, other = (
            pliant.fit(model, image, start, algorithm=name, cascade=False) for model in (plain, learned)
        )
        np.testing.assert_array_equal(one.points, other.points)


def test_a_model_that_has_not_learned_says_so(plain, painted):
    image, truth = painted[1][0]
    with pytest.raises(ValueError, match="has not learned it: train it with cascade"):
        pliant.fit(plain, image, truth, algorithm="po-inv-cr")


def test_a_device_that_cannot_says_so(learned, painted):
    image, truth = painted[1][0]
    with pytest.raises(ValueError, match="not on the device reference"):
        pliant.fit(learned, image, truth, algorithm="po-inv-cr", device="reference")


def test_coarse_levels_may_go_by_it_and_fine_ones_by_another(plain, painted):
    coarse = learn_descents(plain, painted[0], stages=2)
    image, truth = painted[1][1]
    start = perturbed(plain, truth, 0.05, np.random.default_rng(0))
    fits = [
        pliant.fit(coarse, image, start, algorithm="ssd-asy-gn-sch", cascade=cascade)
        for cascade in (True, False)
    ]
    for fit in fits:
        assert np.linalg.norm(fit.points - truth, axis=-1).mean() < 0.02 * shape_size(truth)
    # They differ on their way.
    assert not np.allclose(fits[0].trace[0].points[1], fits[1].trace[0].points[1])
    # A model that has learned nothing of the kind is fitted as ever.
    alike = [pliant.fit(plain, image, start, cascade=cascade).points for cascade in (True, False)]
    assert np.array_equal(*alike)


def test_training_learns_it_on_request():
    faces = pliant.synthetic.faces(8, seed=2, image_size=64)
    settings = {"size": 30, "shape_modes": (1, 3), "confidence": False, "progress": False}
    model = pliant.train(faces, cascade=True, **settings)
    assert model.levels[0].descents is not None
    assert pliant.train(faces, **settings).levels[0].descents is None


def test_names():
    assert Algorithm.parse("po-inv-cr").method == CascadedRegression()
    for name in ("po-inv-cr", "po:0.0:map-inv-cr"):
        assert str(Algorithm.parse(name)) == name
    assert len(catalogue()) == 31
    for name in ("ssd-inv-cr", "po-for-cr", "po-asy-cr", "po-bid-cr"):
        with pytest.raises(ValueError, match="use po-inv-cr"):
            Algorithm.parse(name)
    with pytest.raises(ValueError, match="there is no algorithm"):
        Algorithm.parse("po-inv-cr-alt")
    with pytest.raises(ValueError, match="smaller rho"):
        Algorithm.parse("po:1-inv-cr")


def test_a_file_keeps_it(learned, tmp_path):
    learned.save(tmp_path / "m.pliant")
    again = pliant.load(tmp_path / "m.pliant")
    for one, other in zip(again.levels, learned.levels, strict=True):
        np.testing.assert_array_equal(one.descents, other.descents)
        np.testing.assert_array_equal(one.basis_slopes, other.basis_slopes)


def test_what_is_not_finite_is_refused(learned, tmp_path):
    from dataclasses import replace

    level = learned.levels[0]
    broken = level.with_descents(level.descents * np.float32(np.nan))
    replace(learned, levels=(broken, *learned.levels[1:])).save(tmp_path / "m.pliant")
    with pytest.raises(pliant.ModelFileError, match="cascaded regression"):
        pliant.load(tmp_path / "m.pliant")


def test_fewer_modes_have_no_slopes_that_were_learned_for_more(learned):
    assert learned.levels[0].truncated(1, 2).descents is None


@pytest.mark.parametrize(
    ("options", "sentence"), [({"stages": 0}, "at least one"), ({"levels": 3}, "the model has 2")]
)
def test_what_cannot_be_learned_gets_a_sentence(plain, painted, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        learn_descents(plain, painted[0], **options)
