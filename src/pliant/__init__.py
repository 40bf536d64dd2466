"""pliant: deformable models of any object, trained from annotated images and fitted to new ones.

Names are imported when they are first used, so that `import pliant` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pliant.version import __version__

if TYPE_CHECKING:
    from pliant import data as data
    from pliant import evaluation as evaluation
    from pliant import experiments as experiments
    from pliant import metrics as metrics
    from pliant import motion as motion
    from pliant import plots as plots
    from pliant import report as report
    from pliant import shape as shape
    from pliant import synthetic as synthetic
    from pliant import tracking as tracking
    from pliant.appearance.features import register_feature
    from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
    from pliant.data.formats import read_landmarks, write_landmarks
    from pliant.data.images import read_image
    from pliant.data.loading import load_dataset
    from pliant.data.validation import InvalidDataset
    from pliant.fitting.algorithm import Algorithm, catalogue
    from pliant.fitting.fitter import fit
    from pliant.fitting.result import FitResult
    from pliant.fitting.status import Status
    from pliant.model import Model, load
    from pliant.settings import Stopping
    from pliant.starts.choice import find_starts
    from pliant.store import ModelFileError
    from pliant.table import read_fits
    from pliant.tracking import read_video, track
    from pliant.training import train
    from pliant.trust.calibration import calibrate

_HOME = {
    "Algorithm": "pliant.fitting.algorithm",
    "Dataset": "pliant.data.dataset",
    "FitResult": "pliant.fitting.result",
    "InvalidDataset": "pliant.data.validation",
    "Model": "pliant.model",
    "ModelFileError": "pliant.store",
    "Sample": "pliant.data.dataset",
    "Status": "pliant.fitting.status",
    "Stopping": "pliant.settings",
    "calibrate": "pliant.trust.calibration",
    "catalogue": "pliant.fitting.algorithm",
    "dataset_from_arrays": "pliant.data.dataset",
    "find_starts": "pliant.starts.choice",
    "fit": "pliant.fitting.fitter",
    "load": "pliant.model",
    "load_dataset": "pliant.data.loading",
    "read_fits": "pliant.table",
    "read_image": "pliant.data.images",
    "read_landmarks": "pliant.data.formats",
    "read_video": "pliant.tracking",
    "register_feature": "pliant.appearance.features",
    "track": "pliant.tracking",
    "train": "pliant.training",
    "write_landmarks": "pliant.data.formats",
}

_ROOMS = (
    "data",
    "evaluation",
    "experiments",
    "metrics",
    "motion",
    "plots",
    "report",
    "shape",
    "synthetic",
    "tracking",
)
"""What is imported as a whole: `pliant.plots.plot_fit` needs no other import."""

__all__ = [
    "Algorithm",
    "Dataset",
    "FitResult",
    "InvalidDataset",
    "Model",
    "ModelFileError",
    "Sample",
    "Status",
    "Stopping",
    "__version__",
    "calibrate",
    "catalogue",
    "dataset_from_arrays",
    "find_starts",
    "fit",
    "load",
    "load_dataset",
    "read_fits",
    "read_image",
    "read_landmarks",
    "read_video",
    "register_feature",
    "track",
    "train",
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
