"""What a studio has before it: the collection that is open, the model, and the work in the background."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pliant.arrays import Float64
from pliant.studio.endpoints import Refused
from pliant.studio.events import Events
from pliant.studio.jobs import Jobs

if TYPE_CHECKING:
    from pliant.model import Model
    from pliant.studio.apprentice import Apprentice
    from pliant.studio.collection import Collection


@dataclass(eq=False)
class Studio:
    """All that endpoints work with; one for each server.

    `model_file` is the model that was named or that the apprentice has learned last; `demo` says that everything
    here was made up to try things out. `offered` are points `(v, 2)` to propose in an image before a model is asked,
    with their covariances `(v, 2, 2)` if these are known, and the reason.
    """

    collection: Collection
    events: Events = field(default_factory=Events)
    apprentice: Apprentice | None = None
    model_file: Path | None = None
    results: Path | None = None
    demo: bool = False
    offered: dict[int, tuple[Float64, Float64 | None, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.events)
        self._lock = Lock()
        self._read: tuple[Path, int, Model] | None = None

    def model(self) -> Model:
        """The newest model, read once; refused in a sentence if there is none."""
        from pliant.model import load

        with self._lock:
            file = self.model_file
            if file is None:
                raise Refused(
                    "there is no model yet: start the studio with --model, or finish five images in Annotate.",
                    409,
                )
            stamp = file.stat().st_mtime_ns
            if self._read is None or self._read[:2] != (file, stamp):
                self._read = (file, stamp, load(file))
            return self._read[2]

    def close(self) -> None:
        """End all background work; what was changed is on the disk already."""
        self.jobs.stop_all()
        if self.apprentice is not None:
            self.apprentice.stop()
        self.collection.close()
