"""File names in text: names that are not UTF-8 are escaped, so that any file can hold them and give them back.

On Linux a file name is bytes. Python has those that are not UTF-8 as lone surrogates, which no file can hold. In
tables and annotation files such a name is `bytes:` and its bytes as an address has them: `bytes:faces/caf%E9.jpg`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

_PREFIX = "bytes:"


def to_text(name: str) -> str:
    """The name as UTF-8 can hold it; all but a few names are their own text."""
    try:
        content = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return readable(name)
    return _PREFIX + quote(content) if name.startswith(_PREFIX) or readable(name) != name else name


def from_text(text: str) -> str:
    """The name that `to_text` made this of."""
    if not text.startswith(_PREFIX):
        return text
    return unquote_to_bytes(text.removeprefix(_PREFIX)).decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    r"""A sentence with names in it, for eyes alone: a byte that is not UTF-8 is shown as `\xe9`."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        # Half of a pair, which no file name on Linux has: text from somewhere else.
        return text.encode("utf-8", "backslashreplace").decode()
