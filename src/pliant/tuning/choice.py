"""What a model remembers of the search for its settings, as rows to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.model import Model

HEADER = ("tried", "fits", "below 0.02", "below 0.04", "mean error", "median", "")
CURVE_HEADER = ("samples", "below 0.02", "below 0.04", "mean error", "median")

Row = tuple[str, ...]


def tried_rows(model: Model) -> list[Row]:
    """One row for each setting that was tried; none for a model whose settings were not searched."""
    return [
        (
            str(one.get("change", "?")),
            _number(one.get("fits"), "{:g}"),
            *_scores(one),
            "kept" if one.get("kept") is True else "",
        )
        for one in _list(model, "tried")
    ]


def curve_rows(model: Model) -> list[Row]:
    """One row for each number of training samples that the learning curve has."""
    return [(str(one.get("samples", "?")), *_scores(one)) for one in _list(model, "curve")]


def sentence(model: Model) -> str:
    """How the settings were found; nothing if they were not searched."""
    choice = model.provenance.get("choice")
    if not isinstance(choice, Mapping):
        return ""
    return (
        f"settings were chosen by fits of {choice.get('held_out', '?')} held-out samples, from starts with 5, 10 "
        "and 15 % noise"
    )


def _list(model: Model, name: str) -> list[Mapping[str, Any]]:
    """Entries of a file that anybody may have written."""
    choice = model.provenance.get("choice")
    entries = choice.get(name, ()) if isinstance(choice, Mapping) else ()
    return [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, (list, tuple)) else []


def _scores(one: Mapping[str, Any]) -> Row:
    shares = [_number(one.get(name), "{:.1%}") for name in ("below_0.02", "below_0.04")]
    return (*shares, *(_number(one.get(name), "{:.4f}") for name in ("mean", "median")))


def _number(value: Any, form: str) -> str:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return form.format(value) if real else "?"
