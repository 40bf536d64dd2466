"""Long runs: 100,000 fits in one process, and 500 sessions of the studio in a real browser; what stays flat?

    python benchmarks/endurance.py fits [--count 100000] [--samples FILE.csv]
    python benchmarks/endurance.py sessions [--count 500] [--samples FILE.csv]
    python benchmarks/endurance.py draw FILE.csv --picture FILE.svg

Each writes a row of samples every so often: how many are done, the resident memory, open file handles and threads
of the process, and how long one took. `draw` fits a line to each column and draws all of them. Fits go by turns
through the library (arrays and files, with a model that was just loaded, and a file that is no image) and through
the whole command `pliant fit` to a folder. A session is a new browser profile that opens Annotate, moves a point,
sees it saved, opens Fit, fits an image, and leaves. Images are synthetic and small, and lie in a temporary folder.
Linux alone tells the memory of a process in this way.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import pliant
from pliant.data.formats import read_landmarks, write_landmarks
from pliant.synthetic import faces

SIZE = 64
SHOWN, MARGIN = 160, 24
"""Pixels of an image in the studio, and around it when it is shown as a whole."""

QUICK: dict[str, Any] = {"algorithm": "po-inv-gn", "iterations": (3, 2), "start": "centre"}
ROUND = 500
"""Fits between two samples."""

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

COLUMNS = ("done", "memory_mb", "handles", "threads", "milliseconds", "processor_milliseconds")
TITLES = {
    "memory_mb": "memory, MB",
    "handles": "open files",
    "threads": "threads",
    "milliseconds": "median ms of each",
    "processor_milliseconds": "processor ms of each",
}


def state(process: int) -> tuple[float, int, int, float]:
    """Resident memory in MB, open file handles, threads, and seconds of processor time of a process."""
    folder = Path(f"/proc/{process}")
    pages = int((folder / "statm").read_text().split()[1])
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    handles = len(os.listdir(folder / "fd")) - (process == os.getpid())
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, handles, int(fields[17]), used


class Samples:
    """A table that grows by a row, on the disk at once: if it all ends, this is what tells why."""

    def __init__(self, path: Path, process: int) -> None:
        self.file = open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115
        self.rows = csv.writer(self.file)
        self.rows.writerow(COLUMNS)
        self.process, self.done, self.used = process, 0, state(process)[3]

    def add(self, done: int, took: list[float]) -> None:
        memory, handles, threads, used = state(self.process)
        each = 1000 * (used - self.used) / max(1, done - self.done)
        self.done, self.used = done, used
        row = (
            done,
            round(memory, 2),
            handles,
            threads,
            round(1000 * float(np.median(took)), 3),
            round(each, 3),
        )
        self.rows.writerow(row)
        self.file.flush()


def write_images(folder: Path, count: int, size: int = SIZE) -> list[Path]:
    """Images of faces with their landmarks."""
    folder.mkdir(parents=True)
    for number, sample in enumerate(faces(count, seed=1, image_size=size)):
        Image.fromarray(sample.image()).save(folder / f"face-{number:03d}.png")
        write_landmarks(folder / f"face-{number:03d}.pts", sample.points())
    return sorted(folder.glob("*.png"))


def write_model(path: Path) -> pliant.Model:
    drawn = faces(60, image_size=SIZE)
    pliant.train(drawn, size=24, shape_modes=(2, 5), confidence=False, progress=False).save(path)
    return pliant.load(path)


def pliant_command(*arguments: str) -> int:
    """The whole command, in this process."""
    from pliant.cli import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            app(list(arguments))
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def ways_to_fit(folder: Path, model_file: Path) -> list[Callable[[], int]]:
    """Each fits some images in another way, and says how many."""
    files = write_images(folder / "images", 50)
    arrays = [np.asarray(Image.open(file)) for file in files]
    broken = folder / "images" / "face-050.png"
    broken.write_text("no image")
    model = pliant.load(model_file)
    first = pliant.fit(model, arrays[:10], jobs=1, **QUICK)

    def singles() -> int:
        results = [pliant.fit(model, image, jobs=1, **QUICK) for image in arrays[:10]]
        # The same images, so the same points, however many fits were before.
        assert all(
            np.allclose(one.points, two.points, atol=1e-3) for one, two in zip(results, first, strict=True)
        )
        return len(results)

    def many() -> int:
        return len(pliant.fit(model, arrays, jobs=2, **QUICK))

    def model_and_files() -> int:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", pliant.NotFitted)
            results = pliant.fit(pliant.load(model_file), [*files, broken], jobs=2, **QUICK)
        assert len(told) == 1
        assert not results[-1].ok
        return len(results) - 1

    def command() -> int:
        output = folder / "out"
        arguments = (
            "fit",
            str(model_file),
            str(folder / "images"),
            "-o",
            str(output),
            "--quiet",
            "--landmarks",
            "pts",
        )
        quick = ("--algorithm", "po-inv-gn", "--iterations", "3,2", "--start", "centre", "--jobs", "2")
        assert pliant_command(*arguments, *quick) == 3
        shutil.rmtree(output)
        return len(files)

    # The command writes files and syncs them, which takes longer than the fits: one in ten of all.
    return [singles] * 2 + [many] * 6 + [model_and_files] * 3 + [command]


def run_fits(count: int, samples: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_model(folder / "model.pliant")
        ways = ways_to_fit(folder, folder / "model.pliant")
        table = Samples(samples, os.getpid())
        done, sampled, took, turn, begin = 0, 0, [], 0, time.monotonic()
        while done < count:
            started = time.perf_counter()
            fitted = ways[turn % len(ways)]()
            took.append((time.perf_counter() - started) / fitted)
            done, turn = done + fitted, turn + 1
            if turn % len(ways) == 0 and done - sampled >= ROUND:
                table.add(done, took)
                sampled, took = done, []
        print(f"{done:,} fits in {time.monotonic() - begin:.0f} s")


@contextlib.contextmanager
def studio(folder: Path, model: Path) -> Iterator[tuple[str, int]]:
    """A studio of a folder: its address and its process."""
    command = [sys.executable, "-m", "pliant", "studio", str(folder), "--model", str(model), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"], process.pid
        finally:
            process.terminate()


def session(browser: Any, address: str, number: int, files: list[Path]) -> None:
    """What a person does: open, move a point, see it saved, fit the image, leave."""
    index = number % len(files)
    landmarks = files[index].with_suffix(".pts")
    before = read_landmarks(landmarks)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    errors: list[str] = []
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}annotate?image={index}")
        page.wait_for_selector(f"#stage[data-image='{index}']")
        with page.expect_response(lambda answer: answer.request.method in ("POST", "PUT") and answer.ok):
            drag(page, before[number % len(before)], 3 if number // len(files) % 2 else -3)
        page.wait_for_selector("#saving:text-is('saved')")
        moved, end = 0.0, time.monotonic() + 20
        while moved < 1:
            assert time.monotonic() < end, "the point has not moved in its file"
            moved = float(np.abs(read_landmarks(landmarks) - before).max())
        page.goto(f"{address}fit?image={index}")
        page.wait_for_selector("#image-view.ready")
        page.click("summary >> text=Settings")
        page.fill("#setting-iterations", "3")
        page.click("#run")
        page.wait_for_selector(".card")
        assert not errors, errors
    finally:
        context.close()


def drag(page: Any, point: np.ndarray, by: float) -> None:
    """Drag a point of an image that is shown as a whole to the right."""
    box = page.locator("#overlay").bounding_box()
    scale = (min(box["width"], box["height"]) - 2 * MARGIN) / SHOWN
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    start, end = (middle + (point + [far, 0] - (SHOWN - 1) / 2) * scale for far in (0, by))
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*((start + end) / 2))
    page.mouse.move(*end)
    page.mouse.up()


def run_sessions(count: int, samples: Path) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        folder, model = Path(scratch, "images"), Path(scratch, "model.pliant")
        files = write_images(folder, 40, SHOWN)
        write_model(model)
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        begin = time.monotonic()
        with studio(folder, model) as (address, process):
            table = Samples(samples, process)
            for number in range(count):
                started = time.perf_counter()
                session(browser, address, number, files)
                table.add(number + 1, [time.perf_counter() - started])
        print(f"{count:,} sessions in {time.monotonic() - begin:.0f} s")
        browser.close()


def read_samples(path: Path) -> dict[str, np.ndarray]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in COLUMNS}


def slopes(known: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Median, and change along a fitted line from the first tenth to the end, of each column."""
    settled = known["done"] >= known["done"][-1] / 10
    done = known["done"][settled]
    found = {}
    for name in TITLES:
        values = known[name][settled]
        slope = np.polyfit(done, values, 1)[0]
        found[name] = float(np.median(values)), float(slope * (done[-1] - done[0]))
    return found


def draw(path: Path, picture: Path, what: str) -> None:
    known = read_samples(path)
    print(f"{what}: {known['done'][-1]:,.0f}; after the first tenth:")
    for name, (middle, change) in slopes(known).items():
        settled = known[name][known["done"] >= known["done"][-1] / 10]
        print(
            f"  {name}: median {middle:.4g}, from {settled.min():.4g} to {settled.max():.4g}; "
            f"along a line: {change:+.3g} to the end ({100 * change / middle:+.1f} %)"
        )
    figure = Figure(figsize=(7, 7), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(len(TITLES), sharex=True), TITLES.items(), strict=True):
        axes.plot(known["done"], known[name], color="#0072B2", linewidth=0.8)
        axes.set_ylim(0, 1.25 * known[name].max())
        axes.set_ylabel(title, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(what)
    axes.set_xlim(0, None)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"drew {picture}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, count in (("fits", 100_000), ("sessions", 500)):
        one = commands.add_parser(name)
        one.add_argument("--count", type=int, default=count)
        one.add_argument("--samples", type=Path, default=Path(f"endurance_{name}.csv"))
    drawn = commands.add_parser("draw")
    drawn.add_argument("samples", type=Path)
    drawn.add_argument("--picture", type=Path, required=True)
    drawn.add_argument("--what", default="fits")
    options = parser.parse_args()
    if options.command == "draw":
        draw(options.samples, options.picture, options.what)
    else:
        (run_fits if options.command == "fits" else run_sessions)(options.count, options.samples)


if __name__ == "__main__":
    main()
