"""Which measurements are of the same individual: several sets of the same specimens, or names that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.data.agreement import match_names
from pliant.morphometrics.specimens import Specimens, counted

_FIELDS = ("individual", "side", "replicate")


def join_sets(sets: Sequence[Specimens]) -> Specimens:
    """Several annotations of the same specimens as one, each with the number of its set as the replicate.

    Specimens are matched by their names, as `pliant check --against` matches images. Those that are not in all
    sets are left out, with a sentence.

    Parameters
    ----------
    sets
        Two or more, with the same landmarks.

    Returns
    -------
    Specimens
        All of the first set, then all of the second, and so on; `individuals` are the names of the first.

    Examples
    --------
    >>> first = pliant.morphometrics.read_specimens("photographs/")
    >>> both = pliant.morphometrics.join_sets([first, first])
    >>> len(both), both.replicates[0], both.replicates[-1]
    (24, '1', '2')

    """
    first, *others = sets
    matched = [{name: name for name in first.names}]
    for other in others:
        if other.points.shape[1] != first.points.shape[1]:
            raise ValueError(
                f"the sets of annotations have {first.points.shape[1]} and {other.points.shape[1]} landmarks: only "
                "the same landmarks can be compared."
            )
        matched.append(dict(match_names(first.names, other.names)[0]))
    common = [name for name in first.names if all(name in pairs for pairs in matched)]
    if not common:
        raise ValueError(
            f"the sets of annotations have no specimen in common: {first.names[0]} is not in all of them."
        )
    notes = [note for one in sets for note in one.notes]
    alone = sum(len(one) for one in sets) - len(sets) * len(common)
    if alone:
        notes.append(f"{counted(alone)} left out, because they are not in all sets of annotations.")
    parts = []
    for number, (one, pairs) in enumerate(zip(sets, matched, strict=True), start=1):
        where = {name: place for place, name in enumerate(one.names)}
        order = [where[pairs[name]] for name in common]
        points = one.points[order][:, _same_order(first.landmark_names, one.landmark_names)]
        parts.append((one, order, points, str(number)))
    return Specimens(
        tuple(f"{name}_{number}" for _, _, _, number in parts for name in common),
        np.concatenate([points for _, _, points, _ in parts]),
        tuple(one.images[place] for one, order, _, _ in parts for place in order),
        first.landmark_names,
        np.concatenate([one.scales[order] for one, order, _, _ in parts]),
        first.unit,
        first.curves,
        np.concatenate([one.confidence[order] for one, order, _, _ in parts]),
        np.concatenate([one.reflected[order] for one, order, _, _ in parts]),
        individuals=tuple(name for _ in parts for name in common),
        replicates=tuple(number for _, _, _, number in parts for _ in common),
        observed=True,
        notes=tuple(dict.fromkeys(notes)),
    )


def name_parts(specimens: Specimens, pattern: str) -> Specimens:
    """The specimens with individuals, sides and replicates as their names have them.

    Parameters
    ----------
    specimens
        Where they have individuals already, those are what the pattern is matched with: sets joined by
        `join_sets`.
    pattern
        Text with `{individual}` and, if you like, `{side}` and `{replicate}`: `{individual}_{side}_{replicate}`
        reads `fly12_L_2`.

    Returns
    -------
    Specimens
        A ValueError names one that the pattern does not match.

    Examples
    --------
    >>> faces = pliant.morphometrics.read_specimens("photographs/")
    >>> pliant.morphometrics.name_parts(faces, "face-{individual}").individuals[:2]
    ('0000', '0001')

    """
    fields = re.findall(r"\{(\w*)\}", pattern)
    unknown = [field for field in fields if field not in _FIELDS]
    if unknown or "individual" not in fields or len(set(fields)) < len(fields):
        raise ValueError(
            f"names={pattern}: a pattern has {{individual}} once, and if need be {{side}} and {{replicate}}, such "
            "as {individual}_{replicate}."
        )
    expression = re.escape(pattern)
    for field in fields:
        # The individual takes all that it can: what follows is the last part of the name.
        span = ".+" if field == "individual" else ".+?"
        expression = expression.replace(re.escape(f"{{{field}}}"), f"(?P<{field}>{span})")
    found: dict[str, list[str]] = {field: [] for field in fields}
    for name in specimens.individuals or specimens.names:
        match = re.fullmatch(expression, name)
        if match is None:
            raise ValueError(f"{name}: the pattern {pattern} for names=PATTERN does not match this specimen.")
        for field in fields:
            found[field].append(match[field])
    named = replace(specimens, individuals=tuple(found["individual"]))
    if "side" in fields:
        sides = sorted(set(found["side"]))
        if len(sides) != 2:
            raise ValueError(
                f"names={pattern}: there must be two sides, and there are {len(sides)}: {', '.join(sides[:5])}."
            )
        named = replace(named, sides=tuple(found["side"]))
    if "replicate" in fields:
        if specimens.replicates:
            raise ValueError(
                f"names={pattern}: the sets of annotations are the replicates already: leave out {{replicate}}."
            )
        named = replace(named, replicates=tuple(found["replicate"]))
    return named


def _same_order(first: Sequence[str], second: Sequence[str]) -> list[int] | slice:
    """Where in the second the landmarks of the first are, if the same names are in another order."""
    if first and sorted(first) == sorted(second) and len(set(first)) == len(first):
        return [list(second).index(name) for name in first]
    return slice(None)
