"""Redraws the pictures of the docs, all of synthetic faces: `make pictures`."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pliant
from pliant import plots
from pliant.appearance.features import find_feature
from pliant.appearance.view import view
from pliant.data.dataset import dataset_from_arrays
from pliant.metrics import normalised_error
from pliant.shape import shape_size
from pliant.starts.noise import perturbed
from pliant.synthetic import face, faces
from pliant.trust.confidence import DEFAULT_BOUND

PICTURES = Path(__file__).parent / "pictures"
NOISES = (0.05, 0.15, 0.35)
EVERY = np.arange(68, dtype=np.int32)
ALGORITHMS = ("ssd:map-asy:0.2-gn-sch", "po-asy-gn", "po-inv-gn")
FACE_CONTOURS = [
    range(17),  # jaw
    range(17, 22),  # brows
    range(22, 27),
    range(27, 31),  # nose
    range(31, 36),
    [*range(36, 42), 36],  # eyes
    [*range(42, 48), 42],
    [*range(48, 60), 48],  # lips
    [*range(60, 68), 60],
]


def draw_features() -> Figure:
    """One face, and every channel of every feature."""
    image, points = face(12, seed=0, image_size=256)
    grey = view(image, points, 0.9, 20).pixels[:, :, 0]
    names = ("intensity", "normalized", "gradient", "igo", "dsift")
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    axes = figure.subplots(len(names), 8)
    for axis in axes.flat:
        axis.set_axis_off()
    for name, line in zip(names, axes, strict=True):
        values = find_feature(name).compute(grey)
        span = np.percentile(np.abs(values), 99)
        lowest = 0.0 if values.min() >= 0 else -span
        for channel, axis in zip(np.moveaxis(values, 2, 0), line, strict=False):
            axis.imshow(channel, cmap="gray", vmin=lowest, vmax=span)
        line[0].set_title(name, fontsize=9, loc="left")
    return figure


def save(figure: Figure, name: str, dpi: int = 80) -> None:
    """Curves as PNG; pictures with many images as JPEG, a third as large."""
    details = {"pil_kwargs": {"quality": 88}} if name.endswith(".jpg") else {}
    figure.savefig(PICTURES / name, dpi=dpi, **details)


def draw_model(model: pliant.Model) -> None:
    save(plots.plot_modes(model), "modes.png", 70)
    save(plots.plot_mean(model), "mean.jpg")
    save(plots.plot_variance(model), "variance.png")


def draw_fits(model: pliant.Model, count: int = 40) -> None:
    made = faces(count, seed=1)
    images, truths = [sample.image() for sample in made], [sample.points() for sample in made]
    rng = np.random.default_rng(0)
    starts = [perturbed(model, truth, 0.05, rng) for truth in truths]
    fits = {name: pliant.fit(model, images, starts, algorithm=name) for name in ALGORITHMS}
    best = fits[ALGORITHMS[0]]
    image, result = images[3], best[3]

    save(plots.plot_overlay(image, result.points, contours=FACE_CONTOURS), "overlay.jpg", 60)
    save(
        plots.plot_reconstructions(model, dataset_from_arrays(images[:5], truths[:5])), "reconstructions.jpg"
    )
    save(plots.plot_fit(result, image), "fit.jpg")
    save(plots.plot_convergence(fits, truths), "convergence.png")

    distances = {
        name: np.array(
            [
                np.linalg.norm(fit.points - truth, axis=1) / shape_size(truth)
                for fit, truth in zip(some, truths, strict=True)
            ]
        )
        for name, some in fits.items()
    }
    errors = {name: some.mean(axis=1) for name, some in distances.items()}
    mean = model.levels[-1].shape.mean
    save(plots.plot_ced(errors), "ced.png")
    save(plots.plot_landmark_errors(mean, distances[ALGORITHMS[0]]), "landmark-errors.png")
    points = [fit.points for fit in best]
    save(plots.plot_best_median_worst(images, points, truths, count=4), "best-median-worst.jpg")

    save(plots.plot_uncertainty(image, result.points, result.covariance), "uncertainty.jpg", 70)


def draw_iterations() -> None:
    """A fit from afar by a model without an expert: with one, there would be little to see of the way."""
    model = pliant.train(faces(120), preset="quick", confidence=False, detector="none")
    sample = faces(4, seed=4)[3]
    image = sample.image()
    start = perturbed(model, sample.points(), 0.2, np.random.default_rng(3))
    result = pliant.fit(model, image, start, hypotheses=1)
    large = plots.Style(cell=2.0, marker=3.0, lines=plots.Style().fit)
    strip = plots.plot_iterations(result, image, 5, large, contours=FACE_CONTOURS)
    save(strip, "iterations.jpg", 100)
    plots.write_animation(
        PICTURES / "iterations.gif", result, image, longest=280, style=large, contours=FACE_CONTOURS
    )


def draw_exemplars(model: pliant.Model) -> None:
    """What the paper's pictures of starts, sampled pixels and fits show."""
    made = faces(6, seed=3)
    images, truths = [sample.image() for sample in made], [sample.points() for sample in made]
    begun = {
        f"{noise:.1%}": [
            perturbed(model, truth, noise, np.random.default_rng(k)) for k, truth in enumerate(truths)
        ]
        for noise in (0, 0.025, 0.05, 0.075, 0.1)
    }
    two = {noise: some[:2] for noise, some in begun.items()}
    save(plots.plot_starts(images[:2], two, truths[:2]), "starts.jpg")
    frame = model.levels[-1].motion.frame
    shares = {f"{share:.0%}": frame.sample(share) for share in (1, 0.5, 0.25, 0.12)}
    save(plots.plot_sampling(frame, shares), "sampling.png", 100)
    found = {
        name: [fit.points for fit in pliant.fit(model, images, begun["5.0%"], algorithm=name)]
        for name in ("ssd-asy-gn-sch", "po-asy-gn")
    }
    titles = {
        name: [f"{normalised_error(a, b, EVERY):.4f}" for a, b in zip(some, truths, strict=True)]
        for name, some in found.items()
    }
    save(plots.plot_exemplars(images, found, truths, titles), "exemplars.jpg")


def draw_confidence(model: pliant.Model, count: int = 100) -> None:
    """Other faces, from starts of which some are hopeless."""
    made = faces(count, seed=2)
    truths = [sample.points() for sample in made for _ in NOISES]
    starts = [
        perturbed(model, truth, NOISES[k % len(NOISES)], np.random.default_rng(k))
        for k, truth in enumerate(truths)
    ]
    fits = pliant.fit(model, [sample.image() for sample in made for _ in NOISES], starts)
    errors = [normalised_error(fit.points, truth, EVERY) for fit, truth in zip(fits, truths, strict=True)]
    scores, good = np.array([fit.confidence() for fit in fits]), np.array(errors) < DEFAULT_BOUND
    save(plots.plot_reliability(scores, good), "reliability.png")
    costs = np.array([fit.cost for fit in fits])
    save(plots.plot_roc({"confidence": scores, "cost alone": -costs}, good), "roc.png")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    save(draw_features(), "features.png", 90)
    dataset = faces(200)
    save(plots.plot_samples(dataset[:12]), "faces.png", 70)
    model = pliant.train(dataset)
    draw_model(model)
    draw_fits(model)
    draw_iterations()
    draw_exemplars(model)
    draw_confidence(model)


if __name__ == "__main__":
    main()
