"""Memory of `pliant fit` while it fits many images, drawn against how many it has fitted.

    python benchmarks/bulk_memory.py [--images 20000] [--picture docs/pictures/bulk_memory.svg]

The images are synthetic and small, and lie in a temporary folder (about 5 kB each). The settings are quick; what is
in memory beside the model is the same with slow ones. Linux alone tells the memory of a process in this way.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import pliant
from pliant.bulk.journal import JOURNAL
from pliant.synthetic import face, faces

SIZE = 112
QUICK = ("--algorithm", "po-inv-gn", "--iterations", "8,6", "--start", "centre")


def make(folder: Path, index: int) -> None:
    Image.fromarray(face(index, seed=1, image_size=SIZE)[0]).save(
        folder / f"face-{index:06d}.jpg", quality=90
    )


def resident(process: int) -> float:
    """Resident memory in MB; nothing if the process has ended."""
    try:
        fields = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return float("nan")
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if fields else float("nan")


def watch(process: subprocess.Popen[bytes], journal: Path) -> np.ndarray:
    """Images fitted and MB `(k, 2)`, once a second until the process ends."""
    seen, lines, file = [], 0, None
    while process.poll() is None:
        if file is None and journal.is_file():
            file = open(journal, "rb")  # noqa: SIM115
        if file is not None:
            lines += file.read().count(b"\n")
            seen.append((max(lines - 1, 0), resident(process.pid)))
        time.sleep(1)
    if file is not None:
        file.close()
    return np.array(seen)


def draw(seen: np.ndarray, rate: float) -> Figure:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(seen[:, 0], seen[:, 1], color="#0072B2")
    axes.annotate("the table is written ", seen[-1], ha="right", va="center", fontsize=9)
    axes.set_ylim(0, 1.25 * np.nanmax(seen[:, 1]))
    axes.set_xlim(0, None)
    axes.set_xlabel(f"images fitted ({rate:,.0f} a second)")
    axes.set_ylabel("resident memory, MB")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--picture", type=Path, default=Path("docs/pictures/bulk_memory.svg"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, output, model = Path(scratch, "images"), Path(scratch, "out"), Path(scratch, "model.pliant")
        folder.mkdir()
        begin = time.perf_counter()
        with ProcessPoolExecutor() as pool:
            for _ in pool.map(partial(make, folder), range(options.images), chunksize=50):
                pass
        print(f"made {options.images:,} images in {time.perf_counter() - begin:.0f} s", flush=True)
        pliant.train(faces(100, image_size=SIZE), size=60, confidence=False).save(model)
        begin = time.perf_counter()
        command = [sys.executable, "-m", "pliant", "fit", str(model), str(folder), "-o", str(output), *QUICK]
        process = subprocess.Popen([*command, "--quiet"])
        seen = watch(process, output / JOURNAL)
        seconds = time.perf_counter() - begin
        assert process.returncode == 0
        assert len(pliant.read_fits(output)["status"]) == options.images
        size = (output / "fits.parquet").stat().st_size / 1e6
    known = seen[np.isfinite(seen[:, 1])]
    print(f"fitted {options.images:,} images in {seconds:.0f} s; fits.parquet has {size:.1f} MB")
    for share in (0.1, 0.5, 0.9):
        count, memory = known[min(np.searchsorted(known[:, 0], share * options.images), len(known) - 1)]
        print(f"after {count:,.0f} images: {memory:.0f} MB")
    fitting = known[(known[:, 0] >= 0.1 * options.images) & (known[:, 0] < options.images)]
    slope = np.polyfit(fitting[:, 0], fitting[:, 1], 1)[0]
    print(f"growth after the first tenth: {1000 * slope:+.2f} MB every 1,000 images")
    print(f"most: {known[:, 1].max():.0f} MB; last seen, when the table was written: {known[-1, 1]:.0f} MB")
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(known, options.images / seconds).savefig(options.picture, dpi=110)
    print(f"drew {options.picture}")


if __name__ == "__main__":
    main()
