"""The iterations of a fit as a moving picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PIL import Image as PIL

from pliant.arrays import Image
from pliant.plots.axes import object_box
from pliant.plots.fits import iterations_of
from pliant.plots.lettering import write_below
from pliant.plots.painter import paint_overlay
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from pliant.fitting.result import FitResult

_FORMATS = {".gif": "GIF", ".webp": "WEBP"}


def write_animation(
    target: Path | str | BinaryIO,
    result: FitResult,
    image: Image,
    *,
    longest: int = 360,
    seconds: float = 0.12,
    style: Style = STYLE,
    contours: Sequence[Sequence[int]] = (),
) -> None:
    """Write the way from the start to the fit as a moving GIF or WebP; the name of the file decides.

    The animation shows the part of the image around the landmarks.

    Parameters
    ----------
    target : Path, str or binary file
        The file to write. A file that is open for writing gets a GIF.
    result : FitResult
        A fit with a trace.
    image : array, shape (h, w) or (h, w, 3)
        The image that was fitted.
    longest : int
        The number of pixels along the longer side.
    seconds : float
        How long each iteration is shown. The first and the last stay a second longer.
    style : Style
        Colours and sizes.
    contours : sequence of sequence of int
        Runs of landmark numbers to join with lines.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 2, iterations=3)
    >>> pliant.plots.write_animation("fit.gif", found, sample.image(), longest=96)
    >>> Path("fit.gif").read_bytes()[:4]
    b'GIF8'

    """
    kind = "GIF"
    if isinstance(target, (str, Path)):
        suffix = Path(target).suffix.lower()
        if suffix not in _FORMATS:
            raise ValueError(f"{target}: an animation must be a .gif or a .webp file.")
        kind = _FORMATS[suffix]
    steps = iterations_of(result)
    left, top, right, bottom = object_box(image, steps[0][1], steps[-1][1])
    part = image[top:bottom, left:right]
    painted = [
        paint_overlay(
            part,
            points - (left, top),
            style,
            kind="fit" if number else "start",
            contours=contours,
            longest=longest,
        )
        for number, (_, points) in enumerate(steps)
    ]
    frames = [
        PIL.fromarray(write_below(picture, name)) for picture, (name, _) in zip(painted, steps, strict=True)
    ]
    lengths = [round(1000 * seconds)] * len(frames)
    lengths[0] += 1000
    lengths[-1] += 1000
    if kind == "GIF":
        # One palette for all, without dither: what does not move then costs no bytes.
        both = PIL.new("RGB", (frames[0].width, 2 * frames[0].height))
        both.paste(frames[0])
        both.paste(frames[-1], (0, frames[0].height))
        palette = both.quantize(192)
        frames = [frame.quantize(palette=palette, dither=PIL.Dither.NONE) for frame in frames]
    frames[0].save(target, kind, save_all=True, append_images=frames[1:], duration=lengths, loop=0)
