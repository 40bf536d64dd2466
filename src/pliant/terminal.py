"""What is said on the terminal.

Names, licences and errors come from files of strangers: they are shown, and never obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

MOST_LINES = 10
"""A message has no more lines of one kind."""

_EXAMPLES = 3

_DIRECTION = frozenset(map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that turn the text behind them round, so that it reads as something else."""


def printable(text: object) -> str:
    r"""The text, with what a terminal would obey or could not write spelt out: `\x1b` for an escape."""
    return "".join(character if _is_plain(character) else _spelt(character) for character in str(text))


def say(text: object, *, colour: str = "", error: bool = False) -> None:
    """Print a line, on stderr if it is an `error` or an aside; `colour` is for terminals alone."""
    import typer

    typer.secho(printable(text), fg=colour or None, err=error)


def counted(count: int, noun: str) -> str:
    """A number of things in words: `1 image`, `2 images`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def console(*, error: bool = False) -> Console:
    """A rich console for which every text is plain, whatever brackets and escapes are in it."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PlainConsole(stderr=error, markup=False, emoji=False, highlight=False)


def shortened(sentences: Sequence[str], all_are: str = "") -> list[str]:
    """Sentences, of which a few stand for a kind that has more than ten; `all_are` says where all can be seen.

    Sentences are of one kind if they differ in names and numbers alone.
    """
    kinds: dict[str, list[str]] = {}
    for sentence in sentences:
        kinds.setdefault(_kind(sentence), []).append(sentence)
    where = f": {all_are}" if all_are else ""
    shown: list[str] = []
    for some in list(kinds.values())[:MOST_LINES]:
        examples = some if len(some) <= MOST_LINES else some[:_EXAMPLES]
        left_out = len(some) - len(examples)
        shown += [*examples, f"and {left_out:,} more like these{where}"] if left_out else examples
    others = sum(map(len, list(kinds.values())[MOST_LINES:]))
    return [*shown, f"and {others:,} more of other kinds{where}"] if others else shown


def _kind(sentence: str) -> str:
    """What follows the name at the beginning, without other names and numbers."""
    return re.sub(r"\S*(?:\d|[./\\]\S)\S*", "", sentence.split(": ", 1)[-1])


def _is_plain(character: str) -> bool:
    return character in "\n\t" or (
        # Surrogates stand for the bytes of file names that are not UTF-8.
        not (character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff")
        and character not in _DIRECTION
        and character not in "\u2028\u2029"
    )


def _spelt(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
