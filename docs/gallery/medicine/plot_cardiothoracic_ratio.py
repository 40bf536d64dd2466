"""Measure the heart in chest radiographs, with an error bar
=========================================================

The cardiothoracic ratio is the width of the heart over the width of the chest. Values above 0.5
are a common sign of an enlarged heart. This example measures it in millimetres, from 20
annotated radiographs, and says how uncertain each value is.

The images are drawings: nobody should learn medicine from them.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant
from pliant.synthetic import HEART, LEFT_LUNG, RIGHT_LUNG

# %%
# The radiographs have 12 bits in 16, each with its own offset and range. pliant finds black and
# white by itself. The length of a pixel comes with each image, as it does in DICOM files.

chests = pliant.synthetic.chests(26, image_size=192)
image, points, spacing = pliant.synthetic.chest(0, image_size=192)
print(
    image.dtype,
    "from",
    image.min(),
    "to",
    image.max(),
    f"and {spacing:.2f} mm per pixel",
)

train, test = chests[:20], chests[20:]
model = pliant.train(train, preset="quick", size=60, experts="none", progress=False)
fits = pliant.fit(model, test)

# %%
# Join the landmarks of each organ to an outline. The dotted lines are the true ones.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
for axis, sample, fit in zip(axes, test, fits, strict=False):
    axis.imshow(sample.image(), cmap="gray", vmin=0, vmax=1)
    for organ, colour in (
        (RIGHT_LUNG, "#56B4E9"),
        (LEFT_LUNG, "#56B4E9"),
        (HEART, "#F0E442"),
    ):
        ring = [*organ, organ[0]]
        axis.plot(*sample.points()[ring].T, ":", color="white", linewidth=1)
        axis.plot(*fit.points[ring].T, color=colour, linewidth=1.6)
    axis.set_axis_off()

# %%
# The ratio needs four landmarks: the two farthest points of the heart and the two widest points
# of the lungs. The covariance of a fit says how uncertain each of them is; draw from it to see
# how uncertain the ratio is. This takes the landmarks as independent.

FOUR = [20, 24, 3, 12]  # heart right and left, lung right and left


def widths(points):
    """Widths of heart and chest: points (..., 28, 2) to (..., 2)."""
    right_heart, left_heart, right_lung, left_lung = np.moveaxis(
        points[..., FOUR, 0], -1, 0
    )
    return np.stack([left_heart - right_heart, left_lung - right_lung], axis=-1)


rng = np.random.default_rng(0)
rows = []
for sample, fit in zip(test, fits, strict=True):
    root = np.linalg.cholesky(fit.covariance)
    drawn = fit.points + np.einsum(
        "vij,nvj->nvi", root, rng.standard_normal((2000, *fit.points.shape))
    )
    heart, chest = widths(fit.points) * sample.spacing()
    deviation = np.std(widths(drawn)[:, 0] / widths(drawn)[:, 1])
    true_heart, true_chest = widths(sample.points())
    rows.append((heart / chest, deviation, true_heart / true_chest))
    print(
        f"{sample.name}: heart {heart:.0f} mm, chest {chest:.0f} mm, ratio {rows[-1][0]:.3f} ± {deviation:.3f}"
    )

ratio, deviation, truth = np.array(rows).T

# %%
# The bars are two standard deviations long on each side. The crosses are the true ratios of the
# drawings.

figure, axis = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
axis.axhline(0.5, color="0.6", linewidth=1)
axis.errorbar(
    range(len(test)),
    ratio,
    2 * deviation,
    fmt="o",
    capsize=4,
    color="#0072B2",
    label="measured",
)
axis.plot(
    range(len(test)), truth, "x", color="#D55E00", markersize=9, mew=2, label="true"
)
axis.set(
    xticks=range(len(test)),
    xticklabels=[sample.name for sample in test],
    ylabel="cardiothoracic ratio",
)
axis.legend(frameon=False)

assert all(fit.ok for fit in fits)
assert np.abs(ratio - truth).max() < 0.06
assert np.mean(np.abs(ratio - truth) < 2 * deviation) >= 0.5
