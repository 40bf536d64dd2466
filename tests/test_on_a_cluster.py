"""Training and fitting on a cluster of Dask: the same bits as without, with what a user may ask for."""

import numpy as np
import PIL.Image
import pytest
from numpy.testing import assert_array_equal

import pliant
from pliant.bulk import fit_images
from pliant.crew import merged_in_pairs
from pliant.data.formats import write_landmarks
from pliant.settings import Fitting
from pliant.table import TABLE, rows_of

pytest.importorskip("distributed")

SMALL = {"size": 30, "shape_modes": (1, 3), "appearance_modes": (4, 8), "progress": False, "detector": None}


class Alone:
    """A crew that does one part after the other, here."""

    threads = 1

    def each(self, work, parts, *shared):
        for number, part in enumerate(parts):
            yield number, next(work([part], *shared, threads=1))

    def merged(self, work, parts, merge, *shared):
        return merged_in_pairs((one for _, one in self.each(work, parts, *shared)), len(parts), merge)

    def one(self, work, *arguments):
        return work(*arguments, threads=1)


@pytest.fixture(scope="module")
def cluster():
    with pliant.connect("local:2") as crew:
        yield crew


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("many")
    for number, sample in enumerate(pliant.synthetic.faces(12, seed=3, image_size=64)):
        PIL.Image.fromarray(sample.image()).save(root / f"face{number:03}.png")
        write_landmarks(root / f"face{number:03}.pts", sample.points())
    return root


def assert_same(one, other):
    for mine, theirs in zip(one.levels, other.levels, strict=True):
        assert_array_equal(mine.shape.basis, theirs.shape.basis)
        assert_array_equal(mine.appearance.mean, theirs.appearance.mean)
        assert_array_equal(mine.appearance.components, theirs.appearance.components)
        assert_array_equal(mine.appearance.eigenvalues, theirs.appearance.eigenvalues)


def test_a_model_is_that_of_a_crew_of_one(folder, cluster, monkeypatch):
    monkeypatch.setattr("pliant.building.build.learn_filter", lambda *known: None)
    here, there = (pliant.train(folder, jobs=jobs, confidence=False, **SMALL) for jobs in (Alone(), cluster))
    assert there.provenance["samples"] == 12
    assert_same(here, there)


def test_thousands_of_shapes_are_summed_on_the_cluster(cluster):
    from pliant.shape import train_shape_model

    rng = np.random.default_rng(0)
    shapes = rng.normal(size=(5, 2)) * 20 + rng.normal(size=(9000, 5, 2))
    here, there = (train_shape_model(shapes, 100.0, jobs=jobs) for jobs in (1, cluster))
    assert_array_equal(here.basis, there.basis)
    assert_array_equal(here.eigenvalues, there.eigenvalues)


def test_what_is_wrong_is_said_as_ever(folder, cluster):
    broken = pliant.load_dataset(folder)
    broken = broken[:3] + pliant.dataset_from_arrays([np.zeros((9, 9), np.uint8)], [np.full((68, 2), 3.0)])
    with pytest.raises(pliant.InvalidDataset, match="sample 0: the landmarks are collapsed") as there:
        pliant.train(broken, jobs=cluster, **SMALL)
    with pytest.raises(pliant.InvalidDataset) as here:
        pliant.train(broken, jobs=1, **SMALL)
    assert str(here.value) == str(there.value)


def test_rows_are_those_of_one_process(folder, cluster, model, tmp_path):
    model.save(tmp_path / "m.pliant")
    quick = Fitting(iterations=(2, 1), device="reference")
    for name, jobs in {"here": 1, "there": cluster}.items():
        fit_images(tmp_path / "m.pliant", folder, tmp_path / name, quick, jobs=jobs, landmarks="pts")
    here, there = (
        [{**row, "seconds": None} for row in rows_of(tmp_path / name / TABLE)] for name in ("here", "there")
    )
    assert len(here) == 12
    assert here == there
    files = [
        sorted(path.name for path in (tmp_path / name / "landmarks").iterdir()) for name in ("here", "there")
    ]
    assert files[0] == files[1]
