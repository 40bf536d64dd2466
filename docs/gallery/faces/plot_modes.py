"""See what a model has learned: modes of shape and appearance
===========================================================

A model describes an object by few numbers. Each belongs to a *mode*: a way in which the
training images differ from their mean. Look at the modes before you use a model: a wrong
annotation shows up here as a mode that makes no sense.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant

faces = pliant.synthetic.faces(60, image_size=128)
model = pliant.train(
    faces, preset="quick", size=60, experts="none", confidence=False, progress=False
)

# %%
# Each row is one mode, from minus to plus three standard deviations. Heads turn and nod, mouths
# open, and the light changes.

modes = pliant.plots.plot_modes(model, shape=3, texture=2)

# %%
# How many modes are needed? The curves show how much of the variance the first modes explain.

variance = pliant.plots.plot_variance(model)

# %%
# ``model.draw`` makes a picture of any instance. Here are twelve faces that nobody drew, with
# random numbers for the first five modes of shape and of texture.

rng = np.random.default_rng(7)
figure, axes = plt.subplots(2, 6, figsize=(9, 3.4), layout="constrained")
for axis in axes.flat:
    picture, points = model.draw(
        rng.normal(0, 1, 5), rng.normal(0, 1, 5), height=240
    )
    (left, top), (right, bottom) = points.min(axis=0) - 6, points.max(axis=0) + 6
    axis.imshow(np.clip(picture, 0, 1))
    axis.set(xlim=(left, right), ylim=(bottom, top))
    axis.set_axis_off()

# %%
# The modes come in order, and the first few carry most of the variance.

shape = model.levels[-1].shape
shares = shape.eigenvalues / shape.total_variance
print("variance of the first modes of shape:", np.round(shares[:5], 3))

assert np.all(np.diff(shares) <= 0)
assert shares[:5].sum() > 0.6
# sphinx_gallery_thumbnail_number = 1
