"""`pliant inspect`: what is in a model file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.options import (
    AsJson,
    ModelFile,
    Quiet,
    SettingsFile,
    Verbose,
    check_target,
    say_settings,
    warnings_said,
)
from pliant.files import replaced
from pliant.terminal import console, printable, say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pliant.model import Model


class What(StrEnum):
    """What `--draw` draws."""

    MODES = "modes"
    MEAN = "mean"
    VARIANCE = "variance"


def inspect(
    context: typer.Context,
    model: ModelFile,
    draw: Annotated[Path | None, typer.Option(help="Draw the model to this file (png, svg or pdf).")] = None,
    what: Annotated[What | None, typer.Option(help="What to draw. Default: modes.")] = None,
    modes: Annotated[int, typer.Option(help="Number of shape and texture modes to draw.", min=1)] = 3,
    report: Annotated[
        Path | None, typer.Option(help="Write everything to this file, a self-contained HTML page.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Show the levels, sizes and variance of a model, and draw it."""
    import json

    import pliant

    if verbose and not (quiet or as_json):
        say_settings(context)
    if what is not None and draw is None:
        raise ValueError(f"--what {what}: give the file to draw to with --draw.")
    if draw is not None:
        check_target("--draw", draw, (".png", ".svg", ".pdf"))
    if report is not None:
        check_target("--report", report, (".html", ".htm"))
    with warnings_said():
        loaded = pliant.load(model)
    if as_json:
        say(json.dumps(describe(loaded), indent=2))
    elif not quiet:
        summarise(loaded)
    if draw is not None:
        from pliant.plots.saving import save_figure

        save_figure(_drawn(loaded, what, modes), draw)
    if report is not None:
        from pliant.data.addresses import as_source, plain_name
        from pliant.report import model_page

        name = Path(plain_name(as_source(model))).stem
        with replaced(report) as partial:
            partial.write_text(model_page(loaded, name, modes), encoding="utf-8")
    if not as_json and not quiet:
        for file in (draw, report):
            if file is not None:
                say(f"wrote {file}")


def _drawn(model: Model, what: What | None, modes: int) -> Figure:
    from pliant import plots

    if what is What.MEAN:
        return plots.plot_mean(model)
    return plots.plot_variance(model) if what is What.VARIANCE else plots.plot_modes(model, modes, modes)


def describe(model: Model) -> dict[str, Any]:
    """The numbers that say what a model is."""
    from pliant.tuning import choice

    return {
        "landmarks": model.landmarks,
        "size": model.size,
        "levels": [
            {
                "scale": level.scale,
                "features": level.features,
                "channels": level.channels,
                "colour": level.colour,
                "upright": level.upright,
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
        "expert": choice.expert_of(model),
        "confidence": model.confidence is not None,
        "settings": model.settings.to_dict(),
        "provenance": dict(model.provenance),
    }


def summarise(model: Model) -> None:
    """Print a table of the levels and a few lines about the rest."""
    from rich.table import Table

    described = describe(model)
    finest = described["levels"][-1]
    seen = "colour" if finest["colour"] else "grey"
    table = Table(
        title=f"{described['landmarks']} landmarks, {finest['triangles']} triangles, {finest['motion']}, features "
        f"of {seen}, {described['size']:g} pixels at scale 1"
    )
    for column in ("scale", "features", "pixels", "values", "shape modes", "appearance modes"):
        table.add_column(column, justify="right")
    for level in described["levels"]:
        table.add_row(
            f"{level['scale']:g}",
            level["features"],
            f"{level['pixels']:,}",
            f"{level['pixels'] * level['channels']:,}",
            f"{level['shape_modes']} ({level['shape_variance_kept']:.1%})",
            f"{level['appearance_modes']} ({level['appearance_variance_kept']:.1%})",
        )
    texture = described["texture"]
    console().print(table)
    colour = "colour" if texture["channels"] == 3 else "grey"
    say(
        f"texture for drawing: {colour}, {texture['pixels']:,} pixels, "
        f"{texture['modes']} modes ({texture['variance_kept']:.1%})"
    )
    _summarise_choice(model)
    say(
        "fits have a confidence"
        if model.confidence is not None
        else "fits have no confidence: pliant.calibrate learns it, or train without --no-confidence"
    )
    origin = model.provenance
    say(
        f"trained {origin.get('trained', 'at an unknown time')} by pliant {origin.get('pliant', '?')} "
        f"on {origin.get('samples', '?')} samples of {origin.get('source', '?')}"
    )
    if origin.get("licence"):
        say(f"licence of the data: {origin['licence']}")


def _summarise_choice(model: Model) -> None:
    """Which expert a model has, what was tried for it and for the settings, and what more samples are worth."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from pliant.tuning import choice

    say(choice.expert_sentence(model))
    tables = [
        (choice.terms_sentence(model), choice.TERMS_HEADER, choice.terms_rows(model)),
        (choice.sentence(model), choice.HEADER, choice.tried_rows(model)),
        (choice.curve_sentence(model), choice.CURVE_HEADER, choice.curve_rows(model)),
    ]
    for sentence, header, rows in tables:
        if not rows:
            continue
        console().print(f"\n{sentence}:")
        table = Table(box=SIMPLE_HEAD, padding=0)
        for number, column in enumerate(header):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*map(printable, row))
        console().print(table)
    if any(rows for _, _, rows in tables):
        console().print(f"{choice.LEGEND}.\n")
