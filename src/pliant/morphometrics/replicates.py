"""Which measurements are of the same individual: several sets of the same specimens, or names that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PureWindowsPath

import numpy as np

from pliant.arrays import Float64
from pliant.data.agreement import match_names, same_order
from pliant.morphometrics.specimens import Specimens, about_scales, counted

_FIELDS = ("individual", "side", "replicate")


def join_sets(sets: Sequence[Specimens]) -> Specimens:
    """Join several annotations of the same specimens. The number of its set is the replicate of each.

    Specimens are matched by their names, as `pliant check --against` matches images. Specimens that are not in all
    sets are left out, with a sentence in `notes`.

    Parameters
    ----------
    sets : sequence of Specimens
        Two or more sets with the same landmarks.

    Returns
    -------
    Specimens
        All of the first set, then all of the second, and so on. `individuals` are the names of the first set.

    Examples
    --------
    >>> import pliant
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
    # Scales are judged once the sets are joined: what one lacks, another may have.
    notes = [note for one in sets for note in one.notes if note not in about_scales(one)]
    alone = sum(len(one) for one in sets) - len(sets) * len(common)
    if alone:
        notes.append(f"Left out: {counted(alone)} that are not in all sets of annotations.")
    parts = []
    for number, (one, pairs) in enumerate(zip(sets, matched, strict=True), start=1):
        where = {name: place for place, name in enumerate(one.names)}
        order = [where[pairs[name]] for name in common]
        points = one.points[order][:, same_order(first.landmark_names, one.landmark_names)]
        parts.append((one, order, points, str(number)))
    images = tuple(one.images[place] for one, order, _, _ in parts for place in order)
    joined = Specimens(
        tuple(f"{name}_{number}" for _, _, _, number in parts for name in common),
        np.concatenate([points for _, _, points, _ in parts]),
        images,
        first.landmark_names,
        _shared_scales(images, np.concatenate([one.scales[order] for one, order, _, _ in parts])),
        next((one.unit for one in sets if np.any(np.isfinite(one.scales))), first.unit),
        first.curves,
        np.concatenate([one.confidence[order] for one, order, _, _ in parts]),
        np.concatenate([one.reflected[order] for one, order, _, _ in parts]),
        individuals=tuple(name for _ in parts for name in common),
        replicates=tuple(number for _, _, _, number in parts for _ in common),
        observed=True,
    )
    return replace(joined, notes=tuple(dict.fromkeys([*about_scales(joined), *notes])))


def _shared_scales(images: Sequence[str], scales: Float64) -> Float64:
    """Scales `(k,)`, each for all annotations of its image: fits have none, but their images may."""
    names = [PureWindowsPath(image).name for image in images]
    known = {name: scale for name, scale in zip(names, scales, strict=True) if name and np.isfinite(scale)}
    return np.array(
        [
            known.get(name, np.nan) if np.isnan(scale) else scale
            for name, scale in zip(names, scales, strict=True)
        ]
    )


def name_parts(specimens: Specimens, pattern: str) -> Specimens:
    """Read individuals, sides and replicates from the names of specimens.

    Parameters
    ----------
    specimens : Specimens
        The specimens. If they have individuals already, as those of `join_sets` do, the pattern is matched with
        these.
    pattern : str
        What whole names look like: text with `{individual}` and, if you like, `{side}` and `{replicate}`. `{}`
        stands for anything that does not matter. `{individual}_{side}_{replicate}` reads `fly12_L_2`.

    Returns
    -------
    Specimens
        The same specimens with what their names say.

    Raises
    ------
    ValueError
        If the pattern does not match a name.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.morphometrics.read_specimens("photographs/")
    >>> pliant.morphometrics.name_parts(faces, "face-{individual}").individuals[:2]
    ('0000', '0001')

    """
    fields = re.findall(r"\{(\w*)\}", pattern)
    named = [field for field in fields if field]
    unknown = [field for field in named if field not in _FIELDS]
    if unknown or "individual" not in named or len(set(named)) < len(named):
        raise ValueError(
            f"names={pattern}: a pattern needs {{individual}} once, and may have {{side}} and {{replicate}}, "
            "such as {individual}_{replicate}."
        )
    expression = re.escape(pattern).replace(re.escape("{}"), ".+?")
    for field in named:
        # The individual takes all that it can: what follows is the last part of the name.
        span = ".+" if field == "individual" else ".+?"
        expression = expression.replace(re.escape(f"{{{field}}}"), f"(?P<{field}>{span})")
    found: dict[str, list[str]] = {field: [] for field in named}
    for name in specimens.individuals or specimens.names:
        match = re.fullmatch(expression, name)
        if match is None:
            raise ValueError(
                f"{name}: names={pattern} does not match this specimen. A pattern describes the whole name; {{}} "
                "stands for anything."
            )
        for field in named:
            found[field].append(match[field])
    parted = replace(specimens, individuals=tuple(found["individual"]))
    if "side" in named:
        sides = sorted(set(found["side"]))
        if len(sides) != 2:
            raise ValueError(
                f"names={pattern}: exactly two sides are needed, found {len(sides)}: {', '.join(sides[:5])}."
            )
        parted = replace(parted, sides=tuple(found["side"]))
    if "replicate" in named:
        if specimens.replicates:
            raise ValueError(
                f"names={pattern}: the sets of annotations are already the replicates: leave out "
                "{replicate}."
            )
        parted = replace(parted, replicates=tuple(found["replicate"]))
    return parted
