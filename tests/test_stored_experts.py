"""Experts in model files: what goes in comes out, what is damaged is refused, what cannot be used is left out."""

import warnings
from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pliant
from pliant.container import ModelFileError
from pliant.model import load
from test_store import GOLDEN, array_change, crafted, number_change

KINDS = ("linear", "network")


@pytest.fixture(params=KINDS)
def expert(request):
    return request.getfixturevalue(f"{request.param}_expert")


def noise(landmarks):
    return np.tile(np.diag([0.3, 0.2]), (landmarks, 1, 1))


@pytest.fixture
def guided(model, expert):
    """The model with an expert, what it counts for, and the noise of its shapes."""
    return replace(model, expert=expert, expert_weight=0.25, shape_noise=noise(model.landmarks))


def fits_of(model, dataset, **settings):
    samples = dataset[18:20]
    starts = [sample.points() + 2 for sample in samples]
    return pliant.fit(model, list(samples), starts, jobs=1, iterations=4, **settings)


def same(one, other):
    return all(np.array_equal(a.points, b.points) for a, b in zip(one, other, strict=True))


def test_a_model_with_an_expert_comes_back_as_it_was(guided, dataset, tmp_path):
    guided.save(tmp_path / "m.pliant")
    loaded = load(tmp_path / "m.pliant")
    assert type(loaded.expert) is type(guided.expert)
    assert loaded.expert_weight == 0.25
    assert_array_equal(loaded.shape_noise, guided.shape_noise)
    assert loaded.expert.numbers() == guided.expert.numbers()
    before, after = guided.expert.arrays(), loaded.expert.arrays()
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert after[name].dtype == array.dtype
        assert_array_equal(after[name], array)
    one, other = fits_of(guided, dataset), fits_of(loaded, dataset)
    assert same(one, other)
    assert all(fit.sightings is not None for fit in other)
    loaded.save(tmp_path / "again.pliant")
    assert (tmp_path / "again.pliant").read_bytes() == (tmp_path / "m.pliant").read_bytes()


def test_an_expert_is_heard_unless_fits_are_told_otherwise(guided, model, dataset):
    heard = fits_of(guided, dataset)
    alone = fits_of(guided, dataset, experts=False)
    assert not same(heard, alone)
    assert same(alone, fits_of(model, dataset))


def test_a_file_of_the_first_version_has_no_expert():
    model = load(GOLDEN)
    assert (model.expert, model.expert_weight, model.shape_noise) == (None, 1.0, None)


def test_a_kind_of_a_later_version_is_left_out(guided, model, dataset, tmp_path, monkeypatch):
    crafted(guided, number_change("expert", "kind", "oracle"), tmp_path / "x.pliant", monkeypatch)
    with pytest.warns(
        pliant.ExpertLeftOut, match="of the kind 'oracle', which this version of pliant does not know"
    ) as said:
        loaded = load(tmp_path / "x.pliant")
    assert said[0].filename == __file__
    assert loaded.expert is None
    alone = replace(model, shape_noise=guided.shape_noise)
    assert same(fits_of(loaded, dataset), fits_of(alone, dataset))


def test_without_its_engine_a_network_is_left_out(
    model, network_expert, linear_expert, dataset, tmp_path, monkeypatch
):
    for name, expert in (("network", network_expert), ("linear", linear_expert)):
        replace(model, expert=expert).save(tmp_path / f"{name}.pliant")
    monkeypatch.delattr(cv2, "dnn")
    with pytest.warns(
        pliant.ExpertLeftOut, match="built without the dnn module that runs it: it fits without"
    ):
        loaded = load(tmp_path / "network.pliant")
    assert same(fits_of(loaded, dataset), fits_of(model, dataset))
    assert load(tmp_path / "linear.pliant").expert is not None


def test_who_needs_the_expert_can_have_an_error(guided, tmp_path, monkeypatch):
    crafted(guided, number_change("expert", "kind", "oracle"), tmp_path / "x.pliant", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pliant.ExpertLeftOut)
        with pytest.raises(pliant.ExpertLeftOut, match="oracle"):
            load(tmp_path / "x.pliant")


def test_commands_say_that_an_expert_is_left_out(guided, tmp_path, monkeypatch, command):
    crafted(guided, number_change("expert", "kind", "oracle"), tmp_path / "x.pliant", monkeypatch)
    said = command("inspect", tmp_path / "x.pliant").err
    assert "the model has an expert of the kind 'oracle'" in " ".join(said.split())
    assert "store.py" not in said


def test_an_expert_of_ones_own_cannot_be_stored(model, tmp_path):
    class Mine:
        looks = 1

    with pytest.raises(ValueError, match="an expert of the kind Mine cannot be stored in a file"):
        replace(model, expert=Mine()).save(tmp_path / "m.pliant")
    assert list(tmp_path.iterdir()) == []


def without(name):
    def change(arrays, numbers):
        del arrays[name]

    return change


def of_other_landmarks(arrays, numbers):
    """A network that is sound by itself, and sees one landmark less."""
    for name in list(arrays):
        if name.startswith("expert.") and name.endswith(("mean", "spread", "head.weight", "head.bias")):
            arrays[name] = arrays[name][:-1]


def more(arrays, numbers):
    arrays["expert.more"] = np.zeros(3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (number_change("expert", "weight", 0), "the weight of its expert is 0"),
        (number_change("expert", "weight", -1.0), "the weight of its expert is -1"),
        (number_change("expert", "weight", "1"), "not a number"),
        (number_change("expert", "weight", 1e300), "the weight of its expert is 1e\\+300"),
        (number_change("expert", "kind", []), r"the kind of its expert is \[\]"),
        (number_change("expert", "kind", "linear"), "linear expert"),
        (number_change("expert", 3), "expert|TypeError"),
        (number_change("expert", {}), "KeyError"),
        (number_change("expert", "stages", []), "has no networks"),
        (number_change("expert", "stages", 0, "height", 10**9), "the height of a network's window"),
        (array_change("expert.stages.0.spread", 0, -1.0), "not a covariance"),
        (array_change("expert.stages.1.weights.stem.bias", 0, np.nan), "not finite numbers"),
        (without("expert.stages.1.weights.stem.bias"), "'stem.bias'"),
        (of_other_landmarks, "has 67 landmarks, but the model has 68"),
        (more, "'more'"),
        (array_change("shape.noise", 0, -1.0), "'shape.noise' has a matrix that is not a covariance"),
        (array_change("shape.noise", (0, 0, 1), 0.1), "'shape.noise' has a matrix that is not a covariance"),
        (array_change("shape.noise", 0, np.nan), "shape.noise"),
        (array_change("shape.noise", 0, 1e300 * np.eye(2)), "larger than the object"),
    ],
)
def test_what_training_could_not_have_made_is_refused(
    model, network_expert, change, complaint, tmp_path, monkeypatch
):
    guided = replace(model, expert=network_expert, shape_noise=noise(model.landmarks))
    crafted(guided, change, tmp_path / "x.pliant", monkeypatch)
    with pytest.raises(ModelFileError, match=f"x.pliant: .* inconsistent .*({complaint})"):
        load(tmp_path / "x.pliant")


def test_a_changed_byte_of_an_expert_is_noticed(guided, tmp_path):
    guided.save(tmp_path / "m.pliant")
    content = bytearray((tmp_path / "m.pliant").read_bytes())
    content[-5] ^= 1
    (tmp_path / "m.pliant").write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum does not match"):
        load(tmp_path / "m.pliant")
