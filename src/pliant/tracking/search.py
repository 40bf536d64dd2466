"""Looking for objects in a frame as `fit` does: the cheapest way first, beside those that are followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult
from pliant.inputs import groups_of
from pliant.objects import has_room, is_same_object
from pliant.starts.candidates import start_candidates
from pliant.starts.choice import Chain, Way
from pliant.tracking.belief import Belief

Find = Callable[[Image], Floats | None]
"""From an image to starts: a box `(4,)` or a shape `(v, 2)`, boxes of several objects `(k, 4)` with the best first,
or tries for one object `(k, v, 2)`.

None, no boxes, or a ValueError: there is nothing."""


@dataclass(frozen=True)
class Search:
    """How objects are looked for: with the fitter and the ways of `fit`, and what is believed.

    `near` is the fitter for places where they were.
    """

    fitter: Fitter
    near: Fitter
    chain: Chain
    belief: Belief

    def beside_others(self) -> Search:
        """The same in the first way that may find several, for looks beside objects that are followed."""
        ways = tuple(way for way in self.chain.ways if way.several)
        return replace(self, chain=Chain(ways[:1]))

    def starting(self, places: Floats) -> Search:
        """The same, looking at given places alone."""
        return replace(self, chain=Chain((given(lambda image: places),)))

    def __call__(
        self, image: Image, known: Sequence[FitResult], last: Sequence[Float64], most: int | None
    ) -> tuple[list[FitResult], str]:
        """Up to `most` objects that are not `known`, in the order of their starts, and why there are no more.

        They may be where others were `last`: what was hidden is often there, whatever a detector says. But nothing
        else speaks for that place, and a fit there must be sure.
        """
        found: list[FitResult] = []
        reasons: list[str] = []
        if last:
            near, _ = self._fits(self.near, image, list(last), known)
            found = [fit for fit in near if self.belief.is_sure(fit)]
        for way in self.chain.ways:
            # What is not sure is no reason to stop, nor does it keep a better fit from its place.
            sure = [fit for fit in found if self.belief.is_sure(fit)]
            if self._is_enough(image, [*known, *sure], len(sure), most):
                break
            if way.several or not (known or sure):
                try:
                    more, why = self._fits(self.fitter, image, way.find(image), [*known, *sure])
                    found, reasons = self._distinct([*found, *more], known), reasons + why
                except ValueError as error:
                    reasons.append(str(error))
        reasons.append("what was found does not look like the object.")
        surest = sorted(found, key=self.belief.doubt)[:most]
        return [fit for fit in found if any(fit is one for one in surest)], reasons[0]

    def _is_enough(self, image: Image, there: Sequence[FitResult], new: int, most: int | None) -> bool:
        if most is not None:
            return new >= most
        return bool(there) and not has_room(image, there)

    def _fits(
        self, fitter: Fitter, image: Image, groups: Sequence[Floats], known: Sequence[FitResult]
    ) -> tuple[list[FitResult], list[str]]:
        """The believed fits from starts of objects that are not known, and why others could not begin."""
        model = fitter.model
        new = [
            group
            for group in groups
            if not any(is_same_object(start_candidates(model, group)[0], one.points) for one in known)
        ]
        fits = fitter.block([image] * len(new), new, fitter.jobs)
        believed = [fit for fit in fits if self.belief.believes(fit)]
        return self._distinct(believed, known), [fit.reason for fit in fits if fit.reason]

    def _distinct(self, fits: Sequence[FitResult], known: Sequence[FitResult]) -> list[FitResult]:
        """The surest fit of each object that is not known."""
        kept: list[FitResult] = []
        for fit in sorted(fits, key=self.belief.doubt):
            if not any(is_same_object(fit.points, one.points) for one in (*known, *kept)):
                kept.append(fit)
        return [fit for fit in fits if any(fit is one for one in kept)]


def given(find: Find) -> Way:
    """A function of the user's as a way of finding objects."""

    def groups(image: Image) -> list[Floats]:
        found = find(image)
        if found is None or np.size(found) == 0:
            raise ValueError("nothing was found.")
        several = np.ndim(found) == 2 and np.shape(found)[1] == 4
        return list(np.asarray(found)) if several else groups_of(found)

    return Way("given", groups, several=True)
