"""Reports as one HTML file each: pictures are in it, nothing is fetched, and all text is escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any, NewType

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from pliant import plots
from pliant.arrays import Floats
from pliant.data.dataset import ImageSource
from pliant.metrics import BOUNDS, summarise
from pliant.model import Model
from pliant.plots.errors import round_limit
from pliant.plots.style import STYLE, Style

Html = NewType("Html", str)
"""Text that is escaped already: made by the functions below, and by nothing else."""

_MEDIA = {b"\x89PNG": "png", b"GIF8": "gif", b"<?xm": "svg+xml"}


@dataclass(frozen=True)
class Section:
    """A part of a page: a title, and paragraphs, pictures and tables below it."""

    title: str
    parts: Sequence[Html]


def page(title: str, lead: str, sections: Iterable[Section]) -> str:
    """A whole HTML page."""
    every = list(sections)
    body = "\n".join(
        f'<section id="part-{number}">\n<h2>{escape(section.title)}</h2>\n{chr(10).join(section.parts)}\n</section>'
        for number, section in enumerate(every)
    )
    name = escape(title)
    links = "".join(
        f'<li><a href="#part-{number}">{escape(section.title)}</a></li>'
        for number, section in enumerate(every)
    )
    contents = f"<nav><ul>{links}</ul></nav>\n" if len(every) > 3 else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{name}</title>\n'
        f'<style>{_CSS}</style>\n<h1>{name}</h1>\n<p class="lead">{escape(lead)}</p>\n{contents}{body}\n</html>\n'
    )


def paragraph(text: str) -> Html:
    return Html(f"<p>{escape(text)}</p>")


def commands(*lines: str) -> Html:
    """Lines for a terminal."""
    return Html(f"<pre>{escape(chr(10).join(lines))}</pre>")


def picture(drawn: Figure | bytes, description: str, *, vector: bool = False) -> Html:
    """A figure, or a PNG, GIF or SVG file's content; `vector` keeps a figure's lines sharp at any size.

    Figures with many images are smaller as pixels. The description is for those who cannot see it.
    """
    content = drawn if isinstance(drawn, bytes) else rendered(drawn, "svg" if vector else "png")
    kind = _MEDIA.get(content[:4])
    if kind is None:
        raise ValueError(f"the picture '{description}' is neither PNG nor GIF nor SVG.")
    data = b64encode(content).decode()
    return Html(f'<img alt="{escape(description)}" src="data:image/{kind};base64,{data}">')


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table; floats have four decimals, and columns of numbers stand on the right."""
    cells = [[_shown(value) for value in row] for row in rows]
    sides = [
        ' class="number"' if all(_is_number(text) for text in column) else ""
        for column in zip(*cells, strict=True)
    ] or [""] * len(header)
    lines = [
        "".join(f"<{tag}{side}>{escape(text)}</{tag}>" for text, side in zip(row, sides, strict=True))
        for tag, row in (("th", header), *(("td", row) for row in cells))
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return Html(f'<div class="wide"><table>\n{body}\n</table></div>')


def value_table(values: Mapping[str, object]) -> Html:
    """A table of names and values; what is empty is left out."""
    rows = [
        (
            name.replace("_", " "),
            ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value),
        )
        for name, value in values.items()
        if value not in (None, "", [], ())
    ]
    return table(("name", "value"), rows)


@dataclass(frozen=True)
class Evaluated:
    """The k fits of one algorithm: errors over the size `(k,)`, and what else is known.

    `landmark_errors (k, v)` are those of every landmark, `points` are k shapes `(v, 2)`, and `milliseconds` is what
    one fit takes. `pixels (k,)` are the errors in pixels, and `units (k,)` in those of the landmark files, nan
    where nobody knows how long a pixel is.
    """

    errors: Floats
    landmark_errors: Floats | None = None
    points: Sequence[Floats] | None = None
    milliseconds: float | None = None
    pixels: Floats | None = None
    units: Floats | None = None


def evaluation_page(
    fits: Mapping[str, Evaluated],
    *,
    title: str = "Evaluation",
    lead: str = "",
    mean: Floats | None = None,
    images: Sequence[ImageSource] = (),
    names: Sequence[str] | None = None,
    truths: Sequence[Floats] | None = None,
    landmark_names: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    limit: float | None = None,
    style: Style = STYLE,
) -> str:
    """A page about the fits of each label (an algorithm, or "start").

    Errors of landmarks are drawn on the `mean (v, 2)`, with `landmark_names` if there are any. Points are drawn on
    `images`, k of them (a file that was fitted from several starts comes several times) with their `names` and
    `truths (v, 2)`: the best, median and worst fits. What is not given is left out, so that a label without points
    has no such pictures. `limit` is the error up to which curves are drawn, and beyond which a fit has failed.
    """
    errors = {label: some.errors for label, some in fits.items()}
    bound = limit or round_limit(errors)
    sections = [
        Section("In numbers", [_error_table(fits, bound), paragraph(_ABOUT_ERRORS.format(limit=bound))]),
        Section(
            "How many fits are how good",
            [picture(plots.plot_ced(errors, bound, style), "cumulative errors", vector=True)],
        ),
    ]
    for label, some in fits.items():
        if mean is not None and some.landmark_errors is not None:
            figure = plots.plot_landmark_errors(mean, some.landmark_errors, names=landmark_names, style=style)
            shown = picture(figure, f"{label}: mean error of every landmark", vector=True)
            sections.append(Section(f"Where the errors are: {label}", [shown]))
        if len(images) and some.points is not None:
            figure = plots.plot_best_median_worst(
                images, some.points, truths, some.errors, names=names, style=style
            )
            shown = picture(figure, f"{label}: fits with the smallest, middle and largest errors")
            sections.append(Section(f"Best, median and worst: {label}", [shown]))
    if settings:
        sections.append(Section("Settings", [value_table(settings)]))
    return page(title, lead, sections)


def model_page(model: Model, title: str, modes: int = 3, style: Style = STYLE) -> str:
    """A page about what a model has learned, and from what."""
    levels = [
        (
            f"{level.scale:g}",
            level.features,
            len(level.motion.frame.pixels),
            len(level.motion.frame.triangles),
            f"{level.shape.modes} ({level.shape.variance_kept:.1%})",
            f"{level.appearance.modes} ({level.appearance.variance_kept:.1%})",
        )
        for level in model.levels
    ]
    header = ("scale", "features", "pixels", "triangles", "shape modes", "appearance modes")
    drawn = [Section("Mean", [picture(plots.plot_mean(model, style), "mean, triangles and landmarks")])]
    for kind, count in (("Shape", model.levels[-1].shape.modes), ("Texture", model.texture.pca.modes)):
        if count:
            some = {"shape": modes, "texture": 0} if kind == "Shape" else {"shape": 0, "texture": modes}
            figure = plots.plot_modes(model, **some, style=style)
            drawn.append(Section(kind, [picture(figure, f"leading modes of {kind.lower()}")]))
    return page(
        title,
        f"{model.landmarks} landmarks, {model.size:g} pixels at scale 1.",
        [
            Section("Levels", [table(header, levels)]),
            *drawn,
            Section(
                "How much it keeps", [picture(plots.plot_variance(model, style), "variance", vector=True)]
            ),
            Section("Settings", [value_table(model.settings)]),
            Section("Where it comes from", [value_table(model.provenance)]),
        ],
    )


def _error_table(fits: Mapping[str, Evaluated], limit: float) -> Html:
    measured = _lengths(fits)
    timed = any(some.milliseconds is not None for some in fits.values())
    header = ["", "fits", *(f"< {bound:g}" for bound in BOUNDS), "mean", "std", "median", "area", "failed"]
    rows = []
    for label, some in fits.items():
        summed = summarise(some.errors)
        row: list[object] = [label, len(some.errors), *(f"{summed[f'lt_{bound}']:.1%}" for bound in BOUNDS)]
        row += [summed[key] for key in ("mean", "std", "median")]
        row += [plots.ced_area(some.errors, limit), f"{1 - np.mean(np.asarray(some.errors) <= limit):.1%}"]
        for lengths in measured.values():
            values = np.asarray(lengths.get(label, []), dtype=np.float64)
            row.append(f"{np.mean(values[np.isfinite(values)]):.3g}" if np.isfinite(values).any() else "")
        if timed:
            row.append("" if some.milliseconds is None else f"{some.milliseconds:.1f}")
        rows.append(row)
    header += measured
    return table([*header, "ms"] if timed else header, rows)


def _lengths(fits: Mapping[str, Evaluated]) -> dict[str, dict[str, Floats]]:
    """Errors in pixels and in units, by label; units only where all of them are known."""
    pixels = {label: some.pixels for label, some in fits.items() if some.pixels is not None}
    units = {
        label: some.units
        for label, some in fits.items()
        if some.units is not None and np.isfinite(some.units).all()
    }
    return {name: found for name, found in (("pixels", pixels), ("units", units)) if found}


def _shown(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, (int, np.integer)) else str(value)


def _is_number(text: str) -> bool:
    return not text or text.rstrip("%").replace(",", "").replace(".", "", 1).isdecimal() or text == "nan"


def rendered(figure: Figure, kind: str) -> bytes:
    """The content of a figure's file; the same figure is the same file."""
    buffer = BytesIO()
    # No date and no random names.
    details: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "pliant"}):
        figure.savefig(buffer, format=kind, **details)
    return buffer.getvalue()


_ABOUT_ERRORS = (
    "Errors are mean distances between points, divided by the size of the object: the mean of the width and the "
    "height of the box around its landmarks. Means in pixels are those of the images. The area is that below the "
    "curve of the next picture, up to an error of {limit:g}; fits beyond it have failed."
)

_CSS = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
  img { max-width: 100%; display: block; margin: 1rem auto; }
  pre { background: #f4f4f2; border-left: 4px solid #0072B2; padding: .7rem 1rem; overflow-x: auto; }
  .lead { color: #555; margin-top: .2rem; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; }
  th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; }
  td { overflow-wrap: break-word; }
  td:first-child { white-space: nowrap; }
  .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
  @media print { section { break-inside: avoid; } }
"""
