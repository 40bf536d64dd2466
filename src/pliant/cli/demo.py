"""`pliant demo`: make faces, train on them, and show the model on a page."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.compiling import announce_compiling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pliant.arrays import Float64
    from pliant.data.dataset import Dataset
    from pliant.fitting.result import FitResult
    from pliant.model import Model

_NEW = 6


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("demo"),
    count: Annotated[int, typer.Option(help="How many synthetic faces to train on.", min=20)] = 200,
    seed: Annotated[int, typer.Option(help="Another seed gives other faces.", min=0)] = 0,
) -> None:
    """Train a model on synthetic faces, fit it to others, and show both in OUTPUT/index.html."""
    import pliant
    from pliant.cli.inspect import summarise
    from pliant.synthetic import write_faces

    faces, file, page = output / "faces", output / "faces.pliant", output / "index.html"
    new, boxes = output / "new", output / "boxes.csv"
    typer.echo(f"making {count} synthetic faces in {faces}")
    write_faces(faces, count, seed)
    dataset = pliant.load_dataset(faces)
    announce_compiling()
    typer.echo("training")
    model = pliant.train(dataset, licence="synthetic faces, free of rights")
    model.save(file)
    summarise(model)
    typer.echo(f"fitting it to {_NEW} faces that it has not seen")
    write_faces(new, _NEW, seed + 1)
    others = pliant.load_dataset(new)
    found = _write_boxes(boxes, others)
    fits = pliant.fit(model, list(others), found)
    commands = {
        "make": f"pliant synthetic {faces} --count {count} --seed {seed}",
        "train": f"pliant train {faces} -o {file}",
        "draw": f"pliant inspect {file} --draw {output / 'modes.png'}",
        "new": f"pliant synthetic {new} --count {_NEW} --seed {seed + 1}",
        "fit": f"pliant fit {file} {new} --boxes {boxes} -o {output / 'fits'} --draw",
    }
    page.write_text(_page(dataset, model, others, fits, commands), encoding="utf-8")
    typer.echo(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    typer.echo(f"open {page} in a browser")


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
    dataset: Dataset, model: Model, others: Dataset, fits: list[FitResult], commands: dict[str, str]
) -> str:
    """One self-contained HTML page: pictures are in it, and nothing is fetched."""
    import numpy as np

    from pliant import plots
    from pliant.metrics import normalised_error, point_subset

    finest = model.levels[-1]
    every = point_subset("all", model.landmarks)
    truths = [sample.points() for sample in others]
    return _PAGE.substitute(
        commands,
        count=len(dataset),
        landmarks=model.landmarks,
        pixels=f"{len(finest.motion.frame.pixels):,}",
        features=finest.features,
        shape_modes=finest.shape.modes,
        shape_kept=f"{finest.shape.variance_kept:.0%}",
        appearance_modes=finest.appearance.modes,
        appearance_kept=f"{finest.appearance.variance_kept:.0%}",
        samples=_picture(plots.plot_samples(dataset[:18]), "training images with their landmarks"),
        mean=_picture(plots.plot_mean(model), "mean face, its triangles and its landmarks"),
        shape=_picture(plots.plot_modes(model, shape=4, texture=0), "modes of shape"),
        texture=_picture(plots.plot_modes(model, shape=0, texture=4), "modes of texture"),
        variance=_picture(plots.plot_variance(model), "variance explained by the modes"),
        fits=_picture(plots.plot_fits(fits, [sample.image() for sample in others]), "starts, and fits below"),
        error=f"{np.mean([normalised_error(f.points, t, every) for f, t in zip(fits, truths, strict=True)]):.1%}",
        rebuilt=_picture(plots.plot_reconstructions(model, dataset[:6]), "faces and their reconstructions"),
    )


def _picture(figure: Figure, description: str) -> str:
    from base64 import b64encode
    from io import BytesIO

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    encoded = b64encode(buffer.getvalue()).decode()
    return f'<img alt="{description}" src="data:image/png;base64,{encoded}">'


_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>pliant: a deformable model of a face</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
  img { max-width: 100%; display: block; margin: 1rem auto; }
  pre { background: #f4f4f2; border-left: 4px solid #0072B2; padding: .7rem 1rem; overflow-x: auto; }
  .lead { color: #555; margin-top: .2rem; }
</style>
<h1>A deformable model of a face</h1>
<p class="lead">Trained just now, on this machine, on $count synthetic faces with $landmarks landmarks each.</p>

<h2>1. Annotated images</h2>
<pre>$make</pre>
<p>Pose, expression, identity, skin, light and background vary. The dots are the landmarks.</p>
$samples

<h2>2. The model</h2>
<pre>$train</pre>
<p>Every face is warped onto the mean shape. There, $pixels pixels are described by $features, and principal
components find what varies: $shape_modes modes keep $shape_kept of the shape, and $appearance_modes modes
keep $appearance_kept of the appearance.</p>
$mean

<h2>3. What the shape does</h2>
<pre>$draw</pre>
<p>Each row moves along one mode, from -3 to +3 standard deviations, with the mean texture.</p>
$shape

<h2>4. What the texture does</h2>
<p>The mean shape, with each row along one mode of the pixels.</p>
$texture

<h2>5. What the model can say of a face</h2>
<p>Above, six faces. Below, the same images with the model's nearest texture drawn at their landmarks: what it
cannot explain, such as glasses or noise, is gone.</p>
$rebuilt

<h2>6. New faces</h2>
<pre>$new
$fit</pre>
<p>Faces that it has not seen. Above, the starts: the mean shape in a rough box. Below, what the model found; the
landmarks are $error of the face's size away from the true ones, on average.</p>
$fits

<h2>7. How much it keeps</h2>
$variance
</html>
""")
