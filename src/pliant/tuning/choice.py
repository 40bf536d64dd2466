"""What a model remembers of the search for its settings and of its experts, as rows to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.experts.linear import LinearExpert
from pliant.experts.network import NetworkExpert
from pliant.model import Model

_SCORES = ("below 0.02", "below 0.04", "mean error", "median")
HEADER = ("setting tried", *_SCORES, "outcome")
CURVE_HEADER = ("trained on", *_SCORES)
TERMS_HEADER = ("fitted with", *_SCORES, "weight", "outcome")

LEGEND = (
    "errors are mean distances of the landmarks as shares of the object's size. Below 0.02: the share of fits with "
    "a smaller error. Mean error: an error above 0.1 counts as 0.1"
)
"""What the columns of the three tables mean."""

Row = tuple[str, ...]

_LARGEST = 1e12


def tried_rows(model: Model) -> list[Row]:
    """One row for each setting that was tried; none for a model whose settings were not searched."""
    tried = _list(model, "tried")
    rows: list[Row] = []
    for one in tried:
        change, kept = str(one.get("change", "?")), one.get("kept") is True
        if not rows and change == "at first":
            rows.append(("settings to begin with", *_scores(one), "first"))
        elif kept or one.get("fits") == tried[0].get("fits"):
            rows.append((change, *_scores(one), "kept" if kept else "no clear gain"))
        else:
            # Errors from some of the starts cannot be compared with those from all of them.
            rows.append((change, *("",) * len(_SCORES), "no better"))
    return rows


def curve_rows(model: Model) -> list[Row]:
    """One row for each number of training samples that the learning curve has."""
    return [(str(one.get("samples", "?")), *_scores(one)) for one in _list(model, "curve")]


def sentence(model: Model) -> str:
    """How the settings were found; nothing if they were not searched."""
    choice = model.provenance.get("choice")
    if not isinstance(choice, Mapping) or "tried" not in choice:
        return ""
    return (
        f"settings chosen by fits of {choice.get('held_out', '?')} of the training samples with models of the "
        "others, from starts with 5, 10 and 15 % noise. Each row changes one setting of the last row that was "
        "kept; one that is no better from starts with 10 % noise is not fitted from the other starts"
    )


def curve_sentence(model: Model) -> str:
    """What the learning curve shows; nothing if there is none."""
    if not curve_rows(model):
        return ""
    return (
        "effect of more samples: the same fits, with models of a quarter, a half and all of the other samples"
    )


def expert_of(model: Model) -> dict[str, Any] | None:
    """Which expert a model has, in plain values; None without one."""
    expert = model.expert
    if expert is None:
        return None
    known: dict[str, Any] = {"kind": _kind(model), "weight": model.expert_weight, "looks": expert.looks}
    if isinstance(expert, NetworkExpert):
        known["windows"] = [[stage.frame.width, stage.frame.height] for stage in expert.stages]
        known["weights"] = sum(array.size for stage in expert.stages for array in stage.weights.values())
    return known


def expert_sentence(model: Model) -> str:
    """Which expert a model has, and what it counts for."""
    known = expert_of(model)
    if known is None:
        return "no expert: the model is fitted alone"
    counts = f"its term of the cost has the weight {known['weight']:g}"
    if "windows" not in known:
        return f"expert: {known['kind']}; {counts}"
    windows = " and ".join(f"{width} x {height}" for width, height in known["windows"])
    return f"expert: network, windows of {windows} pixels, {known['weights']:,} weights; {counts}"


def terms_sentence(model: Model) -> str:
    """How it was found out what each term of the cost brings; nothing if it was not."""
    if not terms_rows(model):
        return ""
    anew = (
        "The samples are divided anew, so errors differ from those of the settings. "
        if sentence(model)
        else ""
    )
    return (
        "with and without an expert: fits of some of the training samples with models of the others, from starts "
        f"with 5, 10 and 15 % noise, and with 10 % for an expert alone. {anew}An expert is kept if errors are "
        "clearly smaller with it, or if you asked for it"
    )


def terms_rows(model: Model) -> list[Row]:
    """Rows for the model alone, with each expert that was tried, and for what that sees by itself."""
    rows: list[Row] = []
    for one in _entries(_experts(model), "tried"):
        kind = one.get("expert")
        named = kind if isinstance(kind, str) else "?"
        kept = "kept" if named == _kind(model) else ""
        if named == "none":
            rows.append(("model alone", *_scores(one), "", kept))
            continue
        weight = _number(one.get("weight"), "{:g}")
        rows.append((f"model and {named} expert", *_scores(one), weight, kept))
        rows.append((f"{named} expert alone", "", "", _number(one.get("alone"), "{:.4f}"), "", "", ""))
    return rows


def _kind(model: Model) -> str:
    """What people call the model's expert."""
    if model.expert is None:
        return "none"
    kinds = {LinearExpert: "linear", NetworkExpert: "network"}
    return kinds.get(type(model.expert), type(model.expert).__name__)


def _experts(model: Model) -> Mapping[str, Any]:
    choice = model.provenance.get("choice")
    experts = choice.get("experts") if isinstance(choice, Mapping) else None
    return experts if isinstance(experts, Mapping) else {}


def _list(model: Model, name: str) -> list[Mapping[str, Any]]:
    choice = model.provenance.get("choice")
    return _entries(choice, name) if isinstance(choice, Mapping) else []


def _entries(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Entries of a file that anybody may have written."""
    entries = table.get(name, ())
    return [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, (list, tuple)) else []


def _scores(one: Mapping[str, Any]) -> Row:
    shares = [_number(one.get(name), "{:.1%}") for name in ("below_0.02", "below_0.04")]
    return (*shares, *(_number(one.get(name), "{:.4f}") for name in ("mean", "median")))


def _number(value: Any, form: str) -> str:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    # No figure of a fit is as large, and a whole number of a file may be too large for any format.
    return form.format(value) if real and abs(value) < _LARGEST else "?"
