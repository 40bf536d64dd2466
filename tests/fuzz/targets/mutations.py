"""Ways to damage bytes, text and JSON."""

import json
import re
import string
from random import Random

NUMBERS = [
    *("inf", "-inf", "nan", "1e400", "-1e400", "1e308", "-1", "0", "-0", "1e-400", "0x10", "1_0", "٣", ""),
    *("9" * 30, "9" * 400, "9" * 5000, "-" + "9" * 400, "2147483648", "18446744073709551616", "null"),
    *(
        "Infinity",
        "1e999999999",
        "4294967295",
        "999999999",
        "1000000",
        "0.1",
        "1.7976931348623157e308",
        "NaN",
    ),
]
TEXTS = [
    *("", "\x00", "\ud800", "../x", "/", "http://[", "a" * 5000, "é\u202e", "\x1b[31m", "0", "x.jpg", "::"),
    *("s3://", "bytes:%00", "bytes:%E9", "file:///etc/passwd", "-", "con\r\nnul", "\u2028", "\x85", "\ufeff"),
]
BYTES = (0, 1, 9, 10, 13, 0x1A, 0x22, 0x27, 0x2C, 0x7F, 0x80, 0xFE, 0xFF)
VALUES = [
    *(None, True, -1, 10**400, 1e308, float("inf"), float("nan"), "", "\ud800", "\x00", [], {}, [[]]),
    *({"id": 1}, [1, 2, 3], "x", [None], 10**30, 0, 0.5, [[1, 2], [3, 4]], ["a", "a"], -0.0, 2**63),
]


def of_text(content: bytes, chance: Random) -> bytes:
    """A text with one to three changes."""
    for _ in range(chance.randint(1, 3)):
        content = chance.choice(_FOR_TEXT)(content, chance)
    return content


def of_bytes(content: bytes, chance: Random) -> bytes:
    """Bytes with one to three changes."""
    for _ in range(chance.randint(1, 3)):
        content = chance.choice(_FOR_BYTES)(content, chance)
    return content


def value_somewhere(document: object, chance: Random, values: list = VALUES) -> bool:
    """Change one value of a JSON document, or take it out or call it by another name; False if there is none."""
    places: list = []

    def walk(value, depth=0):
        if depth > 30:
            return
        for key in (
            list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        ):
            places.append((value, key))
            walk(value[key], depth + 1)

    walk(document)
    if not places:
        return False
    value, key = chance.choice(places)
    kind = chance.random()
    if kind < 0.15:
        del value[key]
    elif kind < 0.25 and isinstance(value, dict):
        value[chance.choice(string.ascii_letters)] = value.pop(key)
    elif kind < 0.35:
        other = chance.choice(places)
        value[key] = json.loads(json.dumps(other[0].get(other[1]) if isinstance(other[0], dict) else None))
    else:
        value[key] = json.loads(json.dumps(chance.choice(values)))
    return True


def _flipped(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        if changed:
            place = chance.randrange(len(changed))
            changed[place] = chance.choice(BYTES) if chance.random() < 0.5 else chance.randrange(256)
    return bytes(changed)


def _cut(content: bytes, chance: Random) -> bytes:
    return content[: chance.randint(0, len(content))]


def _spliced(content: bytes, chance: Random) -> bytes:
    """A piece taken out, or put in once more somewhere else."""
    first, last = sorted(chance.randint(0, len(content)) for _ in range(2))
    if chance.random() < 0.5:
        return content[:first] + content[last:]
    at = chance.randint(0, len(content))
    return content[:at] + content[first : min(last, first + 2000)] + content[at:]


def _counted(content: bytes, chance: Random) -> bytes:
    """Four bytes that decoders may take for a count."""
    at, sign = chance.randint(0, len(content)), chance.choice(("little", "big"))
    count = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 70000, 2**24))
    return content[:at] + count.to_bytes(4, sign) + content[at + 4 :]


def _renumbered(content: bytes, chance: Random) -> bytes:
    """One number, or one word, that is another."""
    numbers = chance.random() < 0.7
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?" if numbers else rb"[A-Za-z_]+", content[:20000]))
    if not found:
        return content
    place = chance.choice(found)
    other = chance.choice(NUMBERS if numbers else TEXTS).encode("utf-8", "surrogatepass")
    return content[: place.start()] + other + content[place.end() :]


def _restructured(content: bytes, chance: Random) -> bytes:
    """JSON with one value that is another; other text with two lines that changed places."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        lines = content.split(b"\n")
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines)
    try:
        return json.dumps(document).encode() if value_somewhere(document, chance) else content
    except (ValueError, RecursionError):  # a number of more digits than Python writes
        return content


def _nested(content: bytes, chance: Random) -> bytes:
    """Very deep brackets, elements or tables in some place."""
    at, depth = chance.randint(0, len(content)), chance.choice((50, 400, 2000, 60_000))
    opening = chance.choice((b"[", b'{"a":', b"<a>", b"(", b'"', b"a.", b"{a=", b"-"))
    return content[:at] + opening * depth + content[at:]


_FOR_BYTES = (_flipped, _cut, _spliced, _counted)
_FOR_TEXT = (_flipped, _cut, _spliced, _renumbered, _renumbered, _restructured, _restructured, _nested)
