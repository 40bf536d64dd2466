"""All at once: specimens superimposed, their variance analysed, and a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pliant.arrays import Concise
from pliant.morphometrics.anova import Anova, procrustes_anova
from pliant.morphometrics.sliders import Sliders, write_sliders
from pliant.morphometrics.sliding import Slide
from pliant.morphometrics.specimens import Specimens
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

    """

    specimens: Specimens
    shapes: Superimposition
    variance: Mapping[str, Anova]


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
    folder: Path | str, study: Study, *, parquet: bool = False, force: bool = False
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
    force : bool
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
    if there and not force:
        raise ValueError(
            f"{folder / there[0]} already exists: force=True replaces it, or choose another folder."
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
