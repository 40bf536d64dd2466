"""`pliant check --against`: how two annotations of the same images agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pliant.terminal import MOST_LINES, console, say

if TYPE_CHECKING:
    from pliant.data.agreement import Agreement
    from pliant.shape.variance import ShapeVariance, Variation

_LEAST = 0.0005
"""Differences below this share of the object's size would be listed as 0.0 %."""


def print_agreement(found: Agreement) -> None:
    """All that a person wants to know about two annotations, on the terminal."""
    from rich.table import Table

    from pliant.data.addresses import plain_name
    from pliant.data.suspects import COUNTED_FROM_0

    table = Table()
    table.add_column("landmark", overflow="fold")
    for title in ("mean px", "95 % below", "bias x", "bias y", "by chance"):
        table.add_column(title, justify="right")
    for row in agreement_table(found)["landmarks"]:
        numbers = [row["mean"], row["most"], *row["bias"]]
        cells = ["" if number is None else f"{number:.1f}" for number in numbers]
        chance = "" if row["bias_chance"] is None else f"{row['bias_chance']:.2g}"
        table.add_row(str(row["name"] or row["landmark"]), *cells, chance)
    console().print(table)
    if not found.names:
        say(COUNTED_FROM_0)
    shares = found.of_images
    differing = [number for number in found.worst_first if shares[number] >= _LEAST]
    if differing:
        say("largest differences between the two:")
    else:
        say(f"no image differs by {_LEAST:.2%} of the object's size or more")
    for number in differing[:MOST_LINES]:
        say(f"  {plain_name(found.images[number])}: {shares[number]:.1%} of the object's size")
    for names, where in ((found.only_first, "first"), (found.only_second, "second")):
        if names:
            say(f"{_images(len(names))} only in the {where}, such as {plain_name(names[0])}")
    say(f"{_images(len(found.images))} compared")
    if found.variance is None:
        say("fewer than three images are complete in both: no analysis of variance")
    else:
        say(found.variance.sentence)


def agreement_table(found: Agreement) -> dict[str, Any]:
    """All about two annotations, as JSON has it."""
    mean, most, bias, chance = found.mean_distance, found.most_distance, found.bias, found.bias_chance
    shares = found.of_images
    return {
        "images": len(found.images),
        "only_first": list(found.only_first),
        "only_second": list(found.only_second),
        "landmarks": [
            {
                "landmark": number,
                "name": found.names[number] if found.names else "",
                "mean": _number(mean[number]),
                "most": _number(most[number]),
                "bias": [_number(bias[number, 0]), _number(bias[number, 1])],
                "bias_chance": _number(chance[number], 6),
            }
            for number in range(len(mean))
        ],
        "by_image": [
            {"sample": found.images[number], "share_of_size": _number(shares[number], 6)}
            for number in found.worst_first
        ],
        "variance": None if found.variance is None else _variance(found.variance),
    }


def _variance(table: ShapeVariance) -> dict[str, Any]:
    return {
        "rows": [_row(row) for row in (table.objects, table.annotators, table.rest)],
        "repeatability": _number(table.repeatability, 6),
        "annotator_share": _number(table.annotator_share, 6),
        "systematic_share": _number(table.systematic, 6),
        "images": table.images,
        "images_with_half": table.half,
        "repeatability_without": None if table.without is None else _number(table.without, 6),
        "sentence": table.sentence,
    }


def _row(row: Variation) -> dict[str, Any]:
    return {
        "source": row.source,
        "squares": row.squares,
        "freedom": row.freedom,
        "mean_square": row.mean_square,
        "f": None if row.ratio is None or math.isinf(row.ratio) else row.ratio,
        "chance": row.chance,
    }


def _number(value: float, digits: int = 3) -> float | None:
    return None if math.isnan(value) else round(float(value), digits)


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"
