"""`pliant fit`: from a model and images to landmark files, a table and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.starts import Start, starter

if TYPE_CHECKING:
    from pliant.arrays import Floats, Image
    from pliant.fitting.result import FitResult

COLUMNS = ("image", "status", "reason", "cost", "iterations", "seconds")


def fit(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    images: Annotated[list[str], typer.Argument(help="Images, patterns such as 'faces/*.jpg', or folders.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to; made if need be.")],
    boxes: Annotated[
        Path | None,
        typer.Option(help="Where the object is: a CSV of image,left,top,right,bottom.", exists=True),
    ] = None,
    start: Annotated[
        Start | None,
        typer.Option(
            help="Without boxes. centre, the default: the mean shape in the middle, filling 60 % of the smaller "
            "side, which is good only for images cropped to the object. landmarks: the landmark file beside "
            "each image."
        ),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="An algorithm's name.")] = "ssd:map-asy:0.2-gn-sch",
    iterations: Annotated[
        str | None, typer.Option(help="Most iterations a level, coarse to fine: 24,16 for two levels.")
    ] = None,
    sampling: Annotated[float, typer.Option(help="Share of the pixels to look at.")] = 1.0,
    draw: Annotated[bool, typer.Option(help="Write a picture of every fit.")] = True,
    device: Annotated[str, typer.Option(help="What computes: cpu, or reference (slow, for checks).")] = "cpu",
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if not given.", min=1)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Fit a model to images: writes NAME.pts and pictures/NAME.png for each, and fits.csv about all.

    An image that cannot be fitted is a row of fits.csv with the reason, and does not stop the others.
    """
    import csv
    from itertools import tee

    import pliant
    from pliant.data.sources import find_images
    from pliant.fitting.fitter import fit_all, make_fitter
    from pliant.fitting.result import failed
    from pliant.progress import Progress

    if not quiet:
        announce_compiling()
    loaded = pliant.load(model)
    where = starter(start, boxes, loaded)
    fitter = make_fitter(
        loaded,
        algorithm=algorithm,
        iterations=whole_numbers("--iterations", iterations),
        sampling=sampling,
        device=device,
        jobs=jobs,
        trace=False,
    )
    files = [Path(name) for name in find_images(images)]
    names = _names(files)
    _check_output(output, files, names)

    # Before anything is written: this is where a device that is not there shows.
    _ = fitter.prepared
    output.mkdir(parents=True, exist_ok=True)
    # The fitter takes images in blocks, ahead of the results: tee holds those between the two, and no others.
    ahead, tasks = tee(_tasks(files, where))
    work = ((task.image, task.start) for task in ahead if isinstance(task, _Ready))
    results = fit_all(fitter, work, len(files))
    reasons: list[str] = []
    doubtful = 0
    with (
        Progress(False if quiet else None) as bar,
        open(output / "fits.csv", "w", newline="", encoding="utf-8") as table,
    ):
        advance = bar.start("fitting images", len(files))
        rows = csv.writer(table)
        rows.writerow(COLUMNS)
        for file, name, task in zip(files, names, tasks, strict=True):
            # What an earlier run left is not to be taken for this one's.
            for stale in _targets(output, name):
                stale.unlink(missing_ok=True)
            if isinstance(task, _Ready):
                result = next(results)
            else:
                result = failed(fitter.model, str(fitter.algorithm), None, task.reason)
            reason = result.reason.removeprefix(f"{file}: ")
            if reason:
                reasons.append(f"{file}: {reason}")
            elif isinstance(task, _Ready):
                doubtful += not result.ok
                _write(_targets(output, name), result, task.image, draw)
            rows.writerow(_row(file, result, reason))
            advance()
    fitted = len(files) - len(reasons)
    if not fitted:
        raise ValueError(f"no image could be fitted; {output / 'fits.csv'} says why. The first: {reasons[0]}")
    if not quiet:
        typer.echo(f"fitted {fitted} of {len(files)} images; wrote {output / 'fits.csv'}")
        if reasons:
            typer.echo(f"{len(reasons)} could not be fitted: the column reason says why")
        if doubtful:
            fits = "1 fit is" if doubtful == 1 else f"{doubtful} fits are"
            typer.echo(f"{fits} doubtful: the column status says how they ended")


def whole_numbers(option: str, text: str | None) -> int | list[int] | None:
    """`24,16` as a list, and one number alone as itself, for every level."""
    if text is None:
        return None
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes whole numbers with commas between them, such as 24,16, not '{text}'."
        ) from None
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class _Ready:
    image: Image
    start: Floats


@dataclass(frozen=True)
class _Unusable:
    reason: str


def _tasks(files: Sequence[Path], where: Callable[[str, Image], Floats]) -> Iterator[_Ready | _Unusable]:
    """Images as they are needed, each with its start; what is wrong with one is said in its place."""
    from pliant.data.images import read_image

    for file in files:
        try:
            image = read_image(file)
            yield _Ready(image, where(str(file), image))
        except (ValueError, OSError) as error:
            yield _Unusable(str(error))


def _names(files: Sequence[Path]) -> list[str]:
    """What the files of each image are called: its name, with its folder where two would be alike."""
    shared = Counter(file.stem.casefold() for file in files)
    names = [
        file.stem if shared[file.stem.casefold()] == 1 else f"{file.absolute().parent.name}-{file.stem}"
        for file in files
    ]
    first: dict[str, Path] = {}
    for file, name in zip(files, names, strict=True):
        other = first.setdefault(name.casefold(), file)
        if other is not file:
            raise ValueError(f"{other} and {file} would both be written to {name}.pts: fit them separately.")
    return names


def _check_output(output: Path, files: Sequence[Path], names: Sequence[str]) -> None:
    """Refuse to replace anything but the files of an earlier fit."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output}: this is a file, and a folder is needed to write to.")
    inputs = {file.resolve() for file in files}
    earlier = (output / "fits.csv").is_file()
    for name in names:
        for target in _targets(output, name):
            if target.resolve() in inputs or (target.exists() and not earlier):
                raise ValueError(f"{target} would be replaced: write to another folder.")


def _targets(output: Path, name: str) -> tuple[Path, Path]:
    """The landmarks and the picture of a fit.

    The picture has a folder of its own: beside the landmarks, it would be taken for the image that they belong
    to, though it has other pixels.
    """
    return output / f"{name}.pts", output / "pictures" / f"{name}.png"


def _write(targets: tuple[Path, Path], result: FitResult, image: Image, draw: bool) -> None:
    from pliant.data.formats import write_landmarks
    from pliant.plots import plot_overlay

    landmarks, picture = targets
    write_landmarks(landmarks, result.points)
    if draw:
        picture.parent.mkdir(exist_ok=True)
        plot_overlay(image, result.points).savefig(picture, dpi=100)


def _row(file: Path, result: FitResult, reason: str) -> tuple[object, ...]:
    """The values of COLUMNS."""
    if reason:
        return file, result.status, reason, "", "", ""
    return file, result.status, "", f"{result.cost:.8g}", result.iterations, f"{result.seconds:.4f}"
