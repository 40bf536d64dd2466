"""Draw docs/pictures/map.svg: the rooms of pliant from the outside in, and the way of an image through two of them.

python docs/draw_map.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

TRAIN, FIT = "#D55E00", "#0072B2"

# From the outside in. A room: its name, its place (column, width), and what it answers.
LAYERS = [
    [("cli", 0, 12, "a command parses, calls and prints")],
    [("experiments", 0, 6, "the paper's comparisons"), ("bulk", 6, 6, "runs to disk that survive")],
    [
        ("training", 0, 3, "build, then calibrate"),
        ("evaluation", 3, 3, "errors against landmarks"),
        ("tracking", 6, 3, "videos"),
        ("plots, report", 9, 3, "pictures and pages"),
    ],
    [("trust.calibration", 0, 4, "held-out fits"), ("batch", 4, 8, "the only threads that fit; public fit")],
    [
        ("building", 0, 4, "samples to levels"),
        ("starts", 4, 3, "where to begin"),
        ("fitting", 7, 5, "cost, composition, method; one loop"),
    ],
    [
        ("kernels", 4, 5, "pixels to inner products: a System"),
        ("trust.evidence", 9, 3, "what speaks for a fit"),
    ],
    [("model, store", 0, 12, "levels, placements, confidence: a value in one file")],
    [("data", 0, 12, "images, landmarks, 20 formats, checks")],
    [
        ("appearance", 0, 4, "views, features"),
        ("motion", 4, 4, "warps: one matrix"),
        ("shape, pca", 8, 4, "modes"),
    ],
    [("settings", 0, 6, "one value for each task"), ("arrays, files, threads, terminal", 6, 6, "")],
]
# The way of an image: number, place on the map, what happens there.
WAYS = {
    TRAIN: [
        (0.9, 7, "1 read and checked"),
        (5.0, 4, "2 where is the object?"),
        (2.0, 4, "3 a view a level,"),
        (1.2, 8, "4 features, warped"),
        (9.2, 8, "5 principal components"),
        (1.4, 3, "6 held-out fits"),
        (2.6, 6, "7 one file"),
    ],
    FIT: [
        (6.4, 3, "1 a block of images"),
        (3.6, 7, "2 read"),
        (6.0, 4, "3 starts"),
        (8.6, 4, "4 coarse to fine"),
        (3.2, 8, "5 view, features"),
        (6.2, 5, "6 a System"),
        (10.6, 4, "7 a step"),
        (6.6, 8, "8 composed"),
        (10.4, 5, "9 evidence"),
    ],
}


def draw() -> plt.Figure:
    figure, axes = plt.subplots(figsize=(11, 9.5))
    height, gap = 1.0, 0.42
    middles = []
    for row, rooms in enumerate(LAYERS):
        top = -row * (height + gap)
        middles.append(top - height / 2)
        for name, left, width, answer in rooms:
            axes.add_patch(
                FancyBboxPatch(
                    (left + 0.06, top - height), width - 0.12, height, boxstyle="round,pad=0,rounding_size=0.12",
                    facecolor="#F4F4F4", edgecolor="#666666", linewidth=1,
                )
            )  # fmt: skip
            axes.text(left + 0.2, top - 0.27, name, weight="bold", fontsize=10, va="center")
            axes.text(
                left + width - 0.2, top - 0.27, answer, fontsize=7.5, va="center", ha="right", color="#444444"
            )
    for colour, steps in WAYS.items():
        places = []
        for x, row, words in steps:
            low = middles[row] - (0.08 if colour == TRAIN else 0.33)
            axes.text(
                x, low, words, fontsize=7.5, color="white", ha="center", va="center",
                bbox={"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"},
            )  # fmt: skip
            places.append((x, low))
        for one, other in zip(places, places[1:], strict=False):
            axes.add_patch(
                FancyArrowPatch(
                    one, other, arrowstyle="-|>", mutation_scale=9, shrinkA=12, shrinkB=12, color=colour, alpha=0.55,
                    connectionstyle="arc3,rad=0.12", linewidth=1.2,
                )
            )  # fmt: skip
    axes.text(0.06, 0.45, "An image through train", color=TRAIN, weight="bold", fontsize=11)
    axes.text(4.2, 0.45, "An image through fit", color=FIT, weight="bold", fontsize=11)
    axes.text(11.94, 0.45, "imports point downwards", color="#444444", fontsize=9, ha="right")
    axes.set_xlim(0, 12)
    axes.set_ylim(-len(LAYERS) * (height + gap) + 0.3, 0.9)
    axes.set_axis_off()
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99)
    return figure


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "pliant"
    draw().savefig(Path(__file__).parent / "pictures" / "map.svg", metadata={"Date": None})
