"""`pliant experiment`: the paper's comparisons on your own images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import (
    AsJson,
    Cluster,
    DryRun,
    From,
    Images,
    Jobs,
    Quiet,
    SchedulerFile,
    Shard,
    Verbose,
    crew_told,
    say_settings,
    warnings_said,
)
from pliant.cli.usage import Command
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from pliant.crew import Jobs as CrewJobs
    from pliant.data.addresses import Source
    from pliant.experiments.conduct import Conducted, Drawn
    from pliant.experiments.settings import Settings
    from pliant.shards import Shard as Share


class ManyFolders(Command):
    """Takes `--train A B` for `--train A --train B`, and `--test` likewise."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread: list[str] = []
        option = ""
        for word in args:
            if word.startswith("-"):
                option = word if word in ("--train", "--test") else ""
                spread.append(word)
            elif option and spread[-1] != option:
                spread += [option, word]
            else:
                spread.append(word)
        return super().parse_args(ctx, spread)


def experiment(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="algorithms: all 31 and the default, and which is best for these images. rho: weights of "
            "the project-out cost. alpha: asymmetric composition. sampling: fewer pixels and "
            "iterations, starts farther away. transfer: each test folder separately. objects: "
            "cross-validation of each training folder. newton: the sign and the share of the curvature. "
            "composition: exact or first-order, with or without a prior, affine or splines. experts: "
            "the model alone, an expert alone, and both. defaults: the paper's settings and pliant's. all: "
            "these ten. report: draw the report of "
            "the output folder again.",
        ),
    ],
    train: Annotated[
        list[str] | None, typer.Option(help="Annotated images to train on: folders, files or addresses.")
    ] = None,
    test: Annotated[list[str] | None, typer.Option(help="Annotated images to test on.")] = None,
    images: Images = None,
    format: From = "",
    part: Annotated[
        str | None,
        typer.Option(
            help="Use the manifest rows with this value in the column split. Two values with a comma, such "
            "as train,test, select the rows to train on and the rows to test on."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for rows, tables, figures and report.html.")
    ] = Path("experiments"),
    settings: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with a table [experiment], and [experiment.NAME] for settings of one experiment."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run: few images, one start each, fewer values.")
    ] = False,
    points: Annotated[
        str | None,
        typer.Option(help="Landmarks to measure errors on: all, interior49, or ranges such as 17-59,61-63."),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="How far off the random starts are. Default: 0.05.")
    ] = None,
    starts: Annotated[
        int | None, typer.Option(help="Random starts for each image. Default: 3.", min=1)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="A different seed draws different starts. Default: 0.", min=0)
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the paper's tables, paper_lfpw.csv and paper_runtime.csv, to show next to the "
            "results."
        ),
    ] = None,
    others: Annotated[
        Path | None,
        typer.Option(
            help="Errors of other methods for transfer: a CSV file with the columns test, method, error."
        ),
    ] = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out samples that cannot be used, and list them.")
    ] = False,
    shard: Shard = None,
    cluster: Cluster = None,
    scheduler_file: SchedulerFile = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Repeat the paper's experiments on your own images.

    Figures show 95 % intervals, and differences are tested in pairs. Every fit is a row in the folder
    OUTPUT/rows. Run the same command again to continue a run that was stopped, or to draw the report of a
    finished run again. The same seed gives the same rows, on one machine or in shards on many.
    """
    from pliant.experiments.conduct import chosen, draw, read_others, read_reference
    from pliant.shards import Shard as Share

    share = None if shard is None else Share.parse(shard)
    if share is not None and (cluster or scheduler_file):
        raise ValueError(f"shard={share} is for queues without Dask: give either a shard or a cluster.")
    silent = quiet or as_json
    if verbose and not silent:
        say_settings(context)
    # Whatever is wrong with them should be said before hours of fitting.
    read_reference(reference)
    read_others(others)
    parts = None if part is None else [word.strip() for word in part.split(",") if word.strip()]
    sets = {"train": train, "test": test, "images": images, "format": format or None, "part": parts}
    given = {**sets, "points": points, "noise": noise, "starts": starts, "seed": seed}
    given = {key: value for key, value in given.items() if value is not None and value != []}
    if name == "report":
        if settings or share or given.keys() & sets.keys():
            raise ValueError(
                "report draws from the output folder: it does not take --train, --test, --settings, --shard "
                "or options that depend on them."
            )
    else:
        wanted = chosen(name, settings, given, quick)
        if dry_run:
            _say_what(wanted, share, as_json)
            return
        if not silent:
            announce_compiling()
        with crew_told(jobs, cluster, scheduler_file) as crew:
            done = _conduct(output, wanted, crew, share, skip_invalid, silent)
        if share is not None:
            _say_shard(output, share, done, quiet, as_json)
            return
    drawn = draw(output, reference, others)
    _say_drawn(drawn, quiet, as_json)
    _say_unfinished(drawn)


def _conduct(
    output: Path,
    wanted: Mapping[str, Settings],
    jobs: CrewJobs,
    share: Share | None,
    skip_invalid: bool,
    quiet: bool,
) -> dict[str, Conducted]:
    from pliant.experiments.conduct import conduct

    with warnings_said():
        return conduct(
            output,
            wanted,
            jobs=jobs,
            shard=share,
            skip_invalid=skip_invalid,
            progress=False if quiet else None,
        )


def _say_shard(output: Path, share: Share, done: Mapping[str, Conducted], quiet: bool, as_json: bool) -> None:
    import json

    if as_json:
        units = {name: {"units": one.units, "fitted": one.fitted} for name, one in done.items()}
        say(json.dumps({"shard": str(share), "output": str(output), "experiments": units}, indent=2))
    elif not quiet:
        for name, one in done.items():
            rest = f", {one.units - one.fitted} done before" if one.fitted < one.units else ""
            say(f"{name}, shard {share}: fitted {one.fitted} of its {counted(one.units, 'unit')}{rest}")
        say(f"when all {share.count} shards are done, run: pliant merge {output}")


def merge_shards(
    folders: Sequence[Source], output: Source | None, quiet: bool = False, as_json: bool = False
) -> None:
    """Put shards of experiments together, draw what is complete, and say what is not."""
    from pliant.experiments.conduct import Drawn, draw
    from pliant.experiments.merging import merge_experiments

    merged = merge_experiments(folders, output, progress=False if quiet or as_json else None)
    if not quiet and not as_json:
        say(
            f"{merged.output}: {counted(merged.units, 'unit')} of {', '.join(merged.experiments)}; "
            f"{merged.copied} copied"
        )
        if merged.twice:
            verb = "was" if merged.twice == 1 else "were"
            say(f"{counted(merged.twice, 'unit')} {verb} found more than once: one copy of each is kept")
    said = (*merged.missing, *merged.damaged, *merged.notes)
    for sentence in said:
        say(sentence, colour="yellow", error=True)
    drawn = Drawn([], [], list(merged.experiments))
    if not merged.damaged and len(merged.unfinished) < len(merged.experiments):
        drawn = draw(merged.output)
    _say_drawn(drawn, quiet, as_json, said)
    if not merged.complete:
        raise typer.Exit(INCOMPLETE)


def _say_drawn(drawn: Drawn, quiet: bool, as_json: bool, notes: Sequence[str] = ()) -> None:
    import json

    if as_json:
        outcome = {
            "wrote": [str(path) for path in drawn.written],
            "unfinished": list(drawn.unfinished),
            "conclusions": list(drawn.conclusions),
            **({"notes": list(notes)} if notes else {}),
        }
        say(json.dumps(outcome, indent=2))
    elif drawn.written and not quiet:
        say(f"wrote {drawn.written[0]} and {len(drawn.written) - 1} tables and figures")
        for sentence in drawn.conclusions:
            say(sentence)


def _say_unfinished(drawn: Drawn) -> None:
    if drawn.unfinished:
        say(
            f"not drawn, because rows are missing: {', '.join(drawn.unfinished)}. Run the same command again "
            "to continue.",
            colour="yellow",
            error=True,
        )
        raise typer.Exit(INCOMPLETE)


def _say_what(wanted: Mapping[str, Settings], share: Share | None, as_json: bool) -> None:
    import json

    from pliant.experiments.conduct import EXPERIMENTS
    from pliant.experiments.units import model_of, own_units, units_of

    plans: dict[str, dict[str, int | str]] = {}
    for name, settings in wanted.items():
        trials = EXPERIMENTS[name].plan(settings)
        if share is not None:
            # Trials have no names before their images are read: their numbers will do.
            own = own_units(units_of([(trial, str(k)) for k, trial in enumerate(trials)]), share)
            trials = [unit.trial for unit in own]
        models = len({model_of(trial) for trial in trials})
        plans[name] = {"trials": len(trials), "models": models, "starts": settings.starts}
        what = f"{counted(len(trials), 'trial')} of {counted(models, 'model')}, "
        what += f"{counted(settings.starts, 'start')} per image"
        if share is not None:
            plans[name] = {"shard": str(share), "units": len(trials), "models": models}
            what = (
                f"{counted(len(trials), 'unit')} of {counted(models, 'model')}, each a trial from one start"
            )
        if not as_json:
            say(f"{name}: would fit {what}")
    if as_json:
        say(json.dumps(plans, indent=2))
