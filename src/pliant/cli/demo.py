"""`pliant demo`: make faces, train on them, and show the model on a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.options import AsJson, Jobs, Quiet, Seed, SettingsFile, Verbose, say_settings
from pliant.files import replaced
from pliant.progress import Progress
from pliant.terminal import say

if TYPE_CHECKING:
    from pliant.arrays import Float64
    from pliant.data.dataset import Dataset
    from pliant.fitting.result import FitResult
    from pliant.model import Model
    from pliant.report import Section

_NEW = 6


def demo(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("demo"),
    count: Annotated[int, typer.Option(help="Number of synthetic faces to train on.", min=20)] = 200,
    seed: Seed = 0,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Train on synthetic faces, fit new ones, and show the results.

    The page is OUTPUT/index.html. The faces and the model that it shows are in the same folder.
    """
    import json

    import pliant
    from pliant.cli.inspect import summarise
    from pliant.synthetic import write_faces

    silent = quiet or as_json
    told = (lambda text: None) if silent else say
    if verbose and not silent:
        say_settings(context)
    faces, file, page = output / "faces", output / "faces.pliant", output / "index.html"
    new, boxes = output / "new", output / "boxes.csv"
    told(f"making {count} synthetic faces in {faces}")
    with Progress(False if silent else None) as bar:
        write_faces(faces, count, seed, advance=bar.start("drawing faces", count))
    dataset = pliant.load_dataset(faces)
    if not silent:
        announce_compiling()
    told("training")
    shown = False if silent else None
    training = pliant.Training(preset="quick", licence="synthetic faces, free of rights", confidence=False)
    model = pliant.train(dataset, training, jobs=jobs, progress=shown)
    model.save(file)
    if not silent:
        summarise(model)
    told(f"fitting the model to {_NEW} new faces")
    write_faces(new, _NEW, seed + 1)
    others = pliant.load_dataset(new)
    found = _write_boxes(boxes, others)
    fits = pliant.fit(model, list(others), found, jobs=jobs)
    typed = {
        "make": f"pliant synthetic {faces} --count {count} --seed {seed}",
        "train": f"pliant train {faces} --preset quick --no-confidence -o {file}",
        "draw": f"pliant inspect {file} --draw {output / 'modes.png'}",
        "new": f"pliant synthetic {new} --count {_NEW} --seed {seed + 1}",
        "fit": f"pliant fit {file} {new} --boxes {boxes} -o {output / 'fits'} --draw",
    }
    with replaced(page) as partial:
        partial.write_text(_page(dataset, model, others, fits, typed), encoding="utf-8")
    told(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    told(f"open {page} in a browser")
    if as_json:
        say(
            json.dumps(
                {"faces": count, "wrote": [str(path) for path in (page, file, faces, new, boxes)]}, indent=2
            )
        )


def _write_boxes(file: Path, dataset: Dataset) -> list[Float64]:
    """Boxes about the landmarks, as a detector would give them: an eighth too large, and a little beside."""
    import csv

    import numpy as np

    rng = np.random.default_rng(0)
    boxes = []
    with open(file, "w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(["image", "left", "top", "right", "bottom"])
        for sample in dataset:
            low, high = sample.points().min(axis=0), sample.points().max(axis=0)
            beside = rng.uniform(-0.08, 0.08, 2) * (high - low)
            grown = (high - low) / 16
            boxes.append(np.concatenate([low - grown + beside, high + grown + beside]).round(1))
            rows.writerow([Path(sample.name).name, *boxes[-1]])
    return boxes


def _page(
    dataset: Dataset, model: Model, others: Dataset, fits: list[FitResult], typed: dict[str, str]
) -> str:
    """One self-contained HTML page; `typed` are the commands that do the same."""
    from pliant import plots
    from pliant.report import Section, page, picture

    sections = [
        *_about_training(dataset, model, typed),
        *_about_modes(dataset, model, typed),
        _about_fits(model, others, fits, typed),
        Section("7. Variance kept", [picture(plots.plot_variance(model), "variance explained by the modes")]),
    ]
    return page(
        "A deformable model of a face",
        f"Trained just now, on this machine, on {len(dataset)} synthetic faces with {model.landmarks} landmarks "
        "each.",
        sections,
    )


def _about_training(dataset: Dataset, model: Model, typed: dict[str, str]) -> list[Section]:
    from pliant import plots
    from pliant.report import Section, commands, paragraph, picture

    finest = model.levels[-1]
    return [
        Section(
            "1. Annotated images",
            [
                commands(typed["make"]),
                paragraph(
                    "Pose, expression, identity, skin, light and background vary. The dots are the landmarks."
                ),
                picture(plots.plot_samples(dataset[:18]), "training images with their landmarks"),
            ],
        ),
        Section(
            "2. The model",
            [
                commands(typed["train"]),
                paragraph(
                    f"Every face is warped onto the mean shape. There, {finest.features} features describe "
                    f"{len(finest.motion.frame.pixels):,} pixels, and principal component analysis finds "
                    f"what varies: {finest.shape.modes} modes keep {finest.shape.variance_kept:.0%} of the "
                    f"shape variance, and {finest.appearance.modes} modes keep "
                    f"{finest.appearance.variance_kept:.0%} of the appearance variance."
                ),
                picture(plots.plot_mean(model), "mean face, its triangles and its landmarks"),
            ],
        ),
    ]


def _about_modes(dataset: Dataset, model: Model, typed: dict[str, str]) -> list[Section]:
    from pliant import plots
    from pliant.report import Section, commands, paragraph, picture

    return [
        Section(
            "3. Modes of shape",
            [
                commands(typed["draw"]),
                paragraph(
                    "Each row moves along one mode, from -3 to +3 standard deviations, with the mean texture."
                ),
                picture(plots.plot_modes(model, shape=4, texture=0), "modes of shape"),
            ],
        ),
        Section(
            "4. Modes of texture",
            [
                paragraph("Each row moves along one mode of the pixels, with the mean shape."),
                picture(plots.plot_modes(model, shape=0, texture=4), "modes of texture"),
            ],
        ),
        Section(
            "5. What the model can reproduce",
            [
                paragraph(
                    "Top: six faces. Bottom: the same images with the model's closest texture drawn at "
                    "their landmarks. What the model cannot explain, such as glasses or noise, is gone."
                ),
                picture(plots.plot_reconstructions(model, dataset[:6]), "faces and their reconstructions"),
            ],
        ),
    ]


def _about_fits(model: Model, others: Dataset, fits: list[FitResult], typed: dict[str, str]) -> Section:
    from io import BytesIO

    import numpy as np

    from pliant import plots
    from pliant.metrics import normalised_error, point_subset
    from pliant.report import Section, commands, paragraph, picture

    every = point_subset("all", model.landmarks)
    images, truths = [sample.image() for sample in others], [sample.points() for sample in others]
    errors = [normalised_error(fit.points, truth, every) for fit, truth in zip(fits, truths, strict=True)]
    best = int(np.argmin(errors))
    moving = BytesIO()
    plots.write_animation(moving, fits[best], images[best])
    return Section(
        "6. New faces",
        [
            commands(typed["new"], typed["fit"]),
            paragraph(
                "Faces that the model has not seen. Top: the starts, the mean shape in a rough box. Bottom: "
                f"the fits. On average, their landmarks are {np.mean(errors):.1%} of the face's size away "
                "from the true ones."
            ),
            picture(plots.plot_fits(fits, images), "starts at the top, fits at the bottom"),
            paragraph("One fit, iteration by iteration:"),
            picture(moving.getvalue(), "the landmarks move from the start to the face"),
        ],
    )
