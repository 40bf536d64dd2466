"""`pliant inspect`: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pliant.model import Model


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    draw: Annotated[
        Path | None, typer.Option(help="Draw the leading modes to this file (png, svg or pdf).")
    ] = None,
    modes: Annotated[int, typer.Option(help="How many modes of shape and of texture to draw.", min=1)] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the levels, sizes and variance of a model, and draw it."""
    import json

    import pliant

    loaded = pliant.load(model)
    if as_json:
        typer.echo(json.dumps(describe(loaded), indent=2))
    else:
        summarise(loaded)
    if draw is not None:
        from pliant.plots import plot_modes

        plot_modes(loaded, modes, modes).savefig(draw, dpi=120)
        if not as_json:
            typer.echo(f"wrote {draw}")


def describe(model: Model) -> dict[str, Any]:
    """The numbers that say what a model is."""
    return {
        "landmarks": model.landmarks,
        "size": model.size,
        "levels": [
            {
                "scale": level.scale,
                "features": level.features,
                "channels": level.channels,
                "motion": level.motion.name,
                "triangles": len(level.motion.frame.triangles),
                "pixels": len(level.motion.frame.pixels),
                "shape_modes": level.shape.modes,
                "shape_variance_kept": level.shape.variance_kept,
                "shape_noise_variance": level.shape.noise_variance,
                "appearance_modes": level.appearance.modes,
                "appearance_variance_kept": level.appearance.variance_kept,
                "appearance_noise_variance": level.appearance.noise_variance,
            }
            for level in model.levels
        ],
        "texture": {
            "channels": model.texture.channels,
            "pixels": len(model.texture.frame.pixels),
            "modes": model.texture.pca.modes,
            "variance_kept": model.texture.pca.variance_kept,
        },
        "settings": dict(model.settings),
        "provenance": dict(model.provenance),
    }


def summarise(model: Model) -> None:
    """Print a table of the levels and a few lines about the rest."""
    from rich.console import Console
    from rich.table import Table

    described = describe(model)
    finest = described["levels"][-1]
    table = Table(
        title=f"{described['landmarks']} landmarks, {finest['triangles']} triangles, {finest['motion']}, "
        f"{finest['features']} ({finest['channels']} channels), {described['size']:g} pixels at scale 1"
    )
    for column in ("scale", "pixels", "values", "shape modes", "appearance modes"):
        table.add_column(column, justify="right")
    for level in described["levels"]:
        table.add_row(
            f"{level['scale']:g}",
            f"{level['pixels']:,}",
            f"{level['pixels'] * level['channels']:,}",
            f"{level['shape_modes']} ({level['shape_variance_kept']:.1%})",
            f"{level['appearance_modes']} ({level['appearance_variance_kept']:.1%})",
        )
    texture = described["texture"]
    console = Console()
    console.print(table)
    colour = "colour" if texture["channels"] == 3 else "grey"
    console.print(
        f"texture for drawing: {colour}, {texture['pixels']:,} pixels, "
        f"{texture['modes']} modes ({texture['variance_kept']:.1%})",
        highlight=False,
    )
    origin = model.provenance
    console.print(
        f"trained {origin.get('trained', 'at an unknown time')} by pliant {origin.get('pliant', '?')} "
        f"on {origin.get('samples', '?')} samples of {origin.get('source', '?')}",
        highlight=False,
    )
    if origin.get("licence"):
        console.print(f"licence of the data: {origin['licence']}", highlight=False)
