"""Read what a fit is sure of
==========================

A fit always returns landmarks, even where there is no face. This example shows how to tell: the
*confidence* is the probability that the fit is good, and the *covariance* says how far each
landmark may be off.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant

# %%
# A model learns how far to trust its fits from images that are held out during training.
# ``train`` does that unless you switch it off with ``confidence=False``. It reads each image
# several times, so the drawn ones are kept in memory.

faces = pliant.synthetic.faces(40, image_size=96)
faces = pliant.dataset_from_arrays(
    [one.image() for one in faces], [one.points() for one in faces]
)
model = pliant.train(faces, preset="quick", size=40, experts="none", progress=False)

# %%
# Fit a clear face, the same face in the dark with a lot of noise, and a wing.

rng = np.random.default_rng(0)
clear = pliant.synthetic.faces(12, seed=5, image_size=96)[2].image()
noisy = np.clip(0.25 * clear + rng.normal(0, 22, clear.shape), 0, 255).astype(
    np.uint8
)
wing = pliant.synthetic.wings(1, image_size=128)[0].image()
pictures = {"clear": clear, "dark and noisy": noisy, "no face": wing}
fits = {name: pliant.fit(model, picture) for name, picture in pictures.items()}

figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
for axis, (name, fit) in zip(axes, fits.items(), strict=True):
    axis.imshow(pictures[name])
    axis.plot(*fit.points.T, ".", color="#F0E442", markersize=4)
    axis.set_title(f"{name}: confidence {fit.confidence():.2f}")
    axis.set_axis_off()

# %%
# The confidence depends on the error that you can live with. Ask for a smaller bound and it goes
# down.

for bound in (0.02, 0.03, 0.05):
    print(
        f"error below {bound:.0%} of the face:",
        *(f"{fit.confidence(bound):.2f}" for fit in fits.values()),
    )

assert fits["clear"].confidence() > 0.8
assert fits["no face"].confidence() < 0.5
assert fits["clear"].confidence(0.02) <= fits["clear"].confidence(0.05)

# %%
# The covariance is a 2 × 2 matrix for each landmark, in square pixels. The ellipses reach two
# standard deviations: along the jaw the model is less sure than at the eyes.

sure = fits["clear"]
ellipses = pliant.plots.plot_uncertainty(clear, sure.points, sure.covariance)
spread = np.sqrt(np.trace(sure.covariance, axis1=1, axis2=2) / 2)
print(
    f"jaw: {spread[:17].mean():.2f} pixels, eyes: {spread[36:48].mean():.2f} pixels"
)

assert spread[:17].mean() > spread[36:48].mean()
# sphinx_gallery_thumbnail_number = 1
