"""From frame to frame: objects are followed, lost, looked for and given up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pliant.arrays import Floats, Image
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult, failed
from pliant.inputs import ImageSource, read
from pliant.objects import is_same_object
from pliant.settings import Tracking
from pliant.shape import align, shape_size
from pliant.threads import one_blas_thread
from pliant.tracking.belief import Belief
from pliant.tracking.frames import Event, TrackedFrame, TrackedObject
from pliant.tracking.identity import Track, likeness, look_of, new_track, recognised
from pliant.tracking.search import Search

_SOON = 50
"""Frames in which a lost object is looked for beside others; later it is one of those that may appear."""

_NOT_LOOKED_FOR = "this frame was not searched."


@dataclass(frozen=True)
class Follower:
    """How objects are followed: `quick` fits the finest level alone, and `most` objects are followed, or all.

    `first` says where objects are until one is found there, if the user knows.
    """

    fitter: Fitter
    quick: Fitter
    search: Search
    belief: Belief
    settings: Tracking
    most: int | None
    first: Floats | None = None

    def follow(self, frames: Iterable[ImageSource], rate: float) -> Iterator[TrackedFrame]:
        tracks: list[Track] = []
        count = 0
        for number, source in enumerate(frames):
            begin = time.perf_counter()
            image: Image | None
            followed: dict[int, FitResult] = {}
            found: dict[int, FitResult] = {}
            try:
                image = read(source)
            except (ValueError, OSError) as error:
                image, reason = None, str(error)
            else:
                with one_blas_thread():
                    followed = self._followed(image, tracks)
                    found, reason = self._looked_for(image, number, tracks, followed, count)
            tracks = [_after(track, followed, found) for track in tracks]
            numbers = {track.number for track in tracks}
            tracks += [new_track(new, fit) for new, fit in found.items() if new not in numbers]
            count = max([count, *(1 + new for new in found)])
            tracks = [track for track in tracks if not self._is_given_up(track)]
            objects = [self._object(track.number, followed, found, reason) for track in tracks]
            if not objects:
                objects = [self._object(count, followed, found, reason)]
            seconds = time.perf_counter() - begin
            yield TrackedFrame(number, number / rate, tuple(objects), seconds, image)

    def _followed(self, image: Image, tracks: Sequence[Track]) -> dict[int, FitResult]:
        """Fits of objects that were there in the frame before, by their numbers."""
        here = [track for track in tracks if track.absent == 0]
        fits: dict[int, FitResult] = {}
        moving = [track for track in here if track.before is not None]
        guesses = [
            align(track.before, track.last).apply(track.last) for track in moving if track.before is not None
        ]
        for track, fit in zip(moving, self._fits(self.quick, image, guesses), strict=True):
            if self._is_plausible(track, fit):
                fits[track.number] = fit
        unsure = [
            track for track in here if track.number not in fits or not self.belief.is_sure(fits[track.number])
        ]
        again = self._fits(self.fitter, image, [track.last for track in unsure])
        for track, fit in zip(unsure, again, strict=True):
            quick = fits.get(track.number)
            if self._is_plausible(track, fit) and (
                quick is None or self.belief.doubt(fit) < self.belief.doubt(quick)
            ):
                fits[track.number] = replace(fit, seconds=fit.seconds + (quick.seconds if quick else 0.0))
        return self._apart(here, fits)

    def _fits(self, fitter: Fitter, image: Image, starts: Sequence[Floats]) -> list[FitResult]:
        fits = fitter.block([image] * len(starts), starts, fitter.jobs)
        return [replace(fit, model=self.fitter.model) for fit in fits]

    def _is_plausible(self, track: Track, fit: FitResult) -> bool:
        """Whether a fit is believed and has not changed its size at once."""
        if not self.belief.believes(fit):
            return False
        change = float(shape_size(fit.points) / shape_size(track.last))
        return 1 / self.settings.most_growth < change < self.settings.most_growth

    def _apart(self, tracks: Sequence[Track], fits: dict[int, FitResult]) -> dict[int, FitResult]:
        """The fits without those of another object: of two in one place, it is the one that looks like itself."""
        own = {
            track.number: likeness(track.look, look_of(fits[track.number]))
            for track in tracks
            if track.number in fits
        }
        kept: dict[int, FitResult] = {}
        for number in sorted(own, key=lambda number: -own[number]):
            if not any(is_same_object(fits[number].points, other.points) for other in kept.values()):
                kept[number] = fits[number]
        return kept

    def _looked_for(
        self,
        image: Image,
        number: int,
        tracks: Sequence[Track],
        followed: dict[int, FitResult],
        count: int,
    ) -> tuple[dict[int, FitResult], str]:
        """Fits of objects that were found anew, by their numbers, and why there are no others.

        Those that nobody has seen before have numbers from `count`.
        """
        lost = [track for track in tracks if track.number not in followed]
        every = self.settings.look_every
        soon = any(
            track.absent % every == 0 and (track.absent < _SOON or not followed) for track in lost
        ) or (not tracks and number % every == 0)
        full = self.most is not None and len(followed) >= self.most
        others = not full and number % self.settings.new_every == 0
        if not soon and not others:
            return {}, _NOT_LOOKED_FOR
        search = self._beside if followed else self.search
        if self.first is not None and not count:
            search = self.search.starting(self.first)
        most = None if self.most is None else self.most - len(followed)
        fits, reason = search(image, list(followed.values()), [track.last for track in lost], most)
        no_others = self.most is not None and len(tracks) >= self.most
        pairs = recognised(lost, fits, no_others)
        found = {lost[i].number: fits[j] for i, j in pairs.items()}
        new = [fit for j, fit in enumerate(fits) if j not in pairs.values()]
        room = None if self.most is None else self.most - len(tracks)
        return found | {count + k: fit for k, fit in enumerate(new[:room])}, reason

    @cached_property
    def _beside(self) -> Search:
        """What looks for lost objects while others are followed."""
        return self.search.beside_others()

    def _is_given_up(self, track: Track) -> bool:
        return self.most is None and track.absent >= self.settings.forget_after

    def _object(
        self, number: int, followed: dict[int, FitResult], found: dict[int, FitResult], reason: str
    ) -> TrackedObject:
        if number in followed:
            return TrackedObject(number, followed[number], Event.TRACKED)
        if number in found:
            return TrackedObject(number, found[number], Event.RESTARTED)
        nothing = failed(self.fitter.model, str(self.fitter.algorithm), None, reason)
        return TrackedObject(number, nothing, Event.LOST)


def _after(track: Track, followed: dict[int, FitResult], found: dict[int, FitResult]) -> Track:
    if track.number in followed:
        return track.followed(followed[track.number])
    return track.restarted(found[track.number]) if track.number in found else track.lost()
