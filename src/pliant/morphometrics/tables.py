"""What is written for R and for people: coordinates, consensus, TPS, and tables of variance."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from pliant.data.formats.tps import landmark_lines
from pliant.data.names import to_text
from pliant.files import replaced
from pliant.morphometrics.anova import Anova
from pliant.morphometrics.reading import LITTLE
from pliant.morphometrics.specimens import Specimens, counted
from pliant.morphometrics.superimposition import Superimposition

_KEYS = ("LM", "SCALE", "IMAGE", "ID", "CURVES", "POINTS", "COMMENT", "CHAIN", "RADII", "VARIABLES")
"""Words that geomorph's readers look for anywhere in a line."""


def write_coordinates(path: Path | str, specimens: Specimens, shapes: Superimposition) -> None:
    """Write Procrustes coordinates and centroid sizes, a row for each specimen.

    The columns X1, Y1, X2, Y2 and so on are what geomorph's `arrayspecs` takes. Before them are specimen, image,
    individual, side and replicate if they are known, centroid_size and its unit, scale, the Procrustes distance
    from the consensus, whether the specimen was reflected, and for fits the confidence and a flag.

    Parameters
    ----------
    path : Path or str
        A file that ends in .csv or .parquet.
    specimens : Specimens
        The specimens that were superimposed.
    shapes : Superimposition
        Their superimposition.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> specimens = pliant.morphometrics.read_specimens("photographs/")
    >>> shapes = pliant.morphometrics.superimpose(specimens.lengths)
    >>> pliant.morphometrics.write_coordinates("coordinates.csv", specimens, shapes)
    >>> len(Path("coordinates.csv").read_text().splitlines())
    13

    """
    columns = _columns(specimens, shapes)
    target = Path(path)
    if target.suffix.lower() == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        with replaced(target) as partial:
            parquet.write_table(pa.table(dict(columns)), partial)
        return
    if target.suffix.lower() != ".csv":
        raise ValueError(f"{path}: coordinates can only be written as .csv or .parquet.")
    _write_csv(target, columns, zip(*columns.values(), strict=True))


def write_consensus(path: Path | str, specimens: Specimens, shapes: Superimposition) -> None:
    """Write the mean shape as CSV: number from 1, name, x, y (upwards), and whether the landmark slides."""
    sliding = set(shapes.sliders[:, 1].tolist())
    names = specimens.landmark_names or [""] * len(shapes.consensus)
    rows = [
        (number + 1, name, x, y, int(number in sliding))
        for number, (name, (x, y)) in enumerate(zip(names, shapes.consensus.tolist(), strict=True))
    ]
    _write_csv(Path(path), ("landmark", "name", "x", "y", "slides"), rows)


def write_anova(path: Path | str, tables: Mapping[str, Anova]) -> None:
    """Write analyses of variance as CSV, by what was analysed ("shape", "size"), a row for each source."""
    header = (
        "of",
        "source",
        "squares",
        "share",
        "freedom",
        "mean_square",
        "f",
        "p_parametric",
        "p_permutation",
    )
    rows = [
        (
            what,
            row.source,
            row.squares,
            row.share,
            row.freedom,
            row.mean_square,
            row.ratio,
            row.chance,
            row.permuted,
        )
        for what, table in tables.items()
        for row in table.rows
    ]
    _write_csv(Path(path), header, rows)


def write_tps(path: Path | str, specimens: Specimens) -> tuple[str, ...]:
    """Write landmarks as a TPS file that geomorph's `readland.tps` reads without a message about scale or names.

    Every specimen has SCALE, ID and IMAGE. If one has no scale, all are in pixels with SCALE=1, as geomorph would
    take them. A missing landmark is NA NA.

    Parameters
    ----------
    path : Path or str
        The file to write.
    specimens : Specimens
        The specimens. Points of curves are written as landmarks, so that their numbers are those of the sliders.

    Returns
    -------
    tuple of str
        Sentences about names that geomorph takes for something else, and landmarks outside of images; usually
        none.

    Examples
    --------
    >>> import pliant
    >>> pliant.morphometrics.write_tps("landmarks.tps", pliant.morphometrics.read_specimens("photographs/"))
    ()

    """
    lines: list[str] = []
    odd: list[str] = []
    moved: list[str] = []
    for number, name in enumerate(specimens.names):
        points = specimens.points[number]
        if np.nanmin(points) < 0:
            # Many tools take a negative number for a missing landmark; a shape stays what it is when it moves.
            points = points - np.minimum(np.nanmin(points, axis=0), 0)
            moved.append(name)
        rows = landmark_lines(points)
        lines += [row.replace("nan", "NA") for row in rows]
        scale = specimens.scales[number] if specimens.scaled else 1.0
        image = PureWindowsPath(specimens.images[number] or name).name
        # In this order: geomorph takes the first line that has the letters of a key anywhere.
        lines += [f"SCALE={scale:.10g}", f"ID={to_text(name)}", f"IMAGE={to_text(image)}"]
        odd += [text for text in (name, image) if any(f"{key}=" in text.upper() for key in _KEYS)]
        odd += [text for text in (name, image) if any(key in text.upper() for key in _KEYS[6:])]
    with replaced(Path(path)) as partial:
        partial.write_text("\n".join([*lines, ""]), encoding="utf-8")
    notes = (
        [f"geomorph may misread the name {odd[0]}, because it contains a key of TPS files."] if odd else []
    )
    if moved:
        notes.append(
            f"Moved in {Path(path).name}, which has no negative numbers: {counted(len(moved))} with landmarks "
            f"outside the image, such as {moved[0]}."
        )
    return tuple(notes)


def _columns(specimens: Specimens, shapes: Superimposition) -> dict[str, Sequence[Any]]:
    count = len(specimens)
    columns: dict[str, Sequence[Any]] = {
        "specimen": [to_text(name) for name in specimens.names],
        "image": [to_text(PureWindowsPath(image).name) for image in specimens.images],
    }
    for name in ("individual", "side", "replicate"):
        if values := getattr(specimens, f"{name}s"):
            columns[name] = list(values)
    columns["centroid_size"] = shapes.centroid_sizes.tolist()
    columns["unit"] = [specimens.length_unit] * count
    columns["scale"] = [None if np.isnan(scale) else scale for scale in specimens.scales.tolist()]
    columns["procrustes_distance"] = shapes.distances.tolist()
    columns["reflected"] = specimens.reflected.astype(int).tolist()
    if np.isfinite(specimens.confidence).any():
        columns["confidence"] = [
            None if np.isnan(value) else value for value in specimens.confidence.tolist()
        ]
        columns["flag"] = ["low confidence" if value < LITTLE else "" for value in specimens.confidence]
    for landmark in range(shapes.coordinates.shape[1]):
        for axis, letter in enumerate("XY"):
            columns[f"{letter}{landmark + 1}"] = shapes.coordinates[:, landmark, axis].tolist()
    return columns


def _write_csv(path: Path, header: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    with replaced(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(list(header))
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
