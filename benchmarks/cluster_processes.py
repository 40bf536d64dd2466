"""Processes that `cluster_faults.py` starts, waits for and kills: commands, schedulers and workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.bulk.parts import FOLDER, markers_in, read_plan
from pliant.data.addresses import Source, join, names_in
from pliant.table import TABLE, rows_of

IMAGES, SIZE = 120, 112
"""How many images there are, and how many pixels long."""

PATIENCE = 180.0
"""Seconds until something that should have happened is taken to have failed."""


@dataclass(frozen=True)
class Said:
    """How a command ended, and the last lines that it said."""

    code: int
    text: str


Shown = Iterator[tuple[str, Said]]
"""What was done, and what pliant said to it."""


def expect(said: Said, code: int, *words: str) -> Said:
    """Refuse a command that ended in another way, or did not say these words."""
    assert said.code == code, f"exit code {said.code}, and not {code}: {said.text}"
    for word in words:
        assert word in said.text, f"'{word}' is not in: {said.text}"
    assert "Traceback" not in said.text, said.text
    return said


@dataclass
class Command:
    """`pliant` in a process of its own, with all that it starts."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        kill_group(self.process)

    def end(self) -> Said:
        code = self.process.wait(PATIENCE)
        return Said(code, self.log.read_text(errors="replace").strip())


@dataclass
class Stage:
    """Where all happens: `folder` has the images and the model, and `rows` are those of one undisturbed process."""

    folder: Path
    model: Path
    images: Path
    rows: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    numbers: int = 0

    def name(self, what: str) -> Path:
        self.numbers += 1
        return self.folder / f"{what}-{self.numbers}"

    def start(self, *arguments: str, log: Path | None = None) -> subprocess.Popen[bytes]:
        """A process with a group of its own, so that all of it can be killed at once."""
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        with open(log or self.name("log"), "wb") as file:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **one, **self.environment},
            )
        self.started.append(process)
        return process

    def command(self, *arguments: str) -> Command:
        log = self.name("command")
        return Command(self.start("-m", "pliant", *arguments, log=log), log)

    def fit(self, output: Source, *more: str, images: str = "", model: str = "") -> Command:
        """The command that all faults are shown with; slow enough to be disturbed."""
        settings = (
            "--start",
            "centre",
            "--iterations",
            "30,30",
            "--stopping-tolerance",
            "0",
            "--landmarks",
            "pts",
        )
        where = (model or str(self.model), images or str(self.images), "-o", str(output))
        return self.command("fit", *where, *settings, *more)

    def shorter(self, text: str) -> str:
        """Without the temporary folder."""
        return text.replace(f"{self.folder}/", "")


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started; SIGKILL leaves them no time to tidy up."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class Cluster:
    """A scheduler and workers in processes of their own."""

    stage: Stage
    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def option(self) -> tuple[str, str]:
        return "--scheduler-file", str(self.file)

    def add_worker(self, memory: str = "2GB") -> None:
        arguments = (
            *(
                "-m",
                "dask",
                "worker",
                "--scheduler-file",
                str(self.file),
                "--nthreads",
                "1",
                "--nworkers",
                "1",
            ),
            *(
                "--no-dashboard",
                "--memory-limit",
                memory,
                "--local-directory",
                str(self.stage.name("scratch")),
            ),
        )
        self.workers.append(self.stage.start(*arguments))


@contextmanager
def cluster(stage: Stage, workers: int = 2, memory: str = "2GB") -> Iterator[Cluster]:
    """Started by `dask scheduler` and `dask worker`, as users do, and killed in the end."""
    file = stage.name("scheduler").with_suffix(".json")
    address = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    scheduler = stage.start("-m", "dask", "scheduler", *address, "--scheduler-file", str(file))
    made = Cluster(stage, file, scheduler, [])
    try:
        wait_until(file.is_file, "the scheduler to start")
        for _ in range(workers):
            made.add_worker(memory)
        yield made
    finally:
        for process in (*made.workers, scheduler):
            kill_group(process)


def wait_until(is_so: Callable[[], bool], what: str, pause: float = 0.02) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"waited {PATIENCE:.0f} s in vain for {what}")
        time.sleep(pause)


def markers_of(output: Source) -> int:
    """Parts that are done, counted quickly."""
    names = names_in(join(output, FOLDER))
    return sum(name.endswith(".json") and name != "plan.json" for name in names)


def wait_for_parts(output: Source, count: int, command: Command) -> int:
    """Wait until so many parts are done, and the command is in the middle of its work."""
    wait_until(
        lambda: markers_of(output) >= count or command.process.poll() is not None,
        f"{count} parts in {output}",
    )
    if command.process.poll() is not None:
        raise AssertionError(f"the command ended before it could be disturbed: {command.end().text}")
    return markers_of(output)


def kept(output: Source) -> dict[str, float]:
    """The seconds of each image of the parts that are done: those of a fit that is done again would be others."""
    folder = join(output, FOLDER)
    plan = read_plan(folder)
    assert plan is not None, f"{folder} has no plan"
    files = (marker.file for marker in markers_in(folder, plan).values())
    return {row["image"]: row["seconds"] for file in files for row in rows_of(join(folder, file))}


def bits(table: Source, without: str = "") -> list[str]:
    """All columns but the seconds, as text that is the same if, and only if, all bits are."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in rows_of(table)]
    return [json.dumps(row).replace(without, "") if without else json.dumps(row) for row in rows]


def check_table(
    stage: Stage,
    output: Source,
    before: dict[str, float] | None = None,
    place: str = "",
    expected: list[str] | None = None,
) -> None:
    """Say what is wrong with a table that should be that of one undisturbed process."""
    found = bits(join(output, TABLE), place)
    if expected is None:
        expected = [row.replace(f"{stage.images}/", "") for row in stage.rows] if place else stage.rows
    names: list[Any] = [json.loads(row)["image"] for row in found]
    assert len(set(names)) == len(names), "an image has several rows"
    assert len(found) == len(expected), f"{len(found)} rows, and not {len(expected)}"
    other = sum(one != two for one, two in zip(found, expected, strict=True))
    assert not other, f"{other} rows are not those of one process"
    if before:
        seconds = {row["image"]: row["seconds"] for row in rows_of(join(output, TABLE))}
        again = sum(seconds[image] != value for image, value in before.items())
        assert not again, f"{again} of {len(before)} images were fitted again"
    left = [name for name in names_in(join(output, FOLDER)) if name]
    assert not left, f"{FOLDER} is still there, with {len(left)} files"
