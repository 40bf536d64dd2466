"""Fits on a GPU: how many a second, what share of the machine's ceilings that is, and whether they are the CPU's.

The model has the paper's size and settings (150 pixels, two levels, 24 + 16 iterations), and no fit stops before
it has used its iterations. Rates are those of whole fits from images that lie on the device (views, features and
all iterations), of the iterations alone, and of `fit_all` from arrays in memory, from JPEG files, which the cores
decode, and to a table, as `pliant fit` does it; beside them is how fast the cores decode and do nothing else.
Ceilings are measured in the same run: what a copy moves, and what a large matrix product computes. The share of
arithmetic is that of the products with A, and the share of bandwidth that of the fewest bytes of pixels that have
to be read and written. Equality is that of the landmarks on LFPW's test set from three starts each, against the
kernel of the CPU.

The part `experts` has models of its own, with an expert each (a linear one, and on a GPU a network that is trained
for half a minute): what the expert alone sees a second, fits a second, and how far both are from the CPU's.

Without a GPU, everything runs on the CPU's PyTorch with few images, which shows that it works and no more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import data
import pliant
from pliant.appearance.device_pictures import Pictures, upload
from pliant.batch import fit_all
from pliant.bulk import Task, run
from pliant.devices import find_device
from pliant.experts.frames import crop_frame
from pliant.experts.lesson import Jitter
from pliant.experts.network import NetworkExpert, Stage
from pliant.experts.network_learning import trusted
from pliant.experts.on_device import look_on_device
from pliant.experts.windows import make_lesson
from pliant.fitting.device_fits import fit_pictures
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.looking import views_at
from pliant.metrics import normalised_error, point_subset
from pliant.settings import DEFAULT_ALGORITHM, Stopping
from pliant.starts.noise import random_start
from pliant.threads import cores
from tables import print_table

_NOISE = 0.05
_STARTS = 3
_WHOLE = Stopping(tolerance=0.0)
_MAIN = ("po-asy-gn", DEFAULT_ALGORITHM)
_OTHERS = (
    "ssd-asy-gn-sch",
    "po-inv-gn",
    "ssd-bid-gn-sch",
    "po-bid-gn-sch",
    "ssd-inv-n:safe-sch",
    "po-for-n:safe",
)

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, help="a model file; it is trained and kept there if it is missing"
    )
    parser.add_argument("--fits", type=int, default=4096, help="fits in a batch")
    parser.add_argument(
        "--parts", default="ceilings,rates,equal,files,others,splines,experts", help="what to measure"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    there = torch.cuda.is_available()
    device, count = ("cuda", options.fits) if there else ("torch", 8)
    print(data.machine())
    print(torch.cuda.get_device_name() if there else "no GPU: PyTorch on the CPU, few images")
    parts = options.parts.split(",")
    found: Row = {}
    with tempfile.TemporaryDirectory() as scratch:
        if "experts" in parts:
            found["experts"] = _experts(Path(scratch) / "experts", device, count)
            _print(found["experts"])
        if parts != ["experts"]:
            _measure(options, parts, Path(scratch), device, count, found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def _measure(
    options: argparse.Namespace, parts: list[str], scratch: Path, device: str, count: int, found: Row
) -> None:
    """All that a model of the paper's size is measured with."""
    there = device == "cuda"
    model = _model(options.model, scratch, "piecewise-affine", there)
    test = _test_images(scratch / "test")
    finest = model.levels[-1].appearance
    print(f"A: {finest.components.shape[1]:,} x {finest.modes}, {len(test)} images", flush=True)
    if "ceilings" in parts:
        found["ceilings"] = _ceilings(there)
        print(found["ceilings"], flush=True)
    work = _Work(model, test, device, count)
    if "rates" in parts:
        found["rates"] = [
            row
            for algorithm in _MAIN
            for sampling in (1.0, 0.5, 0.25)
            for precision in ("float32", "tf32")
            for row in [_rate(work, algorithm, sampling, precision)]
        ]
        for row in found["rates"] if "ceilings" in found else []:
            row |= _shares(work, row, found["ceilings"])
        _print(found["rates"])
    if "equal" in parts:
        found["equal"] = _equality(work)
        _print(found["equal"])
    if "others" in parts:
        found["others"] = [_rate(work, algorithm, 1.0, "float32", few=True) for algorithm in _OTHERS]
        _print(found["others"])
    if "files" in parts:
        found["files"] = _from_files(work, scratch)
        _print(found["files"])
    if "splines" in parts:
        splines = _model(None, scratch / "splines", "thin-plate-spline", there, most=400)
        work = _Work(splines, test, device, count)
        found["splines"] = [
            _rate(work, name, 1.0, precision, few=True)
            for name in ("ssd-asy-gn-sch", "po-asy-gn")
            for precision in ("float32", "tf32")
        ]
        _print(found["splines"])


class _Work:
    """Images on the device, and as many starts as fits in a batch."""

    def __init__(self, model: pliant.Model, test: pliant.Dataset, device: str, count: int) -> None:
        self.model, self.device, self.count = model, device, count
        self.samples = list(test)
        self.images = [sample.image() for sample in self.samples]
        self.truths = [sample.points() for sample in self.samples]
        pairs = [(k, number) for number in range(_STARTS) for k in range(len(self.samples))]
        self.pairs = [k for k, _ in pairs]
        self.starts = [random_start(model, self.truths[k], _NOISE, 0, k, number) for k, number in pairs]
        rows = np.arange(count) % len(self.pairs)
        self.which = np.array(self.pairs)[rows]
        self.batch = np.array(self.starts)[rows]
        self.pictures: Pictures = upload(self.images, find_device(device))

    def fitter(self, algorithm: str, device: str, **settings: Any) -> Fitter:
        return make_fitter(
            self.model,
            algorithm=algorithm,
            device=device,
            hypotheses=1,
            stopping=_WHOLE,
            trace=False,
            confidence=False,
            **settings,
        )

    def errors(self, points: Any) -> np.ndarray[Any, Any]:
        subset = point_subset("interior49", self.model.landmarks)
        truths = [self.truths[k] for k in self.pairs]
        return np.array([normalised_error(p, t, subset) for p, t in zip(points, truths, strict=True)])


def _rate(work: _Work, algorithm: str, sampling: float, precision: str, few: bool = False) -> Row:
    """Whole fits a second from pictures on the device, and how far the points are from those of float32."""
    fitter = work.fitter(algorithm, work.device, sampling=sampling, precision=precision)
    count = min(work.count, 1024) if few else work.count
    which, starts = work.which[:count], work.batch[:count]
    fits = fit_pictures(fitter, work.pictures, which, starts)
    seconds = _seconds(lambda: fit_pictures(fitter, work.pictures, which, starts), 1 if few else 2)
    views = _seconds(lambda: _views_alone(work, which, starts), 1 if few else 2)
    row = {
        "algorithm": algorithm,
        "pixels": f"{sampling:.0%}",
        "precision": precision,
        "fits": count,
        "fits_per_second": count / seconds,
        "without_views": count / max(seconds - views, 1e-9),
        "us_views": views / count * 1e6,
        "iterations": float(np.mean(fits.iterations)),
    }
    print(json.dumps(row), flush=True)
    return row


def _shares(work: _Work, row: Row, ceilings: Row) -> Row:
    """The shares of the ceilings that a rate is, by the arithmetic and the bytes that no fit can do without."""
    if not ceilings:
        return {}
    precision, sampling = row["precision"], float(row["pixels"].rstrip("%")) / 100
    # The products with halves that one of these takes.
    halves = {"float32": 3, "tf32": 1}[precision]
    # Warped values, seen values, slopes along x and y: what is written is read once.
    bytes_each = 2 * {"float32": 4 + 4 + 8, "tf32": 4 + 2 + 4}[precision]
    flop = moved = 0.0
    for level, iterations in zip(
        work.model.levels, work.fitter(row["algorithm"], "cpu").iterations, strict=True
    ):
        values = sampling * level.appearance.components.shape[1] * iterations
        flop += 2 * values * level.appearance.modes * 7 * halves
        moved += values * bytes_each
    return {
        "GFLOP": flop / 1e9,
        "of_arithmetic": row["fits_per_second"] * flop / ceilings["float16_TFLOP_per_s"] / 1e12,
        "of_bandwidth": row["fits_per_second"] * moved / ceilings["copy_TB_per_s"] / 1e12,
    }


def _views_alone(work: _Work, which: Any, starts: Any) -> None:
    for level in work.model.levels:
        views_at(level, work.model.size, work.pictures, which, starts)


def _equality(work: _Work) -> list[Row]:
    """Fits of the whole test set on both, by the same `fit_all`."""
    rows = []
    tasks = [(work.images[k], start) for k, start in zip(work.pairs, work.starts, strict=True)]
    if work.device != "cuda":
        tasks = tasks[:8]
    for algorithm in _MAIN:
        here = _fits(work.fitter(algorithm, "cpu"), tasks)
        kinds = [("cpu", here)]
        for precision in ("float32", "tf32"):
            kinds.append((precision, _fits(work.fitter(algorithm, work.device, precision=precision), tasks)))
        for name, (points, seconds) in kinds:
            apart = np.abs(points - here[0]).max(axis=(1, 2))
            errors = work.errors(points) if len(points) == len(work.pairs) else np.full(len(points), np.nan)
            row = {
                "algorithm": algorithm,
                "kernel": name,
                "within_0.05_px": float(np.mean(apart < 0.05)),
                "median_px": float(np.median(apart)),
                "largest_px": float(apart.max()),
                **{f"<{bound}": float(np.mean(errors < bound)) for bound in (0.02, 0.03, 0.04)},
                "mean_error": float(errors.mean()),
                "fits_per_second": len(points) / seconds,
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def _fits(fitter: Fitter, tasks: list[Any], before: int = 2) -> tuple[Any, float]:
    """Points, and the seconds that fits took, after some that do not count: large batches compile kernels."""
    deque(fit_all(fitter, tasks[:before]), maxlen=0)
    begin = time.perf_counter()
    points = np.array([fit.points for fit in fit_all(fitter, tasks, len(tasks))])
    return points, time.perf_counter() - begin


def _from_files(work: _Work, scratch: Path) -> list[Row]:
    """Images a second that threads decode without any fit; fits from memory, from files, and to a table.

    Every image is an array of its own, also where it is fitted several times: each is copied to the device.
    """
    sources = [sample.image_source for sample in work.samples]
    if any(callable(source) for source in sources):
        print("the images are not files here")
        return []
    count = 6_144 if work.device == "cuda" else 8
    pairs = list(zip(work.pairs, work.starts, strict=True))
    pairs = (pairs * (count // len(pairs) + 1))[:count]
    files = [(str(sources[k]), start) for k, start in pairs]
    arrays = [(work.images[k].copy(), start) for k, start in pairs]
    decoded = len(files) / _decoding(files)
    rows = []
    for algorithm in _MAIN:
        for precision in ("float32", "tf32"):
            fitter = work.fitter(algorithm, work.device, precision=precision)
            row = {
                "algorithm": algorithm,
                "precision": precision,
                "images": count,
                "decoded_per_second": decoded,
                "fits_from_memory": count / _fits(fitter, arrays, count // 2)[1],
                "fits_from_files": count / _fits(fitter, files)[1],
                "fits_to_a_table": count / _to_table(fitter, files, scratch / f"{algorithm} {precision}"),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def _decoding(files: list[Any]) -> float:
    """Seconds that as many threads as `fit_all` has take to read the images, and to do nothing else."""
    with ThreadPoolExecutor(cores()) as pool:
        begin = time.perf_counter()
        deque(pool.map(pliant.read_image, [name for name, _ in files]), maxlen=0)
        return time.perf_counter() - begin


def _to_table(fitter: Fitter, files: list[Any], output: Path) -> float:
    """Seconds that `pliant fit` takes for the same, with its journal and its table."""
    starts = dict(files)
    task = Task([name for name, _ in files], output, {})
    begin = time.perf_counter()
    run(task, fitter, lambda name, image: starts[name])
    return time.perf_counter() - begin


def _experts(scratch: Path, device: str, count: int) -> list[Row]:
    """Models with experts: what they see and fits a second, on the device and on the CPU."""
    there = device == "cuda"
    train, test = data.faces(scratch / "train", 60)[: 160 if there else 30], _test_images(scratch / "test")
    settings = pliant.Training(preset="quick", experts="linear", confidence=False, detector="none")
    begin = time.perf_counter()
    model = pliant.train(train, settings)
    print(f"linear expert: trained in {time.perf_counter() - begin:.0f} s", flush=True)
    rows = [_with_expert("linear", model, test, device, count)]
    if there:
        begin = time.perf_counter()
        network = _network(train, model.levels[-1].shape.mean)
        print(f"network: trained in {time.perf_counter() - begin:.0f} s", flush=True)
        rows.append(_with_expert("network", replace(model, expert=network), test, device, count))
    return rows


def _with_expert(name: str, model: pliant.Model, test: pliant.Dataset, device: str, count: int) -> Row:
    expert, work = model.expert, _Work(model, test, device, count)
    assert expert is not None

    def look_there() -> Any:
        return look_on_device(expert, work.pictures, work.which, work.batch, 0).on_host()

    few = min(count, 128)
    tasks = [(work.images[k], start) for k, start in zip(work.which, work.batch, strict=True)]
    how: Row = {"trace": False, "confidence": False}
    fitted, seconds = _fits(make_fitter(model, device=device, **how), tasks, count // 2)
    here, on_cpu = _fits(make_fitter(model, **how), tasks[:few])
    apart = np.abs(fitted[:few] - here).max(axis=(1, 2))
    seen = expert.look([image for image, _ in tasks[:few]], work.batch[:few], 0)
    row = {
        "expert": name,
        "fits": count,
        "looks_per_second": count / _seconds(look_there, 2),
        "fits_per_second": count / seconds,
        "cpu_fits_per_second": few / on_cpu,
        "sightings_apart_px": float(np.abs(look_there().points[:few] - seen.points).max()),
        "within_0.05_px": float(np.mean(apart < 0.05)),
        "median_px": float(np.median(apart)),
        "largest_px": float(apart.max()),
    }
    print(json.dumps(row), flush=True)
    return row


def _network(train: pliant.Dataset, mean: Any) -> NetworkExpert:
    """An expert like that of `pliant train`, after a fraction of the steps."""
    from pliant.experts.network_training import train_network

    samples = [(sample.image(), sample.points()) for sample in train]
    stages = []
    for pixels, margin, widths, steps, jitter in (
        (64, 0.5, (16, 32, 40, 48), 500, Jitter(shift=0.32, zoom=0.2, turn=0.35)),
        (128, 0.14, (16, 32, 48, 64, 80), 1000, Jitter(shift=0.08, zoom=0.12, turn=0.18)),
    ):
        frame = crop_frame(mean, pixels, margin, 2 ** len(widths))
        weights = train_network(make_lesson(samples, frame, jitter), widths, steps, device="cuda")
        spread = np.broadcast_to((0.02 * frame.extent) ** 2 * np.eye(2), (len(mean), 2, 2))
        stages.append(Stage(frame, weights, 1.0, spread))
    return trusted(NetworkExpert(tuple(stages)), samples[:30])


def _ceilings(there: bool) -> Row:
    if not there:
        return {}
    values = torch.randn(2**28, device="cuda")
    other = torch.empty_like(values)
    one = torch.randn(8192, 8192, device="cuda")
    out: Row = {"copy_TB_per_s": 2 * 4 * 2**28 / _seconds(lambda: other.copy_(values), 5) / 1e12}
    for allowed in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        name = "tf32" if allowed else "float32"
        out[f"{name}_TFLOP_per_s"] = 2 * 8192**3 / _seconds(lambda: one @ one, 5) / 1e12
    torch.backends.cuda.matmul.allow_tf32 = False
    half = one.half()
    out["float16_TFLOP_per_s"] = 2 * 8192**3 / _seconds(lambda: half @ half, 5) / 1e12
    return out


def _seconds(work: Callable[[], object], turns: int) -> float:
    """The least of so many turns, after one that does not count."""
    times = []
    for _ in range(turns + 1):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _model(
    path: Path | None, scratch: Path, motion: str, there: bool, most: int | None = None
) -> pliant.Model:
    if path is not None and path.exists():
        return pliant.load(path)
    faces = data.faces(scratch / "train", 60)
    if most is not None or not there:
        faces = faces[: most if there else 60]
    begin = time.perf_counter()
    settings = pliant.Training(preset="paper", motion=motion, confidence=False, detector="none")
    model = pliant.train(faces, settings)
    print(f"trained in {time.perf_counter() - begin:.0f} s", flush=True)
    if path is not None:
        model.save(path)
    return model


def _test_images(scratch: Path) -> pliant.Dataset:
    [folder] = data.folders("lfpw/testset", synthetic_count=70, scratch=scratch)
    return pliant.load_dataset(folder)


def _print(rows: list[Row]) -> None:
    if not rows:
        return
    shown = {
        key: (lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)) for key in rows[0]
    }
    print_table(rows, shown)


if __name__ == "__main__":
    main()
