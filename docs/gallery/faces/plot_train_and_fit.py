"""Train a model and fit it to new images
======================================

A data set goes in, a model comes out, and the model finds the landmarks of images that it has
never seen. This is the whole of pliant in three calls.
"""

import numpy as np

import pliant

# %%
# A data set is a list of images with their landmarks. Here a program draws 40 faces with 68
# landmarks each. With images of your own, write ``faces = pliant.load_dataset("photographs/")``
# instead.

faces = pliant.synthetic.faces(40, image_size=128)
samples = pliant.plots.plot_samples(faces[:12])

# %%
# Training takes a few seconds at this size. The preset ``quick`` uses settings that are good for
# most objects; without it, ``train`` tries settings on held-out images, which takes minutes and
# is worth it for a model that you keep.

model = pliant.train(
    faces, preset="quick", size=60, experts="none", confidence=False, progress=False
)
print(model)

# %%
# Fit the model to six other faces. Nobody tells it where they are. The upper row shows where each
# fit began, the lower row where it ended.

new = pliant.synthetic.faces(6, seed=1, image_size=128)
fits = pliant.fit(model, new)
figure = pliant.plots.plot_fits(fits, [sample.image() for sample in new])
# sphinx_gallery_thumbnail_number = 2

# %%
# These faces were drawn, so the true landmarks are known. The error is the mean distance to them
# as a share of the size of the face.

errors = [
    np.linalg.norm(fit.points - sample.points(), axis=1).mean()
    / pliant.shape.shape_size(sample.points())
    for fit, sample in zip(fits, new, strict=True)
]
print("errors:", np.round(errors, 3))

assert all(fit.ok for fit in fits)
assert np.median(errors) < 0.03
