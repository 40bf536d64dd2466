"""Write the option tables of docs/reference/commands.md and the tables of docs/reference/settings.md.

python docs/list_commands.py

Both come from the code: commands from their signatures, settings from their declarations. The text between the two
marks of a page is replaced, and the rest stays. tests/test_list_commands.py checks that the pages are current.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

import pliant
from pliant.cli import app
from pliant.cli.usage import argument_name
from pliant.settings.declaring import Settings, options, shown
from pliant.settings.kinds import Kind

REFERENCE = Path(__file__).parent / "reference"
BEGIN, END = "<!-- Made by docs/list_commands.py: begin -->", "<!-- end -->"
EVERYWHERE = ("--quiet", "--verbose", "--json", "--settings")
"""Options of all commands, which the page describes once."""

CLASSES: tuple[type[Settings], ...] = (
    pliant.Training,
    pliant.Fitting,
    pliant.Stopping,
    pliant.Starting,
    pliant.Evaluating,
    pliant.Tracking,
)
WORDS = {int: "<integer>", float: "<number>", str: "<text>", Path: "<path>"}

ROWS = {"triangles": "rows of three numbers", "mirror": "`true`, `false`, rows of two numbers"}
"""Settings that commands take as files, and Python and TOML as lists."""


def main() -> None:
    """Write both pages."""
    for page in (REFERENCE / "commands.md", REFERENCE / "settings.md"):
        page.write_text(current(page), encoding="utf-8")


def current(page: Path) -> str:
    """The text of a page as it should be."""
    made = {"commands.md": commands, "settings.md": settings}[page.name]()
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page}: the marks '{BEGIN}' and '{END}' are missing: put them back.")
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


def commands() -> str:
    """A section for each command: what it does, its arguments, and its options."""
    functions = {one.callback.__name__: one.callback for one in app.registered_commands if one.callback}
    return "\n".join(
        _command(name, command, functions[name])
        for name, command in typer.main.get_command(app).commands.items()
    )


def _command(name: str, command: Any, function: Callable[..., None]) -> str:
    hints = get_type_hints(function, include_extras=True)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = [argument_name(one) for one in arguments]
    usage += [
        f"--{one.name} {one.name.upper()}" for one in command.params if one not in arguments and one.required
    ]
    rows = [[f"`{argument_name(one)}`", "", _prose(one.help)] for one in arguments]
    for one in command.params:
        if one not in arguments and (one.opts[0] not in EVERYWHERE or name == "version"):
            values, choices = _values(one, hints[one.name])
            rows.append([_names(one, values), _default(one), _prose(one.help) + choices])
    return "\n".join(
        [
            f"### pliant {name}",
            "",
            "```text",
            " ".join(["pliant", name, *usage, "[OPTIONS]"]),
            "```",
            "",
            *(f"{_prose(paragraph)}\n" for paragraph in command.help.split("\n\n")),
            *_table(["argument or option", "default", "meaning"], rows),
            "",
        ]
    )


def _names(one: Any, values: str) -> str:
    """Every spelling of an option, the first with the values it takes."""
    first, *others = [*one.opts, *one.secondary_opts]
    return ", ".join(
        [f"`{first}{values and f' {values}'}`".replace("|", "\\|"), *(f"`{name}`" for name in others)]
    )


def _values(one: Any, hint: Any) -> tuple[str, str]:
    """The placeholder for an option's value, and a sentence with its choices if it has any."""
    if one.metavar and "|" in one.metavar and "<" not in one.metavar:
        return "<choice>", _choices(one.metavar.split("|"))
    if one.metavar:
        return str(one.metavar), ""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
    if get_origin(kind) is list:
        return f"{WORDS[get_args(kind)[0]]}...", ""
    if issubclass(kind, Enum):
        return "<choice>", _choices(str(choice.value) for choice in kind)
    return WORDS.get(kind, ""), ""


def _choices(names: Iterable[str]) -> str:
    return f" One of {', '.join(f'`{name}`' for name in names)}."


def _default(one: Any) -> str:
    if one.required:
        return "required"
    if one.secondary_opts:
        return "on" if one.default else "off"
    unset = one.default is None or one.default is False or one.default == ""
    return "" if unset else f"`{one.default}`"


def settings() -> str:
    """A section for each class of settings, with a table of its fields."""
    return "\n".join(map(_class, CLASSES))


def _class(kind: type[Settings]) -> str:
    rows = []
    for setting, default, form, help in options(kind()):
        values = ROWS.get(setting) or _accepted(form)
        rows.append([f"`{setting}`", _plain(default), values, _prose(help)])
    about = (kind.__doc__ or "").partition("\n")[0]
    table = f"In a TOML file: table `[{kind.TABLE}]`.\n" if kind.TABLE else ""
    heading = [f"## {kind.__name__}", "", f"{_prose(about)}\n", *([table] if table else [])]
    return "\n".join([*heading, *_table(["setting", "default", "values", "meaning"], rows), ""])


def _plain(default: Any) -> str:
    if default in (None, (), ""):
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else shown(default)}`"


def _accepted(form: Kind) -> str:
    if form.choices:
        return ", ".join(f"`{choice}`" for choice in form.choices)
    # Flags have no placeholder: on a command line, they are two options.
    return f"`{form.metavar}`".replace("|", "\\|") if form.metavar else "`true`, `false`"


def _prose(text: str) -> str:
    """Help as Markdown: options and file names as code, pages of the docs as links."""
    text = re.sub(r"([*<|])", r"\\\1", " ".join(text.split()))
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", text)
    return re.sub(r"docs/(\w+)/([\w-]+)\.md", r"[\2](../\1/\2.md)", text)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines]


if __name__ == "__main__":
    main()
