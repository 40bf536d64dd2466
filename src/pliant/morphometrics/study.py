"""All at once: specimens superimposed, their variance analysed, and a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64
from pliant.morphometrics.anova import Anova, procrustes_anova
from pliant.morphometrics.sliders import Sliders, write_sliders
from pliant.morphometrics.sliding import Slide
from pliant.morphometrics.specimens import UNNAMED, Specimens
from pliant.morphometrics.superimposition import Scaling, Superimposition, superimpose
from pliant.morphometrics.tables import write_anova, write_consensus, write_coordinates, write_tps

FILES = (
    "coordinates.csv",
    "coordinates.parquet",
    "consensus.csv",
    "landmarks.tps",
    "sliders.csv",
    "anova.csv",
)
"""What a folder may have."""

_TIMES, _SPREADS = 3.0, 6.0
"""What stands out is so many times the median, and so many robust standard deviations from it."""

_NEAR = 1e-3
"""Shapes that are nearer to the consensus than this share of their size are as good as the same."""


@dataclass(frozen=True, eq=False, repr=False)
class Study(Concise):
    """Specimens with their superimposition and analyses of variance. `measure` makes it.

    Attributes
    ----------
    specimens : Specimens
        The specimens.
    shapes : Superimposition
        Their superimposition.
    variance : mapping of str to Anova
        The analyses of `"shape"` and `"size"`; empty if nothing was measured twice.

    Examples
    --------
    >>> import pliant
    >>> study = pliant.morphometrics.measure(pliant.morphometrics.read_specimens("photographs/"))
    >>> study.shapes.coordinates.shape, dict(study.variance)
    ((12, 68, 2), {})
    >>> study.notes
    ()

    """

    specimens: Specimens
    shapes: Superimposition
    variance: Mapping[str, Anova]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about a shape and a size that stand out, such as those of a mistake; usually none.

        One stands out if its distance from the consensus, or its centroid size, is more than three times as large
        as the median, and further from it than six standard deviations of the logarithms, found from the median
        deviation. Sizes may be as much smaller, too.
        """
        notes = []
        distances, sizes = np.maximum(self.shapes.distances, _NEAR), self.shapes.centroid_sizes
        names = self.specimens.names
        if len(far := _standing_out(distances, smaller=False)):
            times = distances[far[0]] / np.median(distances)
            notes.append(
                f"The shape of {names[far[0]]} is {times:.2g} times as far from the consensus as the median"
                f"{_and_others(len(far) - 1)}: are its landmarks in order? pliant check says what may be wrong."
            )
        if len(far := _standing_out(sizes)):
            unit = "" if self.specimens.length_unit == UNNAMED else f" {self.specimens.length_unit}"
            notes.append(
                f"The centroid size of {names[far[0]]} is {sizes[far[0]]:.4g}{unit}, where the median is "
                f"{np.median(sizes):.4g}{unit}{_and_others(len(far) - 1)}: is its scale right? pliant check says "
                "what may be wrong."
            )
        return tuple(notes)


def _standing_out(values: Float64, *, smaller: bool = True) -> NDArray[np.intp]:
    """The numbers of values `(n,)` far from the median, the furthest first; see `Study.notes`."""
    logarithms = np.log(values)
    away = logarithms - np.median(logarithms)
    limit = max(np.log(_TIMES), _SPREADS * 1.4826 * float(np.median(np.abs(away))))
    away = np.abs(away) if smaller else away
    order = np.argsort(-away, kind="stable")
    return np.asarray(order[away[order] > limit], dtype=np.intp)


def _and_others(count: int) -> str:
    if not count:
        return ""
    return "; 1 other stands out too" if count == 1 else f"; {count:,} others stand out too"


def measure(
    specimens: Specimens,
    sliders: Sliders | None = None,
    *,
    slide: Slide = "bending-energy",
    scaling: Scaling = "partial",
    projection: bool = True,
    permutations: int = 999,
    seed: int = 0,
) -> Study:
    """Superimpose specimens, and analyse the variance of measurements if individuals have several.

    Parameters
    ----------
    specimens : Specimens
        Specimens without missing landmarks; see `complete_specimens`.
    sliders : array of int, shape (s, 3), or None
        Which landmarks slide between which neighbours, as in `superimpose`.
    slide : {'bending-energy', 'distance'}
        What sliding minimises, as in `superimpose`.
    scaling : {'partial', 'full'}
        How shapes are scaled, as in `superimpose`.
    projection : bool
        Project shapes on the tangent plane at the consensus.
    permutations : int
        The number of permutations in the analysis of variance; 0 for none.
    seed : int
        Another seed draws other permutations.

    Returns
    -------
    Study
        `variance` is empty if each individual was measured once. Sets joined by `join_sets` are observers;
        replicates read from names are repetitions; sides are compared if there are any.

    Examples
    --------
    >>> import pliant
    >>> first = pliant.morphometrics.read_specimens("photographs/")
    >>> both = pliant.morphometrics.join_sets([first, first])
    >>> study = pliant.morphometrics.measure(both, permutations=0)
    >>> [row.source for row in study.variance["shape"].rows]
    ['individual', 'observer', 'error']

    """
    shapes = superimpose(specimens.lengths, sliders, slide=slide, scaling=scaling, projection=projection)
    variance: dict[str, Anova] = {}
    individuals = specimens.individuals
    if individuals and len(set(individuals)) < len(individuals):
        crossed = specimens.observed and not specimens.sides
        for what, data, freedom in (
            ("shape", shapes.coordinates, shapes.freedom),
            ("size", shapes.centroid_sizes, 1),
        ):
            variance[what] = procrustes_anova(
                data,
                individuals,
                sides=specimens.sides,
                observers=specimens.replicates if crossed else (),
                freedom=freedom,
                permutations=permutations,
                seed=seed,
            )
    return Study(specimens, shapes, variance)


def write_study(
    folder: Path | str, study: Study, *, parquet: bool = False, overwrite: bool = False
) -> tuple[list[Path], tuple[str, ...]]:
    """Write the files of a study to a folder.

    Parameters
    ----------
    folder : Path or str
        The folder; it is made if it does not exist.
    study : Study
        What `measure` returned.
    parquet : bool
        Write the coordinates as Parquet too.
    overwrite : bool
        Replace existing files.

    Returns
    -------
    files : list of Path
        coordinates.csv, consensus.csv and landmarks.tps; sliders.csv if landmarks slide, and anova.csv if variance
        was analysed.
    notes : tuple of str
        Sentences about names that geomorph may misread.

    Examples
    --------
    >>> import pliant
    >>> study = pliant.morphometrics.measure(pliant.morphometrics.read_specimens("photographs/"))
    >>> files, notes = pliant.morphometrics.write_study("shapes", study)
    >>> [file.name for file in files]
    ['coordinates.csv', 'consensus.csv', 'landmarks.tps']

    """
    folder = Path(folder)
    there = [name for name in FILES if (folder / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"{folder / there[0]} already exists: overwrite=True replaces it, or choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    specimens, shapes = study.specimens, study.shapes
    for name in there:
        # What a study before this one had, and this one has not, would be taken for its own.
        (folder / name).unlink()
    files = [folder / "coordinates.csv", folder / "consensus.csv", folder / "landmarks.tps"]
    write_coordinates(files[0], specimens, shapes)
    write_consensus(files[1], specimens, shapes)
    notes = write_tps(files[2], specimens)
    if parquet:
        files.append(folder / "coordinates.parquet")
        write_coordinates(files[-1], specimens, shapes)
    if len(shapes.sliders):
        files.append(folder / "sliders.csv")
        write_sliders(files[-1], shapes.sliders)
    if study.variance:
        files.append(folder / "anova.csv")
        write_anova(files[-1], study.variance)
    return files, notes
