"""Kills a bulk fit at random times, lets it go on, and compares its table with that of an undisturbed run.

    python benchmarks/bulk_kill.py [--kills 20] [--images 96] [--seed 0]

Every column but the seconds must be the same to the last bit, and so must the landmark files. That no fit was done
twice is seen in the seconds: rows that were on disk before a kill still have them in the table. Runs take turns
with one and two threads, and every other one replaces the results of an earlier run, which must be whole after
every kill.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pliant
from pliant.bulk.files import Task
from pliant.bulk.journal import JOURNAL, read_rows
from pliant.synthetic import faces, write_faces
from pliant.table import (
    TABLE,
    rows_of,
)


def command(folder: Path, output: Path, *more: str) -> list[str]:
    model, images = str(folder / "model.pliant"), str(folder / "images")
    return [
        *(sys.executable, "-m", "pliant", "fit", model, images, "-o", str(output)),
        *("--landmarks", "pts", "--quiet", "--iterations", "12,8", *more),
    ]


def finish(arguments: list[str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True)
    # Some of the images are no images.
    assert done.returncode == 3, done.stderr
    return time.perf_counter() - begin


def content(output: Path) -> dict[str, bytes]:
    """The results in a folder: every file but those of a run that is under way."""
    files = (path for path in output.rglob("*") if path.is_file())
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in files
        if not path.relative_to(output).parts[0].startswith("fits.unfinished")
    }


def on_disk(output: Path) -> list[dict[str, Any]]:
    """The rows that a run that was killed has left."""
    journal = output / JOURNAL
    return [dict(row) for row in read_rows(journal)] if journal.is_file() else []


def without_seconds(row: Any) -> str:
    """A row as text that is the same if, and only if, all bits are."""
    return json.dumps({key: value for key, value in row.items() if key != "seconds"})


def compare(output: Path, expected: Path, kept: list[dict[str, Any]]) -> None:
    rows, others = list(rows_of(output / TABLE)), list(rows_of(expected / TABLE))
    assert [without_seconds(row) for row in rows] == [without_seconds(row) for row in others]
    assert [row["seconds"] for row in rows[: len(kept)]] == [row["seconds"] for row in kept]
    files = {path.name: path.read_bytes() for path in (output / "landmarks").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (expected / "landmarks").iterdir()}
    assert {path.name for path in output.iterdir()} == {TABLE, "landmarks"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_faces(folder / "images", options.images, seed=1, image_size=160)
        for number in (3, options.images // 2):
            (folder / "images" / f"face-{number:04d}.jpg").write_text("no image")
        drawn = faces(60, image_size=160)
        pliant.train(drawn, size=100).save(folder / "model.pliant")
        expected = folder / "undisturbed"
        finish(command(folder, expected))  # compiles
        took = finish(command(folder, folder / "again", "--jobs", "1"))
        compare(folder / "again", expected, [])
        print(f"undisturbed: {options.images} images in {took:.1f} s; the same with one thread and with two")
        kills = run = 0
        block = Task([""] * options.images, expected, {}).block
        earlier = folder / "earlier"
        finish(command(folder, earlier, "--sampling", "0.2", "--csv"))
        old = content(earlier)
        while kills < options.kills:
            run += 1
            output, more, kept = folder / f"run-{run}", [], []
            if run % 2 == 0:
                shutil.copytree(earlier, output)
                more = ["--overwrite"]
            while kills < options.kills and ("--resume" not in more or chance.random() < 0.5):
                jobs = str(1 + kills % 2)
                process = subprocess.Popen(command(folder, output, *more, "--jobs", jobs))
                if kills % 2:
                    time.sleep(chance.uniform(0, took))
                else:
                    # A busy machine may take longer, and starting is a good part of it: count rows instead.
                    enough = chance.randrange(options.images)
                    while process.poll() is None and len(on_disk(output)) < enough:
                        time.sleep(0.01)
                    time.sleep(chance.uniform(0, 0.2))
                process.kill()
                more = sorted({"--resume", *more})
                if process.wait() != -9:
                    break
                kills += 1
                if kept and not (output / JOURNAL).is_file():
                    print(f"kill {kills}: run {run} had just finished", flush=True)
                    break
                rows = on_disk(output)
                assert rows[: len(kept)] == kept
                if run % 2 == 0 and 0 < len(rows) < options.images:
                    assert content(output) == old
                # Of a block that was torn, rows are done again.
                kept = rows[: len(rows) // block * block]
                print(f"kill {kills}: run {run} with {jobs} threads had {len(rows)} rows on disk", flush=True)
            # Where a run had finished before it could be killed, there is nothing left to do.
            finish(command(folder, output, *more))
            compare(output, expected, kept)
            print(f"  run {run} equals the undisturbed one, row for row")
    print(f"{kills} kills in {run} runs: nothing was lost, and nothing done again")


if __name__ == "__main__":
    main()
