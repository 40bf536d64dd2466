"""Learning where the object is in its images, and in the boxes of a detector."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pliant.arrays import Float64
from pliant.crew import Jobs, crew_of
from pliant.data.dataset import Sample
from pliant.settings import Detector
from pliant.starts.detectors import detected, find_detector, haar_face, largest_face
from pliant.starts.placement import IMAGE, LOST, Placement, image_box, learn_placement

_LEARNED_FROM = 100
"""Training images that placements are learned from, spread evenly over all."""

_TASTE = 12
"""Of these, the images after which a detector that nobody asked for is given up."""


def learn_placements(
    samples: Sequence[Sample],
    shapes: Float64,
    mean: Float64,
    detector: str | Detector | None = "auto",
    jobs: Jobs = 1,
) -> tuple[Placement, ...]:
    """Where the object is in its images, and where it is in the boxes of a detector, if that finds it.

    `shapes (k, v, 2)` are the samples' landmarks, and `mean (v, 2)` is the mean shape. `auto` tries Haar's
    frontal face, and gives up after a few images if there are none. A detector that does not find the object in
    half of the images is left out, and if it was asked for, that is an error.
    """
    chosen = np.linspace(0, len(samples) - 1, min(len(samples), _LEARNED_FROM)).round().astype(int)
    # In another order, so that the first few are as mixed as all of them.
    chosen = np.random.default_rng(0).permutation(chosen)
    some = [samples[number] for number in chosen]
    return crew_of(jobs).one(_learned, some, shapes[chosen], mean, detector)


def _learned(
    samples: Sequence[Sample],
    truths: Float64,
    mean: Float64,
    detector: str | Detector | None,
    *,
    threads: int,
) -> tuple[Placement, ...]:
    """Placements as these samples have them."""
    asked = None if detector is None else find_detector("haar-face" if detector == "auto" else detector)
    if asked is not None and asked[1] is haar_face:
        asked = asked[0], largest_face

    def look(sample: Sample) -> tuple[Float64, Float64]:
        image = sample.image()
        boxes = np.zeros((0, 4)) if asked is None else detected(*asked, image)
        return image_box(image), boxes[:1]

    with ThreadPoolExecutor(max_workers=threads) as pool:
        seen = list(pool.map(look, samples[:_TASTE]))
        if detector == "auto" and _on_object(seen, truths) < 0.3 * len(seen):
            asked = None
        seen += list(pool.map(look, samples[_TASTE:]))
    whole = np.array([box for box, _ in seen])
    placements = [learn_placement(IMAGE, whole, truths, mean, len(seen))]
    if asked is not None:
        hits = [k for k, (_, boxes) in enumerate(seen) if len(boxes)]
        if hits:
            boxes = np.array([seen[k][1][0] for k in hits])
            placements.append(learn_placement(asked[0], boxes, truths[hits], mean, len(seen)))
        if not hits or placements[-1].found < 0.5:
            share = placements.pop().found if hits else 0.0
            if detector != "auto":
                raise ValueError(
                    f"the detector {asked[0]} found the object in {share:.0%} of {len(seen)} training "
                    "images, but at least half are needed to learn from: use another detector, or none."
                )
    return tuple(placements)


def _on_object(seen: Sequence[tuple[Float64, Float64]], truths: Float64) -> int:
    """In how many images the first box lies about the landmarks: its centre is theirs, roughly."""
    count = 0
    for (_, boxes), truth in zip(seen, truths, strict=False):
        for left, top, right, bottom in boxes:
            off = np.abs((truth.min(axis=0) + truth.max(axis=0) - (left + right, top + bottom)) / 2)
            count += bool(np.all(off < LOST * np.ptp(truth, axis=0)))
    return count
