"""Annotated images: reading them, checking them, and the formats of landmark files."""

from pliant.data.agreement import Agreement, compare_datasets
from pliant.data.annotation import Annotation, Convention
from pliant.data.checking import DatasetCheck, check_dataset
from pliant.data.conversion import Conversion, Plan, convert, plan_conversion
from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
from pliant.data.formats import read_annotations, read_landmarks, write_annotations, write_landmarks
from pliant.data.images import ImageError, read_image
from pliant.data.loading import load_dataset
from pliant.data.suspects import Suspect
from pliant.data.validation import InvalidDataset, Validated

__all__ = [
    "Agreement",
    "Annotation",
    "Convention",
    "Conversion",
    "Dataset",
    "DatasetCheck",
    "ImageError",
    "InvalidDataset",
    "Plan",
    "Sample",
    "Suspect",
    "Validated",
    "check_dataset",
    "compare_datasets",
    "convert",
    "dataset_from_arrays",
    "load_dataset",
    "plan_conversion",
    "read_annotations",
    "read_image",
    "read_landmarks",
    "write_annotations",
    "write_landmarks",
]
