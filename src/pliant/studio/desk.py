"""What a studio has before it: the collection that is open, the model that proposes, and background work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pliant.arrays import Float64
from pliant.shape import generalised_procrustes, shape_size
from pliant.studio.apprentice import FEWEST, Apprentice, Proposal
from pliant.studio.collection import Collection
from pliant.studio.endpoints import Refused
from pliant.studio.events import Events
from pliant.studio.jobs import Jobs
from pliant.studio.marks import Change

if TYPE_CHECKING:
    from pliant.model import Model

_SHAPES = 100
"""So many shapes at most make the template."""


@dataclass(frozen=True)
class KnownModel:
    """The model that proposes: how many landmarks, learned from how many images, and the how-manieth it is."""

    landmarks: int
    samples: int
    number: int


@dataclass(eq=False)
class Studio:
    """All that endpoints work with; one for each server.

    `given` is the model that was named when the studio was opened: it proposes until as many images are finished as
    it was made of. `offered` are shapes from elsewhere, such as fits that are to be corrected, by image. `demo` says
    that everything here was made up to try things out.
    """

    collection: Collection
    events: Events = field(default_factory=Events)
    given: Path | None = None
    results: Path | None = None
    demo: bool = False

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.events)
        self.offered: dict[int, Proposal] = {}
        self.apprentice = Apprentice(self.collection.side_folder, self.given, self._hear)
        self._lock = Lock()
        self._read: tuple[Path, int, Model] | None = None
        self.learn()

    @property
    def model_file(self) -> Path | None:
        """The newest model, if there is one."""
        return self.apprentice.model_file

    def model(self) -> Model:
        """The newest model, read once; refused in a sentence if there is none."""
        from pliant.model import load

        with self._lock:
            file = self.model_file
            if file is None:
                raise Refused(
                    f"there is no model yet: start the studio with --model, or finish {FEWEST} images in Annotate."
                )
            stamp = file.stat().st_mtime_ns
            if self._read is None or self._read[:2] != (file, stamp):
                self._read = (file, stamp, load(file))
            return self._read[2]

    def known_model(self) -> KnownModel | None:
        """What is to be said of the model, if there is one."""
        if self.model_file is None:
            return None
        model = self.model()
        return KnownModel(
            model.landmarks, int(model.provenance.get("samples", 0)), self.apprentice.model_number
        )

    def apply(self, index: int, change: Change) -> None:
        """Change an image's marks, tell the pages, and learn from it if it is finished now."""
        self.collection.apply(index, change)
        self.changed(index, change.client)
        if change.finished:
            self.offered.pop(index, None)

    def changed(self, index: int, client: str) -> None:
        """Tell all pages that an image has changed; what is finished is learned from."""
        self.events.tell("changed", index=index, revision=self.collection.revision(index), client=client)
        if self.collection.marks(index).finished:
            self.learn()

    def learn(self) -> None:
        """Have the apprentice learn from all images that are finished, if they are enough."""
        done = len(self.collection.finished())
        least = FEWEST
        if self.given is not None and self.apprentice.model_file == self.given:
            least = max(FEWEST, int(self.model().provenance.get("samples", 0)))
        if done >= least:
            self.apprentice.learn([(source, points) for _, source, points in self.collection.annotated()])

    def proposal(
        self, index: int, points: Float64 | None = None, fixed: Sequence[int] = ()
    ) -> Proposal | None:
        """Where the model sees the landmarks of an image, with some of them held where a person has put them."""
        if not fixed and index in self.offered:
            return self.offered[index]
        held = {} if points is None else {k: (points[k, 0], points[k, 1]) for k in self._checked(points, fixed)}
        return self.apprentice.propose(self.collection.entries[index].source, held, points)

    def followed(self, index: int, points: Float64, fixed: Sequence[int]) -> Float64:
        """The most plausible shape with the fixed points where they are."""
        return self.apprentice.follow(points, self._checked(points, fixed))

    def _checked(self, points: Float64, fixed: Sequence[int]) -> list[int]:
        count = len(self.collection.names)
        if len(points) != count:
            raise ValueError(f"there are {count} landmarks, and {len(points)} points were sent.")
        wrong = [k for k in fixed if not 0 <= k < count or np.isnan(points[k]).any()]
        if wrong:
            raise ValueError(f"landmark {wrong[0]} cannot be fixed: it has no place.")
        return list(fixed)

    def template(self) -> Float64 | None:
        """The mean shape `(v, 2)` of what is there, about the origin and of size 1; None before the first."""
        shapes = []
        for _, _, points in self.collection.annotated():
            if np.isfinite(points).all():
                shapes.append(points)
            if len(shapes) == _SHAPES:
                break
        if not shapes:
            return None
        mean = generalised_procrustes(np.array(shapes))[0] if len(shapes) > 1 else shapes[0]
        centred = mean - mean.mean(axis=0)
        return np.asarray(centred / shape_size(centred), dtype=np.float64)

    def next_image(self, after: int, order: Literal["model", "list"]) -> tuple[int, str] | None:
        """The image to do next, and why: what the apprentice wants to see, or the next of the list."""
        done = self.collection.finished()
        count = len(self.collection)
        if order == "model" and (wanted := self.apprentice.wanted(done, after)) is not None:
            return wanted
        for step in range(1, count + 1):
            index = (after + step) % count
            if index not in done:
                return index, "the next image of the list that is not finished."
        return None

    def _hear(self, event: dict[str, Any]) -> None:
        """What the apprentice says goes to the pages."""
        self.events.tell(event.pop("type"), **event)

    def close(self) -> None:
        """End all background work; what was changed is on the disk already."""
        self.jobs.stop_all()
        self.apprentice.stop()
        self.collection.close()
