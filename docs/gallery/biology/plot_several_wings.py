"""Find several specimens in one image
===================================

A slide often holds more than one wing. ``fit`` returns all that it finds: the best as the
result, the others beside it.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant

# %%
# Train on images with one wing each. Confidence is needed here, because it decides what counts as
# a wing.

wings = pliant.synthetic.wings(30, image_size=160)
model = pliant.train(wings, preset="quick", size=50, experts="none", progress=False)

# %%
# The slide: four other wings, in a mosaic of four fields of view.

others = pliant.synthetic.wings(4, seed=6, image_size=160)
upper, lower = (
    np.concatenate([wing.image() for wing in pair], axis=1)
    for pair in (others[:2], others[2:])
)
slide = np.concatenate([upper, lower], axis=0)
height, width = others[0].image().shape[:2]
corners = [(0, 0), (width, 0), (0, height), (width, height)]
true = [
    wing.points() + corner for wing, corner in zip(others, corners, strict=True)
]

# %%
# One call finds them all. Say how many there are if you know it. Otherwise the search ends once
# the wings that were found fill much of the image.

fit = pliant.fit(model, slide, objects=4)
found = [one for one in fit.objects if one.confidence() > 0.5]
print(
    len(found),
    "wings, with confidence",
    *(f"{one.confidence():.2f}" for one in found),
)

figure, axis = plt.subplots(figsize=(7, 5.3), layout="constrained")
axis.imshow(slide)
for number, one in enumerate(found, 1):
    axis.plot(
        *one.points.T, "o", color="#F0E442", markeredgecolor="black", markersize=4
    )
    left, top = one.points.min(axis=0)
    axis.text(
        left,
        top - 6,
        f"{number}: {one.confidence():.2f}",
        color="#0072B2",
        weight="bold",
    )
axis.set_axis_off()

# %%
# Each wing was found once, and the landmarks are where they belong.

size = pliant.shape.shape_size(np.array(true))
errors = [
    min(
        np.linalg.norm(one.points - points, axis=1).mean() / extent for one in found
    )
    for points, extent in zip(true, size, strict=True)
]
print("errors:", np.round(errors, 3))

assert len(found) == 4
assert max(errors) < 0.05
