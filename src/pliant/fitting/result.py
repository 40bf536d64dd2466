"""What a fit found, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float32, Float64
from pliant.experts.sightings import Sightings
from pliant.experts.visibility import hidden
from pliant.fitting.status import Status
from pliant.inputs import ImageSource, read
from pliant.model import Model
from pliant.shape import shape_size
from pliant.shape.facing import flipped
from pliant.trust.confidence import (
    DEFAULT_BOUND,
    Evidence,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LevelTrace(Concise):
    """Cost `(k + 1,)` and points `(k + 1, v, 2)` in the image at the start and after each iteration of a level."""

    scale: float
    costs: Float64
    points: Float64


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Concise):
    """Landmarks `points (v, 2)` in the image, and all else that is known about one fit.

    Attributes
    ----------
    model, algorithm
        What was fitted, and the name of the algorithm.
    start, points
        Landmarks `(v, 2)` where the fit began, and where it ended, in the image. Where an expert has seen them,
        they may leave the shapes that the model has: they are the likeliest given the fitted shape and what was
        seen.
    status, reason
        How it ended, and a sentence if it failed.
    cost
        That of the finest level at `shape_parameters`, with what an expert adds to it.
    mismatch
        What the model cannot explain there over what it sees: 0 if it explains all, about 1 where there is nothing,
        not a number if the fit was lost at a coarser level.
    iterations, seconds
        How many there were at all levels together, and how long they took.
    shape_parameters, appearance_parameters
        `(n,)` and `(m,)` at the finest level; the first four of the shape are its similarity.
    trace
        Every iteration, a `LevelTrace` for each level, unless it was not asked for.
    evidence
        What speaks for the fit, if it was asked for.
    covariance
        `(v, 2, 2)`: where the landmarks may be, in square pixels of the image, if the model was calibrated; without
        that, it is Gauss-Newton's alone, too sure by far.
    others
        Fits of further objects in the same image: those with more confidence first, or in the order of their
        starts if these were given.
    sightings
        Where an expert has seen the landmarks at last, and with which precision: of one object, in the image. None
        without an expert, or where it has seen nothing.
    mirrored
        Whether the object faces the other way than the model does. Landmarks are those of the image all the same;
        the parameters are those of its mirror image.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1)
    >>> found.ok, found.points.shape, found.shape_parameters.shape
    (True, (68, 2), (9,))
    >>> found.reconstruction(sample).shape
    (96, 96, 3)

    """

    model: Model
    algorithm: str
    start: Float64
    points: Float64
    status: Status
    reason: str
    cost: float
    mismatch: float
    iterations: int
    seconds: float
    shape_parameters: Float64
    appearance_parameters: Float64
    trace: tuple[LevelTrace, ...]
    evidence: Evidence | None = None
    covariance: Float64 | None = None
    others: tuple[FitResult, ...] = ()
    mirrored: bool = False
    sightings: Sightings | None = None

    def __repr__(self) -> str:
        if self.status is Status.FAILED:
            return f"FitResult({self.status}: {self.reason})"
        steps = "1 iteration" if self.iterations == 1 else f"{self.iterations} iterations"
        trust = self.confidence()
        sure = "" if np.isnan(trust) else f", confidence {trust:.2f}"
        more = f", {len(self.others)} more in the image" if self.others else ""
        return f"FitResult({self.status}, {len(self.points)} points{sure}, {steps}{more})"

    def _repr_html_(self) -> str:
        from pliant.plots.notebook import fit_html

        return fit_html(self)

    @property
    def ok(self) -> bool:
        """Whether the fit ended as fits should: it converged, or used all of its iterations."""
        return self.status.ok

    @property
    def objects(self) -> tuple[FitResult, ...]:
        """All fits to the image, each of an object of its own: this one and the others."""
        return (self, *self.others)

    @property
    def hidden(self) -> NDArray[np.bool_] | None:
        """Which landmarks `(v,)` an expert does not see: behind something, for instance.

        Their points are what the model makes of the others. None if nobody can tell: without an expert, or if the
        model was not calibrated.
        """
        known = self.model.confidence
        if self.sightings is None or known is None or known.usual_deviations is None:
            return None
        return np.asarray(hidden(self.sightings, shape_size(self.points)[None], known.usual_deviations)[0])

    def confidence(self, bound: float = DEFAULT_BOUND) -> float:
        """The probability that the error is below `bound`, a share of the object's size.

        It is zero for a fit that was lost or failed, and not a number if the model was not calibrated
        (`pliant.calibrate`) or the fit was made without evidence.
        """
        if self.status.lost or self.status is Status.FAILED:
            return 0.0
        if self.model.confidence is None or self.evidence is None:
            return float("nan")
        return self.model.confidence.probability(self.evidence, bound)

    def reconstruction(self, image: ImageSource) -> Float32:
        """The image with the model's idea of the object drawn over it at the landmarks, as in `Model.reconstruct`.

        `image` is the one that was fitted: a file, a sample, or an array `(h, w)` or `(h, w, 3)`.
        """
        return self.model.reconstruct(read(image), self.points)

    def plot(self, image: ImageSource) -> Figure:
        """A figure of the start, the fit, the reconstruction, and the cost at every iteration.

        `image` is the one that was fitted: a file, a sample, or an array `(h, w)` or `(h, w, 3)`.
        """
        from pliant.plots.fits import plot_fit

        return plot_fit(self, read(image))


def failed(model: Model, algorithm: str, start: Float64 | None, reason: str) -> FitResult:
    """The result for an image or a start that could not be used."""
    unknown = np.full((model.landmarks, 2), np.nan)
    begin = unknown if start is None else start
    return FitResult(
        model=model,
        algorithm=algorithm,
        start=begin,
        points=begin,
        status=Status.FAILED,
        reason=reason,
        cost=float("nan"),
        mismatch=float("nan"),
        iterations=0,
        seconds=0.0,
        shape_parameters=np.full(model.levels[-1].shape.parameters, np.nan),
        appearance_parameters=np.full(model.levels[-1].appearance.modes, np.nan),
        trace=(),
    )


def as_in_the_image(result: FitResult, width: int) -> FitResult:
    """A fit to the mirror image of an image that is `width` wide, as it is in the image."""
    across = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return replace(
        result,
        start=flipped(result.start, width),
        points=flipped(result.points, width),
        trace=tuple(replace(level, points=flipped(level.points, width)) for level in result.trace),
        covariance=None if result.covariance is None else result.covariance * across,
        mirrored=True,
        sightings=None if result.sightings is None else result.sightings.mirrored(width),
    )
