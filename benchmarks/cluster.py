"""Fitting on local clusters of 1, 2 and 4 processes beside one process: rows, time, bytes moved, memory.

    python benchmarks/cluster.py [--images 2000] [--workers 1 2 4] [--repeats 3]
    python benchmarks/cluster.py --images 100000 --workers 2 --repeats 1 --picture docs/pictures/cluster_memory.svg

Images are synthetic and small, and lie in a temporary folder: 2,000 of them are made, and more are links to these,
which are read and decoded like any other. Settings are quick, because slower ones hide the costs of a cluster. Runs
take turns, and times are shares of those of one process in the same turn. Bytes are those that went through the
loopback device of this machine; nothing else should use it meanwhile. Linux alone tells these in this way.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from matplotlib.figure import Figure

import pliant
from bulk_memory import make
from pliant import bulk
from pliant.data.sources import find_images
from pliant.settings import Fitting
from pliant.synthetic import faces
from pliant.table import rows_of

DISTINCT = 2000
QUICK = Fitting(algorithm="po-inv-gn", iterations=(8, 6), start="centre")


def images_in(folder: Path, count: int) -> list[str]:
    folder.mkdir()
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(partial(make, folder), range(min(count, DISTINCT)), chunksize=50):
            pass
    for number in range(DISTINCT, count):
        os.link(folder / f"face-{number % DISTINCT:06d}.jpg", folder / f"face-{number:06d}.jpg")
    return find_images([str(folder)])


@dataclass
class Watched:
    """What was seen of a run: images done and MB of this process and of the largest worker, and bytes moved."""

    done: int = 0
    seen: list[tuple[int, float, float]] = field(default_factory=list)
    moved: int = 0
    seconds: float = 0.0


def loopback() -> int:
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


@contextmanager
def watching() -> Iterator[Watched]:
    """Look at the memory of this process and its workers twice a second."""
    found, stopped, own = Watched(), threading.Event(), psutil.Process()

    def look() -> None:
        while not stopped.wait(0.5):
            sizes = [0.0]
            for child in own.children(recursive=True):
                try:
                    sizes.append(child.memory_info().rss / 1e6)
                except psutil.Error:
                    continue
            found.seen.append((found.done, own.memory_info().rss / 1e6, max(sizes)))

    thread = threading.Thread(target=look)
    before, begin = loopback(), time.perf_counter()
    thread.start()
    try:
        yield found
    finally:
        found.seconds, found.moved = time.perf_counter() - begin, loopback() - before
        stopped.set()
        thread.join()


def one_process(model: Path, images: list[str], output: Path) -> Watched:
    """The command as it is on one machine, with one thread."""
    prepared = bulk.prepare(model, images, output, QUICK, jobs=1)
    with watching() as found:

        def each(rows: object) -> None:
            found.done += 1

        bulk.run(prepared.task, prepared.fitter, prepared.where, each=each)
    return found


def on_cluster(model: Path, images: list[str], output: Path, workers: int) -> tuple[Watched, float]:
    """The same on so many processes, and the seconds that it took to start them."""
    prepared = bulk.prepare(model, images, output, QUICK)
    begin = time.perf_counter()
    with pliant.connect(f"local:{workers}") as crew:
        started = time.perf_counter() - begin
        with watching() as found:

            def each(marker: object) -> None:
                found.done += marker.images  # type: ignore[attr-defined]

            bulk.run_in_parts(prepared, crew, each=each)
    return found, started


def rows_in(output: Path) -> list[object]:
    return [
        {key: value for key, value in row.items() if key != "seconds"}
        for row in rows_of(output / "fits.parquet")
    ]


def draw(found: Watched, picture: Path) -> None:
    seen = np.array(found.seen)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(seen[:, 0], seen[:, 2], color="#0072B2", label="largest worker")
    axes.plot(seen[:, 0], seen[:, 1], color="#D55E00", label="the process that asked")
    axes.set_ylim(0, 1.25 * seen[:, 1:].max())
    axes.set_xlim(0, None)
    axes.set_xlabel(f"images fitted ({found.done / found.seconds:,.0f} a second)")
    axes.set_ylabel("resident memory, MB")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--alone", action=argparse.BooleanOptionalAction, default=True, help="one process too"
    )
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch, "model.pliant")
        pliant.train(
            faces(60, image_size=112), size=60, shape_modes=(2, 5), confidence=False, progress=False
        ).save(model)
        images = images_in(Path(scratch, "images"), options.images)
        print(f"{len(images):,} images, a model of {model.stat().st_size / 1e6:.1f} MB", flush=True)
        for turn in range(options.repeats):
            expected, alone = None, None
            if options.alone:
                output = Path(scratch, f"one-{turn}")
                found = one_process(model, images, output)
                expected, alone = rows_in(output), found.seconds
                print(
                    f"one process: {len(images) / alone:.1f} images/s, {found.seen[-1][1]:.0f} MB", flush=True
                )
            for workers in options.workers:
                output = Path(scratch, f"{workers}-{turn}")
                found, started = on_cluster(model, images, output, workers)
                same = (
                    "not compared"
                    if expected is None
                    else "equal"
                    if rows_in(output) == expected
                    else "DIFFERENT"
                )
                speed = "" if alone is None else f", {alone / found.seconds:.2f} times as fast as one process"
                middle = [one for one in found.seen if one[0] > len(images) / 10]
                early = [one for one in middle if one[0] < len(images) / 3]
                growth = max(one[2] for one in middle) - max((one[2] for one in early), default=0)
                print(
                    f"local:{workers}: {len(images) / found.seconds:.1f} images/s{speed}; rows {same}; "
                    f"{found.moved / len(images):,.0f} bytes moved an image; largest worker "
                    f"{max(one[2] for one in found.seen):.0f} MB ({growth:+.0f} after a third), this process "
                    f"{max(one[1] for one in found.seen):.0f} MB; started in {started:.1f} s",
                    flush=True,
                )
                if options.picture:
                    draw(found, options.picture)


if __name__ == "__main__":
    main()
