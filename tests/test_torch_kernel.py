"""The kernel of PyTorch against the specification, and fits on a device against those on the CPU."""

import dataclasses

import numpy as np
import pytest

import pliant
from pliant.kernels.reference import ReferenceKernel
from pliant.kernels.system import Needs, System
from pliant.level import Level
from pliant.motion import build_motion
from pliant.namespace import on_host
from test_kernels import assert_systems_agree, kinds_of_needs, problem

torch = pytest.importorskip("torch")

from pliant.appearance.device_pictures import upload  # noqa: E402
from pliant.appearance.device_views import Views  # noqa: E402
from pliant.fitting.device_fits import fit_pictures  # noqa: E402
from pliant.fitting.fitter import make_fitter  # noqa: E402
from pliant.kernels.torch_setup import torch_kernel, torch_projected  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def as_views(images) -> Views:
    """Images `(h, w, c)` as views on the device, in an order of their own."""
    sizes = np.array([image.shape[:2] for image in images])
    height, width = sizes.max(axis=0)
    pixels = np.full((len(images), height, width, images[0].shape[2]), 7.0, dtype=np.float32)
    for k, image in enumerate(images):
        pixels[len(images) - 1 - k, : image.shape[0], : image.shape[1]] = image
    order = torch.arange(len(images) - 1, -1, -1)
    rest = torch.zeros(len(images), 2), torch.ones(len(images)), torch.zeros(len(images))
    tensors = (torch.as_tensor(pixels), order, torch.as_tensor(sizes), *(x.double() for x in rest))
    return Views(*(tensor.to(DEVICE) for tensor in tensors))


def on_device(values) -> object:
    return torch.as_tensor(np.asarray(values), device=DEVICE)


def host_system(system: System) -> System:
    fields = {field.name: getattr(system, field.name) for field in dataclasses.fields(System)}
    return System(**{name: None if value is None else on_host(value) for name, value in fields.items()})


def with_motion(level: Level, kind: str) -> Level:
    motion = build_motion(kind, level.motion.frame.vertices, level.motion.frame.triangles)
    return dataclasses.replace(level, motion=motion)


@pytest.mark.parametrize("sampling", [1.0, 0.5])
@pytest.mark.parametrize("solves", [True, False])
def test_systems_agree(model, dataset, sampling, solves):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 1, sampling, count=3)
    c = c if solves else np.zeros_like(c)
    reference = ReferenceKernel(level, subspace, pixels)
    every = Needs(appearance=solves, moving_basis=True, curvature=(1.0, subspace.variances))
    kernel = torch_kernel(level, subspace, pixels, every, DEVICE)
    for needs in kinds_of_needs(len(subspace.variances), solves):
        found = kernel.system(as_views(images), on_device(shapes), on_device(c), needs)
        assert_systems_agree(host_system(found), reference.system(images, shapes, c, needs), needs)


@pytest.mark.parametrize("sampling", [1.0, 0.3])
@pytest.mark.parametrize("appearance", [True, False])
def test_robust_systems_agree(model, dataset, sampling, appearance):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 1, sampling, count=3)
    images[0] = images[0].copy()
    images[0][: len(images[0]) // 2] = 0.0
    needs = Needs(appearance=appearance)
    reference = ReferenceKernel(level, subspace, pixels, robust=True)
    kernel = torch_kernel(level, subspace, pixels, needs, DEVICE, robust=True)
    c = c if appearance else np.zeros_like(c)
    found = kernel.system(as_views(images), on_device(shapes), on_device(c), needs)
    assert_systems_agree(host_system(found), reference.system(images, shapes, c, needs), needs)


@pytest.mark.parametrize("appearance", [True, False])
def test_splines_agree(model, dataset, appearance):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 0, 1.0, count=3)
    level = with_motion(level, "thin-plate-spline")
    needs = Needs(appearance=appearance)
    c = c if appearance else np.zeros_like(c)
    found = torch_kernel(level, subspace, pixels, needs, DEVICE).system(
        as_views(images), on_device(shapes), on_device(c), needs
    )
    expected = ReferenceKernel(level, subspace, pixels).system(images, shapes, c, needs)
    assert_systems_agree(host_system(found), expected, needs)


@pytest.mark.parametrize("sampling", [1.0, 0.5])
def test_projected_products_agree(model, dataset, sampling):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 1, sampling, count=3)
    w0, w = 0.7, np.linspace(0.2, 0.6, len(subspace.variances))
    needs = Needs(image=False, appearance=False)
    kernel = torch_projected(torch_kernel(level, subspace, pixels, needs, DEVICE), w0, w)
    zero = np.zeros_like(c)
    found = host_system(kernel.system(as_views(images), on_device(shapes), on_device(zero), needs))
    plain = ReferenceKernel(level, subspace, pixels).system(images, shapes, zero, needs)
    Aa, Ar = plain.needed("basis_model"), plain.needed("basis_residual")
    weighted = np.swapaxes(Aa, 1, 2) * w
    model_model = w0 * plain.needed("model_model") - weighted @ Aa
    residual = w0 * plain.needed("model_residual") - (weighted @ Ar[:, :, None])[:, :, 0]
    for one, other in ((found.projected_model, model_model), (found.projected_residual, residual)):
        np.testing.assert_allclose(one, other, atol=3e-5 * np.abs(other).max())


def test_positions_that_are_not_numbers_are_harmless(model, dataset):
    level, subspace, pixels, images, shapes, c = problem(model, dataset, 0, 1.0, count=2)
    shapes[0, 0] = np.nan, np.inf
    needs = Needs(appearance=False)
    kernel = torch_kernel(level, subspace, pixels, needs, DEVICE)
    found = host_system(kernel.system(as_views(images), on_device(shapes), on_device(0 * c), needs))
    assert np.isfinite(found.needed("residual_residual")).all()


NAMED = [entry.name for entry in pliant.catalogue()]


def on_both(model, dataset, **settings):
    """Fits from the same starts on the CPU and by PyTorch."""
    samples = dataset[:4]
    starts = [sample.points() + (2.0, -1.5) for sample in samples]
    device = "cuda" if torch.cuda.is_available() else "torch"
    one = pliant.fit(model, samples, starts, **settings)
    return one, pliant.fit(model, samples, starts, device=device, **settings)


@pytest.mark.parametrize(
    "algorithm", [*NAMED, "ssd:map-asy:0.2-gn-sch", "ssd-bid-n:safe-sch", "ssd-inv-gn-den"]
)
def test_every_algorithm_fits_on_a_device(model, dataset, algorithm):
    """The same points. Where Newton's true Hessian is indefinite, last digits decide where a step goes."""
    curved = "-n-" in f"{algorithm}-"
    brief = {"iterations": 1} if curved or "-n:safe" in algorithm else {}
    for here, there in zip(*on_both(model, dataset, algorithm=algorithm, hypotheses=1, **brief), strict=True):
        assert there.reason == ""
        assert there.iterations == here.iterations
        if not curved:
            assert here.status == there.status
            np.testing.assert_allclose(there.points, here.points, atol=0.02)
            np.testing.assert_allclose(there.cost, here.cost, rtol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"sampling": 0.4}, {"robust": True}, {"order": "first-order"}])
def test_default_fits_are_the_same_on_a_device(model, dataset, settings):
    """With hypotheses, traces and evidence."""
    for here, there in zip(*on_both(model, dataset, confidence=True, **settings), strict=True):
        assert here.status == there.status, there.reason
        np.testing.assert_allclose(there.points, here.points, atol=0.05)
        np.testing.assert_allclose(there.covariance, here.covariance, rtol=0.05, atol=1e-4)
        assert [len(trace.costs) for trace in here.trace] == [len(trace.costs) for trace in there.trace]


def test_fits_as_arrays_are_those_of_the_fitter(model, dataset):
    """And one that is lost does not take the others with it."""
    device = "cuda" if torch.cuda.is_available() else "torch"
    fitter = make_fitter(model, device=device, hypotheses=1, cascade=False, experts=False)
    images = [sample.image() for sample in dataset[:3]]
    starts = np.array([sample.points() + 1.5 for sample in dataset[:3]])
    expected = fitter.block(images, starts)
    far = np.concatenate([starts, starts[:1] * 1e6])
    fits = fit_pictures(fitter, upload(images, torch.device(DEVICE)), np.array([0, 1, 2, 0]), far)
    assert fits.statuses[3] == "diverged"
    for k, one in enumerate(expected):
        np.testing.assert_allclose(fits.points[k], one.points, atol=0.01)
        assert fits.statuses[k] == one.status


@pytest.mark.parametrize("trained", [{"motion": "patches"}, {"cascade": True}, {"experts": "linear"}])
def test_other_models_fit_on_a_device(trained):
    """Patches, levels that have learned cascaded regression, and what an expert adds to the cost."""
    faces = pliant.synthetic.faces(30, image_size=100)
    settings = pliant.Training(preset="paper", size=50.0, confidence=False, detector="none", **trained)
    model = pliant.train(faces[:26], settings)
    assert (model.expert is not None) == ("experts" in trained)
    assert (model.levels[0].descents is not None) == ("cascade" in trained)
    for here, there in zip(*on_both(model, faces[26:]), strict=True):
        assert here.status == there.status
        np.testing.assert_allclose(there.points, here.points, atol=0.02)
