"""The `pliant` command. One file a command; what a command needs is imported when it runs."""

from __future__ import annotations

import errno
import signal
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from pliant.cli.check import check
from pliant.cli.convert import convert
from pliant.cli.demo import demo
from pliant.cli.evaluate import evaluate
from pliant.cli.exits import ERROR, INTERRUPTED
from pliant.cli.experiment import ManyFolders, experiment
from pliant.cli.fit import fit
from pliant.cli.inspect import inspect
from pliant.cli.merge import merge
from pliant.cli.morphometrics import morphometrics
from pliant.cli.options import learn_flags, told
from pliant.cli.studio import studio
from pliant.cli.synthetic import synthetic
from pliant.cli.track import track
from pliant.cli.train import train
from pliant.cli.usage import Command
from pliant.cli.version import version
from pliant.devices import DeviceFailed
from pliant.terminal import say
from pliant.version import __version__

app = typer.Typer(
    name="pliant",
    help="Deformable models of any object: train on annotated images, fit new ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    train,
    fit,
    merge,
    track,
    evaluate,
    experiment,
    inspect,
    convert,
    check,
    morphometrics,
    studio,
    synthetic,
    version,
):
    # A docstring breaks its lines for the source; a terminal breaks them for itself.
    paragraphs = (command.__doc__ or "").split("\n\n")
    app.command(
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        # Given, as one that is made of the help is cut off where the line ends.
        short_help=" ".join(paragraphs[0].split()),
        cls=ManyFolders if command is experiment else Command,
    )(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"pliant {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    said: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    learn_flags(context.command)


def main() -> None:
    """Run the command line: what a user can mend is one sentence and exit code 1, never a traceback."""
    signal.signal(signal.SIGINT, _interrupted)
    if isinstance(sys.stdout, TextIOWrapper):
        # As standard error does it: a file name that is not UTF-8 can be shown, and does not stop a command.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (ValueError, OSError, DeviceFailed) as error:
        say(f"error: {told(_as_sentence(error))}", colour="red", error=True)
        sys.exit(ERROR)
    except (MemoryError, RuntimeError) as error:
        # This is how Python says that there is no memory for the stack of a thread.
        if isinstance(error, RuntimeError) and "can't start new thread" not in str(error):
            raise
        advice = "Close other programs, use fewer threads with --jobs, or smaller images."
        say(
            f"error: there is not enough memory ({error}). {advice}".replace(" ()", ""),
            colour="red",
            error=True,
        )
        sys.exit(ERROR)


def _as_sentence(error: Exception) -> str:
    """What went wrong: of an error of the system, the file and the reason, without its number."""
    if not isinstance(error, OSError) or not error.errno or not error.strerror:
        return str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = " Make room on the disk, and try again." if full else ""
    return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}.{advice}"


def _interrupted(number: int, frame: object) -> None:
    """Leave by the usual way out, so that files are closed; what was finished stays."""
    say("interrupted: finished results are kept", colour="yellow", error=True)
    sys.exit(INTERRUPTED)
