"""The apprentice: it learns from every image that is finished, and proposes points for the next one.

Learning is done in a process of its own, so that no page waits for it. Proposals are made here, with the last model
that it sent, in the thread of whoever asks: they take tens of milliseconds, also while the next model is learned.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float32, Float64, Floats, Image
from pliant.data.images import read_image
from pliant.model import Model, load
from pliant.quick.learning import FEWEST, FEWEST_POINTS
from pliant.quick.model import QuickModel
from pliant.shape import shape_size
from pliant.studio.proposing.next_image import Doubt, Suggestion, suggestions
from pliant.studio.proposing.process import Glance, Learn, Look, NewModel, Trouble, work
from pliant.studio.proposing.proposals import Proposal, fitted, follow, free_shape, proposal
from pliant.threads import cores

__all__ = ["FEWEST", "Apprentice", "Proposal"]

_POOL = 100
"""Open images that are compared, drawn at random, when the next one is chosen."""

_IMAGES, _PROPOSALS = 4, 64
"""Decoded images, and proposals, that are kept for the next question about them."""

_KNOWN = 3
"""Finished images by which the model that was given is judged."""

_CRASHES = 3
"""After so many in a row, the process is not started again until there is something new to learn."""

Source = Path | str


class Apprentice:
    """Learns from what is finished, and proposes. All of it may be called from any thread.

    Parameters
    ----------
    tell
        Is told what happens, from other threads: `{"type": "model", "number", "samples", "seconds"}` and
        `{"type": "trouble", "sentence"}`.
    given
        A model file that proposes until what was learned here is better: than its proposals turned out to be, or
        before these are known, when more images are finished than it was trained on.
    names
        Of the landmarks, for sentences.

    """

    def __init__(
        self, tell: Callable[[dict[str, Any]], None], given: Path | None = None, names: Sequence[str] = ()
    ) -> None:
        self._tell, self.given, self.names = tell, given, tuple(names)
        self._lock = threading.RLock()
        self._worker: _Worker | None = None
        self._wish: Learn | None = None
        self._shapes: tuple[Float64, ...] = ()
        self._model: QuickModel | None = None
        self._number = self._crashes = 0
        self._pool: dict[int, Source] = {}
        self._glances: dict[int, Glance] = {}
        self._pictures: dict[str, Float32] = {}
        self._images: OrderedDict[str, Image] = OrderedDict()
        self._proposed: OrderedDict[str, tuple[Proposal, Proposal | None]] = OrderedDict()
        self._given_errors: dict[str, float] = {}
        self._stopped = False

    @property
    def number(self) -> int:
        """Which model proposes, counted from 1; 0 if it is the one that was given, or none."""
        return self._number if self._learned() is not None else 0

    @property
    def samples(self) -> int:
        """How many images the model was learned from that proposes; 0 if there is none."""
        learned = self._learned()
        if learned is not None:
            return learned.samples
        return 0 if self.given is None else int(self._given_model.provenance.get("samples", 0))

    @property
    def landmarks(self) -> int:
        """How many landmarks the model has that proposes; 0 if there is none."""
        learned = self._learned()
        if learned is not None:
            return learned.landmarks
        return 0 if self.given is None else self._given_model.landmarks

    @property
    def has_model(self) -> bool:
        """Whether there is anything to propose with."""
        return self._model is not None or self.given is not None

    def _learned(self) -> QuickModel | None:
        """The model that was learned here, if it is the one to propose."""
        model = self._model
        if model is None or self.given is None or self._given_model.landmarks != model.landmarks:
            return model
        errors = list(self._given_errors.values())
        if len(errors) >= _KNOWN:
            return model if model.error < float(np.median(errors)) else None
        return model if model.samples > int(self._given_model.provenance.get("samples", 0)) else None

    @cached_property
    def _given_model(self) -> Model:
        assert self.given is not None
        return load(self.given)

    def learn(self, samples: Sequence[tuple[Source, Floats]], names: Sequence[str] | None = None) -> None:
        """Learn from all images that are finished, with points `(v, 2)`, nan where one is absent; returns at once.

        Of several wishes the newest counts. Nothing is learned from fewer than five images, or of an object with
        fewer than three landmarks; what shapes there are is known all the same.
        """
        kept = tuple((source, np.array(points, dtype=np.float64)) for source, points in samples)
        with self._lock:
            if names is not None:
                self.names = tuple(names)
            self._shapes = tuple(points for _, points in kept)
            self._remember_errors(kept)
            if len(kept) < FEWEST or any(len(points) < FEWEST_POINTS for points in self._shapes):
                return
            self._wish, self._crashes = Learn(kept, self.names), 0
            self._send(self._wish)

    def _remember_errors(self, finished: Sequence[tuple[Source, Float64]]) -> None:
        """How far the model that was given was off, where an image is finished that it had proposed for."""
        for source, points in finished:
            known = self._proposed.get(str(source))
            if known is None or known[0].model or known[0].points.shape != points.shape:
                continue
            there = np.isfinite(points[:, 0])
            if np.sum(there) > 1:
                apart = np.linalg.norm(known[0].points[there] - points[there], axis=1)
                size = max(float(shape_size(points[there])), 1e-9)
                self._given_errors[str(source)] = float(np.mean(apart)) / size

    def propose(
        self,
        source: Source,
        fixed: Mapping[int, Sequence[float]] | None = None,
        points: Floats | None = None,
    ) -> Proposal | None:
        """What the model proposes for an image, with the landmarks held that a person has fixed.

        Parameters
        ----------
        source
            The image.
        fixed
            Places (x, y) by numbers of landmarks.
        points
            `(v, 2)`: where the page has them, if it has any. The model looks for itself, so they only serve where
            it knows nothing about a landmark.

        Returns
        -------
        Proposal or None
            None if there is no model yet, if it is of another number of landmarks, or if it finds nothing.

        Raises
        ------
        ImageError
            If the image cannot be read.

        """
        with self._lock:
            model, number = self._learned(), self._number
        fixed = fixed or {}
        expected = len(points) if points is not None else len(self.names) or self.landmarks
        if self.landmarks != expected or any(k >= expected for k in fixed):
            return None
        made: Proposal | None = None
        if model is not None:
            made = proposal(model, number, self._image(source), fixed, self.names)
        elif self.given is not None:
            made = fitted(self._given_model, self._image(source), fixed, self.names)
        if made is None:
            return None
        if points is not None:
            made = made.with_unknown(points)
        with self._lock:
            first = self._proposed.get(str(source))
            if not fixed:
                self._proposed[str(source)] = made, None
            else:
                # A page that has begun with points of its own may never have asked without.
                self._proposed[str(source)] = made if first is None else first[0], made
            self._proposed.move_to_end(str(source))
            while len(self._proposed) > _PROPOSALS:
                self._proposed.popitem(last=False)
        return made

    def follow(self, source: Source, points: Floats, fixed: Sequence[int]) -> Float64:
        """The most plausible shape `(v, 2)` if the `fixed` of these points stay where they are: instant, no image.

        It goes by the last proposal for the image and what that was sure of; without one by the shapes that are
        finished, and before there are any, all points go along as they lie.
        """
        points = np.asarray(points, dtype=np.float64)
        held = {int(k): (float(points[k, 0]), float(points[k, 1])) for k in fixed}
        with self._lock:
            known = self._proposed.get(str(source))
            shapes = self._shapes
        if known is not None and len(known[0].points) == len(points):
            return follow(known[0], known[1], points, held)
        return free_shape(shapes, np.array(points, dtype=np.float64), held)

    def rank(self, sources: Sequence[Source], done: Collection[int]) -> list[Suggestion]:
        """Open images in the order in which they teach most, each with a reason, as far as they were looked at."""
        finished = set(done)
        with self._lock:
            self._draw(sources, finished)
            looked = [
                (k, one) for k, one in self._glances.items() if k in self._pool and one.picture is not None
            ]
            if not looked:
                return []
            names = (str(sources[k]) for k in finished)
            done_pictures = [self._pictures[name] for name in names if name in self._pictures]
            doubts: dict[int, Doubt] = {
                place: one.doubt for place, (_, one) in enumerate(looked) if one.doubt is not None
            }
            pictures = [one.picture for _, one in looked if one.picture is not None]
        order = suggestions(done_pictures, pictures, doubts if self._model is not None else None)
        return [Suggestion(looked[one.index][0], one.reason) for one in order]

    def _draw(self, sources: Sequence[Source], done: set[int]) -> None:
        """Keep a pool of open images, drawn at random, and have new ones looked at."""
        pool = {k: source for k, source in self._pool.items() if k not in done and k < len(sources)}
        if len(pool) < min(_POOL // 2, len(sources) - len(done)) or (not pool and len(done) < len(sources)):
            still_open = np.array([k for k in range(len(sources)) if k not in done and k not in pool])
            drawn = np.random.default_rng(len(done)).permutation(still_open)[: _POOL - len(pool)]
            pool |= {int(k): sources[int(k)] for k in drawn}
        if pool != self._pool:
            self._pool = pool
            self._glances = {k: one for k, one in self._glances.items() if k in pool}
            self._send(Look(tuple(pool.items())))

    def stop(self) -> None:
        """End the process; what was proposed can still be followed."""
        with self._lock:
            self._stopped = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def _image(self, source: Source) -> Image:
        with self._lock:
            known = self._images.get(str(source))
        if known is not None:
            return known
        image = read_image(source)
        with self._lock:
            self._images[str(source)] = image
            while len(self._images) > _IMAGES:
                self._images.popitem(last=False)
        return image

    def _send(self, wish: Learn | Look) -> None:
        if self._stopped:
            return
        if self._worker is None:
            self._worker = _Worker(self._hear, self._crashed, self._number)
            if isinstance(wish, Look) and self._wish is not None:
                self._worker.send(self._wish)
            elif isinstance(wish, Learn) and self._pool:
                self._worker.send(Look(tuple(self._pool.items())))
        self._worker.send(wish)

    def _hear(self, said: NewModel | Glance | Trouble) -> None:
        if isinstance(said, Glance):
            with self._lock:
                self._glances[said.index] = said
                if said.picture is not None and said.index in self._pool:
                    self._pictures[str(self._pool[said.index])] = said.picture
            return
        if isinstance(said, Trouble):
            self._tell({"type": "trouble", "sentence": said.sentence})
            return
        warm = self._model is None
        if warm:
            # Compiled code is loaded at the first proposal: that shall not be the one that a person waits for.
            side = 64
            proposal(said.model, 0, np.zeros((side, side), dtype=np.uint8))
        with self._lock:
            self._model, self._number, self._crashes = said.model, said.number, 0
            self._pictures |= said.pictures
        self._tell(
            {
                "type": "model",
                "number": said.number,
                "samples": said.model.samples,
                "seconds": round(said.seconds, 2),
            }
        )

    def _crashed(self, worker: _Worker) -> None:
        with self._lock:
            if self._stopped or self._worker is not worker:
                return
            self._worker = None
            self._crashes += 1
            again = self._crashes < _CRASHES
            if again and self._wish is not None:
                self._send(self._wish)
        last = "it is restarted." if again else "it is restarted after the next image."
        self._tell(
            {
                "type": "trouble",
                "sentence": f"learning from finished images stopped unexpectedly; {last}",
            }
        )


class _Worker:
    """The process, and the thread that listens to it."""

    def __init__(
        self,
        hear: Callable[[NewModel | Glance | Trouble], None],
        crashed: Callable[[_Worker], None],
        number: int,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._wishes: Any = context.Queue()
        self._answers, theirs = context.Pipe(duplex=False)
        self._hear, self._crashed = hear, crashed
        self._ended = threading.Event()
        self.process = context.Process(
            target=work, args=(self._wishes, theirs, number, cores()), name="pliant-apprentice", daemon=True
        )
        self.process.start()
        theirs.close()
        threading.Thread(target=self._listen, name="pliant-apprentice-answers", daemon=True).start()

    def send(self, wish: Learn | Look | None) -> None:
        """Pass a wish on; a thread of the queue does it, so that nobody waits."""
        self._wishes.put(wish)

    def stop(self) -> None:
        self.send(None)
        if not self._ended.wait(0.5):
            self.process.terminate()
            self._ended.wait(5)
        self._wishes.close()
        self._wishes.cancel_join_thread()

    def _listen(self) -> None:
        try:
            while True:
                self._hear(self._answers.recv())
        except (EOFError, OSError):
            # No other thread joins it: of two that wait for a process, the system tells only one that it has ended.
            self.process.join(5)
            self._ended.set()
            self._crashed(self)
