"""What can go wrong on a cluster, done to real processes: nothing is lost, nothing done twice, and pliant says so.

    python benchmarks/cluster_faults.py [--only NAME]

Each fault is shown with the command line, and with schedulers and workers of Dask in processes of their own, which
are killed by SIGKILL in the middle of the work. Tables must be those of one undisturbed process, every column but
the seconds to the last bit. That nothing was fitted twice is seen in the seconds: images that were done before
still have theirs. A line for each step says what was done and what pliant said, and one how it ended; the exit code
is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pliant
from cluster_faults_files import damaged, full_disk, shards, store, unreadable
from cluster_faults_processes import (
    client_killed,
    out_of_memory,
    scheduler_killed,
    training,
    two_commands,
    worker_killed,
)
from cluster_processes import IMAGES, SIZE, Shown, Stage, bits, expect, kill_group
from pliant.synthetic import faces, write_faces
from pliant.table import TABLE

FAULTS: dict[str, Callable[[Stage], Shown]] = {
    "worker-killed": worker_killed,
    "scheduler-killed": scheduler_killed,
    "client-killed": client_killed,
    "out-of-memory": out_of_memory,
    "unreadable": unreadable,
    "damaged": damaged,
    "full-disk": full_disk,
    "shards": shards,
    "training": training,
    "store": store,
    "two-commands": two_commands,
}


@contextmanager
def prepared(folder: Path) -> Iterator[Stage]:
    """Images, a model and the table of one process that nobody disturbs."""
    stage = Stage(folder, folder / "model.pliant", folder / "images")
    try:
        write_faces(stage.images, IMAGES, seed=1, image_size=SIZE)
        for file in stage.images.glob("*.pts"):
            file.unlink()
        drawn = faces(60, image_size=SIZE)
        pliant.train(drawn, size=60, shape_modes=(2, 5), confidence=False, progress=False).save(stage.model)
        alone = stage.name("alone")
        begin = time.monotonic()
        expect(stage.fit(alone, "--jobs", "1").end(), 0)
        stage.rows = bits(alone / TABLE)
        print(f"undisturbed: {IMAGES} images by one process in {time.monotonic() - begin:.0f} s", flush=True)
        yield stage
    finally:
        for process in stage.started:
            kill_group(process)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=FAULTS, action="append", help="this fault alone; may be repeated")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch, prepared(Path(scratch)) as stage:
        for name in options.only or FAULTS:
            begin = time.monotonic()
            try:
                for what, said in FAULTS[name](stage):
                    text = stage.shorter(" / ".join(said.text.splitlines()))
                    print(f"{name}: {what}; said: {text} (exit code {said.code})", flush=True)
                outcome = "nothing lost, nothing twice"
            except Exception as error:
                wrong += 1
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
                outcome = stage.shorter(f"WRONG: {error}")
            print(f"{name}: {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
