"""Features of colour: as many channels, the same as grey where there is no colour, and more where there is."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.appearance.features import find_feature
from pliant.appearance.tones import LUMA
from pliant.appearance.view import feature_view
from pliant.data.dataset import dataset_from_arrays
from pliant.metrics import normalised_error

NAMES = ["gradient", "igo", "dsift"]
CORNERS = np.array([[5.0, 5], [50, 5], [50, 45], [5, 45]])


def isoluminant(rng, count):
    """Ellipses with a bar, told from their ground by colour alone, and their landmarks."""
    inside, outside = np.array([200.0, 80, 90]), np.array([60.0, 0, 120])
    outside[1] = (LUMA @ inside - LUMA[0] * outside[0] - LUMA[2] * outside[2]) / LUMA[1]
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    y, x = np.mgrid[:120, :120]
    images, shapes = [], []
    for _ in range(count):
        centre, turn = rng.uniform(52, 68, 2), rng.uniform(-0.3, 0.3)
        a, b = rng.uniform(26, 34), rng.uniform(14, 20)
        points = np.stack([a * np.cos(angles), b * np.sin(angles)], axis=1)
        points = np.concatenate([points, [[0.5 * a, 0], [-0.5 * a, 0]]])
        axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        along, across = axes.T @ (np.stack([x, y]).reshape(2, -1) - centre[:, None])
        there = (along / a) ** 2 + (across / b) ** 2 < 1
        there &= ~((np.abs(along) < 0.5 * a) & (np.abs(across) < 3))
        image = np.where(there[:, None], inside, outside).reshape(120, 120, 3)
        # The same noise in all channels: brightness has noise alone to show.
        image += rng.normal(0, 4, (120, 120, 1))
        images.append(np.clip(np.rint(image), 0, 255).astype(np.uint8))
        shapes.append(points @ axes.T + centre)
    return images, shapes


@pytest.mark.parametrize("name", NAMES)
class TestFeatures:
    def test_grey_in_colour_is_grey(self, name, rng):
        grey = rng.integers(0, 256, (50, 60), dtype=np.uint8)
        feature = find_feature(name)
        expected = feature_view(grey, CORNERS, 0.8, feature).pixels
        assert_array_equal(feature_view(grey, CORNERS, 0.8, feature, colour=True).pixels, expected)
        alike = np.repeat(grey[:, :, None], 3, axis=2)
        assert_allclose(feature_view(alike, CORNERS, 0.8, feature, colour=True).pixels, expected, atol=1e-4)

    def test_the_strongest_channel_is_seen(self, name, rng):
        """One channel changes, the others are flat: the features are those of that channel."""
        plane = rng.random((40, 50), dtype=np.float32)
        for channel in range(3):
            image = np.full((40, 50, 3), 0.4, dtype=np.float32)
            image[:, :, channel] = plane
            assert_allclose(find_feature(name).compute(image), find_feature(name).compute(plane), atol=1e-5)


def test_what_colour_alone_tells_apart_is_found_in_colour(rng):
    images, shapes = isoluminant(rng, 40)
    settings = {"size": 40, "detector": None, "shape_modes": (2, 4)}
    teaching = dataset_from_arrays(images[:28], shapes[:28])
    errors = {}
    for colour in (False, True):
        model = pliant.train(teaching, colour=colour, **settings, confidence=False)
        assert [level.channels for level in model.levels] == [8, 8]
        assert model.settings.colour is colour
        starts = [shape + (4, -3) for shape in shapes[28:]]
        fits = pliant.fit(model, images[28:], starts, trace=False)
        errors[colour] = np.median(
            [normalised_error(f.points, s, np.arange(18)) for f, s in zip(fits, shapes[28:], strict=True)]
        )
    assert errors[True] < 0.02
    assert errors[False] > 2 * errors[True]


def test_the_file_keeps_it(tmp_path, dataset, model, command):
    coloured = pliant.train(
        dataset[:8], size=40, colour=True, detector=None, shape_modes=(1, 2), confidence=False
    )
    coloured.save(tmp_path / "c.pliant")
    assert all(level.colour for level in pliant.load(tmp_path / "c.pliant").levels)
    assert "features of colour" in " ".join(command("inspect", tmp_path / "c.pliant").out.split())
    model.save(tmp_path / "g.pliant")
    assert not any(level.colour for level in pliant.load(tmp_path / "g.pliant").levels)
    [fit] = pliant.fit(coloured, [dataset[0].image()[:, :, 0]], [dataset[0].points()])
    assert fit.ok


def test_older_files_are_grey(tmp_path, model, monkeypatch):
    from pliant import store

    def older(model):
        arrays, numbers = taken_apart(model)
        for level in numbers["levels"]:
            del level["colour"]
        return arrays, numbers

    taken_apart = store._taken_apart
    monkeypatch.setattr(store, "_taken_apart", older)
    levels = tuple(replace(level, colour=True) for level in model.levels)
    replace(model, levels=levels).save(tmp_path / "old.pliant")
    assert not any(level.colour for level in pliant.load(tmp_path / "old.pliant").levels)


@pytest.mark.parametrize("name", ["intensity", "normalized"])
def test_features_of_grey_alone_say_so(dataset, name):
    with pytest.raises(ValueError, match=f"'{name}' uses grey images only: to train in colour, use gradient"):
        pliant.train(dataset[:4], features=name, colour=True, confidence=False)


def test_a_feature_of_ones_own_is_given_colour_if_it_asks_for_it(dataset):
    from pliant.appearance.features import _REGISTRY

    @pliant.register_feature("red", channels=1, reach=0, colour=True)
    def red(image):
        assert image.shape[2:] == (3,)
        return image[:, :, :1]

    model = pliant.train(
        dataset[:6], features="red", colour=True, size=40, detector=None, shape_modes=(1, 2), confidence=False
    )
    assert model.levels[0].colour
    del _REGISTRY["red"]


def test_the_command_takes_it(tmp_path, face_folders, command):
    options = ("--size", 40, "--no-confidence", "--detector", "none", "--colour")
    command("train", face_folders / "train", "-o", tmp_path / "m.pliant", *options)
    assert all(level.colour for level in pliant.load(tmp_path / "m.pliant").levels)
    assert "colour = true" in (tmp_path / "m.toml").read_text()
