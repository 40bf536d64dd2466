"""pliant against its peers, in one run: seconds and memory of training, milliseconds and errors of fitting.

Every library trains on the same images with the same settings, and fits the same images from the same starts
with the same number of iterations, on one thread and in processes of its own. Reading images is counted in
training and not in fitting; features are counted in both. menpofit is installed into benchmarks/.peers the
first time. dlib, which takes long to compile, is run only where it is installed already.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
import pliant
from pliant.metrics import normalised_error, point_subset
from pliant.settings import DEFAULT_ALGORITHM
from pliant.starts.noise import perturbed
from tables import print_table

_HERE = Path(__file__).resolve().parent
_ENVIRONMENT = _HERE / ".peers"
_OLD_VERSIONS = (
    *("numpy==1.23.5", "scipy==1.10.1", "cython<3", "setuptools<66", "wheel", "pandas<2", "scikit-learn<1.3"),
    *("matplotlib<3.7", "pillow<10", "opencv-python-headless<4.9"),
)
"""The newest that menpofit works with. OpenCV is optional there, and makes its scaling of images faster."""
_MENPOFIT = ("menpo==0.11.1", "menpofit==0.7.1", "cyvlfeat==0.7.1")
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")

_SIZE = 150
_SETTINGS = {"scales": (0.5, 1.0), "shape_modes": (3, 12), "appearance_modes": 0.75}
_ITERATIONS = (24, 16)
_NOISE = 0.05
_COUNTERPARTS = {
    "ssd-inv-w": "WibergInverseCompositional",
    "ssd-inv-gn-alt": "AlternatingInverseCompositional",
    "po:0-inv-gn": "ProjectOutInverseCompositional",
    "po-inv-gn": "ProjectOutInverseCompositional",
    "po-asy-gn": None,
    DEFAULT_ALGORITHM: None,
}
"""What menpofit calls an algorithm, if it has it. Its project-out is the classic one, with a rho of 0; ours is
Bayesian, with 0.5, unless told otherwise."""

_TRAINING_COLUMNS = (
    *("peer", "images", "ours_seconds", "theirs_seconds", "times_faster"),
    *("ours_gb", "theirs_gb", "memory_share", "ours_basis", "theirs_basis"),
)
_FITTING_COLUMNS = (
    *("algorithm", "ours_ms_single", "ours_ms_batch", "theirs_ms", "times_faster_single"),
    *("times_faster_batch", "our_error", "their_error", "their_failures", "counterpart"),
)

Row = dict[str, Any]
Ask = Callable[..., Row | None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=int, default=400, help="images that the fitted models are trained on")
    parser.add_argument("--images", type=int, default=48, help="images to fit")
    parser.add_argument("--rounds", type=int, default=3, help="our times are the best of so many")
    parser.add_argument("--train-sizes", default="400,800", help="numbers of images to time training with")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    print(data.machine())
    not_run: list[str] = []
    pythons = {"pliant": Path(sys.executable), "menpofit": _menpofit(not_run), "dlib": _dlib(not_run)}
    sizes = {options.train, *map(int, options.train_sizes.split(","))}
    with tempfile.TemporaryDirectory() as folder:
        ask = partial(_ask, pythons, Path(folder), not_run)
        train, test = _samples(max(sizes), options.images, Path(folder) / "faces")
        training = [_training(ask, train[:size]) for size in sorted({min(n, len(train)) for n in sizes})]
        train = train[: options.train]
        model = pliant.load(Path(folder) / f"pliant-{len(train)}")
        fitting = _fitting(ask, model, train, test, options.rounds)
    print("\ntraining: seconds, gigabytes at the peak, and the size of A at the finest level")
    print_table(training, dict.fromkeys(_TRAINING_COLUMNS, _shown))
    print(f"\nfitting {len(test)} images: milliseconds an image, one at a time (single) or at once (batch)")
    print(f"the error of the starts is {fitting[0]['start_error']:.4f}")
    print_table(fitting, dict.fromkeys(_FITTING_COLUMNS, _shown))
    print(*not_run, sep="\n")
    if options.json:
        options.json.write_text(json.dumps(training + fitting, indent=2))


def _menpofit(not_run: list[str]) -> Path | None:
    """The interpreter of an environment with menpofit, which is made the first time; None if it cannot be."""
    python, ready = _ENVIRONMENT / "bin" / "python", _ENVIRONMENT / "ready"
    if ready.exists():
        return python
    old = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if old is None:
        not_run.append("menpofit was not run: the NumPy that it works with needs Python 3.11; install that.")
        return None
    steps: dict[str, tuple[str | Path, ...]] = {}
    if not Path("/usr/include/vl").is_dir():
        if os.geteuid() or not shutil.which("apt-get"):
            not_run.append("menpofit was not run: it needs VLFeat; install Debian's libvlfeat-dev.")
            return None
        steps["apt-get update"] = ("apt-get", "update")
        steps["installing libvlfeat-dev"] = ("apt-get", "install", "-y", "libvlfeat-dev")
    pip = (python, "-m", "pip", "install", "--quiet")
    steps["making an environment"] = (old, "-m", "venv", _ENVIRONMENT)
    steps["installing what it needs"] = (*pip, *_OLD_VERSIONS)
    steps["installing it"] = (*pip, "--no-build-isolation", *_MENPOFIT)
    print("menpofit: making its environment, which takes a minute or two")
    for step, command in steps.items():
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            not_run.append(f"menpofit was not run, because {step} failed: {_last_line(done.stderr)}")
            return None
    ready.touch()
    return python


def _dlib(not_run: list[str]) -> Path | None:
    """An interpreter that can import dlib, if there is one."""
    for python in (Path(sys.executable), _ENVIRONMENT / "bin" / "python"):
        if (
            python.exists()
            and not subprocess.run([python, "-c", "import dlib"], capture_output=True).returncode
        ):
            return python
    not_run.append("dlib was not run: it is not installed, and takes ten minutes to compile.")
    return None


def _samples(train: int, test: int, scratch: Path) -> tuple[pliant.Dataset, pliant.Dataset]:
    found = data.folders("lfpw/trainset", "lfpw/testset", synthetic_count=train + test, scratch=scratch)
    if len(found) == 1:
        faces = pliant.load_dataset(*found)
        return faces[:train], faces[train:]
    return pliant.load_dataset(found[0])[:train], pliant.load_dataset(found[1])[:test]


def _ask(
    pythons: dict[str, Path | None],
    scratch: Path,
    not_run: list[str],
    peer: str,
    trained_on: int,
    **task: Any,
) -> Row | None:
    """What `peers_PEER.py` answers in a process of its own; None, and a sentence, if it cannot."""
    python = pythons[peer]
    if python is None:
        return None
    asked, answer = scratch / "task.json", scratch / "answer.json"
    asked.write_text(json.dumps({"model": str(scratch / f"{peer}-{trained_on}"), **task}))
    command = [python, _HERE / f"peers_{peer}.py", asked, answer]
    environment = os.environ | dict.fromkeys(_THREADS, "1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not done.returncode:
        row: Row = json.loads(answer.read_text())
        return row
    if peer == "pliant":
        raise SystemExit(done.stderr)
    what = task.get("algorithm", f"{trained_on} images")
    not_run.append(f"{peer} could not {task['do']} ({what}): {_last_line(done.stderr)}")
    return None


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")


def _training(ask: Ask, dataset: pliant.Dataset) -> Row:
    task = {"do": "train", "images": [sample.name for sample in dataset], "settings": _SETTINGS}
    ours = ask("pliant", len(dataset), **task, size=_SIZE) or {}
    # menpofit's size is the diagonal of the mean shape, and it keeps more modes for the same share of variance:
    # given ours, both have frames of as many pixels and bases of as many modes.
    modes = [basis[1] for basis in ours["basis"]]
    theirs = ask("menpofit", len(dataset), **task, diagonal=ours["diagonal"], appearance_modes=modes) or {}
    row: Row = {"peer": "menpofit", "images": len(dataset)}
    for key in ("seconds", "gb", "basis"):
        row |= {f"ours_{key}": ours[key], f"theirs_{key}": theirs.get(key)}
    row["times_faster"] = theirs["seconds"] / ours["seconds"] if theirs else None
    row["memory_share"] = ours["gb"] / theirs["gb"] if theirs else None
    return row


def _starts(model: pliant.Model, dataset: pliant.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Landmarks and starts, both `(k, v, 2)`; the noise of a start depends on the number of its image alone."""
    truths = np.array([sample.points() for sample in dataset])
    rngs = [np.random.default_rng([0, number, 0]) for number in range(len(truths))]
    starts = [perturbed(model, truth, _NOISE, rng) for truth, rng in zip(truths, rngs, strict=True)]
    return truths, np.array(starts)


def _fitting(
    ask: Ask, model: pliant.Model, train: pliant.Dataset, test: pliant.Dataset, rounds: int
) -> list[Row]:
    truths, starts = _starts(model, test)
    task = {"images": [sample.name for sample in test], "starts": starts.tolist(), "iterations": _ITERATIONS}
    fit = partial(ask, trained_on=len(train), do="fit", rounds=rounds, **task)
    peer = {name: fit("menpofit", algorithm=name) for name in set(_COUNTERPARTS.values()) if name}
    rows = []
    for algorithm, counterpart in _COUNTERPARTS.items():
        ours = fit("pliant", algorithm=algorithm) or {}
        theirs = peer.get(counterpart)
        row = {
            "peer": "menpofit",
            "algorithm": algorithm,
            "counterpart": counterpart or "no such algorithm there",
        }
        rows.append(row | _compared(ours, theirs, truths, starts))
    # dlib has one method, of another kind: it stands beside our default, which came last.
    learnt, begun = _starts(model, train)
    example = {
        "images": [sample.name for sample in train],
        "starts": begun.tolist(),
        "truths": learnt.tolist(),
    }
    if theirs := fit("dlib", train=example):
        row = {"peer": "dlib", "algorithm": DEFAULT_ALGORITHM, "counterpart": "dlib's regression trees"}
        rows.append(row | _compared(ours, theirs, truths, starts))
    return rows


def _compared(ours: Row, theirs: Row | None, truths: np.ndarray, starts: np.ndarray) -> Row:
    error = partial(_error, truths, starts)
    return {
        "ours_ms_single": ours["ms_single"],
        "ours_ms_batch": ours["ms_batch"],
        "theirs_ms": theirs["ms"] if theirs else None,
        "times_faster_single": theirs["ms"] / ours["ms_single"] if theirs else None,
        "times_faster_batch": theirs["ms"] / ours["ms_batch"] if theirs else None,
        "start_error": error([None] * len(starts)),
        "our_error": error(ours["points"]),
        "their_error": error(theirs["points"]) if theirs else None,
        "their_failures": theirs["points"].count(None) if theirs else None,
    }


def _error(truths: np.ndarray, starts: np.ndarray, found: list[list[list[float]] | None]) -> float:
    """The mean over images; a fit that failed has the error of its start, as in `pliant.evaluation`."""
    subset = point_subset("interior49" if truths.shape[1] == 68 else "all", truths.shape[1])
    points = [start if own is None else np.array(own) for own, start in zip(found, starts, strict=True)]
    return float(np.mean([normalised_error(p, t, subset) for p, t in zip(points, truths, strict=True)]))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[-1][0]:,} x {value[-1][1]}"
    if isinstance(value, float):
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"
    return str(value)


if __name__ == "__main__":
    main()
