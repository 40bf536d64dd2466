"""Draw the pictures of docs/explanation/framework.md, with the algebra of the library itself.

python docs/draw_framework.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from pliant.fitting.composition import Asymmetric, Composition, Forward, Inverse, shares
from pliant.fitting.cost import SSD, Cost, ProjectOut, weigh
from pliant.fitting.quadratic import quadratic
from pliant.kernels.reference import inner_products
from pliant.kernels.system import System, united

PICTURES = Path(__file__).parent / "pictures"
INK, PALE, IMAGE, MODEL, BOTH = "#1F2328", "#57606A", "#0072B2", "#D55E00", "#009E73"


def draw_flow() -> Figure:
    """Who sees what in one iteration."""
    boxes = [
        ("image, p, c", "F·C pixels", "#F8F4E8"),
        ("kernel", "warps the image,\nknows no algorithm", "#EEF2F6"),
        ("System", "inner products:\n3n² + 2n + 1\n+ 2mn + m numbers", "#E6F4EA"),
        ("cost,\ncomposition", "a quadratic in dc, u", "#EEF2F6"),
        ("method", "solves it,\nknows no pixel", "#EEF2F6"),
        ("step", "p ← p ∘ dp ∘ dq⁻¹\nc ← c + dc", "#F8F4E8"),
    ]
    figure, axes = _card(11, 2.5)
    axes.set(xlim=(0, 6 * 2 - 0.3), ylim=(-0.85, 1.45))
    axes.set_axis_off()
    for number, (name, words, colour) in enumerate(boxes):
        left = 2 * number + 0.05
        style = "round,pad=0,rounding_size=0.08"
        axes.add_patch(
            FancyBboxPatch((left, 0), 1.5, 1.3, boxstyle=style, facecolor=colour, edgecolor="#8C959F")
        )
        axes.text(left + 0.75, 1.0, name, weight="bold", ha="center", va="center", fontsize=11, color=INK)
        axes.text(left + 0.75, 0.42, words, ha="center", va="center", fontsize=8.2, color=PALE)
        if number:
            axes.add_patch(_arrow((left - 0.48, 0.65), (left - 0.03, 0.65)))
    axes.add_patch(_arrow((10.8, -0.04), (0.8, -0.04), "arc,angleA=-90,angleB=-90,armA=26,armB=26,rad=8"))
    axes.text(
        5.8,
        -0.72,
        "again, until no landmark moves or the iterations are used up",
        ha="center",
        fontsize=9,
        color=PALE,
    )
    return figure


def draw_metric() -> Figure:
    """Lines of equal cost in a plane of residuals: along a component of A, and away from all of them."""
    variance, noise = np.array([4.0]), 0.5
    panels: list[tuple[str, str, Cost]] = [
        ("ssd, with c held", "the distance from one appearance", SSD()),
        ("po:0, or ssd with c solved", "the distance to the subspace", ProjectOut(0)),
        ("po, or ssd:map with c solved", "both, by what is likely", ProjectOut(0.5)),
        ("po:1", "the distance within the subspace", ProjectOut(1)),
    ]
    within, away = np.meshgrid(np.linspace(-4.6, 4.6, 231), np.linspace(-3, 3, 151))
    figure = plt.figure(figsize=(11, 3.1), layout="constrained")
    for axes, (name, words, cost) in zip(figure.subplots(1, 4, sharey=True), panels, strict=True):
        weights = weigh(cost, np.ones(1), variance, noise)
        values = (weights.residual * (within**2 + away**2) - weights.appearance[0] * within**2) / 2
        # A cost that does not divide by the noise has another unit.
        values = values / weights.unit
        axes.contour(within, away, values, levels=np.array([0.5, 2, 4.5, 8]), colors=IMAGE, linewidths=1.4)
        axes.axhline(0, color=MODEL, linewidth=1.2)
        axes.plot(0, 0, "o", color=MODEL, markersize=5)
        axes.set_title(f"{name}\n{words}", fontsize=9, color=INK)
        axes.set_xlabel("along A", fontsize=8.5)
        axes.set_aspect("equal")
        axes.tick_params(labelsize=7.5)
    figure.axes[0].set_ylabel("away from A", fontsize=8.5)
    return figure


def draw_parabolas() -> Figure:
    """The cost of a shift in one dimension, and the quadratic models of three compositions at its start."""
    x = np.arange(400) * 2 * np.pi / 400
    rng = np.random.default_rng(3)
    height, phase = rng.normal(size=5) / np.arange(1, 6), rng.uniform(0, 6, 5)
    waves = np.arange(1, 6)

    def model(at: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(np.multiply.outer(at, waves) + phase) @ height)

    def image(at: np.ndarray) -> np.ndarray:
        # The model elsewhere, and with more contrast than it: slopes of image and model differ.
        return 1.25 * model(at - 0.42) + 0.05 * np.sin(9 * at)

    def slope(function, at: np.ndarray) -> np.ndarray:
        return (function(at + 1e-5) - function(at - 1e-5)) / 2e-5

    shift = np.linspace(-0.25, 1.05, 261)
    truth = np.array([np.sum((image(x + s) - model(x)) ** 2) / 2 for s in shift])
    r = image(x) - model(x)
    # A basis without components: c is not in this picture.
    system = united(
        [inner_products(r, np.zeros((0, 400)), slope(image, x)[:, None], slope(model, x)[:, None])], np.stack
    )
    figure, axes = _card(9, 3.6)
    axes.plot(shift, truth, color=INK, linewidth=2.4, label="the cost itself")
    compositions: list[tuple[str, Composition, str, str]] = [
        ("forward: slopes of the image", Forward(), IMAGE, "--"),
        ("inverse: slopes of the model", Inverse(), MODEL, "-."),
        ("asymmetric, α = ½: their mean", Asymmetric(0.5), BOTH, "-"),
    ]
    for name, composition, colour, line in compositions:
        gradient, hessian, share = _model(system, composition)
        u = shift / share
        axes.plot(shift, r @ r / 2 + gradient * u + hessian * u**2 / 2, line, color=colour, label=name)
        best = -gradient / hessian
        axes.plot(best * share, r @ r / 2 + gradient * best / 2, "o", color=colour, markersize=6)
    axes.plot(0, r @ r / 2, "s", color=INK, markersize=6)
    axes.annotate("start", (0, r @ r / 2), (8, 4), textcoords="offset points", fontsize=9)
    axes.set(ylim=(-8, 1.15 * r @ r / 2), xlabel="shift of the image's warp", ylabel="cost")
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure


def _model(system: System, composition: Composition) -> tuple[float, float, float]:
    """Gradient and Hessian of the library's quadratic, and what one unit of u moves the image's warp by."""
    weights = weigh(SSD(), np.zeros(0), np.zeros(0), 1.0)
    made = quadratic(system, weights, composition, np.zeros((1, 1)), np.zeros((1, 0)))
    T = shares(composition)
    return float(made.gu[0, 0]), float(made.Huu[0, 0, 0]), float(T[0, 0] - T[1, 0])


def _card(width: float, height: float) -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(width, height), layout="constrained")


def _arrow(start: tuple[float, float], end: tuple[float, float], bend: str = "arc3") -> FancyArrowPatch:
    return FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=13, color=PALE, linewidth=1.4, connectionstyle=bend
    )


if __name__ == "__main__":
    plt.rcParams.update({"svg.hashsalt": "pliant", "font.family": "DejaVu Sans"})
    for name, draw in (("flow", draw_flow), ("metric", draw_metric), ("parabolas", draw_parabolas)):
        draw().savefig(PICTURES / f"framework-{name}.svg", metadata={"Date": None})
