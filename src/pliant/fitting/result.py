"""What a fit found, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float32, Float64
from pliant.experts.sightings import Sightings
from pliant.experts.visibility import hidden
from pliant.fitting.doubt import doubtful_landmarks, landmark_spread
from pliant.fitting.status import Status
from pliant.inputs import ImageSource, name_of, read
from pliant.model import Model
from pliant.shape import shape_size
from pliant.shape.facing import flipped
from pliant.trust.confidence import DEFAULT_BOUND, Evidence, require_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LevelTrace(Concise):
    """What happened at one level of a fit.

    Attributes
    ----------
    scale : float
        The scale of the level; 1 is the finest.
    costs : ndarray, shape (k + 1,)
        The cost at the start and after each of k iterations.
    points : ndarray, shape (k + 1, v, 2)
        The landmarks in the image at the same moments.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1)
    >>> finest = found.trace[-1]
    >>> finest.costs.shape[0] == finest.points.shape[0]
    True

    """

    scale: float
    costs: Float64
    points: Float64


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Concise):
    """Landmarks `points (v, 2)` in the image, and everything else that is known about one fit.

    Attributes
    ----------
    model : Model
        The model that was fitted.
    algorithm : str
        The name of the algorithm.
    start : ndarray, shape (v, 2)
        The landmarks where the fit began; nan if it failed without a usable one.
    points : ndarray, shape (v, 2)
        The landmarks where the fit ended, as x and y in pixels of the image. If the model has an expert, they may
        differ from every shape of the model: they are the likeliest points given the fitted shape and what the
        expert saw. All are nan if the status is `failed`.
    status : Status
        How the fit ended.
    reason : str
        A sentence that says why the fit failed; empty if it did not.
    cost : float
        The cost at the finest level for `shape_parameters`, including the expert's term.
    mismatch : float
        The part of the image that the model cannot explain: 0 if it explains everything, about 1 where there is no
        object, and nan if the fit was lost at a coarser level.
    iterations : int
        The number of iterations at all levels together.
    seconds : float
        How long the fit took.
    shape_parameters : ndarray, shape (n,)
        The parameters of the shape at the finest level. The first four are the similarity.
    appearance_parameters : ndarray, shape (m,)
        The parameters of the appearance at the finest level.
    trace : tuple of LevelTrace
        Every iteration, level by level; empty with `trace=False`.
    evidence : Evidence or None
        The measurements that `confidence` is computed from.
    covariance : ndarray, shape (v, 2, 2), or None
        How uncertain each landmark is, in square pixels of the image. If the model is not calibrated, this is the
        covariance of Gauss-Newton alone, which is far too small.
    others : tuple of FitResult
        The fits of further objects in the same image: the most confident first, or in the order of the starts if
        you gave them.
    mirrored : bool
        Whether the object faces the other way than the model. The landmarks are those of the image all the same;
        the parameters are those of the mirror image.
    sightings : Sightings or None
        Where the expert saw the landmarks in its last look, in the image. None if there is no expert or it saw
        nothing.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1)
    >>> found.ok, found.points.shape, found.shape_parameters.shape
    (True, (68, 2), (9,))
    >>> len(found.objects), found.hidden is None
    (1, True)

    This model is not calibrated, so nobody knows which landmarks are in doubt:

    >>> found.spread is None, found.doubtful is None
    (True, True)

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
        """Whether the fit ended well: it converged, or it used all of its iterations."""
        return self.status.ok

    @property
    def objects(self) -> tuple[FitResult, ...]:
        """All fits to the image, one for each object: this one and the others."""
        return (self, *self.others)

    @property
    def hidden(self) -> NDArray[np.bool_] | None:
        """Which landmarks `(v,)` the expert does not see, for instance because something covers them.

        The model infers their points from the other landmarks. None if nothing can tell: the model has no expert,
        or it is not calibrated.
        """
        known = self.model.confidence
        if self.sightings is None or known is None or known.usual_deviations is None:
            return None
        return np.asarray(hidden(self.sightings, shape_size(self.points)[None], known.usual_deviations)[0])

    @property
    def spread(self) -> Float64 | None:
        """How far off each landmark `(v,)` may be in x or in y: a standard deviation in pixels.

        It is the square root of the mean of both variances. The distance from the true place is about 1.25 times as
        large on average. It depends mostly on the landmark and little on the image. Expect errors to be somewhat
        larger. None without calibration.
        """
        if self.covariance is None or self.model.confidence is None:
            return None
        return landmark_spread(self.covariance)

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which landmarks `(v,)` are hidden, or have a spread above 0.03 of the object's size.

        None without calibration.
        """
        return doubtful_landmarks(self.points, self.spread, self.hidden)

    def confidence(self, bound: float = DEFAULT_BOUND) -> float:
        """Return the probability that the error of the fit is below a bound.

        Parameters
        ----------
        bound : float
            The error, as a share of the object's size: 0.04 is 4 %. It must be above 0 and below 1.

        Returns
        -------
        float
            0 for a fit that was lost or failed; nan if the model is not calibrated (see `pliant.calibrate`) or the
            fit collected no evidence.

        Raises
        ------
        ValueError
            If the bound is no such share.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> sample = pliant.load_dataset("photographs/")[0]
        >>> pliant.fit(model, sample, sample.points() + 1).confidence()  # this model is not calibrated
        nan

        """
        require_bound(bound)
        if self.status.lost or self.status is Status.FAILED:
            return 0.0
        if self.model.confidence is None or self.evidence is None:
            return float("nan")
        return self.model.confidence.probability(self.evidence, bound)

    def reconstruction(self, image: ImageSource) -> Float32:
        """Return the image with the model's version of the object drawn over it, as `Model.reconstruct` does.

        Parameters
        ----------
        image : str, Path, Sample or array, shape (h, w) or (h, w, 3)
            The image that was fitted.

        Returns
        -------
        ndarray, shape (h, w, c)
            Black is 0 and white is 1; there are as many channels as the model has.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> sample = pliant.load_dataset("photographs/")[0]
        >>> pliant.fit(model, sample, sample.points() + 1).reconstruction(sample).shape
        (96, 96, 3)

        """
        return self.model.reconstruct(read(image), self.points)

    def plot(self, image: ImageSource) -> Figure:
        """Draw the start, the fit, the reconstruction, and the cost at every iteration.

        The title has the name of the image, if it has one, and the confidence. Landmarks in doubt are rings.

        Parameters
        ----------
        image : str, Path, Sample or array, shape (h, w) or (h, w, 3)
            The image that was fitted.

        Returns
        -------
        matplotlib.figure.Figure
            The same figure as `pliant.plots.plot_fit` draws.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> sample = pliant.load_dataset("photographs/")[0]
        >>> figure = pliant.fit(model, sample, sample.points() + 1).plot(sample)
        >>> figure.savefig("fit.png")

        """
        from pliant.plots.fits import plot_fit

        return plot_fit(self, read(image), name=name_of(image))


def failed(model: Model, algorithm: str, start: Float64 | None, reason: str) -> FitResult:
    """The result for an image or a start that could not be used: it has no points, but the start if it is one."""
    unknown = np.full((model.landmarks, 2), np.nan)
    return FitResult(
        model=model,
        algorithm=algorithm,
        start=unknown if start is None else start,
        points=unknown,
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
