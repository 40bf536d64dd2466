"""Principal components: against the textbook, and streamed against exact."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.pca import (
    _BLOCK,
    PCA,
    Accumulator,
    Sketch,
    _shared_out,
    choose_modes,
    exact_pca,
    merged,
    noise_variance,
    pulled,
    refined,
    scatter_pca,
    variance_kept,
)


def samples(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Samples with a spectrum that falls like that of images, about a mean far from zero."""
    rng = np.random.default_rng(seed)
    deviations = 1.0 / np.arange(1, min(count, dimension) + 1) ** 0.8
    factors = np.linalg.qr(rng.normal(size=(dimension, len(deviations))))[0]
    return (5 + (rng.normal(size=(count, len(deviations))) * deviations) @ factors.T).astype(np.float32)


def collect(data: np.ndarray, capacity: int, modes: int | float) -> PCA:
    accumulator = Accumulator(data.shape[1], capacity)
    for sample in data:
        accumulator.add(sample)
    assert accumulator.exact == (len(data) < capacity)
    return accumulator.finish(modes)


def largest_angle(one: PCA, other: PCA, modes: int) -> float:
    """The largest principal angle between the spans of the leading modes, in degrees."""
    cosines = np.linalg.svd(one.components[:modes] @ other.components[:modes].T, compute_uv=False)
    return float(np.degrees(np.arccos(np.clip(cosines.min(), -1, 1))))


@pytest.mark.parametrize("shape", [(40, 300), (300, 40), (400, 20)])
def test_exact_components_are_those_of_the_covariance(shape):
    data = samples(*shape)
    pca = collect(data, shape[0] + 1, 0.95)
    covariance = np.cov(data.astype(np.float64), rowvar=False)
    values = np.linalg.eigvalsh(covariance)[::-1]
    assert_allclose(pca.eigenvalues, values[: pca.modes], rtol=1e-4)
    assert_allclose(pca.total_variance, np.trace(covariance), rtol=1e-5)
    assert_allclose(pca.mean, data.mean(axis=0, dtype=np.float64), atol=1e-5)
    assert_allclose(covariance @ pca.components.T, pca.components.T * pca.eigenvalues, atol=2e-5)
    assert pca.rank == min(shape[0] - 1, shape[1])
    assert pca.variance_kept >= 0.95


def test_components_are_orthonormal():
    pca = collect(samples(60, 5000), 61, 40)
    assert pca.modes == 40
    assert_allclose(pca.components @ pca.components.T, np.eye(40), atol=1e-5)


def test_streaming_agrees_with_exact():
    """A tenth of the samples in memory at a time: the leading modes span the same space."""
    data = samples(1000, 400)
    exact, streamed = collect(data, 1001, 20), collect(data, 100, 20)
    assert largest_angle(exact, streamed, 10) < 1.0
    assert_allclose(streamed.eigenvalues[:10], exact.eigenvalues[:10], rtol=2e-3)
    assert_allclose(streamed.mean, exact.mean, atol=1e-5)
    assert_allclose(streamed.total_variance, exact.total_variance, rtol=1e-5)
    assert_allclose(streamed.noise_variance, exact.noise_variance, rtol=1e-2)
    assert streamed.rank == exact.rank


def test_streaming_loses_nothing_while_the_summary_holds_the_rank():
    rng = np.random.default_rng(2)
    data = (rng.normal(size=(500, 12)) @ rng.normal(size=(12, 300)) + 3).astype(np.float32)
    exact, streamed = collect(data, 501, 12), collect(data, 60, 12)
    assert largest_angle(exact, streamed, 12) < 0.1
    assert_allclose(streamed.eigenvalues, exact.eigenvalues, rtol=1e-4)


@pytest.mark.parametrize("count", [2, 3, 30])
def test_three_rows_are_enough(count):
    """The least memory: a summary of one row, a new sample, and the shift between their means."""
    data = np.outer(np.random.default_rng(3).normal(size=count), np.arange(1, 9)).astype(np.float32) + 2
    exact, streamed = collect(data, count + 1, 1), collect(data, 3, 1)
    assert_allclose(streamed.eigenvalues, exact.eigenvalues, rtol=1e-4)
    assert_allclose(streamed.total_variance, exact.total_variance, rtol=1e-4)
    assert_allclose(streamed.mean, data.mean(axis=0), atol=1e-5)
    with pytest.raises(ValueError, match="a capacity of 2 rows is too small"):
        Accumulator(8, 2)


def test_streaming_follows_a_mean_that_drifts():
    """Each block is centred by its own mean: the shift between blocks is variance too."""
    data = samples(400, 50) + np.linspace(0, 4, 400, dtype=np.float32)[:, None]
    exact, streamed = collect(data, 401, 5), collect(data, 40, 5)
    assert_allclose(streamed.eigenvalues, exact.eigenvalues, rtol=1e-3)
    assert largest_angle(exact, streamed, 3) < 1.0


def test_memory_does_not_grow_with_the_number_of_samples():
    import tracemalloc

    def peak(count: int) -> int:
        rng = np.random.default_rng(0)
        tracemalloc.start()
        accumulator = Accumulator(5000, 50)
        for _ in range(count):
            accumulator.add(rng.normal(size=5000))
        accumulator.finish(10)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(1000) < 1.05 * peak(100)


def test_modes_by_share_are_as_few_as_possible():
    pca = collect(samples(100, 80), 101, 0.75)
    assert pca.variance_kept >= 0.75 > np.sum(pca.eigenvalues[:-1]) / pca.total_variance


def test_noise_variance_is_the_mean_of_the_discarded_eigenvalues():
    data = samples(50, 200)
    few, all_modes = collect(data, 51, 10), collect(data, 51, 1.0)
    assert_allclose(few.noise_variance, all_modes.eigenvalues[10:].sum() / (49 - 10), rtol=1e-4)
    assert all_modes.noise_variance < 1e-6


def test_the_last_mode_that_was_discarded_is_noise():
    assert noise_variance(np.array([3.0, 1.0]), 4.5, 3) == 0.5
    assert noise_variance(np.array([3.0, 1.0]), 4.5, 2) == 0


def test_leading_components_alone():
    pca = exact_pca(samples(30, 9).astype(np.float64))
    few = pca.truncated(2)
    assert_allclose(few.components, pca.components[:2])
    assert_allclose(few.eigenvalues, pca.eigenvalues[:2])
    assert (few.total_variance, few.rank) == (pca.total_variance, pca.rank)


def test_project_and_instance():
    pca = collect(samples(50, 200), 51, 10)
    parameters = np.random.default_rng(0).normal(size=(3, 10))
    assert_allclose(pca.project(pca.instance(parameters)), parameters, atol=1e-5)


def test_samples_that_are_all_the_same_have_no_modes():
    assert collect(np.ones((10, 30), dtype=np.float32), 11, 0.9).modes == 0


def test_one_sample_gets_a_sentence():
    accumulator = Accumulator(4, 8)
    accumulator.add(np.zeros(4))
    with pytest.raises(ValueError, match="at least two"):
        accumulator.finish(1)


@pytest.mark.parametrize("modes", [1.5, -1, 0.0, True])
def test_a_share_that_is_none_is_refused(modes):
    with pytest.raises(ValueError, match="appearance_modes"):
        collect(samples(10, 5), 11, modes)


@pytest.mark.parametrize("shape", [(40, 12), (8, 30)])
def test_small_samples_in_double_precision_are_those_of_the_covariance(shape):
    data = samples(*shape).astype(np.float64)
    pca = exact_pca(data)
    covariance = np.cov(data, rowvar=False)
    rank = min(shape[0] - 1, shape[1])
    assert pca.rank == pca.modes == rank
    assert_allclose(pca.eigenvalues, np.linalg.eigvalsh(covariance)[::-1][:rank], rtol=1e-9)
    assert_allclose(pca.total_variance, np.trace(covariance))
    assert_allclose(pca.mean, data.mean(axis=0))
    assert_allclose(covariance @ pca.components.T, pca.components.T * pca.eigenvalues, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 12), (8, 30)])
def test_sums_of_products_have_the_components_of_their_samples(shape):
    data = 0.01 * samples(*shape).astype(np.float64)
    data[:, 3] = 0.05
    exact, found = exact_pca(data), scatter_pca(len(data), data.sum(axis=0), data.T @ data)
    assert found.rank == exact.rank == min(shape[0] - 1, shape[1])
    assert found.eigenvalues.min() >= 0
    assert_allclose(found.eigenvalues, exact.eigenvalues, atol=1e-12)
    assert_allclose(found.total_variance, exact.total_variance)
    assert_allclose(found.mean, exact.mean)
    assert found.components.shape == exact.components.shape
    assert_allclose(found.components[:6], exact.components[:6], atol=1e-6)


def test_the_largest_entry_of_a_component_is_positive():
    """The sign is arbitrary: a file must not depend on it."""
    data = samples(30, 9)
    for pca in (
        exact_pca(data.astype(np.float64)),
        exact_pca(-data.astype(np.float64)),
        collect(-data, 31, 5),
    ):
        assert all(component[np.argmax(np.abs(component))] > 0 for component in pca.components)


def test_the_share_that_is_kept_lies_between_none_and_all():
    assert variance_kept(np.array([3.0, 1.0]), 8.0) == 0.5
    assert variance_kept(np.array([3.0, 1.0]), 4.0 * (1 - 1e-9)) == 1.0
    assert variance_kept(np.array([0.25]), 0.5) == 0.5
    assert variance_kept(np.zeros(0), 0.0) == 1.0
    assert choose_modes(np.zeros(3), 0.0, 0.9, "modes") == 0
    assert collect(samples(20, 6), 21, 0).modes == 0


def test_a_variance_within_rounding_of_zero_has_no_mode():
    data = np.outer(np.random.default_rng(0).normal(size=20), np.ones(6))
    data[:, 0] += np.random.default_rng(1).normal(size=20) * 1e-5
    for unit in (1e-3, 1e3):
        assert collect(unit * data.astype(np.float32), 21, 1.0).modes == 1
        assert collect(unit * data.astype(np.float32), 21, 6).modes == 1
    data[:, 0] += np.random.default_rng(1).normal(size=20) * 1e-2
    assert collect(1e3 * data.astype(np.float32), 21, 1.0).modes == 2


def test_there_are_never_more_modes_than_the_rank():
    """Far from zero, the mean is rounded too: what all samples are off by is no mode."""
    data = 1000 + 0.01 * np.random.default_rng(0).normal(size=(4, 50))
    assert collect(data.astype(np.float32), 5, 50).modes == 3


def test_blocks_are_worked_on_at_the_same_time_and_kept_in_order():
    """Each waits for the other: one thread alone would never come to an end."""
    both = threading.Barrier(2)

    def work(block):
        both.wait(timeout=10)
        return block.start, threading.current_thread() is threading.main_thread()

    assert list(_shared_out(work, 2 * _BLOCK, 2)) == [(0, False), (_BLOCK, False)]
    both = threading.Barrier(1)
    assert list(_shared_out(work, _BLOCK + 1, 1)) == [(0, True), (_BLOCK, True)]


def test_modes_by_share_ask_for_no_less_than_the_share():
    """But for the last rounding error: a share that is just reached needs no further mode."""
    eigenvalues = np.array([0.5, 0.25, 0.125, 0.125])
    assert [choose_modes(eigenvalues, 1.0, share, "modes") for share in (0.5, 0.75, 0.875, 1.0)] == [
        1,
        2,
        3,
        4,
    ]
    assert [choose_modes(eigenvalues, 1.0, share + 1e-6, "modes") for share in (0.5, 0.75)] == [2, 3]
    assert choose_modes(eigenvalues, 1.0 + 1e-12, 1.0, "modes") == 4


def test_a_bound_on_observations_bounds_the_rank():
    pca = exact_pca(samples(40, 30).astype(np.float64))
    few = replace(pca, components=pca.components[:5], eigenvalues=pca.eigenvalues[:5])
    assert few.observed(7.4).rank == 12
    assert few.observed(0.2).rank == 6
    assert few.observed(1e6).rank == few.rank == 30


def test_the_scatter_of_a_stream_is_that_of_all_samples():
    """Whatever had to be summarised on the way: nothing of the total variance is lost."""
    data = samples(60, 20)
    whole = np.sum(np.var(data.astype(np.float64), axis=0, ddof=1))
    for capacity in (5, 13, 61):
        assert collect(data, capacity, 3).total_variance == pytest.approx(whole, rel=1e-4)


def test_a_sketch_of_one_sample_gets_a_sentence():
    accumulator = Accumulator(4, 5)
    accumulator.add(np.ones(4))
    with pytest.raises(ValueError, match="at least two samples"):
        accumulator.sketch(5).finish(1)


class TestSketches:
    def accumulated(self, data, capacity):
        accumulator = Accumulator(data.shape[1], capacity)
        for sample in data:
            accumulator.add(sample)
        return accumulator

    @pytest.mark.parametrize(("capacity", "most"), [(6, 3), (6, 4), (6, 5), (9, 5), (30, 5)])
    def test_there_are_no_more_rows_than_asked_for(self, capacity, most):
        for count in range(1, 21):
            assert len(self.accumulated(samples(20, 7)[:count], capacity).sketch(most).rows) <= most

    def test_samples_that_fit_are_kept_as_they_are_but_for_their_mean(self):
        data = samples(6, 7)
        centred = data - data.mean(axis=0, dtype=np.float64).astype(np.float32)
        for most in (6, 7):
            np.testing.assert_array_equal(self.accumulated(data, 9).sketch(most).rows, centred)

    def test_rows_of_two_sketches_that_fit_are_kept_as_they_are(self):
        """Two samples and three, and the shift between their means: of the two bounds, the larger one holds."""
        data = samples(5, 7)
        one, other = self.accumulated(data[:2], 9).sketch(3), self.accumulated(data[2:], 9).sketch(6)
        for pair in ((one, other), (other, one)):
            both = merged(*pair)
            assert both.most == 6
            assert len(both.rows) == 6
            np.testing.assert_array_equal(both.rows[:5], np.concatenate([pair[0].rows, pair[1].rows]))

    def test_samples_pull_components_by_their_scatter(self):
        """Also some of the samples, whose own mean is another."""
        data = samples(30, 9)
        rough = exact_pca(data.astype(np.float64)).truncated(3)
        some = data[:7] - rough.mean
        assert_allclose(pulled(rough, data[:7]), rough.components @ some.T @ some, atol=1e-4)

    @pytest.mark.parametrize("unit", [1e-5, 1.0, 1e3])
    def test_what_all_samples_pull_tells_their_scatter(self, unit):
        """Three axes with a scatter of 16, 4 and 4e-8: the last one is rounding, in any unit."""
        data = np.array([(2, 1, 1e-4), (-2, 1, -1e-4), (2, -1, -1e-4), (-2, -1, 1e-4)])
        data = (unit * data).astype(np.float32)
        axes = PCA(np.zeros(3), np.eye(3, dtype=np.float32), np.ones(3), 3.0, 3)
        sketch = Sketch(4, np.zeros(3), 20.0 * unit**2, data[:2], 4)
        found = refined(sketch, axes, pulled(axes, data))
        assert found.rows.shape == (2, 3)
        assert_allclose(found.rows.T @ found.rows / unit**2, np.diag([16.0, 4, 0]), atol=1e-3)
