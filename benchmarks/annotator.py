"""A simulated annotator: how many points are left to move by hand, with a model that learns after every image.

python benchmarks/annotator.py                                   # wings and chests, about half an hour
python benchmarks/annotator.py --data wings --orders 1 --tolerances 0.02
python benchmarks/annotator.py --draw docs/pictures              # and the plot

The annotator knows the truth. The first five images are placed by hand, all points of them. From then on an image
opens with the proposal. While a point is farther from the truth than the tolerance, a share of the object's size,
the worst one is moved to the truth, and the model follows. What is then on the page is what is learned from: points
that were left alone are as far off as the tolerance lets them be, and not the truth. A run is one random order.

Three ways are counted. none: every point of the proposal beyond the tolerance is moved, and nothing follows.
follow: after each move, the others go to the most plausible shape, without a look at the image. refit: the model
looks again, with the moved points held; it is by this one that images are finished.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np

import data
import pliant
from pliant.arrays import Float64, Image
from pliant.quick.learning import FEWEST, Finished, Learner
from pliant.quick.model import QuickModel
from pliant.shape import shape_size
from pliant.studio.proposing.next_image import suggestions, thumbnail
from pliant.studio.proposing.proposals import Proposal, doubt_of, follow, proposal
from tables import print_table

OBJECTS = {"wings": (60, 0.1, 20), "chest": (50, 0.25, 40)}
"""Images to annotate, and the goal: this share of points to be moved, after so many images."""

TOLERANCES = (0.02, 0.015, 0.03)
"""The first one was chosen before anything was measured; the others show what it decides."""

WINDOW = 5
"""Images that a running mean is over."""

WAYS = ("none", "follow", "refit")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(OBJECTS), choices=list(OBJECTS))
    parser.add_argument("--images", type=int, help="to annotate; 60 wings, 50 chests if not given")
    parser.add_argument("--orders", type=int, default=3, help="random orders of the images")
    parser.add_argument("--first", type=int, default=0, help="the number of the first order")
    parser.add_argument("--tolerances", type=float, nargs="+", default=list(TOLERANCES))
    parser.add_argument("--choose", action="store_true", help="also let the model choose the next image")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--draw", type=Path, help="a folder for the plot")
    parser.add_argument("--save", type=Path, help="a JSON file for all counts")
    parser.add_argument("--read", type=Path, nargs="+", help="JSON files that were saved, instead of runs")
    options = parser.parse_args()
    print(data.machine())
    runs: list[dict[str, Any]] = []
    for file in options.read or []:
        runs += json.loads(file.read_text())
    for name in [] if options.read else options.data:
        folder = data.real(name)
        if folder is None:
            print(f"{name}: not here, left out; the data is described in docs/reference/data.md")
            continue
        samples = [(sample.image(), sample.points()) for sample in pliant.load_dataset(folder)]
        for tolerance in options.tolerances:
            for order in range(options.first, options.first + options.orders):
                runs.append(_run(name, samples, tolerance, order, options, chosen=False))
                _say(runs[-1])
                _save(runs, options.save)
        if options.choose:
            for order in range(options.first, options.first + options.orders):
                runs.append(_run(name, samples, options.tolerances[0], order, options, chosen=True))
                _say(runs[-1])
                _save(runs, options.save)
    if runs:
        _tables(runs)
        if options.draw is not None:
            _draw(runs, options.draw / "annotator.png")


def _save(runs: list[dict[str, Any]], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(runs))


def _run(
    name: str,
    samples: list[tuple[Image, Float64]],
    tolerance: float,
    seed: int,
    options: argparse.Namespace,
    chosen: bool,
) -> dict[str, Any]:
    """Moves of each image, by the three ways, as shares of all points; and seconds of training."""
    count = options.images or OBJECTS[name][0]
    order = np.random.default_rng(seed).permutation(len(samples)).tolist()
    still_open, held = order[:-40], order[-40:]
    pictures = {k: thumbnail(image) for k, (image, _) in enumerate(samples)} if chosen else {}
    learner, model = Learner(options.jobs), None
    finished: dict[Hashable, Finished] = {}
    moves: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds, ranks, later = [], [], {}
    for _ in range(count):
        k = _next(model, samples, pictures, list(finished), still_open) if chosen else still_open[0]
        still_open.remove(k)
        image, truth = samples[k]
        if model is None:
            accepted = truth
            for way in WAYS:
                moves[way].append(1.0)
        else:
            accepted, counts = annotated(model, image, truth, tolerance)
            for way in WAYS:
                moves[way].append(counts[way] / len(truth))
            first = proposal(model, 1, image)
            errors = np.linalg.norm(first.points - truth, axis=1) / shape_size(truth)
            deviations = np.sqrt(np.trace(first.covariance, axis1=1, axis2=2) / 2) / shape_size(truth)
            squares = _squares(first, truth)
            ranks.append((errors.tolist(), deviations.tolist(), squares.tolist()))
        finished[k] = Finished(lambda image=image: image, accepted)  # type: ignore[misc]
        if len(finished) >= FEWEST:
            begin, used = time.perf_counter(), time.process_time()
            model = learner.learn(finished)
            taken = time.perf_counter() - begin, time.process_time() - used
            seconds.append((len(finished), *taken))
        if options.choose and model is not None and len(finished) in (10, 20, 40):
            later[len(finished)] = float(np.mean([_beyond(model, *samples[j], tolerance) for j in held]))
    return {
        "object": name,
        "tolerance": tolerance,
        "order": seed,
        "chosen": chosen,
        "moves": moves,
        "seconds": seconds,
        "held_out": later,
        "ranks": ranks,
    }


def annotated(
    model: QuickModel, image: Image, truth: Float64, tolerance: float
) -> tuple[Float64, dict[str, int]]:
    """What is on the page when all points are right, and how many were moved by each way."""
    size = float(shape_size(truth))
    first = proposal(model, 1, image)
    none = int(np.sum(np.linalg.norm(first.points - truth, axis=1) > tolerance * size))

    def followed(points: Float64, fixed: dict[int, Any]) -> Float64:
        return follow(first, None, points, fixed)

    def refitted(points: Float64, fixed: dict[int, Any]) -> Float64:
        return proposal(model, 1, image, fixed).points

    _, following = _corrected(first, truth, tolerance * size, followed)
    points, refitting = _corrected(first, truth, tolerance * size, refitted)
    return points, {"none": none, "follow": following, "refit": refitting}


def _corrected(
    first: Proposal,
    truth: Float64,
    tolerance: float,
    move: Callable[[Float64, dict[int, Any]], Float64],
) -> tuple[Float64, int]:
    points, fixed = first.points, {}
    while True:
        errors = np.linalg.norm(points - truth, axis=1)
        errors[list(fixed)] = 0.0
        worst = int(np.argmax(errors))
        if errors[worst] <= tolerance:
            return points, len(fixed)
        fixed[worst] = tuple(truth[worst])
        points = move(points, fixed)


def _beyond(model: QuickModel, image: Image, truth: Float64, tolerance: float) -> float:
    """The share of points of a proposal that are beyond the tolerance."""
    errors = np.linalg.norm(proposal(model, 1, image).points - truth, axis=1)
    return float(np.mean(errors > tolerance * float(shape_size(truth))))


def _squares(first: Proposal, truth: Float64) -> Float64:
    """Squared distances `(v,)` from the truth, in deviations of the proposal."""
    away = truth - first.points
    return np.asarray(np.einsum("vi,vij,vj->v", away, np.linalg.inv(first.covariance), away))


def _next(
    model: QuickModel | None,
    samples: list[tuple[Image, Float64]],
    pictures: dict[int, Any],
    done: list[Any],
    still_open: list[int],
) -> int:
    """The image that the model wants, of at most 40 open ones: the studio has a pool of 100, in the background."""
    pool = still_open[:40]
    doubts = None
    if model is not None:
        doubts = {place: doubt_of(proposal(model, 1, samples[k][0])) for place, k in enumerate(pool)}
    ranked = suggestions([pictures[k] for k in done], [pictures[k] for k in pool], doubts)
    return pool[ranked[0].index]


def _say(run: dict[str, Any]) -> None:
    own = {way: float(np.mean(run["moves"][way][-20:])) for way in WAYS}
    print(
        f"{run['object']}, order {run['order']}{', chosen' if run['chosen'] else ''}, tolerance "
        f"{run['tolerance']:g}: of the last 20 images {own['none']:.3f} of the points were beyond it, and "
        f"{own['follow']:.3f} moved with following, {own['refit']:.3f} with a refit",
        flush=True,
    )


def _tables(runs: list[dict[str, Any]]) -> None:
    rows = []
    for key in dict.fromkeys((run["object"], run["tolerance"], run["chosen"]) for run in runs):
        name, tolerance, chosen = key
        own = [run for run in runs if (run["object"], run["tolerance"], run["chosen"]) == key]
        for first, last in ((5, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, 60), (60, 80)):
            if len(own[0]["moves"]["none"]) >= last:
                means = {way: np.mean([run["moves"][way][first:last] for run in own]) for way in WAYS}
                rows.append(
                    {
                        "object": name,
                        "tolerance": tolerance,
                        "order": "model" if chosen else "list",
                        "images": f"{first + 1}-{last}",
                        **means,
                    }
                )
    number = "{:.3f}".format
    plain = {"object": str, "tolerance": "{:g}".format, "order": str, "images": str}
    print_table(rows, {**plain, **dict.fromkeys(WAYS, number)})
    for name in dict.fromkeys(run["object"] for run in runs):
        own = [run for run in runs if run["object"] == name]
        times = np.array([pair for run in own for pair in run["seconds"]])
        for low, high in ((5, 10), (10, 20), (20, 40), (40, 60), (60, 80), (80, 100)):
            some = times[(times[:, 0] >= low) & (times[:, 0] < high), 1:]
            if len(some):
                print(
                    f"{name}: training at {low} to {high - 1} images: median {np.median(some[:, 0]):.2f} s, "
                    f"worst {some[:, 0].max():.2f} s; of processor time {np.median(some[:, 1]):.2f} s, "
                    f"worst {some[:, 1].max():.2f} s"
                )
        for chosen in (False, True):
            shares = [run["held_out"] for run in own if run["chosen"] == chosen and run["held_out"]]
            if shares:
                told = ", ".join(
                    f"{np.mean([one[k] for one in shares if k in one]):.3f} after {k}" for k in shares[0]
                )
                by = "model" if chosen else "list"
                print(f"{name}: 40 images left out, order by {by}: beyond the tolerance {told}")
        _honesty(name, [run for run in own if run["tolerance"] == TOLERANCES[0]])


def _honesty(name: str, runs: list[dict[str, Any]]) -> None:
    """Whether larger deviations mean larger errors, and how many points lie in their ellipses."""
    from scipy.stats import spearmanr

    for low, high in ((0, 15), (15, 1000)):
        some = [one for run in runs for one in run["ranks"][low:high]]
        if some:
            errors, deviations, squares = (np.array([one[k] for one in some]).ravel() for k in range(3))
            rank = spearmanr(errors, deviations).statistic
            last = low + len(runs[0]["ranks"][low:high])
            print(
                f"{name}, proposals {low + 1} to {last}: rank correlation of deviation and error {rank:.2f}; "
                f"in ellipses of 50 and 90 %: {np.mean(squares < 1.386):.2f}, "
                f"{np.mean(squares < 4.605):.2f}"
            )


def _draw(runs: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    from pliant.plots.style import STYLE

    names = list(dict.fromkeys(run["object"] for run in runs))
    figure, axes = plt.subplots(1, len(names), figsize=(4.6 * len(names), 3.6), squeeze=False)
    labels = {
        "none": "proposal, nothing follows",
        "follow": "the shape follows",
        "refit": "the shape follows, and is fitted again",
    }
    for axis, name in zip(axes[0], names, strict=True):
        own = [run for run in runs if run["object"] == name and not run["chosen"]]
        tolerance = own[0]["tolerance"]
        for number, way in enumerate(WAYS):
            some = [run["moves"][way] for run in own if run["tolerance"] == tolerance]
            style = {**STYLE.curve(number), "marker": ""}
            axis.plot(*_smooth(some), label=labels[way], **style)
        for other in sorted({run["tolerance"] for run in own} - {tolerance}):
            some = [run["moves"]["refit"] for run in own if run["tolerance"] == other]
            x, y = _smooth(some)
            axis.plot(x, y, color=STYLE.curves[2], linewidth=0.8, alpha=0.7)
            axis.annotate(f"{other:.1%}", (x[-1], y[-1]), fontsize=STYLE.font - 2, color=STYLE.curves[2])
        _, goal, after = OBJECTS[name]
        end = len(own[0]["moves"]["none"])
        axis.hlines(goal, after, end, color="0.4", linestyle=":", linewidth=1.2)
        axis.annotate("goal", (end, goal), ha="right", va="bottom", fontsize=STYLE.font - 1, color="0.3")
        axis.set_title(f"{name}, moved if off by more than {tolerance:.0%}", fontsize=STYLE.font + 1)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.set_xlabel("images finished", fontsize=STYLE.font)
        axis.set_ylim(0, None)
        axis.set_xlim(FEWEST, end + 2)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=STYLE.font - 1)
    axes[0][0].set_ylabel("points moved by hand", fontsize=STYLE.font)
    axes[0][-1].legend(fontsize=STYLE.font - 1, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=STYLE.dpi)
    plt.close(figure)


def _smooth(runs: list[list[float]]) -> tuple[Float64, Float64]:
    """Images finished before, and the mean over runs of the running mean over images."""
    mean = np.mean([run[FEWEST:] for run in runs], axis=0)
    smooth = np.convolve(mean, np.ones(WINDOW) / WINDOW, mode="valid")
    return FEWEST + (WINDOW - 1) / 2 + np.arange(len(smooth)), np.asarray(smooth)


if __name__ == "__main__":
    main()
