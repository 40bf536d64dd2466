"""What several test files share: one small data set and one small model, made once."""

import numpy as np
import pytest

from pliant.data.dataset import Dataset
from pliant.model import Model
from pliant.synthetic import faces
from pliant.training import train


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Twenty-four small faces, in memory, so that they are drawn only once."""
    from pliant.data.dataset import dataset_from_arrays

    made = faces(24, seed=1, image_size=96)
    return dataset_from_arrays([sample.image() for sample in made], [sample.points() for sample in made])


@pytest.fixture(scope="session")
def model(dataset: Dataset) -> Model:
    return train(dataset, size=40, shape_modes=(2, 5), licence="synthetic")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
