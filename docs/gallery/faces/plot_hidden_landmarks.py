"""Find out which landmarks are hidden
===================================

A hand, a scarf or a label may cover part of the object. A model with an *expert*, which looks
for each landmark by itself, can say which landmarks it does not see. The model fills them in
from the others.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant

# %%
# The linear expert is a set of filters, one for each landmark. It needs no PyTorch and trains in
# seconds. Training also learns, from held-out images, how sure the expert usually is of each
# landmark.

faces = pliant.synthetic.faces(40, image_size=96)
faces = pliant.dataset_from_arrays(
    [one.image() for one in faces], [one.points() for one in faces]
)
model = pliant.train(
    faces, preset="quick", size=40, experts="linear", progress=False
)

# %%
# Cover the mouth of a face with a grey board, and fit both pictures.

sample = pliant.synthetic.faces(8, seed=5, image_size=96)[2]
points = sample.points()
low, high = points[48:60].min(axis=0) - 7, points[48:60].max(axis=0) + 7
covered = sample.image().copy()
covered[int(low[1]) : int(high[1]), int(low[0]) : int(high[0])] = 120
behind = np.all((points > low) & (points < high), axis=1)

fits = {
    "in full view": pliant.fit(model, sample),
    "mouth covered": pliant.fit(model, covered),
}

# %%
# Orange crosses are landmarks that the expert does not see.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.7), layout="constrained")
for axis, picture, (name, fit) in zip(
    axes, (sample.image(), covered), fits.items(), strict=True
):
    axis.imshow(picture)
    axis.plot(
        *fit.points[~fit.hidden].T,
        "o",
        color="#F0E442",
        markersize=3,
        markeredgecolor="black",
        mew=0.3,
    )
    axis.plot(*fit.points[fit.hidden].T, "x", color="#D55E00", markersize=6, mew=2)
    axis.set_title(f"{name}: {fit.hidden.sum()} hidden")
    axis.set_axis_off()

# %%
# Some of the covered landmarks are missed: next to the board, the expert still sees something.
# The landmarks that are in view stay where they belong.

hidden = fits["mouth covered"].hidden
size = pliant.shape.shape_size(points)
distances = np.linalg.norm(fits["mouth covered"].points - points, axis=1) / size
print(
    f"hidden: {hidden[behind].mean():.0%} of the covered landmarks, {hidden[~behind].mean():.0%} of the others"
)
print(
    f"error: {distances[behind].mean():.3f} where covered, {distances[~behind].mean():.3f} elsewhere"
)

assert hidden[behind].mean() > 2 * hidden[~behind].mean()
assert hidden.sum() > fits["in full view"].hidden.sum()
assert distances[~behind].mean() < 0.04
