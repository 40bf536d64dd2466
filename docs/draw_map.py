"""Draw docs/pictures/map.svg: the rooms of pliant from the outside in, and the way of an image through two of them.

python docs/draw_map.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

TRAIN, FIT = "#D55E00", "#0072B2"

# From the outside in. A room: its name, its place (column, width), and what it answers.
LAYERS = [
    [("cli", 0, 12, "a command parses, calls and prints")],
    [
        ("studio", 0, 2.7, "pages that annotate"),
        ("distributed", 2.7, 2.7, "the crew of a cluster"),
        ("experiments", 5.4, 3, "the paper's comparisons"),
        ("bulk", 8.4, 3.6, "runs to disk that survive a kill"),
    ],
    [
        ("training", 0, 2.6, "build, calibrate"),
        ("evaluation", 2.6, 3.2, "errors by landmarks"),
        ("tracking", 5.8, 1.9, "videos"),
        ("table", 7.7, 2, "all fits"),
        ("plots, report", 9.7, 2.3, "pictures"),
    ],
    [
        ("trust.calibration", 0, 4.4, "held-out fits"),
        ("batch", 4.4, 7.6, "public fit; the only threads that fit"),
    ],
    [
        ("building", 0, 4.4, "from samples to levels"),
        ("starts", 4.4, 3, "where to begin"),
        ("fitting", 7.4, 4.6, "cost, composition, method"),
    ],
    [
        ("kernels", 4.4, 4.6, "from pixels to a System"),
        ("trust.evidence", 9, 3, "what speaks for it"),
    ],
    [("model, store", 0, 12, "levels, placements, confidence: a value in one file")],
    [
        ("data", 0, 7.4, "images, landmarks, 20 formats, checks"),
        ("experts", 7.4, 4.6, "where landmarks are seen"),
    ],
    [
        ("appearance", 0, 4.4, "views, features"),
        ("motion", 4.4, 3.8, "warps: one matrix"),
        ("shape, pca", 8.2, 3.8, "modes"),
    ],
    [
        ("settings", 0, 6, "one value for each task"),
        ("arrays, files, threads, crew, terminal", 6, 6, "what all share"),
    ],
]
# The way of an image: its place on the map (x, layer), and what happens there.
WAYS = {
    TRAIN: [
        (1.1, 7, "1 read, checked"),
        (5.6, 4, "2 where is it?"),
        (1.4, 4, "3 a view a level"),
        (1.1, 8, "4 its features"),
        (5.4, 8, "5 warped to the mean"),
        (9.4, 8, "6 principal components"),
        (5.6, 5, "7 slopes of the basis"),
        (1.3, 3, "8 fits of held-out images"),
        (1.1, 6, "9 one file"),
    ],
    FIT: [
        (5.6, 3, "1 a block of images"),
        (3.2, 7, "2 read"),
        (6.7, 4, "3 starts"),
        (9.6, 7, "4 an expert looks, if there is one"),
        (8.5, 4, "5 level by level"),
        (3.2, 8, "6 a view, features"),
        (7.7, 5, "7 inner products"),
        (11.0, 4, "8 a step"),
        (7.2, 8, "9 composed"),
        (10.4, 5, "10 evidence"),
        (8.6, 2, "11 a row"),
    ],
}


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(11.5, 8.2))
    height, gap = 1.0, 0.22
    tops = [-row * (height + gap) for row in range(len(LAYERS))]
    for top, rooms in zip(tops, LAYERS, strict=True):
        for name, left, width, answer in rooms:
            corner, extent = (left + 0.06, top - height), (width - 0.12, height)
            axes.add_patch(
                FancyBboxPatch(
                    corner,
                    *extent,
                    boxstyle="round,pad=0,rounding_size=0.12",
                    facecolor="#F4F4F4",
                    edgecolor="#777777",
                )
            )
            axes.text(left + 0.2, top - 0.27, name, weight="bold", fontsize=9.5, va="center")
            right = left + width - 0.2
            axes.text(right, top - 0.27, answer, fontsize=7.5, va="center", ha="right", color="#444444")
    for colour, steps in WAYS.items():
        for x, row, words in steps:
            tag = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"}
            axes.text(
                x, tops[row] - 0.72, words, fontsize=7.5, color="white", ha="center", va="center", bbox=tag
            )
    axes.text(0.06, 0.3, "An image through train", color=TRAIN, weight="bold", fontsize=11)
    axes.text(4.4, 0.3, "An image through fit", color=FIT, weight="bold", fontsize=11)
    axes.text(11.94, 0.3, "imports point downwards", color="#444444", fontsize=9, ha="right")
    axes.set_xlim(0, 12)
    axes.set_ylim(tops[-1] - height - 0.1, 0.7)
    axes.set_axis_off()
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99)
    return figure


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "pliant"
    draw().savefig(Path(__file__).parent / "pictures" / "map.svg", metadata={"Date": None})
