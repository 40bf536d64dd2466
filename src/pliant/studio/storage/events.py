"""What happens to a collection, for those who listen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that happened to a collection.

    `type` is "changed" (an image has another revision), "saved" (its landmark file holds that one) or "trouble"
    (a sentence says what). `client` is who made the change, empty if the landmark file was changed from outside.
    """

    type: str
    index: int
    revision: int = 0
    client: str = ""
    sentence: str = ""


def trouble(index: int, revision: int, error: ValueError | OSError) -> Event:
    """That a landmark file was not written, and why."""
    sentence = str(error)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename or "a landmark file"
        sentence = (
            f"{name}: this could not be written ({error.strerror}). The studio will try again, and nothing "
            "is lost."
        )
    return Event("trouble", index, revision, sentence=sentence)
