"""An HTML page from parts: pictures are in it, nothing is fetched, and all text is escaped."""

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

from pliant.data.ownership import PAGE

Html = NewType("Html", str)
"""Text that is escaped already: made by the functions below, and by nothing else."""

_MEDIA = {b"\x89PNG": "png", b"GIF8": "gif", b"<?xm": "svg+xml"}


@dataclass(frozen=True)
class Section:
    """A section of a page: a title, with paragraphs, pictures and tables below it.

    Parameters
    ----------
    title : str
        The title.
    parts : sequence of Html
        What `paragraph`, `picture`, `table` and the like return.

    Examples
    --------
    >>> import pliant
    >>> section = pliant.report.Section("Data", [pliant.report.paragraph("There are 400 images.")])
    >>> section.title
    'Data'

    """

    title: str
    parts: Sequence[Html]


def page(title: str, lead: str, sections: Iterable[Section]) -> str:
    """Make a whole HTML page in one file. Pictures are in it, and nothing is fetched.

    Parameters
    ----------
    title : str
        The title.
    lead : str
        A line below the title.
    sections : iterable of Section
        The sections. If there are four or more, links to them appear at the top.

    Returns
    -------
    str
        The content of an HTML file.

    Examples
    --------
    >>> import pliant
    >>> text = pliant.report.paragraph("Two people have annotated 400 images.")
    >>> html = pliant.report.page("Faces", "What they are", [pliant.report.Section("Data", [text])])
    >>> html.startswith("<!doctype html>")
    True

    """
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
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n{PAGE.decode()}\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{name}</title>\n'
        f'<style>{_CSS}</style>\n<h1>{name}</h1>\n<p class="lead">{escape(lead)}</p>\n{contents}{body}\n</html>\n'
    )


def paragraph(text: str) -> Html:
    """Make a paragraph of plain text for a `Section`.

    Parameters
    ----------
    text : str
        The text. It is escaped.

    Returns
    -------
    Html
        The paragraph.

    Examples
    --------
    >>> import pliant
    >>> pliant.report.paragraph("errors < 0.03")
    '<p>errors &lt; 0.03</p>'

    """
    return Html(f"<p>{escape(text)}</p>")


def commands(*lines: str) -> Html:
    """Make a block of commands for a `Section`.

    Parameters
    ----------
    *lines : str
        Lines for a terminal.

    Returns
    -------
    Html
        The block.

    Examples
    --------
    >>> import pliant
    >>> "pliant train faces/" in pliant.report.commands("pliant train faces/")
    True

    """
    return Html(f"<pre>{escape(chr(10).join(lines))}</pre>")


def picture(drawn: Figure | bytes, description: str, *, vector: bool = False) -> Html:
    """Make a picture for a `Section`. It is kept in the page.

    Parameters
    ----------
    drawn : matplotlib.figure.Figure or bytes
        A figure, or the content of a PNG, GIF or SVG file.
    description : str
        What the picture shows, for people who cannot see it.
    vector : bool
        Keep the lines of a figure sharp at any size. Figures with many images are smaller as pixels.

    Returns
    -------
    Html
        The picture.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> figure = pliant.plots.plot_ced({"po-asy-gn": np.array([0.01, 0.02, 0.05])})
    >>> "Errors of three fits" in pliant.report.picture(figure, "Errors of three fits")
    True

    """
    content = drawn if isinstance(drawn, bytes) else rendered(drawn, "svg" if vector else "png")
    kind = _MEDIA.get(content[:4])
    if kind is None:
        raise ValueError(f"the picture '{description}' must be PNG, GIF or SVG.")
    data = b64encode(content).decode()
    return Html(
        f'<div class="figure"><img alt="{escape(description)}" src="data:image/{kind};base64,{data}"></div>'
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Make a table for a `Section`. Floats have four decimals, and columns of numbers are aligned right.

    Parameters
    ----------
    header : sequence of str, length c
        The titles of the columns.
    rows : iterable of sequence of object, length c
        The rows.

    Returns
    -------
    Html
        The table.

    Examples
    --------
    >>> import pliant
    >>> "0.0123" in pliant.report.table(["algorithm", "mean"], [["po-asy-gn", 0.01234]])
    True

    """
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
    """Make a table of names and values for a `Section`. Empty values are left out.

    Parameters
    ----------
    values : mapping of str to object
        The values by name.

    Returns
    -------
    Html
        The table.

    Examples
    --------
    >>> import pliant
    >>> html = pliant.report.value_table({"noise": 0.05, "seed": None})
    >>> "noise" in html, "seed" in html
    (True, False)

    """
    rows = [
        (
            name.replace("_", " "),
            ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value),
        )
        for name, value in values.items()
        if value not in (None, "", [], ())
    ]
    return table(("name", "value"), rows)


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


_CSS = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
  img { max-width: 100%; display: block; margin: 1rem auto; }
  pre { background: #f4f4f2; border-left: 4px solid #0072B2; padding: .7rem 1rem; overflow-x: auto; }
  .lead { color: #555; margin-top: .2rem; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; }
  th, td { text-align: left; padding: .25rem .5rem .25rem 0; border-bottom: 1px solid #ddd; }
  td { overflow-wrap: break-word; }
  td:first-child { white-space: nowrap; }
  .number { text-align: right; font-variant-numeric: tabular-nums; }
  td.number { white-space: nowrap; }
  .figure { overflow-x: auto; }
  @media screen and (max-width: 46rem) { .figure img { max-width: 54rem; } }
  @media print { section { break-inside: avoid; } }
"""
