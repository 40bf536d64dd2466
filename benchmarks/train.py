"""Training: seconds and peak memory against the number of images, exact and streamed.

Each run is a process of its own, so that its peak memory is its own. Ratios are to the first row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import data

_RUN = """
import json, resource, sys, time
import pliant
folders, count, memory = json.loads(sys.argv[1])
dataset = pliant.load_dataset(*folders)[:count]
pliant.train(dataset[:4], progress=False)
begin = time.perf_counter()
model = pliant.train(dataset, memory_gb=memory, progress=False)
print(json.dumps({
    "images": len(dataset), "principal_components": model.provenance["principal_components"],
    "seconds": time.perf_counter() - begin,
    "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    print(data.machine())
    with tempfile.TemporaryDirectory() as scratch:
        dataset = data.faces(Path(scratch))
        folders = sorted({str(Path(sample.name).parent) for sample in dataset})
        counts = [count for count in (100, 200, 400, 800, 1600) if count <= len(dataset)]
        rows = [_row(folders, count, 2.0) for count in counts]
        rows += [_row(folders, count, 0.1) for count in counts[1:]]
    print(
        f"{'images':>7} {'components':>10} {'seconds':>8} {'peak GB':>8} {'s / first':>9} {'GB / first':>10}"
    )
    for row in rows:
        ratios = (row["seconds"] / rows[0]["seconds"], row["peak_gb"] / rows[0]["peak_gb"])
        print(
            f"{row['images']:>7} {row['principal_components']:>10} {row['seconds']:>8.1f} {row['peak_gb']:>8.2f} "
            f"{ratios[0]:>9.2f} {ratios[1]:>10.2f}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _row(folders: list[str], count: int, memory_gb: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps([folders, count, memory_gb])],
        capture_output=True,
        text=True,
        check=True,
    )
    row: dict[str, float] = json.loads(done.stdout)
    return row


if __name__ == "__main__":
    main()
