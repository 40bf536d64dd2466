"""Make the small whole models that fuzzing begins with: `python tests/fuzz/make_models.py`.

They have five landmarks of a pattern that is drawn here, so that a file has few kilobytes and a fit takes no time.
"""

from dataclasses import replace

import numpy as np
from targets.target import CORPUS

import pliant
from pliant.data.dataset import Dataset, dataset_from_arrays
from pliant.experts.frames import crop_frame
from pliant.experts.linear_training import train_linear
from pliant.experts.network import NetworkExpert, Stage, _shapes
from pliant.trust.confidence import Confidence

CROSS = np.array([[14.0, 14.0], [34.0, 13.0], [35.0, 33.0], [13.0, 34.0], [24.0, 24.0]])


def patterns(count: int = 8) -> Dataset:
    """Grey squares with a corner at each of four landmarks and a spot at the fifth."""
    rng, images, shapes = np.random.default_rng(5), [], []
    for _ in range(count):
        points = CROSS + rng.normal(0, 1.2, CROSS.shape)
        y, x = np.mgrid[:48, :48]
        image = np.full((48, 48), 60.0)
        image[(x > points[0, 0]) & (x < points[2, 0]) & (y > points[0, 1]) & (y < points[2, 1])] = 150
        away = (x - points[4, 0]) ** 2 + (y - points[4, 1]) ** 2
        image += 90 * np.exp(-away / 8) + rng.normal(0, 4, image.shape)
        images.append(np.clip(image, 0, 255).astype(np.uint8))
        shapes.append(points)
    return dataset_from_arrays(images, shapes)


def network(mean: np.ndarray) -> NetworkExpert:
    rng, stages = np.random.default_rng(0), []
    for pixels, margin, widths, ups in ((16, 0.5, (2, 3), 1),):
        frame = crop_frame(mean, pixels, margin, 2 ** len(widths))
        shapes = _shapes(widths, ups, len(mean))
        weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        stages.append(Stage(frame, weights, 0.5, np.tile(np.diag([2.0, 1.0]), (len(mean), 1, 1))))
    return NetworkExpert(tuple(stages))


def main() -> None:
    data = patterns()
    folder = CORPUS / "whole-models"
    folder.mkdir(parents=True, exist_ok=True)
    linear = train_linear([(sample.image(), sample.points()) for sample in data], starts=4)
    for motion, features, scales in (
        ("piecewise-affine", "igo", (0.5, 1.0)),
        ("thin-plate-spline", "intensity", (1.0,)),
        ("patches", "intensity", (1.0,)),
    ):
        settings = {
            "size": 14,
            "shape_modes": 2,
            "appearance_modes": 3,
            "features": features,
            "scales": scales,
        }
        model = pliant.train(data, motion=motion, detector=None, progress=False, confidence=False, **settings)
        expert = {"igo": network(model.levels[-1].shape.mean), "intensity": linear}[features]
        expert = None if motion == "patches" else expert
        ones, count = np.ones(4), model.landmarks
        scatter = np.tile(np.eye(2), (count, 1, 1))
        sure = Confidence(9, 0 * ones, ones, ones.cumsum() / 9, np.eye(4), ones, 1.0, scatter)
        noise = None if expert is None else 0.1 * scatter
        whole = replace(model, confidence=sure, expert=expert, expert_weight=0.5, shape_noise=noise)
        whole.save(folder / f"{motion}.pliant")


if __name__ == "__main__":
    main()
