"""`pliant evaluate`: how well algorithms fit annotated images."""

from __future__ import annotations

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
    ModelFile,
    Part,
    Quiet,
    SettingsFile,
    Verbose,
    check_target,
    learn_data,
    warnings_said,
    with_settings,
)
from pliant.cli.starts import announce_detector
from pliant.files import replaced
from pliant.settings import Evaluating, Fitting
from pliant.terminal import console, counted, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pliant.evaluation import Evaluation


@with_settings("evaluating", Evaluating)
@with_settings("fitting", Fitting, without=("start", "algorithm"))
def evaluate(
    *,
    model: ModelFile,
    sources: Annotated[
        list[str],
        typer.Argument(help="Annotated images: folders, annotation files, manifests, or addresses of these."),
    ],
    images: Images = None,
    format: From = "",
    part: Part = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="Algorithms, separated by commas, or 'all' for the paper's 31. Default: the model's own."
        ),
    ] = None,
    evaluating: Evaluating,
    fitting: Fitting,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Write every fit to this file or address: .parquet, .csv or .json."
        ),
    ] = None,
    draw: Annotated[
        Path | None, typer.Option(help="Draw the cumulative error curves to this file: png, svg or pdf.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a self-contained HTML page: curves, errors of every landmark, best and worst fits."
        ),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Measure how close fits are to known landmarks.

    Images are fitted as pliant fit does it, without looking at their landmarks. --start noise starts near the
    known landmarks instead, at positions that depend only on the seed, so that algorithms can be compared. An
    error is the mean distance between points, divided by the size of the object: the mean of the width and
    the height of the box around its landmarks. An object that was not found fails every bound. In mean, std
    and median, it counts as an error of 1, and so does every error above 1. The column px gives the mean
    error in pixels of the images. If all landmark files have a scale, the column scale units gives it in the
    unit of the scales: millimetres if they are in millimetres per pixel.
    """
    import pliant
    from pliant.data.addresses import as_source, plain_name
    from pliant.data.missing_images import about_missing, without_missing
    from pliant.evaluation import with_landmarks
    from pliant.records import check_records_file, write_records
    from pliant.starts.choice import described_way
    from pliant.version import __version__

    silent = quiet or as_json
    if not silent:
        announce_compiling()
    if output is not None:
        check_records_file(as_source(output))
    if draw is not None:
        check_target("--draw", draw, (".png", ".svg", ".pdf"))
    if report is not None:
        check_target("--report", report, (".html", ".htm"))
    searching = evaluating.start != "noise"
    every = [entry.name for entry in pliant.catalogue()]
    names = None
    if algorithm is not None:
        given = [name.strip() for name in algorithm.split(",") if name.strip()]
        names = every if algorithm == "all" else given
    with warnings_said():
        loaded = pliant.load(model)
    if evaluating.start in ("auto", "detector"):
        announce_detector(fitting.detector)
    if searching and verbose and not silent:
        say(f"start: {described_way(loaded, fitting.changed(start=evaluating.start))}")
    learn_data(sources, images, format)
    dataset = pliant.load_dataset(*sources, images=images, format=format)
    dataset = dataset if part is None else dataset.part(part)
    if dry_run:
        there, missing = without_missing(dataset)
        if len(missing) and not evaluating.skip_invalid:
            raise ValueError(about_missing(missing, there))
        annotated = len(with_landmarks(there))
        each = f"start: {evaluating.start}" if searching else f"{counted(evaluating.starts, 'start')} each"
        listed = ", ".join(names) if names else "the model's own algorithm"
        say(f"would fit {counted(annotated, 'annotated object')} with {listed}, {each}")
        return
    with warnings_said():
        done = pliant.evaluate(
            loaded, dataset, names, fitting, evaluating, jobs=jobs, progress=False if silent else None
        )
    about = {"model": str(as_source(model)), **evaluating.to_dict(), "seed": fitting.seed}
    if output is not None:
        head = {**about, "fitting": fitting.to_dict(), "pliant": __version__}
        write_records(output, done.records, loaded.landmark_names, head)
    if draw is not None:
        from pliant.plots import plot_ced
        from pliant.plots.saving import save_figure
        from pliant.records import errors_by_algorithm
        from pliant.report.evaluation import error_limit

        errors = errors_by_algorithm(done.records)
        save_figure(plot_ced(errors, error_limit(errors)), draw)
    if report is not None:
        from pliant.report import evaluation_report

        title = f"How well {plain_name(as_source(model))} fits"
        page = evaluation_report(done, dataset, loaded, title, ", ".join(sources), about)
        with replaced(report) as partial:
            partial.write_text(page, encoding="utf-8")
    _say(done, output, [path for path in (draw, report) if path is not None], quiet, as_json)


def _say(done: Evaluation, output: str | None, others: list[Path], quiet: bool, as_json: bool) -> None:
    import json

    if as_json:
        say(json.dumps(_outcome(done), indent=2))
        return
    for sentence in done.sentences:
        say(sentence, colour="yellow" if sentence == done.warning else "")
    _print(done.rows)
    if output is not None and not quiet:
        say(f"wrote {counted(len(done.records), 'fit')} to {output}")
    for written in others if not quiet else ():
        say(f"wrote {written}")


def _outcome(done: Evaluation) -> dict[str, Any]:
    from pliant.records import as_json

    false = [
        {"image": plain["image"], "confidence": record.confidence, "points": plain["points"]}
        for record, plain in ((record, as_json(record)) for record in done.false)
    ]
    return {"images": done.images, "used_for_training": done.seen, "rows": done.rows, "false": false}


def _print(rows: list[dict[str, Any]]) -> None:
    """The rows as one table, or as two if the terminal is too narrow. A sentence has said what was missed."""
    shares = {key: ".1%" for key in rows[0] if key.startswith("lt_")}
    errors = {**shares, **dict.fromkeys(("mean", "std", "median"), ".4f")}
    lengths: dict[str, str] = {key: ".3g" for key in ("pixels", "units") if key in rows[0]}
    time = {"ms": ".1f"}
    shown = console()
    tables = [_table(rows, {**errors, **lengths, **time})]
    if _width(tables[0], shown) > shown.width:
        tables = [_table(rows, {**errors, **time}), _table(rows, lengths)]
    for table in tables:
        # A number must not be cut: in a terminal that is narrower still, a line goes on in the next.
        shown.width = max(shown.width, _width(table, shown))
        shown.print(table)


def _table(rows: list[dict[str, Any]], forms: dict[str, str]) -> Table:
    """A table of what has a form, as narrow as can be."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    titles = {"pixels": "px", "units": "scale units"}
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("algorithm", no_wrap=True)
    for key in forms:
        table.add_column(titles.get(key, key.replace("lt_", "<")), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["algorithm"], *(format(row[key], form) for key, form in forms.items()))
    return table


def _width(table: Table, shown: Console) -> int:
    """The width of a table of which nothing is cut."""
    return shown.measure(table, options=shown.options.update_width(1000)).maximum
