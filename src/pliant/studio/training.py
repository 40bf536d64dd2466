"""Endpoints for models: train one on what is finished, in the background, and take it away."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from starlette.responses import FileResponse

from pliant.arrays import Float64
from pliant.studio.desk import Studio
from pliant.studio.web.endpoints import Endpoints, Refused
from pliant.studio.web.jobs import Job, JobState
from pliant.terminal import counted

endpoints = Endpoints("models")

_LEAST = 5
"""Images that a model is trained on at the least."""

Samples = list[tuple[Path, Float64]]


@dataclass(frozen=True)
class Wish:
    """How to train: `quick` takes seconds; `best` chooses settings, experts and confidence by held-out fits."""

    effort: Literal["quick", "best"] = "quick"


@endpoints.post("/api/models")
def train_model(studio: Studio, body: Wish) -> JobState:
    """Train a model on all finished images; Explore and Fit then use it."""
    samples = [(source, points) for _, source, points in studio.collection.annotated()]
    if len(samples) < _LEAST:
        finished = counted(len(samples), "image") + (" is" if len(samples) == 1 else " are")
        raise Refused(f"{finished} finished, but a model needs at least {_LEAST}.")
    target = studio.trained_file

    def work(job: Job) -> str:
        _in_a_process(job, samples, tuple(studio.collection.names), body.effort, target)
        studio.use_model(target)
        return f"a model of {len(samples)} images is ready."

    return studio.jobs.start("training a model", work).state


@endpoints.get("/api/models/current")
def download_model(studio: Studio) -> FileResponse:
    """The file of the newest model."""
    if studio.model_file is None:
        raise Refused("there is no model yet: finish five images, and train one.", 404)
    return FileResponse(studio.model_file, filename=f"{studio.collection.name}.pliant")


def _in_a_process(job: Job, samples: Samples, names: tuple[str, ...], effort: str, target: Path) -> None:
    """Train in a process of its own: it may be stopped at any time, and never holds up a page."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_train, args=(samples, names, effort, target, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        while not ours.poll(0.2):
            job.advance(0, 0)
        try:
            problem = ours.recv()
        except EOFError:
            raise ValueError("training ended unexpectedly: is there enough memory?") from None
        if problem:
            raise ValueError(problem)
    finally:
        process.terminate()
        process.join()


def _train(samples: Samples, names: tuple[str, ...], effort: str, target: Path, answer: Connection) -> None:
    import pliant
    from pliant.data.annotation import Annotation

    try:
        dataset = [
            pliant.Sample(str(source), source, Annotation(source.name, points, names))
            for source, points in samples
        ]
        train = partial(pliant.train, dataset, progress=False, missing="complete")
        model = train(preset="quick") if effort == "quick" else train()
        model.save(target)
        answer.send("")
    except Exception as error:
        # Whatever went wrong there must be said here.
        answer.send(str(error) or type(error).__name__)
