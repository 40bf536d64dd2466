"""pliant: deformable models of any object, trained from annotated images and fitted to new ones.

Names are imported when they are first used, so that `import pliant` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pliant.version import __version__

if TYPE_CHECKING:
    from pliant import bulk as bulk
    from pliant import data as data
    from pliant import evaluation as evaluation
    from pliant import experiments as experiments
    from pliant import metrics as metrics
    from pliant import morphometrics as morphometrics
    from pliant import motion as motion
    from pliant import plots as plots
    from pliant import report as report
    from pliant import shape as shape
    from pliant import synthetic as synthetic
    from pliant import tracking as tracking
    from pliant.appearance.features import register_feature
    from pliant.batch import NotFitted, fit
    from pliant.building.facing import MixedFacings
    from pliant.container import ModelFileError
    from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
    from pliant.data.formats import read_annotations, read_landmarks, write_annotations, write_landmarks
    from pliant.data.images import read_image
    from pliant.data.loading import load_dataset
    from pliant.data.validation import InvalidDataset
    from pliant.distributed import connect
    from pliant.evaluation import evaluate
    from pliant.experts.sightings import Sightings
    from pliant.fitting.algorithm import Algorithm, catalogue
    from pliant.fitting.composition import Asymmetric, Bidirectional, Forward, Inverse
    from pliant.fitting.cost import SSD, ProjectOut
    from pliant.fitting.method import (
        Alternated,
        CascadedRegression,
        Dense,
        GaussNewton,
        Newton,
        Schur,
        Wiberg,
    )
    from pliant.fitting.result import FitResult
    from pliant.fitting.status import Status
    from pliant.model import Model, load
    from pliant.settings import Evaluating, Fitting, Starting, Stopping, Tracking, Training
    from pliant.starts.choice import find_starts
    from pliant.store import ExpertLeftOut
    from pliant.table import read_fits
    from pliant.tracking import read_video, track
    from pliant.training import NotCalibrated, train
    from pliant.trust.calibration import calibrate

_NAMES = {
    "pliant.appearance.features": ("register_feature",),
    "pliant.batch": ("NotFitted", "fit"),
    "pliant.building.facing": ("MixedFacings",),
    "pliant.container": ("ModelFileError",),
    "pliant.data.dataset": (
        "Dataset",
        "Sample",
        "dataset_from_arrays",
    ),
    "pliant.data.formats": (
        "read_annotations",
        "read_landmarks",
        "write_annotations",
        "write_landmarks",
    ),
    "pliant.data.images": ("read_image",),
    "pliant.data.loading": ("load_dataset",),
    "pliant.data.validation": ("InvalidDataset",),
    "pliant.distributed": ("connect",),
    "pliant.evaluation": ("evaluate",),
    "pliant.experts.sightings": ("Sightings",),
    "pliant.fitting.algorithm": (
        "Algorithm",
        "catalogue",
    ),
    "pliant.fitting.composition": (
        "Asymmetric",
        "Bidirectional",
        "Forward",
        "Inverse",
    ),
    "pliant.fitting.cost": (
        "SSD",
        "ProjectOut",
    ),
    "pliant.fitting.method": (
        "Alternated",
        "CascadedRegression",
        "Dense",
        "GaussNewton",
        "Newton",
        "Schur",
        "Wiberg",
    ),
    "pliant.fitting.result": ("FitResult",),
    "pliant.fitting.status": ("Status",),
    "pliant.model": (
        "Model",
        "load",
    ),
    "pliant.settings": (
        "Evaluating",
        "Starting",
        "Fitting",
        "Stopping",
        "Tracking",
        "Training",
    ),
    "pliant.starts.choice": ("find_starts",),
    "pliant.store": ("ExpertLeftOut",),
    "pliant.table": ("read_fits",),
    "pliant.tracking": (
        "read_video",
        "track",
    ),
    "pliant.training": (
        "NotCalibrated",
        "train",
    ),
    "pliant.trust.calibration": ("calibrate",),
}
"""Where public names are at home."""

_HOME = {name: module for module, names in _NAMES.items() for name in names}

_ROOMS = (
    "bulk",
    "data",
    "evaluation",
    "experiments",
    "metrics",
    "morphometrics",
    "motion",
    "plots",
    "report",
    "shape",
    "synthetic",
    "tracking",
)
"""What is imported as a whole: `pliant.plots.plot_fit` needs no other import."""

__all__ = [
    "SSD",
    "Algorithm",
    "Alternated",
    "Asymmetric",
    "Bidirectional",
    "CascadedRegression",
    "Dataset",
    "Dense",
    "Evaluating",
    "ExpertLeftOut",
    "FitResult",
    "Fitting",
    "Forward",
    "GaussNewton",
    "InvalidDataset",
    "Inverse",
    "MixedFacings",
    "Model",
    "ModelFileError",
    "Newton",
    "NotCalibrated",
    "NotFitted",
    "ProjectOut",
    "Sample",
    "Schur",
    "Sightings",
    "Starting",
    "Status",
    "Stopping",
    "Tracking",
    "Training",
    "Wiberg",
    "__version__",
    "calibrate",
    "catalogue",
    "connect",
    "dataset_from_arrays",
    "evaluate",
    "find_starts",
    "fit",
    "load",
    "load_dataset",
    "read_annotations",
    "read_fits",
    "read_image",
    "read_landmarks",
    "read_video",
    "register_feature",
    "track",
    "train",
    "write_annotations",
    "write_landmarks",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"pliant.{name}")
    raise AttributeError(f"module 'pliant' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
