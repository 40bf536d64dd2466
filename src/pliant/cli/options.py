"""Options that commands share, spelt the same everywhere, and settings from a TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pliant.terminal import printable, say

if TYPE_CHECKING:
    from pliant.model import Model

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all cores if not given.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Another seed draws other numbers.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say all settings, and every step.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


Images = Annotated[
    str | None, typer.Option(help="Folder of the images that annotation files name, if it is another.")
]
From = Annotated[
    str, typer.Option("--from", help="Format of landmark files, where their content is not to decide.")
]
Part = Annotated[
    str | None, typer.Option(help="Take the rows of a manifest that have this in the column split.")
]


class Labels(StrEnum):
    """What is written beside drawn landmarks."""

    NUMBERS = "numbers"
    NAMES = "names"


DrawLabels = Annotated[
    Labels | None,
    typer.Option("--draw-labels", help="Draw, with the numbers (from 0) or the names beside the landmarks."),
]


def labels_of(labels: Labels | None, model: Model, file: Path) -> Sequence[str]:
    """The texts that are to be drawn beside the landmarks of a model; none unless they were asked for."""
    kind = checked_labels(labels, model, file)
    return model.landmark_names if kind == "names" else [str(k) for k in range(model.landmarks) if kind]


def checked_labels(labels: Labels | None, model: Model, file: Path) -> Literal["", "numbers", "names"]:
    """The kind of labels that are to be drawn, if the model has them."""
    if labels is Labels.NAMES and not model.landmark_names:
        raise ValueError(
            f"--draw-labels names: {file} knows no names of landmarks, as its training data had none: draw numbers."
        )
    return "" if labels is None else labels.value


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Take what the file says for what the user did not."""
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _refusal(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _refusal(f"{path}: this is not a TOML file ({error}).") from None
    command = context.command
    table = content.get(command.name or "", {})
    if not isinstance(table, dict) or not table:
        raise _refusal(f"{path}: there is no table [{command.name}] in this file.")
    # By the names that options have on the command line: `from` is called `format` inside.
    inside = {
        option.lstrip("-").replace("-", "_"): parameter.name
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") or parameter.param_type_name == "argument"
    }
    known = inside.keys() - {"settings", "help"}
    given = {key.replace("-", "_"): _as_typed(value) for key, value in table.items()}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise _refusal(
            f"{path}: [{command.name}] has no setting '{unknown[0].replace('_', '-')}'. "
            f"Known: {', '.join(sorted(str(name).replace('_', '-') for name in known))}."
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
        help="TOML file with settings in a table named after the command; options given here come first. It may "
        "name a detector of one's own, which is then run: read a file that you did not write.",
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


def write_settings(path: Path, command: str, settings: Mapping[str, Any], note: str) -> None:
    """Write the settings of a command so that `--settings` reads them; what is None is left out."""
    lines = [f"# {note}", "", f"[{command}]"]
    for key, value in settings.items():
        if value is not None:
            lines.append(f"{key.replace('_', '-')} = {_toml(value)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    # A JSON string is a TOML string as well, but for the one character that JSON leaves bare.
    return json.dumps(str(value)).replace("\x7f", "\\u007f")


def _as_typed(value: Any) -> Any:
    """A value as it would be typed: lists of numbers with commas between them."""
    if isinstance(value, list) and value and all(isinstance(item, (int, float)) for item in value):
        return ",".join(map(str, value))
    return value


def check_target(option: str, file: Path, endings: tuple[str, ...]) -> None:
    if file.suffix.lower() not in endings:
        raise ValueError(f"{option} {file}: the name must end in {', '.join(endings)}.")
    if not file.parent.is_dir():
        raise ValueError(f"{option} {file}: the folder {file.parent} does not exist.")
