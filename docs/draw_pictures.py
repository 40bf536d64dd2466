"""Redraws the pictures of the docs, all of synthetic faces: `make pictures`."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pliant
from pliant import plots
from pliant.appearance.features import find_feature
from pliant.appearance.pyramid import view
from pliant.synthetic import face, faces

PICTURES = Path(__file__).parent / "pictures"


def draw_features() -> Figure:
    """One face, and every channel of every feature."""
    image, points = face(12, seed=0, image_size=256)
    grey = view(image, points, 0.9, 20).pixels[:, :, 0]
    names = ("intensity", "normalized", "gradient", "igo", "dsift")
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    axes = figure.subplots(len(names), 8)
    for axis in axes.flat:
        axis.set_axis_off()
    for name, line in zip(names, axes, strict=True):
        values = find_feature(name).compute(grey)
        span = np.percentile(np.abs(values), 99)
        lowest = 0.0 if values.min() >= 0 else -span
        for channel, axis in zip(np.moveaxis(values, 2, 0), line, strict=False):
            axis.imshow(channel, cmap="gray", vmin=lowest, vmax=span)
        line[0].set_title(name, fontsize=9, loc="left")
    return figure


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    draw_features().savefig(PICTURES / "features.png", dpi=90)
    dataset = faces(200)
    plots.plot_samples(dataset[:12]).savefig(PICTURES / "faces.png", dpi=70)
    plots.plot_modes(pliant.train(dataset)).savefig(PICTURES / "modes.png", dpi=70)


if __name__ == "__main__":
    main()
