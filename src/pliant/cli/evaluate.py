"""`pliant evaluate`: how well algorithms fit annotated images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.options import (
    AsJson,
    DryRun,
    From,
    Images,
    Jobs,
    Part,
    Quiet,
    SettingsFile,
    Verbose,
    check_target,
    told,
    with_settings,
)
from pliant.cli.starts import announce_detector
from pliant.settings import DEFAULT_ALGORITHM, Evaluating, Fitting
from pliant.terminal import console, say

if TYPE_CHECKING:
    from pliant.arrays import Float64
    from pliant.data.dataset import Dataset
    from pliant.evaluation import Evaluation, FitRecord, Search
    from pliant.model import Model


@with_settings("evaluating", Evaluating)
@with_settings("fitting", Fitting, without=("start", "rescan_below", "algorithm"))
def evaluate(
    *,
    model: Annotated[Path, typer.Argument(help="A model file.")],
    sources: Annotated[
        list[str],
        typer.Argument(help="Annotated images: folders, annotation files, manifests, or addresses of such."),
    ],
    images: Images = None,
    format: From = "",
    part: Part = None,
    algorithm: Annotated[
        str, typer.Option(help="Algorithms with commas between them, or 'all' for the paper's 31.")
    ] = DEFAULT_ALGORITHM,
    evaluating: Evaluating,
    fitting: Fitting,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write every fit to this file: .parquet, .csv or .json."),
    ] = None,
    draw: Annotated[
        Path | None, typer.Option(help="Draw the curves of cumulative errors to this file: png, svg or pdf.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page that stands alone: curves, errors of every landmark, best and worst fits."
        ),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Say how near fits come to known landmarks.

    Errors are mean distances between points, divided by the size of the object: the mean of the width and the
    height of the box around its landmarks. The column px has the mean error in pixels of the images, and units in
    those of the landmark files, such as millimetres, if all of them have a scale. Random starts depend on the seed
    alone, so that rows of different runs can be compared.
    """
    import json
    import warnings

    import pliant
    from pliant import evaluation
    from pliant.data.validation import SamplesLeftOut
    from pliant.starts.choice import described_way

    silent = quiet or as_json
    if not silent:
        announce_compiling()
    if output is not None:
        _check_output(output)
    if draw is not None:
        check_target("--draw", draw, (".png", ".svg", ".pdf"))
    if report is not None:
        check_target("--report", report, (".html", ".htm"))
    searching = evaluating.start != "noise"
    if not searching and any((fitting.detector, fitting.every_box, fitting.fallback)):
        raise ValueError("--detector, --every-box and --fallback find starts: say how with --start.")
    every = [entry.name for entry in pliant.catalogue()]
    names = every if algorithm == "all" else [name.strip() for name in algorithm.split(",") if name.strip()]
    loaded = pliant.load(model)
    if evaluating.start in ("auto", "detector"):
        announce_detector(fitting.detector)
    if searching and verbose and not silent:
        say(f"start: {described_way(loaded, fitting.changed(start=evaluating.start))}")
    dataset = pliant.load_dataset(*sources, images=images, format=format)
    dataset = dataset if part is None else dataset.part(part)
    if dry_run:
        annotated = sum(sample.points_source is not None for sample in dataset)
        each = f"starts by {evaluating.start}" if searching else f"{evaluating.starts} starts each"
        say(f"would fit {annotated} annotated images with {', '.join(names)}, {each}")
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SamplesLeftOut)
        done = evaluation.evaluate(
            loaded, dataset, names, fitting, evaluating, jobs=jobs, progress=False if silent else None
        )
    for warning in said:
        say(told(warning.message), colour="yellow", error=True)
    if output is not None:
        write_records(output, done.records, loaded.landmark_names)
    if draw is not None:
        from pliant.plots import plot_ced

        plot_ced(_errors(done.records)).savefig(draw)
    if report is not None:
        about = {"model": model, **evaluating.to_dict(), "seed": fitting.seed}
        report.write_text(_page(done, dataset, loaded, sources, about), encoding="utf-8")
    if as_json:
        say(json.dumps(_outcome(done), indent=2))
    else:
        if done.search is not None:
            say(search_line(done.search))
        _print(done.rows)
        if output is not None and not quiet:
            say(f"wrote {len(done.records)} fits to {output}")
        for written in (draw, report):
            if written is not None and not quiet:
                say(f"wrote {written}")


def _errors(records: Sequence[FitRecord]) -> dict[str, Float64]:
    """The errors `(k,)` of each algorithm, where the object was found."""
    import numpy as np

    errors: dict[str, list[float]] = {}
    for record in records:
        if record.found:
            errors.setdefault(record.algorithm, []).append(record.error)
    return {algorithm: np.array(some) for algorithm, some in errors.items()}


def _page(
    done: Evaluation, dataset: Dataset, model: Model, sources: Sequence[str], about: dict[str, object]
) -> str:
    import numpy as np

    from pliant.data.names import readable
    from pliant.report import Evaluated, Subject, evaluation_page

    samples = {sample.name: sample for sample in dataset}
    milliseconds = {row["algorithm"]: row["ms"] for row in done.rows}
    fits, shown = {}, []
    for algorithm, errors in _errors(done.records).items():
        shown = [record for record in done.records if record.algorithm == algorithm and record.found]
        fits[algorithm] = Evaluated(
            errors,
            np.array([record.distances for record in shown]),
            [record.points for record in shown],
            milliseconds[algorithm],
            np.array([record.pixels for record in shown]),
            np.array([record.units for record in shown]),
        )
    lead = f"{len(shown)} fits of {len({record.image for record in shown})} images of {', '.join(sources)}."
    subject = Subject(
        model.levels[-1].shape.mean,
        model.landmark_names,
        images=[samples[record.image] for record in shown],
        names=[readable(Path(record.image).name) for record in shown],
        truths=[samples[record.image].points() for record in shown],
    )
    return evaluation_page(
        fits,
        subject,
        title=f"How well {Path(str(about['model'])).name} fits",
        lead=lead if done.search is None else f"{lead} {search_line(done.search)}",
        settings=about,
    )


def search_line(search: Search) -> str:
    """How many images the object was found in, and how it was missed in the others."""
    line = f"the object was found in {search.found} of {search.images} images, {search.ms:.0f} ms each"
    if search.found == search.images:
        return line
    return (
        f"{line}; in {search.nothing} nothing was found, and in {search.far} the start was off by more than 0.3 "
        "of its size. The rows are about the images in which it was found."
    )


def write_records(path: Path, records: Sequence[FitRecord], names: Sequence[str] = ()) -> None:
    """Write every fit to a file: Parquet as `pliant fit` has it, CSV with a column for each number, or JSON.

    `names` are those of the landmarks, if they have any.
    """
    import csv
    import json

    from pliant.data.formats.parquet import names_metadata
    from pliant.data.tables import coordinate_titles

    rows = [_plain(record) for record in records]
    ending = path.suffix.lower()
    if ending == ".json":
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    elif ending == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        for row in rows:
            row["x"], row["y"] = (list(axis) for axis in zip(*row.pop("points"), strict=True))
        columns = pa.Table.from_pylist(rows)
        parquet.write_table(columns.replace_schema_metadata(names_metadata(names)), path)
    else:
        wide = coordinate_titles(len(records[0].points), names, ("x", "y", "distance"))
        with open(path, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*(key for key in rows[0] if key not in ("points", "distances")), *wide])
            for row in rows:
                points, distances = row.pop("points"), row.pop("distances")
                numbers = [n for (x, y), far in zip(points, distances, strict=True) for n in (x, y, far)]
                table.writerow([*row.values(), *numbers])


_ENDINGS = (".parquet", ".csv", ".json")


def _check_output(path: Path) -> None:
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(f"{path}: fits are written to files that end in {', '.join(_ENDINGS)}.")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist.")


def _plain(record: FitRecord) -> dict[str, Any]:
    """A record as JSON has it, with null for what is not a number."""
    import math
    from dataclasses import asdict

    from pliant.data.names import to_text

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    named = {**asdict(record), "image": to_text(record.image)}
    return {key: plain(value.tolist() if hasattr(value, "tolist") else value) for key, value in named.items()}


def _outcome(done: Evaluation) -> dict[str, Any]:
    from dataclasses import asdict

    search = None if done.search is None else {**asdict(done.search), "found": done.search.found}
    return {"rows": done.rows, "search": search}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shares = [key for key in rows[0] if key.startswith("lt_")]
    # As narrow as can be: ten columns and the longest name of an algorithm should fit into 80 characters.
    table = Table(box=SIMPLE_HEAD, padding=0)
    # A name that is cut off could not be typed again: a long one goes on in the next line.
    table.add_column("algorithm", overflow="fold")
    lengths = [key for key in ("pixels", "units") if key in rows[0]]
    titles = ["px" if key == "pixels" else key for key in lengths]
    for title in (*(key.replace("lt_", "<") for key in shares), "mean", "std", "median", *titles, "ms"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row["algorithm"],
            *(f"{row[key]:.1%}" for key in shares),
            *(f"{row[key]:.4f}" for key in ("mean", "std", "median")),
            *(f"{row[key]:.3g}" for key in lengths),
            f"{row['ms']:.1f}",
        )
    console().print(table)
