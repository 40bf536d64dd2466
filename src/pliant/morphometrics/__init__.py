"""Morphometrics: Procrustes coordinates, centroid sizes, semi-landmarks and measurement error, and files for R.

The usual way is four lines:

    specimens = pliant.morphometrics.read_specimens("wings.tps", unit="mm")
    shapes = pliant.morphometrics.superimpose(specimens.lengths)
    pliant.morphometrics.write_coordinates("coordinates.csv", specimens, shapes)
    pliant.morphometrics.write_tps("landmarks.tps", specimens)

`pliant morphometrics` does the same from the command line.
"""

from pliant.morphometrics.anova import Anova, AnovaRow, procrustes_anova
from pliant.morphometrics.reading import read_specimens, specimens_of
from pliant.morphometrics.replicates import join_sets, name_parts
from pliant.morphometrics.sliders import read_sliders, sliders_of_curves
from pliant.morphometrics.specimens import Specimens, complete_specimens, facing_alike
from pliant.morphometrics.study import Study, measure, write_study
from pliant.morphometrics.superimposition import Superimposition, centroid_size, superimpose
from pliant.morphometrics.tables import write_coordinates, write_tps

__all__ = [
    "Anova",
    "AnovaRow",
    "Specimens",
    "Study",
    "Superimposition",
    "centroid_size",
    "complete_specimens",
    "facing_alike",
    "join_sets",
    "measure",
    "name_parts",
    "procrustes_anova",
    "read_sliders",
    "read_specimens",
    "sliders_of_curves",
    "specimens_of",
    "superimpose",
    "write_coordinates",
    "write_study",
    "write_tps",
]
