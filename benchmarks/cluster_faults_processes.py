"""Faults of `cluster_faults.py` that are done to processes: workers, schedulers and commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from cluster_processes import (
    SIZE,
    Command,
    Said,
    Shown,
    Stage,
    bits,
    check_table,
    cluster,
    expect,
    kept,
    kill_group,
    wait_for_parts,
)
from pliant.bulk.parts import FOLDER, markers_in, read_plan
from pliant.synthetic import write_faces
from pliant.table import TABLE


def worker_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        before = kept(output)
        kill_group(dask.workers[0])
        said = expect(command.end(), 0)
    check_table(stage, output, before)
    yield f"one of two workers killed after {done} parts", said


def scheduler_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        kill_group(dask.scheduler)
        yield (
            f"the scheduler killed after {done} parts",
            expect(command.end(), 1, "connection to the Dask scheduler is lost", "--resume"),
        )
    before = kept(output)
    with cluster(stage) as dask:
        yield (
            "the command again, on a new cluster",
            expect(stage.fit(output, *dask.option).end(), 1, "continue with --resume"),
        )
        said = expect(
            stage.fit(output, *dask.option, "--resume").end(), 0, f"{len(before)} images were fitted before"
        )
    check_table(stage, output, before)
    yield "and with --resume", said


def client_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        command.kill()
        # The workers finish what they have begun.
        time.sleep(1)
        before = kept(output)
        said = expect(stage.fit(output, *dask.option, "--resume").end(), 0, "were fitted before")
    check_table(stage, output, before)
    yield f"the command killed after {done} parts, and given again with --resume", said


def out_of_memory(stage: Stage) -> Shown:
    images = stage.name("images")
    shutil.copytree(stage.images, images)
    Image.fromarray(np.zeros((13000, 13000), np.uint8)).save(images / "face-0060.png", compress_level=1)
    (images / "face-0060.jpg").unlink()
    alone, output = stage.name("alone"), stage.name("out")
    expect(stage.fit(alone, "--jobs", "1", images=str(images)).end(), 0)
    with cluster(stage, memory="700MB") as dask:
        said = stage.fit(output, *dask.option, images=str(images)).end()
    expect(said, 1, "face-0056.jpg to ", "memory", "--resume")
    plan = read_plan(output / FOLDER)
    assert plan is not None
    done = len(markers_in(output / FOLDER, plan))
    assert done == plan.parts - 1, f"{done} parts of {plan.parts} are done"
    yield "an image of 13,000 x 13,000 pixels for workers of 700 MB", said
    before = kept(output)
    with cluster(stage, workers=1, memory="8GB") as dask:
        said = expect(stage.fit(output, *dask.option, "--resume", images=str(images)).end(), 0)
    check_table(stage, output, before, expected=bits(alone / TABLE))
    yield f"a worker of 8 GB, and --resume with {done} of {plan.parts} parts done", said


def training(stage: Stage) -> Shown:
    images = stage.name("annotated")
    write_faces(images, 80, seed=3, image_size=SIZE)
    settings = ("--size", "60", "--shape-modes", "2,5", "--no-confidence", "--detector", "none")
    quiet, disturbed = stage.folder / "quiet.pliant", stage.folder / "disturbed.pliant"
    with cluster(stage) as dask:
        begin = time.monotonic()
        train = ("train", str(images), *settings, *dask.option)
        expect(stage.command(*train, "-o", str(quiet)).end(), 0)
        took = time.monotonic() - begin
        kills = 0
        command = stage.command(*train, "-o", str(disturbed))
        for _ in range(3):
            busy = next_busy(dask.file, command)
            if busy is None:
                break
            kill_group(next(one for one in dask.workers if busy in pids_of(one)))
            dask.workers = [one for one in dask.workers if one.poll() is None]
            kills += 1
            dask.add_worker()
            time.sleep(took / 4)
        said = expect(command.end(), 0)
    assert kills, "training ended before a worker could be killed"
    compare_models(quiet, disturbed)
    last = Said(said.code, said.text.splitlines()[-1])
    yield f"{kills} workers killed while they trained, each replaced by a new one", last


def pids_of(process: subprocess.Popen[bytes]) -> set[int]:
    try:
        own = psutil.Process(process.pid)
        return {own.pid, *(child.pid for child in own.children(recursive=True))}
    except psutil.Error:
        return set()


def next_busy(scheduler_file: Path, command: Command) -> int | None:
    """The process of a worker that is at work on something, once one is."""
    import distributed

    with distributed.Client(scheduler_file=str(scheduler_file), set_as_default=False) as client:
        while command.process.poll() is None:
            calls = client.processing()
            for address, tasks in calls.items():
                if tasks:
                    [pid] = client.run(os.getpid, workers=[address]).values()
                    return int(pid)
            time.sleep(0.05)
    return None


def compare_models(one: Path, other: Path) -> None:
    from pliant.container import read_container

    found = []
    for path in (one, other):
        with open(path, "rb") as file:
            found.append(read_container(path, file)[0])
    first, second = found
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), f"{name} is not the same"


def two_commands(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        both = [stage.fit(output, *dask.option) for _ in range(2)]
        said = [one.end() for one in both]
        check_table(stage, output)
        assert 0 in (one.code for one in said), said[0].text
        for one, which in zip(said, ("first", "second"), strict=True):
            assert "Traceback" not in one.text, one.text
            yield f"the same command twice at the same time: the {which}", one
        output = stage.name("out")
        first = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 3, first)
        second = stage.fit(output, *dask.option, "--resume")
        said = [expect(one.end(), 0) for one in (first, second)]
    check_table(stage, output)
    yield f"again with --resume after {done} parts, while the first is at work: the first", said[0]
    yield "and the second", said[1]
