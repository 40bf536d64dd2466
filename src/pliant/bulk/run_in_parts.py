"""A run in parts: by the threads of this process, by a cluster, or by shards that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from pliant.bulk.files import (
    Drawing,
    Earlier,
    Task,
    absolute,
    differences,
    has_finished,
    journal_in,
    landmark_file,
    look,
    picture_file,
    refusal,
)
from pliant.bulk.finishing import write_more
from pliant.bulk.fitted import Manner, fitted_rows, manner_of
from pliant.bulk.image_files import writer_to
from pliant.bulk.merging import MERGED, is_merged, merge_parts
from pliant.bulk.parts import (
    FOLDER,
    Marker,
    Part,
    Plan,
    commit,
    committed,
    markers_in,
    parts_of,
    plan_of,
    read_plan,
    remove_parts,
    write_plan,
)
from pliant.bulk.prepare import Prepared
from pliant.crew import Jobs, crew_of
from pliant.data.addresses import Source, as_source, join, written
from pliant.fitting.status import Status
from pliant.shards import Shard
from pliant.table import Row
from pliant.threads import one_blas_thread


@dataclass(frozen=True)
class Job:
    """All that a worker needs for any part: how to fit, the plan, and where to write what."""

    manner: Manner
    plan: Plan
    folder: Source
    output: Source
    landmarks: str
    draw: Drawing | None
    shard: str


@dataclass(frozen=True)
class Begun:
    """A run in parts as it is found: what lies in the folder from before, its plan, and the parts that are done."""

    earlier: Earlier
    plan: Plan | None
    done: dict[int, Marker]

    @property
    def images(self) -> int:
        """How many are done."""
        return sum(marker.images for marker in self.done.values())

    def finishes(self, task: Task, shard: Shard | None, resume: bool, overwrite: bool) -> bool:
        """Whether the task has nothing to fit, because its table is there."""
        goes_on = (resume or shard is not None) and not overwrite
        return goes_on and self.plan is None and has_finished(task, self.earlier)


def look_for_parts(task: Task) -> Begun:
    """Look into the folder that is to be written to."""
    folder = join(task.output, FOLDER)
    earlier, plan = look(task), read_plan(folder)
    return Begun(earlier, plan, {} if plan is None else markers_in(folder, plan))


def refusal_in_parts(
    task: Task, begun: Begun, shard: Shard | None = None, resume: bool = False, overwrite: bool = False
) -> str:
    """Why the task must not be done in this folder, as a sentence; empty if it may.

    A shard goes on with the run of the other shards without being told.
    """
    if begun.earlier.unfinished is not None:
        return (
            f"{task.output} has the fits of {begun.earlier.done} images of a run on one machine that did not "
            "finish: continue it there with resume=True, or write to another folder. To discard that run, "
            f"remove {journal_in(task.output)}."
        )
    resume = resume or shard is not None
    if begun.plan is None:
        resume = resume and begun.earlier.finished is not None and not overwrite
        return refusal(task, begun.earlier, resume, overwrite)
    folder = join(task.output, FOLDER)
    changed = differences(begun.plan.head["settings"], task.head()["settings"])
    if changed:
        return (
            f"{task.output} has a run with other settings that did not finish: {'; '.join(changed)}. Use the "
            f"same settings, or write to another folder. To discard that run, remove {folder}."
        )
    if not resume:
        return (
            f"{task.output} has {len(begun.done)} of {begun.plan.parts} parts of a run that did not finish: "
            f"continue with resume=True, or write to another folder. To discard that run, remove {folder}."
        )
    return ""


def run_in_parts(
    prepared: Prepared,
    jobs: Jobs = None,
    *,
    shard: Shard | None = None,
    resume: bool = False,
    overwrite: bool = False,
    each: Callable[[Marker], None] = lambda marker: None,
    begun: Begun | None = None,
) -> list[str]:
    """Fit the images of a task in parts; `each` is called with the marker of a part once its rows are kept.

    A `shard` does its own parts alone, and `merge` makes the table when all shards are done. Without one, the table
    is made here. Whatever stops the run, the parts that were done are kept, and `resume` goes on with the rest.

    Returns
    -------
    list of str
        Sentences about what was merged, for the user.

    """
    task, fitter, model = prepared.task, prepared.fitter, prepared.fitter.model
    if begun is None or begun.plan is None:
        # Somebody may have given the same command while this one was waiting for its cluster.
        begun = look_for_parts(task)
    refused = refusal_in_parts(task, begun, shard, resume, overwrite)
    if refused:
        raise ValueError(refused)
    if begun.finishes(task, shard, resume, overwrite):
        write_more(task, model.landmarks, model.landmark_names, begun.earlier)
        remove_parts(join(task.output, FOLDER))
        return []
    import pyarrow.parquet  # noqa: F401  Not after hours of fitting: it is large, and may be broken.

    folder = join(task.output, FOLDER)
    plan = begun.plan
    if plan is None:
        plan = plan_of(task, model.landmarks, model.landmark_names)
        write_plan(folder, plan)
    parts = parts_of(task)
    own = parts if shard is None else shard.of(parts)
    left = [part for part in own if part.number not in begun.done]
    job = Job(
        manner_of(task, fitter, prepared.where),
        plan,
        as_source(absolute(folder)),
        as_source(absolute(task.output)),
        task.landmarks,
        task.draw,
        "" if shard is None else str(shard),
    )
    try:
        for _, marker in crew_of(jobs).each(fit_parts, left, job):
            each(marker)
        return [] if shard is not None else merge_parts([task.output], task.output)
    except (OSError, ValueError):
        if not is_merged([task.output], task.output, plan):
            raise
        # A store takes what comes late.
        remove_parts(folder)
        return [MERGED]


_preparing = Lock()


def fit_parts(parts: Sequence[Part], job: Job, *, threads: int) -> Iterator[Marker]:
    """Fit parts, commit each, and yield its marker; parts that somebody else has committed by now are left out."""
    with _preparing, one_blas_thread():
        # The threads of a worker share one fitter, and what it prepares is large.
        fitter = job.manner.fitter.alike(jobs=threads)
    manner = replace(job.manner, fitter=fitter)
    known = _known_by_now(parts, job)
    todo = [part for part in parts if part.number not in known]
    images = [image for part in todo for image in part.images]
    files = [file for part in todo for file in part.files]
    with TemporaryDirectory(prefix="pliant-") as passing:
        place = job.folder if isinstance(job.folder, Path) else Path(passing)
        write = writer_to(place, fitter, job.landmarks, job.draw, manner.bound)
        rows = fitted_rows(manner, images, files, write)
        try:
            for part in parts:
                if part.number in known:
                    yield known[part.number]
                    continue
                own = list(islice(rows, len(part.images)))
                _send_files(place, part, own, job)
                failed = sum(all(row["status"] == Status.FAILED for row in some) for some in own)
                yield commit(
                    job.folder, part, [row for some in own for row in some], job.plan, failed, job.shard
                )
        except OSError as error:
            raise OSError(
                f"{job.folder}: the rows of a part cannot be written ({error}). Finished parts are kept. Fix "
                "the problem, then run the same command again with resume=True."
            ) from error
        finally:
            rows.close()


def _known_by_now(parts: Sequence[Part], job: Job) -> dict[int, Marker]:
    """Markers of these parts that somebody has written since the run was looked at."""
    if len(parts) > 1:
        return markers_in(job.folder, job.plan)
    found = [committed(job.folder, part.number, job.plan) for part in parts]
    return {marker.part: marker for marker in found if marker is not None}


def _send_files(place: Path, part: Part, rows: Sequence[Sequence[Row]], job: Job) -> None:
    """Send the files of a part's images to where the table goes: a store has no place for them to wait."""
    if place == job.folder or not part.files:
        return
    for name, some in zip(part.files, rows, strict=True):
        fitted = [row["object"] for row in some if row["status"] != Status.FAILED]
        files = [landmark_file(name, job.landmarks, number) for number in fitted if job.landmarks]
        files += [picture_file(name)] if fitted and job.draw is not None else []
        for file in files:
            with written(join(job.output, file)) as partial:
                (place / file).replace(partial)
