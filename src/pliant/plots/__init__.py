"""Pictures of data sets, models, fits, errors and comparisons.

Each `plot_` function takes results and a `Style`, and returns a Matplotlib figure: save it as PNG, SVG or PDF.
`paint_overlay`, `write_overlay` and `write_animation` paint pixels without Matplotlib: for thousands of
pictures, and for moving ones.
"""

from pliant.plots.animation import write_animation
from pliant.plots.comparisons import plot_courses, plot_grids, plot_shares
from pliant.plots.confidence import plot_reliability, plot_roc
from pliant.plots.errors import ced_area, plot_best_median_worst, plot_ced, plot_landmark_errors
from pliant.plots.exemplars import plot_exemplars, plot_sampling, plot_starts
from pliant.plots.fits import plot_convergence, plot_fit, plot_fits, plot_iterations
from pliant.plots.intervals import plot_intervals
from pliant.plots.landmarks import plot_overlay, plot_samples, plot_suspects, plot_uncertainty
from pliant.plots.models import plot_mean, plot_modes, plot_reconstructions, plot_variance
from pliant.plots.painter import paint_overlay, write_overlay
from pliant.plots.style import Style

__all__ = [
    "Style",
    "ced_area",
    "paint_overlay",
    "plot_best_median_worst",
    "plot_ced",
    "plot_convergence",
    "plot_courses",
    "plot_exemplars",
    "plot_fit",
    "plot_fits",
    "plot_grids",
    "plot_intervals",
    "plot_iterations",
    "plot_landmark_errors",
    "plot_mean",
    "plot_modes",
    "plot_overlay",
    "plot_reconstructions",
    "plot_reliability",
    "plot_roc",
    "plot_samples",
    "plot_sampling",
    "plot_shares",
    "plot_starts",
    "plot_suspects",
    "plot_uncertainty",
    "plot_variance",
    "write_animation",
    "write_overlay",
]
