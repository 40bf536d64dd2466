"""Principal components: exact while the samples fit in memory, streaming in one pass beyond that.

Both are one algorithm. The accumulator owns a buffer of rows. While the samples fit in it, the
result is exact; when it is full, its rows are replaced by the fewer rows that best keep their
scatter matrix, and more samples follow. Rows are float32, and so are products over some thousands of
columns; sums of these, and all that is decomposed, are float64.

Samples in several places are sketched there, and sketches are merged two by two in the same way: nobody ever has
more rows than two sketches. What merging has lost of the later components, a second pass over the samples brings
back: it sums what they pull the components to, which is one step of a subspace iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from pliant.arrays import Concise, Float32, Float64, Floats, readonly

Result = TypeVar("Result")

_BLOCK = 4096
"""Columns over which products are summed in float32."""

_RESOLVED = 1e-7
"""The share of the largest variance below which a variance is rounding: four times what such sums were off by."""


@dataclass(frozen=True, eq=False, repr=False)
class PCA(Concise):
    """A mean, orthonormal components and the variances along them.

    `mean (d,)`, `components (m, d)`, `eigenvalues (m,)` from large to small; `total_variance` is the
    sum over **all** eigenvalues and `rank` the number of independent ones, whether they were kept or not.
    """

    mean: Floats
    components: Floats
    eigenvalues: Float64
    total_variance: float
    rank: int

    @property
    def modes(self) -> int:
        return len(self.eigenvalues)

    @property
    def noise_variance(self) -> float:
        return noise_variance(self.eigenvalues, self.total_variance, self.rank)

    @property
    def variance_kept(self) -> float:
        return variance_kept(self.eigenvalues, self.total_variance)

    def truncated(self, modes: int | float, what: str = "appearance_modes") -> PCA:
        """The leading components alone, chosen by count or by the share of variance they explain."""
        kept = choose_modes(self.eigenvalues, self.total_variance, modes, what)
        return replace(
            self,
            components=readonly(np.ascontiguousarray(self.components[:kept])),
            eigenvalues=readonly(self.eigenvalues[:kept]),
        )

    def observed(self, most: float) -> PCA:
        """The same, where a sample has at most so many independent observations beside its components.

        Neighbouring pixels err together. Without a bound, every further sample would make the noise smaller,
        and with it the weight of any prior.
        """
        return replace(self, rank=min(self.rank, self.modes + max(1, round(most))))

    def project(self, samples: Floats) -> Float64:
        """Parameters `(..., m)` of samples `(..., d)`: A'(x - mean)."""
        return np.asarray((samples - self.mean) @ self.components.T, dtype=np.float64)

    def instance(self, parameters: Floats) -> Float64:
        """Samples `(..., d)` with parameters `(..., m)`: mean + A c."""
        return np.asarray(self.mean + parameters @ self.components, dtype=np.float64)  # eq. 4, 5


def noise_variance(eigenvalues: Float64, total_variance: float, rank: int) -> float:
    """Average of the discarded eigenvalues, as in the paper's footnote on noise.

    The paper does not say how many there are to average over. As in its authors' code, that is how
    many the data can have (`rank`: one less than the samples, or the dimensions, if they are fewer).
    """
    discarded = rank - len(eigenvalues)
    # eq. 8, 9
    return max(total_variance - float(np.sum(eigenvalues)), 0.0) / discarded if discarded > 0 else 0.0


def variance_kept(eigenvalues: Float64, total_variance: float) -> float:
    """Share of the total variance that the kept modes explain, from 0 to 1."""
    return min(float(np.sum(eigenvalues)) / total_variance, 1.0) if total_variance > 0 else 1.0


def choose_modes(eigenvalues: Float64, total_variance: float, modes: int | float, what: str) -> int:
    """How many modes to keep: an int counts them, a float in (0, 1] is the share of variance to explain."""
    available = len(eigenvalues)
    if isinstance(modes, bool) or modes < 0:
        raise ValueError(
            f"{what} must be a count (3) or a share of the variance between 0 and 1 (0.75), not {modes!r}."
        )
    if isinstance(modes, int):
        return min(modes, available)
    if not 0 < modes <= 1:
        raise ValueError(
            f"{what} = {modes!r}: a share of the variance must be between 0 and 1 (a count of modes is an "
            "int)."
        )
    # The last rounding error must not cost a whole mode (1.0 would otherwise never be reached).
    if total_variance <= 0:
        return 0
    explained = np.cumsum(eigenvalues) / total_variance
    return min(int(np.searchsorted(explained, modes - 1e-9)) + 1, available)


class Accumulator:
    """Collects samples `(d,)` in at most `capacity` rows of float32, and makes a `PCA` of them.

    Rows `[0, _summary)` hold a summary Y of all earlier samples, Y'Y being (nearly) their scatter
    about their mean; rows `[_summary, _used)` hold samples as they came. Blocks of columns are shared out among
    `threads`, which change no bit of the result.
    """

    def __init__(self, dimension: int, capacity: int, threads: int = 1) -> None:
        # A summary, a new sample and the shift between their means: with fewer rows nothing can be streamed.
        if capacity < 3:
            raise ValueError(
                f"a capacity of {capacity} rows is too small for principal components: give at least 3."
            )
        self._rows: Float32 = np.empty((capacity, dimension), dtype=np.float32)
        self._threads = threads
        self._used = 0
        self._summary = 0
        self._count = 0
        self._mean: Float64 = np.zeros(dimension)
        self._scatter = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing had to be summarised away so far."""
        return self._summary == 0

    def add(self, sample: Floats) -> None:
        # One row stays free for the shift between the means of the old and the new samples.
        if self._used == len(self._rows) - 1:
            self._summarise(len(self._rows) // 2)
        self._rows[self._used] = sample
        self._used += 1

    def finish(self, modes: int | float, what: str = "appearance_modes") -> PCA:
        """The principal components; the accumulator is spent afterwards."""
        _check_count(self._count + self._used - self._summary)
        decomposed = self._merge()
        return _components(self._seen(), *decomposed, modes, what)

    def sketch(self, most: int) -> Sketch:
        """What is known of the samples so far, at least one, in at most so many rows.

        The accumulator is spent afterwards.
        """
        fits = self._used + bool(self._count) <= most
        if fits:
            first, new = self._join()
            for block in _blocks(self._rows.shape[1]):
                part = self._rows[first : first + new, block].astype(np.float64)
                self._scatter += float(np.sum(part**2))
        else:
            _, rotation = self._merge()
            self._turn(rotation, most)
        return replace(self._seen(), rows=self._rows[: self._used].copy(), most=most)

    def _seen(self) -> Sketch:
        return Sketch(self._count, self._mean, self._scatter, self._rows[: self._used], len(self._rows))

    def _summarise(self, keep: int) -> None:
        _, rotation = self._merge()
        self._turn(rotation, keep)
        self._summary = keep

    def _turn(self, rotation: Float64, keep: int) -> None:
        _turned(self._rows[: self._used], rotation[:, :keep], self._rows[:keep], self._threads)
        self._used = keep

    def _merge(self) -> tuple[Float64, Float64]:
        """The new rows joined with the summary; eigenvalues and eigenvectors of the rows' Gram."""
        first, new = self._join()
        gram = _gram(self._rows[: self._used], self._threads)
        self._scatter += float(np.trace(gram[first : first + new, first : first + new]))
        return _decomposed(gram)

    def _join(self) -> tuple[int, int]:
        """Centre the new rows and join them with the summary; the first of them, and how many they are.

        The scatter of a union is the sum of both scatters and of the outer product of the difference
        of their means, times n1 n2 / (n1 + n2). That difference becomes one more row (Ross et al.).
        """
        new = self._used - self._summary
        mean = np.zeros_like(self._mean)
        for block in _blocks(self._rows.shape[1]):
            mean[block] = self._rows[self._summary : self._used, block].mean(axis=0, dtype=np.float64)
        self._rows[self._summary : self._used] -= mean.astype(np.float32)
        if self._count:
            weight = np.sqrt(self._count * new / (self._count + new))
            shift = weight * (self._mean - mean)
            self._rows[self._used] = shift
            self._scatter += float(shift @ shift)
            self._used += 1
        self._mean += (mean - self._mean) * (new / (self._count + new))
        self._count += new
        return self._summary, new


@dataclass(frozen=True, eq=False, repr=False)
class Sketch(Concise):
    """What is known of `count` samples: `mean (d,)`, and `rows (r, d)` whose scatter Y'Y is nearly theirs.

    `scatter` is the trace of theirs, of which nothing is lost; `most` is how many rows there may be. As long as
    there are as many as samples, nothing else is lost either.
    """

    count: int
    mean: Float64
    scatter: float
    rows: Float32
    most: int

    def finish(self, modes: int | float, what: str = "appearance_modes") -> PCA:
        """The principal components of the samples."""
        _check_count(self.count)
        return _components(self, *_decomposed(_gram(self.rows)), modes, what)


def merged(one: Sketch, other: Sketch) -> Sketch:
    """The sketch of the samples of both.

    The scatter of a union is the sum of both scatters, and of the difference of the means as one more row.
    """
    count = one.count + other.count
    shift = np.sqrt(one.count * other.count / count) * (one.mean - other.mean)
    rows = np.concatenate([one.rows, other.rows, shift[None].astype(np.float32)])
    most = max(one.most, other.most)
    if len(rows) > most:
        _, rotation = _decomposed(_gram(rows))
        fewer = np.empty((most, rows.shape[1]), dtype=np.float32)
        _turned(rows, rotation[:, :most], fewer)
        rows = fewer
    return Sketch(
        count=count,
        mean=one.mean + (other.mean - one.mean) * (other.count / count),
        scatter=one.scatter + other.scatter + float(shift @ shift),
        rows=rows,
        most=most,
    )


def pulled(rough: PCA, samples: Float32, threads: int = 1) -> Float32:
    """C A' `(m, d)`, with components A and the scatter C of samples `(k, d)` about the mean of `rough`."""
    centred = np.asarray(samples - rough.mean, dtype=np.float32)
    along = np.zeros((len(samples), rough.modes))

    def one(block: slice) -> Float32:
        return np.asarray(centred[:, block] @ rough.components[:, block].T)

    for product in _shared_out(one, samples.shape[1], threads):
        along += product
    found = np.empty(rough.components.shape, dtype=np.float32)
    _turned(centred, along, found, threads)
    return found


def refined(sketch: Sketch, rough: PCA, pull: Float32) -> Sketch:
    """A sketch of the same samples with what all of them pull the components of its `rough` PCA to `(m, d)`.

    With Z = C A', the scatter is nearly Z' (A Z')^-1 Z: what is between the components that are kept and those that
    were lost along the way is in Z (Nystroem's approximation). It is far closer than the sketch that A is from.
    """
    among = np.zeros((rough.modes, rough.modes))
    for block in _blocks(pull.shape[1]):
        among += pull[:, block] @ rough.components[:, block].T
    variances, vectors = _decomposed((among + among.T) / 2)
    known = variances > _RESOLVED * max(float(np.max(variances, initial=0.0)), 1e-300)
    rows = np.empty((int(np.sum(known)), pull.shape[1]), dtype=np.float32)
    _turned(pull, vectors[:, known] / np.sqrt(variances[known]), rows)
    return replace(sketch, rows=rows)


def _check_count(count: int) -> None:
    if count < 2:
        raise ValueError("principal components need at least two samples.")


def _components(sketch: Sketch, variances: Float64, rotation: Float64, modes: int | float, what: str) -> PCA:
    """Principal components of a sketch whose rows' Gram was decomposed."""
    count, dimension = sketch.count, sketch.rows.shape[1]
    rank = min(count - 1, dimension)
    eigenvalues = np.clip(variances[:rank], 0, None) / (count - 1)  # eq. 9
    total = sketch.scatter / (count - 1)
    kept = choose_modes(eigenvalues, total, modes, what)
    # A variance within rounding of zero has no direction of its own.
    kept = min(kept, int(np.sum(eigenvalues > _RESOLVED * max(eigenvalues[0], 1e-300))))
    scale = 1.0 / np.sqrt(eigenvalues[:kept] * (count - 1))
    components = np.empty((kept, dimension), dtype=np.float32)
    _turned(sketch.rows, rotation[:, :kept] * scale, components)
    _fix_signs(components)
    return PCA(
        readonly(sketch.mean.astype(np.float32)),
        readonly(components),
        readonly(eigenvalues[:kept]),
        float(total),
        rank,
    )


def _gram(rows: Float32, threads: int = 1) -> Float64:
    """Products of rows `(r, d)` with each other `(r, r)`."""

    def one(block: slice) -> Float32:
        part = np.ascontiguousarray(rows[:, block])
        return np.asarray(part @ part.T)

    gram = np.zeros((len(rows), len(rows)))
    for product in _shared_out(one, rows.shape[1], threads):
        gram += product
    return gram


def _decomposed(gram: Float64) -> tuple[Float64, Float64]:
    """Eigenvalues `(r,)`, from large to small, and eigenvectors `(r, r)` side by side."""
    variances, vectors = np.linalg.eigh(gram)
    return variances[::-1], vectors[:, ::-1]


def _turned(rows: Float32, rotation: Float64, into: Float32, threads: int = 1) -> None:
    """Sums of rows `(r, d)` with the weights `(r, k)`, written to `(k, d)`, which may be the first of the rows."""
    turn = rotation.T.astype(np.float32)

    def one(block: slice) -> None:
        into[:, block] = turn @ rows[:, block]

    for _ in _shared_out(one, rows.shape[1], threads):
        pass


def _shared_out(work: Callable[[slice], Result], columns: int, threads: int) -> Iterator[Result]:
    """What the work makes of each block of columns, in their order."""
    if threads == 1:
        yield from map(work, _blocks(columns))
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        yield from pool.map(work, _blocks(columns))


def _blocks(columns: int) -> Iterator[slice]:
    for start in range(0, columns, _BLOCK):
        yield slice(start, start + _BLOCK)


def exact_pca(samples: Floats) -> PCA:
    """All principal components of samples `(k, d)`, float64 throughout: for small d (shapes)."""
    count, dimension = samples.shape
    mean = samples.mean(axis=0)
    _, singular, components = np.linalg.svd(samples - mean, full_matrices=False)
    rank = min(count - 1, dimension)
    eigenvalues = singular[:rank] ** 2 / (count - 1)  # eq. 8
    total = float(np.sum(eigenvalues))
    components = components[:rank].copy()
    _fix_signs(components)
    return PCA(readonly(mean), readonly(components), readonly(eigenvalues), total, rank)


def scatter_pca(count: int, total: Float64, products: Float64) -> PCA:
    """All principal components of `count` samples with this sum `(d,)` and sum of products `(d, d)`."""
    mean = total / count
    variances, vectors = _decomposed(products - count * np.outer(mean, mean))
    rank = min(count - 1, len(mean))
    eigenvalues = np.clip(variances[:rank], 0, None) / (count - 1)  # eq. 8
    components = np.ascontiguousarray(vectors[:, :rank].T)
    _fix_signs(components)
    return PCA(readonly(mean), readonly(components), readonly(eigenvalues), float(np.sum(eigenvalues)), rank)


def _fix_signs(components: Floats) -> None:
    """Turn each component so that its largest entry is positive: the sign is arbitrary, the file is not."""
    for component in components:
        if component[np.argmax(np.abs(component))] < 0:
            component *= -1
