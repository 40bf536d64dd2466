"""What `pliant fit` and `pliant merge` say when a table of fits is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from pliant.cli.exits import INCOMPLETE
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from pliant.bulk.rows import Outcome
    from pliant.data.addresses import Source

_FLAGGED = 10
"""Fits to look at that are named on the terminal."""


@dataclass(frozen=True)
class Done:
    """A run that has finished: `before` of its `images` are from an earlier command, `wrote` is what it left."""

    table: Source
    images: int
    before: int
    seconds: float
    wrote: list[Source]
    flag_below: float | None


def say_outcome(done: Done, quiet: bool, as_json: bool) -> None:
    """Say how it went; some failures are exit code 3, and no fit at all is an error."""
    from pliant.bulk.rows import outcome_of

    outcome = outcome_of(done.table)
    if as_json:
        _print_outcome(done, outcome)
    elif not quiet:
        _say_summary(done, outcome)
        _say_flagged(done)
    if not outcome.fits:
        raise ValueError(
            f"no image could be fitted; {done.table} lists the reasons. The first: {outcome.first} "
            "To fit again to the same place, use pliant fit --overwrite."
        )
    if outcome.failed:
        raise typer.Exit(INCOMPLETE)


def _say_summary(done: Done, outcome: Outcome) -> None:
    from pliant.fitting.status import Status

    if done.before:
        say(
            "nothing to do: this run is already complete"
            if done.before == done.images
            else f"{counted(done.before, 'image')} {'was' if done.before == 1 else 'were'} fitted before"
        )
    has = "results are in" if done.before == done.images else "wrote"
    objects = "" if outcome.fits == outcome.images else f", with {counted(outcome.fits, 'object')}"
    many = f"{outcome.images} of {counted(done.images, 'image')}"
    say(f"fitted {many}{objects}; {has} {', '.join(map(str, done.wrote))}")
    if outcome.failed:
        say(f"{outcome.failed} could not be fitted: see the column reason. The first: {outcome.first}")
    doubtful = outcome.fits - sum(outcome.statuses[status] for status in Status if status.ok)
    if doubtful:
        fits = "1 fit is" if doubtful == 1 else f"{doubtful} fits are"
        say(f"{fits} doubtful: see the column status")


def _print_outcome(done: Done, outcome: Outcome) -> None:
    import json

    from pliant.bulk.rows import flagged_in

    said: dict[str, Any] = {
        "images": done.images,
        "fitted": outcome.images,
        "objects": outcome.fits,
        "failed": outcome.failed,
        "from_before": done.before,
        "statuses": outcome.statuses,
        "seconds": round(done.seconds, 3),
        "wrote": [str(file) for file in done.wrote],
    }
    if done.flag_below is not None:
        said["flagged"] = [
            {**row, "confidence": round(row["confidence"], 4)}
            for row in flagged_in(done.table, done.flag_below)
        ]
    say(json.dumps(said, indent=2))


def _say_flagged(done: Done) -> None:
    from pliant.bulk.files import FLAGGED
    from pliant.bulk.rows import flagged_in
    from pliant.data.addresses import join, parent

    if done.flag_below is None:
        return
    flagged = flagged_in(done.table, done.flag_below)
    say(f"{len(flagged)} to review, listed in {join(parent(done.table), FLAGGED)}")
    for row in flagged[:_FLAGGED]:
        which = f", object {row['object']}" if row["object"] else ""
        say(f"  {row['confidence']:4.0%}  {row['image']}{which}{' (failed)' if row['reason'] else ''}")
    if len(flagged) > _FLAGGED:
        say("  ...")


def outcome_of_merged(output: Source, head: Mapping[str, Any], images: int, seconds: float) -> Done:
    """What `say_outcome` says about parts that were merged."""
    from pliant.bulk.files import written_by
    from pliant.data.addresses import join
    from pliant.table import TABLE

    return Done(join(output, TABLE), images, 0, seconds, written_by(output, head), head["flag_below"])
