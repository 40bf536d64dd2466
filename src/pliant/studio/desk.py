"""What a studio has before it: the collection that is open, the model that proposes, and background work."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pliant.arrays import Float64
from pliant.data.images import image_size
from pliant.studio.proposing.apprentice import FEWEST, Apprentice, Proposal
from pliant.studio.proposing.template import template
from pliant.studio.storage.collection import Collection
from pliant.studio.storage.events import Event as Happening
from pliant.studio.storage.landmarks import Curve
from pliant.studio.storage.marks import Change
from pliant.studio.storage.saving import Entry
from pliant.studio.web.endpoints import Refused
from pliant.studio.web.events import Events
from pliant.studio.web.jobs import Jobs

if TYPE_CHECKING:
    from pliant.model import Model

_LESSONS = 400
"""So many images at most are learned from: more would bring little, and take longer than a person is patient."""


@dataclass(frozen=True)
class KnownModel:
    """The model that proposes: how many landmarks, learned from how many images, and the how-manieth it is."""

    landmarks: int
    samples: int
    number: int


class _Sources(Sequence[Path]):
    """Where images are, made when it is asked for: of a hundred thousand, few are."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._entries[index].source


@dataclass(eq=False)
class Studio:
    """All that endpoints work with; one for each server.

    `given` is the model that was named when the studio was opened. It proposes until what the apprentice has
    learned is better, and Explore and Fit show it until another is trained here. `results` is where outcomes of
    other commands are looked for. `demo` says that everything here was made up to try things out.
    """

    collection: Collection
    events: Events = field(default_factory=Events)
    given: Path | None = None
    results: Path | None = None
    demo: bool = False

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.events)
        self.offered: dict[int, Proposal] = {}
        """Shapes from elsewhere, such as fits that are to be corrected, by image: they are proposed first."""
        trained = self.trained_file if self.trained_file.is_file() else None
        self.model_file = self.given or trained
        """The model that Explore and Fit show."""
        self._lock = Lock()
        self._read: tuple[Path, int, Model] | None = None
        self.apprentice = Apprentice(self._hear, self.given, self.collection.names)
        self.collection.listen(self._hear_collection)
        self._news, self._closed = Event(), False
        Thread(target=self._teach, name="lessons", daemon=True).start()
        self.learn()

    @property
    def trained_file(self) -> Path:
        """Where the model is that is trained here; one of an earlier day is still there."""
        return self.collection.side_folder / "model.pliant"

    def entry(self, index: int) -> Entry:
        """The image of this number; a LookupError if there is none."""
        if not 0 <= index < len(self.collection):
            raise LookupError(
                f"there is no image {index}: there are {len(self.collection):,} images, counted from 0."
            )
        return self.collection.entries[index]

    def model(self) -> Model:
        """The newest model, read once; refused in a sentence if there is none."""
        from pliant.model import load

        with self._lock:
            file = self.model_file
            if file is None:
                raise Refused(self._without_model())
            stamp = file.stat().st_mtime_ns
            if self._read is None or self._read[:2] != (file, stamp):
                self._read = (file, stamp, load(file))
            return self._read[2]

    def _without_model(self) -> str:
        """That no model is trained, and how to get one: what proposes in Annotate is another kind of model."""
        done = len(self.collection.finished())
        learned = ", and what proposes points in Annotate cannot be shown here" if self.known_model() else ""
        if done >= FEWEST:
            way = f"{done:,} images are finished: press “Train a model” in Explore"
        else:
            verb = "is" if done == 1 else "are"
            way = f"That takes {FEWEST} finished images, and {done} {verb} finished: finish more in Annotate"
        return (
            f"no model is trained yet{learned}. {way}, or start the studio with a model that you have: "
            "pliant studio FOLDER --model model.pliant."
        )

    def use_model(self, file: Path) -> None:
        """Have Explore and Fit show another model."""
        self.model_file = file
        self.events.tell("trained")

    def known_model(self) -> KnownModel | None:
        """What is to be said of the model that proposes, if there is one."""
        known = self.apprentice
        return KnownModel(known.landmarks, known.samples, known.number) if known.has_model else None

    def apply(self, index: int, change: Change) -> None:
        """Change an image's marks; what is finished is learned from."""
        self.entry(index)
        was = self.collection.done[index]
        marks = self.collection.apply(index, change)
        if marks.finished:
            self.offered.pop(index, None)
        if marks.finished or was:
            self.learn()

    def describe(self, names: Sequence[str], curves: Sequence[Curve] = ()) -> None:
        """Say what landmarks the object has."""
        self.collection.set_object(names, curves)
        self.events.tell("object")

    def learn(self) -> None:
        """Have the apprentice learn from what is finished; returns at once, and of several wishes one is enough."""
        self._news.set()

    def _teach(self) -> None:
        while self._news.wait() and not self._closed:
            self._news.clear()
            try:
                self.apprentice.learn(self._finished(), self.collection.names)
            except Exception as error:
                # Nobody waits for this thread: what stops it must be said, and the next image is another chance.
                self.events.tell("trouble", sentence=f"Nothing was learned: {error}")

    def _finished(self) -> list[tuple[Path, Float64]]:
        """Images and points `(v, 2)` to learn from."""
        samples = []
        for index in self._lessons():
            try:
                marks = self.collection.marks(index)
            except (ValueError, OSError):
                continue  # Said when the image is opened.
            if marks.finished and marks.placed:
                samples.append((self.collection.entries[index].source, marks.points))
        return samples

    def _lessons(self) -> list[int]:
        """Finished images to learn from: all that were changed here, and others spread evenly over the list."""
        done = self.collection.finished()
        ours = [index for index in done if self.collection.revision(index)]
        others = [index for index in done if not self.collection.revision(index)]
        room = max(_LESSONS - len(ours), 0)
        spread = np.linspace(0, len(others) - 1, min(room, len(others))).astype(int).tolist()
        return sorted([*ours[-_LESSONS:], *(others[k] for k in spread)])

    def proposal(
        self, index: int, points: Float64 | None = None, fixed: Sequence[int] = ()
    ) -> Proposal | None:
        """Where the model sees the landmarks of an image, with some of them held where a person has put them."""
        if not fixed and index in self.offered:
            return self.offered[index]
        held = (
            {} if points is None else {k: (points[k, 0], points[k, 1]) for k in self._checked(points, fixed)}
        )
        return self.apprentice.propose(self.entry(index).source, held, points)

    def followed(self, index: int, points: Float64, fixed: Sequence[int]) -> Float64:
        """The most plausible shape with the fixed points where they are."""
        return self.apprentice.follow(self.entry(index).source, points, self._checked(points, fixed))

    def _checked(self, points: Float64, fixed: Sequence[int]) -> list[int]:
        count = len(self.collection.names)
        if len(points) != count:
            raise ValueError(f"there are {count} landmarks, but {len(points)} points were sent.")
        wrong = [k for k in fixed if not 0 <= k < count or np.isnan(points[k]).any()]
        if wrong:
            raise ValueError(f"landmark {wrong[0]} cannot be fixed: it has no position.")
        return list(fixed)

    def template(self, index: int) -> Float64 | None:
        """The mean shape `(v, 2)` of what is finished, laid into an image; None before the first."""
        finished = ((source, points) for _, source, points in self.collection.annotated())
        return template(finished, image_size(self.entry(index).source))

    def next_image(
        self, after: int, order: Literal["model", "list"], skipped: Container[int] = ()
    ) -> tuple[int, str] | None:
        """The image to do next, and why: what the apprentice wants to see, or the next of the list."""
        done = self.collection.done
        if order == "model":
            wanted = self.apprentice.rank(_Sources(self.collection.entries), np.flatnonzero(done).tolist())
            for one in wanted:
                if one.index not in skipped:
                    return one.index, one.reason
        todo = np.flatnonzero(~done).tolist()
        # What comes after the image that is open first, then from the beginning, and what was skipped last.
        turn = sorted(todo, key=lambda index: (index in skipped, index <= after, index))
        return (turn[0], "the next unfinished image in the list.") if turn else None

    def _hear(self, event: dict[str, Any]) -> None:
        """What the apprentice says goes to the pages."""
        self.events.tell(event["type"], **{name: value for name, value in event.items() if name != "type"})

    def _hear_collection(self, event: Happening) -> None:
        details = {name: value for name, value in vars(event).items() if name != "type"}
        self.events.tell(event.type, **details)

    def close(self) -> None:
        """End all background work; what was changed is on the disk already."""
        if self._closed:
            return
        self._closed = True
        self._news.set()
        self.jobs.stop_all()
        self.apprentice.stop()
        self.collection.close()
