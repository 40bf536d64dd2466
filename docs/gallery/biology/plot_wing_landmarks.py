"""Measure wings in millimetres, from a TPS file
=============================================

Programs for morphometrics such as tpsDig write landmarks to TPS files, with the length of a
pixel as ``SCALE``. pliant reads them, digitises the rest of your images, and writes a TPS file
again.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import pliant

# %%
# First, something to measure: 40 wings under a microscope, at three magnifications. ``wings.tps``
# has 14 landmarks for each. With images of your own, start at ``load_dataset``.

folder = Path(tempfile.mkdtemp())
pliant.synthetic.write_wings(folder, 40, image_size=240)
lines = (folder / "wings.tps").read_text().splitlines()
print("\n".join([*lines[:3], "...", *lines[15:18]]))

wings = pliant.load_dataset(folder / "wings.tps")
annotated, rest = wings[:30], wings[30:]
picture = pliant.plots.plot_samples(annotated[:8], columns=4)

# %%
# Train on 30 wings, and let the model digitise the others.

model = pliant.train(
    annotated,
    preset="quick",
    size=60,
    experts="none",
    confidence=False,
    progress=False,
)
fits = pliant.fit(model, rest)

# %%
# Distances in pixels mean little if magnifications differ. ``spacing()`` is the ``SCALE`` of each
# image.

ROOT, TIP = 7, 3  # the root of L2 and L3, and the end of L3


def length(points, spacing):
    return np.linalg.norm(points[TIP] - points[ROOT]) * spacing


measured = np.array(
    [
        length(fit.points, wing.spacing())
        for fit, wing in zip(fits, rest, strict=True)
    ]
)
true = np.array([length(wing.points(), wing.spacing()) for wing in rest])

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.4), width_ratios=(1.35, 1), layout="constrained"
)
left.imshow(rest[1].image())
left.plot(
    *fits[1].points.T, "o", color="#F0E442", markeredgecolor="black", markersize=6
)
left.plot(*fits[1].points[[ROOT, TIP]].T, "--", color="#D55E00", linewidth=2)
left.set_title(f"{measured[1]:.2f} mm from root to tip")
left.set_axis_off()
right.plot([true.min(), true.max()], [true.min(), true.max()], color="0.6")
right.plot(true, measured, "o", color="#0072B2")
right.set(xlabel="true length, mm", ylabel="measured length, mm")

# %%
# Write what was found for the next program, with the same scale.

found = [
    pliant.data.Annotation(
        wing.annotation().image,
        fit.points,
        size=wing.annotation().size,
        spacing=wing.spacing(),
    )
    for fit, wing in zip(fits, rest, strict=True)
]
pliant.write_annotations(folder / "found.tps", found)

print(
    f"largest difference in length: {1000 * np.abs(measured - true).max():.0f} micrometres"
)
assert np.abs(measured - true).max() < 0.08
assert np.corrcoef(measured, true)[0, 1] > 0.95
assert len(pliant.load_dataset(folder / "found.tps")) == len(rest)
# sphinx_gallery_thumbnail_number = 2
