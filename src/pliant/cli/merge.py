"""`pliant merge`: one table of what shards have fitted, or one report of an experiment's."""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli.experiment import merge_shards
from pliant.cli.options import AsJson, Quiet, SettingsFile, Verbose, say_settings
from pliant.cli.outcomes import outcome_of_merged, say_outcome
from pliant.terminal import say


def merge(
    context: typer.Context,
    folders: Annotated[
        list[str], typer.Argument(help="Folders that the shards wrote to: one that they shared, or several.")
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="The folder to write to. Default: the first one."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Join the results of the shards of a run.

    The shards of `pliant fit` can run in any order, and more than once: the table holds each image once. If a
    shard is missing or a file is damaged, the command says so and writes nothing. Once the table is written,
    the parts are removed. For experiments, the rows are collected, and the report shows the experiments that
    are complete.
    """
    import time

    from pliant.bulk.merging import merge_parts, plan_in
    from pliant.data.addresses import as_source
    from pliant.experiments.plans import is_experiment

    if verbose and not (quiet or as_json):
        say_settings(context)
    sources = [as_source(folder) for folder in folders]
    target = sources[0] if output is None else as_source(output)
    if any(is_experiment(source) for source in sources):
        merge_shards(sources, target, quiet, as_json)
        return
    begin = time.perf_counter()
    plan = plan_in(sources[0])
    for sentence in merge_parts(sources, target):
        if not quiet:
            say(sentence, error=True, colour="yellow")
    done = outcome_of_merged(target, plan.head, plan.images, time.perf_counter() - begin)
    say_outcome(done, quiet, as_json)
