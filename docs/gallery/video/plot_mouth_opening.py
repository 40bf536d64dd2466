"""Track a face and plot how its mouth opens
=========================================

``track`` follows an object through a video and gives its landmarks in every frame. From these
you can measure whatever changes over time: here, how far a speaking mouth is open.
"""

import matplotlib.pyplot as plt
import numpy as np

import pliant
from pliant.synthetic.video import RATE, face_video

# %%
# A face that moves, speaks and blinks, 25 frames a second. Any list of images will do, and so
# will the name of a video: ``pliant.track(model, "face.mp4")``.

frames = list(face_video(60, seed=3, width=160, interrupted=False))
faces = pliant.synthetic.faces(60, image_size=128)
model = pliant.train(
    faces, preset="quick", size=60, experts="none", confidence=False, progress=False
)

# %%
# Tracking yields one record for each frame. The first frame is searched; after that, each fit
# starts where the last one ended.

tracked = list(pliant.track(model, [frame.image for frame in frames], rate=RATE))
print(
    sum(frame.event == "lost" for frame in tracked),
    "of",
    len(tracked),
    "frames lost",
)

figure, axes = plt.subplots(1, 5, figsize=(9, 1.7), layout="constrained")
for axis, frame in zip(axes, tracked[::14], strict=False):
    axis.imshow(frame.image)
    axis.plot(*frame.result.points.T, ".", color="#F0E442", markersize=2.5)
    axis.set_title(f"{frame.time:.2f} s", fontsize=9)
    axis.set_axis_off()

# %%
# The opening is the gap between the inner lips, landmarks 62 and 66, over the distance between
# the outer corners of the eyes. The quotient does not change when the face comes closer.


def opening(points):
    return np.linalg.norm(points[66] - points[62]) / np.linalg.norm(
        points[45] - points[36]
    )


seconds = np.array([frame.time for frame in tracked])
measured = np.array([opening(frame.result.points) for frame in tracked])
true = np.array([opening(frame.points) for frame in frames])

figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(seconds, true, color="0.6", linewidth=4, label="true")
axis.plot(seconds, measured, color="#D55E00", label="tracked")
axis.set(xlabel="time, s", ylabel="mouth opening / eye distance", ylim=(0, None))
axis.legend(frameon=False)

# %%
# The trace rises and falls with the truth, and stays a little above it while the mouth is shut.

agreement = np.corrcoef(measured, true)[0, 1]
print(
    f"correlation {agreement:.2f}, mean difference {np.abs(measured - true).mean():.3f}"
)

assert all(frame.event != "lost" for frame in tracked)
assert agreement > 0.8
# sphinx_gallery_thumbnail_number = 2
