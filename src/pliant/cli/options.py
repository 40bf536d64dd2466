"""Options that commands share, spelt the same everywhere, and settings from a TOML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from pliant.settings.declaring import Settings, as_named_now, as_toml, nearest, options, read_table, shown
from pliant.settings.kinds import Kind
from pliant.terminal import printable, say

if TYPE_CHECKING:
    from pliant.crew import Crew
    from pliant.data.addresses import Source
    from pliant.model import Model

Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Number of threads. Default: all cores.", min=1)
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Run on a Dask cluster: the address of its scheduler (tcp://host:8786), or local:N for N "
        "processes on this machine.",
        metavar="ADDRESS",
    ),
]
SchedulerFile = Annotated[
    Path | None, typer.Option(help="Run on the Dask cluster whose scheduler wrote this file.")
]
Seed = Annotated[int, typer.Option("--seed", help="A different seed draws different numbers.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar and no summary.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show all settings and every step.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON and nothing else.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]


Shard = Annotated[
    str | None,
    typer.Option(
        help="Do one of N shares of the work, for job queues such as SLURM arrays: 3/16 is the third of "
        "sixteen. `pliant merge` joins the results of the shards.",
        metavar="I/N",
    ),
]

ModelFile = Annotated[
    str, typer.Argument(help="A model file, or the address of one (s3://...).", metavar="MODEL")
]
"""Text for `as_source`, as typer would make a path of an address."""

Images = Annotated[
    str | None, typer.Option(help="Folder of the images that annotation files name, if they are elsewhere.")
]
From = Annotated[
    str, typer.Option("--from", help="Format of landmark files. Default: detected from their content.")
]
Part = Annotated[
    str | None, typer.Option(help="Use only the manifest rows with this value in the column split.")
]


class Labels(StrEnum):
    """What is written beside drawn landmarks."""

    NUMBERS = "numbers"
    NAMES = "names"


DrawLabels = Annotated[
    Labels | None,
    typer.Option("--draw-labels", help="Draw landmarks with their numbers (from 0) or names."),
]


def labels_of(labels: Labels | None, model: Model, file: Source) -> Sequence[str]:
    """The texts that are to be drawn beside the landmarks of a model; none unless they were asked for."""
    kind = checked_labels(labels, model, file)
    return model.landmark_names if kind == "names" else [str(k) for k in range(model.landmarks) if kind]


def checked_labels(labels: Labels | None, model: Model, file: Source) -> Literal["", "numbers", "names"]:
    """The kind of labels that are to be drawn, if the model has them."""
    if labels is Labels.NAMES and not model.landmark_names:
        raise ValueError(
            f"--draw-labels names: {file} has no landmark names, because its training data had none. Use "
            "--draw-labels numbers."
        )
    return "" if labels is None else labels.value


def with_settings(
    name: str, kind: type[Settings], without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every setting of a kind, in the place of its parameter `name`.

    The command gets the settings as one value. Settings that it takes in a way of its own are left out by
    `without`, those that follow from others among them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        declared = [entry for entry in options(kind()) if entry[0] not in without]

        @wraps(command)
        def run(**given: Any) -> None:
            chosen = {setting: given.pop(setting) for setting, *_ in declared}
            kinds = {setting: form for setting, _, form, _ in declared}
            typed = {
                setting: kinds[setting].parse(value) if isinstance(value, str) else value
                for setting, value in chosen.items()
                if value is not None
            }
            command(**given, **{name: kind.from_dict(typed)})

        parameters: list[Parameter] = []
        hints = get_type_hints(command, include_extras=True)
        for parameter in signature(command).parameters.values():
            if parameter.name != name:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
                continue
            for setting, default, form, help in declared:
                parameters.append(_option(setting, default, form, help))
        keyword_only = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = Signature(keyword_only)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword_only}
        return run

    return decorate


def _option(setting: str, default: Any, form: Kind, help: str) -> Parameter:
    """A command's parameter for a setting: a switch, or text that the setting's kind parses and checks."""
    annotation: Any
    if isinstance(default, bool):
        annotation = Annotated[bool, typer.Option(help=help)]
    else:
        annotation = Annotated[str | None, typer.Option(help=help, metavar=form.metavar)]
        default = None if default in (None, (), "") else shown(default)
    return Parameter(setting, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def in_flags(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence of the library, which names parameters (`tries=0`), with the flags of commands (`--tries 0`)."""

    def flag(match: re.Match[str]) -> str:
        name, true = match.groups()
        if name not in names:
            return match[0]
        return names[name] if true else f"{names[name]} "

    return re.sub(r"(?<![\w/.=-])([a-z]\w*)=(?:(True\b)|(?=\S|$))", flag, sentence)


_flags: dict[str, str] = {}
"""The flags of all commands by the names of their parameters."""


def learn_flags(group: Any) -> None:
    """Take note of the options that the commands of a group have."""
    for command in group.commands.values():
        for parameter in command.params:
            if parameter.opts[0].startswith("-"):
                _flags[str(parameter.name)] = max(parameter.opts, key=len)


_data: list[str] = []
"""The words on the command line that name the data, as `check` takes them."""


def learn_data(sources: Sequence[str], images: str | None, format: str) -> None:
    """Take note of the data that a command was given, for sentences that advise to check them."""
    _data[:] = [*sources, *(("--images", images) if images else ()), *(("--from", format) if format else ())]


def told(sentence: object) -> str:
    """A sentence of the library as a command says it: with flags, and with the user's own data to check."""
    text = in_flags(str(sentence), _flags)
    return text.replace("pliant check --json", f"pliant check {join(_data)} --json") if _data else text


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Take what the file says for what the user did not."""
    if path is None:
        return None
    command = context.command
    try:
        table = read_table(path, command.name or "")
    except ValueError as error:
        raise _refusal(str(error)) from None
    # By the names that options have on the command line: `from` is called `format` inside.
    inside = {
        option.lstrip("-").replace("-", "_"): parameter.name
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") or parameter.param_type_name == "argument"
    }
    known = inside.keys() - {"settings", "help"}
    renamed = (as_named_now(key.replace("-", "_"), value) for key, value in table.items())
    many = {parameter.name for parameter in command.params if parameter.nargs != 1 or parameter.multiple}
    given = {key: value if inside.get(key) in many else _as_typed(value) for key, value in renamed}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise _refusal(
            f"{path}: [{command.name}] has no setting '{(name := unknown[0].replace('_', '-'))}'. "
            f"{nearest(name, {str(one).replace('_', '-') for one in known})}"
        )
    context.default_map = {
        **(context.default_map or {}),
        **{str(inside[key]): value for key, value in given.items()},
    }
    return path


def _refusal(sentence: str) -> typer.BadParameter:
    """What is wrong with the file, in words that may be the file's own."""
    return typer.BadParameter(printable(sentence))


SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="TOML file with settings in a table named after the command. Options on the command line take "
        "precedence. The file can name a detector, which is then run as code: before you use a file that you did "
        "not write, read it.",
        callback=_read_settings,
        is_eager=True,
    ),
]


def say_settings(context: typer.Context) -> None:
    """Say what a command was told, and what it assumes for the rest."""
    for parameter in context.command.params:
        if parameter.name in context.params and parameter.name != "settings":
            option = max(parameter.opts, key=len).lstrip("-")
            say(f"{option}: {context.params[parameter.name]}", error=True)


def write_settings(path: Source, command: str, settings: Mapping[str, Any], note: str) -> None:
    """Write the settings of a command so that `--settings` reads them; what is None is left out."""
    from pliant.data.addresses import written

    with written(path) as partial:
        partial.write_text(as_toml({command: settings}, note), encoding="utf-8")


def _as_typed(value: Any) -> Any:
    """A value as it would be typed: numbers and names with commas between them."""
    if isinstance(value, list) and value and all(isinstance(item, (int, float, str)) for item in value):
        return ",".join(map(str, value))
    return value


@contextmanager
def warnings_said() -> Iterator[None]:
    """Say, once the block is done, which samples were left out in it, and which expert."""
    import warnings

    from pliant.data.validation import SamplesLeftOut
    from pliant.store import ExpertLeftOut

    with warnings.catch_warnings(record=True) as said:
        for kind in (SamplesLeftOut, ExpertLeftOut):
            warnings.simplefilter("always", kind)
        yield
    for warning in said:
        say(told(warning.message), colour="yellow", error=True)


@contextmanager
def crew_told(
    jobs: int | None, cluster: str | None, scheduler_file: Path | None
) -> Iterator[int | Crew | None]:
    """Who is to do the work: the cluster that was named until the block is done, or threads of this process."""
    if cluster is None and scheduler_file is None:
        yield jobs
        return
    if cluster is not None and scheduler_file is not None:
        raise ValueError("--cluster and --scheduler-file both name a cluster: give only one of them.")
    if jobs is not None:
        raise ValueError(
            "--jobs sets the threads of this process: with a cluster, set the threads of its workers."
        )
    from pliant.distributed import connect

    with connect(cluster if scheduler_file is None else scheduler_file) as crew:
        yield crew


def check_target(option: str, file: Path, endings: tuple[str, ...]) -> None:
    """Before anything is done: can a picture or a page be written there, and is nobody's work lost?"""
    from pliant.data.ownership import PAGE, PICTURE, refuse_foreign

    if file.suffix.lower() not in endings:
        raise ValueError(f"{option} {file}: the name must end in {', '.join(endings)}.")
    if not file.parent.is_dir():
        raise ValueError(f"{option} {file}: the folder {file.parent} does not exist.")
    refuse_foreign(file, PAGE if file.suffix.lower() in (".html", ".htm") else PICTURE)
