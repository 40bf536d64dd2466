"""How `--help` shows a command: its usage as the docs have it, and words for the types of values."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

_WORDS = {
    "<str>": "<text>",
    "<int>": "<integer>",
    "<int range>": "<integer>",
    "<float>": "<number>",
    "<float range>": "<number>",
    "<list[str]>": "<text>",
}
"""Python's names of types, as the options that are made from settings say them."""


class Command(TyperCommand):
    """A command with the usage `MODEL IMAGES... --output OUTPUT [OPTIONS]`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        parameters = self.get_params(ctx)
        needed = [one for one in parameters if one.param_type_name == "option" and one.required]
        return [
            *(argument_name(one) for one in parameters if one.param_type_name == "argument"),
            *(f"{max(one.opts, key=len)} {str(one.name).upper()}" for one in needed),
            "[OPTIONS]",
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments, options = [], []
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is None:
                continue
            if one.param_type_name == "argument":
                arguments.append((argument_name(one), record[1]))
            else:
                words = re.sub(r"<[^<>]*>", lambda found: _WORDS.get(found[0], found[0]), record[0])
                options.append((words, record[1]))
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def argument_name(argument: Any) -> str:
    """`MODEL`, `IMAGES...` if there may be several, `[SOURCE]` if it may be left out."""
    name = str(argument.metavar or argument.name.upper()) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"
