"""Fits of folders: with threads or without, with a trace or without, and of models that have nothing to compare."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.batch import fit_all
from pliant.data.dataset import dataset_from_arrays
from pliant.fitting.fitter import make_fitter


@pytest.fixture(scope="module")
def black(dataset):
    """A model of black images: their appearance has no variance, and so no modes."""
    shapes = [sample.points() for sample in dataset[:8]]
    images = [np.zeros((96, 96), dtype=np.uint8)] * len(shapes)
    return pliant.train(
        dataset_from_arrays(images, shapes), size=40, shape_modes=(2, 3), progress=False, confidence=False
    )


def test_a_fit_without_a_trace_is_the_same_fit(model, dataset):
    """`po-inv-gn` does not even compute its costs then, but for the last one."""
    starts = [sample.points() + 1.5 for sample in dataset[:4]]
    for name in ("po-inv-gn", "ssd-asy-gn-sch"):
        for iterations in (3, 60):
            one, other = (
                pliant.fit(model, dataset[:4], starts, algorithm=name, iterations=iterations, trace=trace)
                for trace in (True, False)
            )
            for traced, plain in zip(one, other, strict=True):
                assert_allclose(plain.points, traced.points, atol=1e-9)
                assert_allclose(plain.cost, traced.cost, rtol=1e-9)
                assert_allclose(plain.appearance_parameters, traced.appearance_parameters, atol=1e-9)
                assert (plain.status, plain.iterations) == (traced.status, traced.iterations)
                assert np.isfinite(traced.trace[-1].costs).all()


@pytest.mark.parametrize("count", [1, 2, 5, 24])
def test_threads_change_neither_the_fits_nor_their_order(model, dataset, count):
    work = [(sample, sample.points() + 1) for sample in dataset[:count]]
    if count > 2:
        work[1] = (np.full((40, 40), np.nan), work[1][1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pliant.NotFitted)
        alone = [pliant.fit(model, image, start, jobs=1) for image, start in work]
    for jobs, block in ((1, 8), (2, 8), (3, 2)):
        count = len(work) if block == 2 else None
        together = list(fit_all(make_fitter(model, jobs=jobs), iter(work), count, block))
        assert [fit.status for fit in together] == [fit.status for fit in alone]
        for one, other in zip(alone, together, strict=True):
            assert_allclose(other.points, one.points, atol=1e-4)


@pytest.mark.parametrize("name", ["po-asy-gn", "po-inv-gn", "ssd-asy-gn-sch", "ssd-inv-n-sch"])
@pytest.mark.parametrize("sampling", [1.0, 0.5])
def test_a_model_without_any_appearance_does_not_raise(black, dataset, name, sampling):
    (fit,) = pliant.fit(black, [dataset[0]], [dataset[0].points()], algorithm=name, sampling=sampling)
    assert np.all(np.isfinite(fit.points))
    assert fit.appearance_parameters.shape == (0,)
