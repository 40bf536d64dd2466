"""Which expert a model gets: what is tried, what is kept of it, and what the shapes and scatters behind it are."""

import sys
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant import Training, training
from pliant.building.build import build_model
from pliant.data.dataset import Dataset
from pliant.experts.linear import LinearExpert
from pliant.experts.linear_training import train_linear
from pliant.experts.network import NetworkExpert
from pliant.shape import Similarity, shape_size, train_shape_model
from pliant.shape.generalisation import held_out_noise
from pliant.starts.noise import random_start
from pliant.trust.scatter import likeliest_scatter
from pliant.tuning import experts
from pliant.tuning.experts import FEWEST, Taught, kinds_to_try, taught_like, teach

SMALL = Training(size=40, shape_modes=(2, 4), detector=None, confidence=False, experts="linear")


def quickly(patch):
    """Linear experts from few starts, and few weights to choose from."""
    patch.setattr(
        experts, "train_linear", lambda samples, **options: train_linear(samples, starts=32, **options)
    )
    patch.setattr(experts, "_WEIGHTS", (0.3, 1.0))
    patch.setattr(experts, "_mirror", lambda dataset: None)


@pytest.fixture(scope="module")
def taught(dataset):
    """What becomes of a model of sixteen faces: the model alone, and what it was taught."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        alone = build_model(dataset[:16], SMALL, jobs=1, progress=False)
        return alone, teach(alone, dataset[:16], SMALL, ("none", "linear"), jobs=1, progress=False)


class TestKinds:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"experts": "none"}, ("none",)),
            ({"experts": "linear"}, ("none", "linear")),
            ({"experts": "linear", "preset": "paper"}, ("none", "linear")),
            ({"preset": "paper"}, ("none",)),
            ({"preset": "quick"}, ("none",)),
            ({"minutes": 0}, ("none",)),
            ({"size": 60}, ("none",)),
        ],
    )
    def test_what_is_asked_for_is_tried(self, given, expected):
        assert kinds_to_try(Training(**given), 100) == expected

    @pytest.mark.parametrize(
        ("samples", "minutes", "device", "expected"),
        [
            (FEWEST - 1, 60, "cpu", ("none",)),
            (100, 60, None, ("none", "linear")),
            (100, 60, "cpu", ("none", "linear", "network")),
            (100, 0.5, "cpu", ("none", "linear")),
            (1000, 10, "cpu", ("none", "linear")),
            (1000, 60, "cpu", ("none", "linear", "network")),
            (1000, 10, "cuda", ("none", "linear", "network")),
        ],
    )
    def test_a_search_takes_a_network_if_there_is_time(self, monkeypatch, samples, minutes, device, expected):
        monkeypatch.setattr(experts, "training_device", lambda: device)
        assert kinds_to_try(Training(minutes=minutes), samples) == expected

    def test_without_pytorch_a_network_gets_a_sentence(self, monkeypatch, dataset):
        """Before anything else is done: a search may take half an hour."""
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ValueError, match=r"pip install 'pliant\[experts\]'"):
            kinds_to_try(Training(experts="network"), 100)
        assert kinds_to_try(Training(minutes=600), 100) == ("none", "linear")

        def never(*things, **options):
            raise AssertionError("nothing is trained before the sentence")

        monkeypatch.setattr("pliant.training.model_of", never)
        monkeypatch.setattr("pliant.training.search.search", never)
        with pytest.raises(ValueError, match=r"pip install 'pliant\[experts\]'"):
            pliant.train(dataset, experts="network", progress=False)

    @pytest.mark.parametrize("kind", ["linear", "network"])
    def test_few_samples_get_a_sentence(self, dataset, kind, monkeypatch):
        monkeypatch.setattr(experts, "training_device", lambda: "cpu")
        with pytest.raises(ValueError, match=f"needs at least {FEWEST} samples, but there are 5"):
            pliant.train(dataset[:5], SMALL, experts=kind, progress=False)

    def test_a_search_of_settings_is_one_of_experts_too(self, monkeypatch, dataset):
        """Settings that a search has found are not taken for the user's own."""
        found = {"size": 30.0, "scales": (0.5, 1.0), "shape_modes": (1, 2), "features": ("igo",)}
        asked = []
        monkeypatch.setattr(
            "pliant.training.search.search",
            lambda dataset, settings, **rest: (settings.changed(**found), {"tried": []}),
        )
        monkeypatch.setattr("pliant.training.teach", lambda *given, **rest: asked.append(given[3]))
        monkeypatch.setattr(experts, "training_device", lambda: None)
        monkeypatch.setattr(experts.search, "FEWEST", 9)
        pliant.train(dataset[:9], detector=None, confidence=False, progress=False)
        pliant.train(dataset[:9], detector=None, confidence=False, progress=False, **found)
        # Nobody teaches where there is no expert to try.
        assert asked == [("none", "linear")]

    def test_too_few_whole_samples_are_no_reason_not_to_train(self, dataset):
        """A search leaves experts out; who asks for one by name is told."""
        shapes = [sample.points().copy() for sample in dataset[:10]]
        for points in shapes[:4]:
            points[3] = np.nan
        partial = pliant.dataset_from_arrays([sample.image() for sample in dataset[:10]], shapes)
        settings = SMALL.changed(missing="complete")
        model = build_model(partial, settings, jobs=1, progress=False)
        assert teach(model, partial, settings.changed(experts="auto"), ("none", "linear"), jobs=1) is None
        with pytest.raises(ValueError, match="samples with all their landmarks, but there are 6"):
            teach(model, partial, settings, ("none", "linear"), jobs=1)


class TestTeaching:
    def test_the_model_gets_the_expert_that_was_asked_for(self, taught):
        alone, found = taught
        assert isinstance(found.model.expert, LinearExpert)
        assert found.model.expert.landmarks == alone.landmarks
        assert found.model.expert_weight in (0.3, 1.0)
        assert found.model.shape_noise.shape == (68, 2, 2)
        assert np.all(np.linalg.eigvalsh(found.model.shape_noise) > 0)
        assert found.model.levels is alone.levels
        assert found.model.settings.experts == "linear"

    def test_what_was_tried_is_known(self, taught):
        _, found = taught
        assert found.known["held_out"] == len(found.held) == 4
        first, second = found.known["tried"]
        assert first["expert"] == "none"
        assert {"expert", "fits", "below_0.02", "below_0.04", "mean", "median", "weight", "alone"} == set(
            second
        )
        assert first["fits"] == second["fits"] == 12
        assert second["weight"] == found.model.expert_weight
        assert 0 < second["alone"] < 0.1

    def test_held_out_samples_were_not_seen(self, taught, dataset):
        """The model that they judge, and its expert, are of the others."""
        _, found = taught
        held = {sample.name for sample in found.held}
        assert held < {sample.name for sample in dataset[:16]}
        assert found.partial.provenance["samples"] == 12
        assert found.partial.expert is not found.model.expert

    def test_fits_are_no_worse(self, taught, dataset):
        alone, found = taught
        samples = dataset[16:]
        truth = np.array([sample.points() for sample in samples])
        starts = [random_start(alone, points, 0.1, 0, k, 0) for k, points in enumerate(truth)]

        def error(model):
            points = np.array([fit.points for fit in pliant.fit(model, list(samples), starts, jobs=1)])
            return np.mean(np.linalg.norm(points - truth, axis=-1) / shape_size(truth)[:, None])

        assert error(found.model) < 1.02 * error(alone)

    def test_it_is_kept_only_if_it_helps(self, monkeypatch, dataset):
        """In a search, an expert that sees landmarks where they are not is tried and left."""
        quickly(monkeypatch)

        def blind(samples, **options):
            expert = train_linear(samples, starts=12, **options)
            far = [replace(layer, spread=1e-6 * layer.spread, share=0.0) for layer in expert.filters]
            return replace(expert, filters=tuple(far), mean=expert.mean[::-1].copy())

        monkeypatch.setattr(experts, "train_linear", blind)
        monkeypatch.setattr(experts, "_WEIGHTS", (3.0,))
        settings = SMALL.changed(experts="auto")
        model = build_model(dataset[:8], settings, jobs=1, progress=False)
        found = teach(model, dataset[:8], settings, ("none", "linear"), jobs=1, progress=False)
        assert found.model.expert is None
        assert [one["expert"] for one in found.known["tried"]] == ["none", "linear"]
        assert found.model.settings.experts == "none"

    def test_training_says_what_was_tried(self, monkeypatch, dataset):
        quickly(monkeypatch)
        model = pliant.train(dataset[:8], SMALL, jobs=1, progress=False)
        assert model.provenance["choice"]["experts"]["held_out"] == 2
        assert model.expert is not None
        none = pliant.train(dataset[:8], SMALL, experts="none", jobs=1, progress=False)
        assert (none.expert, none.shape_noise) == (None, None)
        assert "choice" not in none.provenance

    @pytest.mark.parametrize(
        ("network", "held", "reused"),
        [(False, 59, False), (False, 60, True), (True, 9, False), (True, 10, True)],
    )
    def test_confidence_is_learned_from_more_samples_if_few_were_held_out(
        self, monkeypatch, dataset, network, held, reused
    ):
        """What a linear expert was tried on is too little below sixty; a network takes minutes to train again."""
        some = Dataset(tuple(islice(cycle(dataset), held)), "held out")

        def made(model, *rest, **options):
            expert = object.__new__(NetworkExpert if network else LinearExpert)
            return Taught(replace(model, expert=expert), model, some, {})

        done = []
        monkeypatch.setattr(training, "teach", made)
        monkeypatch.setattr(training, "judged_by", lambda model, data, trials, **rest: done.extend(trials))
        monkeypatch.setattr(training, "calibrate", lambda model, data, **rest: None)
        pliant.train(dataset[:10], SMALL, confidence=True, jobs=1, progress=False)
        assert [len(trial.held) for trial in done] == ([held] if reused else [])

    def test_an_expert_of_a_part_sees_objects_as_the_model_does(self, monkeypatch):
        """Images in which the object faces the other way are mirrored for experts too."""
        from test_facing import RIGHT, shoal

        given = []
        monkeypatch.setattr(experts, "train_linear", lambda samples, **options: given.append(list(samples)))
        fishes = shoal(10, RIGHT)
        settings = Training(
            size=40, shape_modes=(1, 2), detector=None, confidence=False, facing="both", experts="linear"
        )
        model = replace(build_model(fishes, settings, jobs=1, progress=False), expert=object())
        taught_like(model, model, fishes, fishes[:2], 1)
        lefts = [points[0, 0] < points[5, 0] for _, points in given[0]]
        assert len(set(lefts)) == 1
        assert len({sample.points()[0, 0] < sample.points()[5, 0] for sample in fishes}) == 2


class TestHeldOutNoise:
    """What a model leaves of shapes that it has not seen."""

    @staticmethod
    def shapes(count, noise, seed=0, modes=2):
        rng = np.random.default_rng(seed)
        v = 12
        angle = np.linspace(0, 2 * np.pi, v, endpoint=False)
        mean = 50 * np.stack([np.cos(angle), 0.7 * np.sin(angle)], axis=-1)
        made = []
        for _ in range(count):
            shape = mean.copy()
            for k in range(modes):
                shape[:, k % 2] += 3 * rng.normal() * np.sin((k + 2) * angle + k)
            made.append(shape + noise * rng.normal(size=(v, 2)))
        return np.array(made)

    def test_rigid_shapes_leave_nothing(self):
        shapes = self.shapes(12, 0.0, modes=0)
        noise = held_out_noise(shapes, train_shape_model(shapes, 100))
        assert_allclose(noise, 0, atol=1e-12)

    @pytest.mark.parametrize("size", [40.0, 100.0])
    def test_known_noise_is_found(self, size):
        shapes = self.shapes(150, 1.0)
        model = train_shape_model(shapes, size).truncated(2)
        noise = held_out_noise(shapes, model)
        # In pixels of the model; similarity and modes explain 6 of 24 dimensions.
        expected = (size / shape_size(shapes.mean(axis=0))) ** 2
        found = np.trace(noise, axis1=1, axis2=2).mean() / 2
        assert 0.65 * expected < found < 1.05 * expected
        assert_array_equal(noise, np.swapaxes(noise, 1, 2))

    def test_what_more_modes_would_explain_is_noise(self):
        """Shapes of two modes leave nothing to a model with two or more, and the lesser mode to one with one."""
        shapes = self.shapes(60, 0.0)
        model = train_shape_model(shapes, 100)
        left = [np.trace(held_out_noise(shapes, model.truncated(modes)).sum(axis=0)) for modes in (1, 2, 3)]
        assert left[0] == pytest.approx(model.eigenvalues[1], rel=0.3)
        assert max(left[1:]) < 0.05 * left[0]

    def test_few_shapes_leave_more_than_their_own_model_does(self):
        shapes = self.shapes(6, 1.0)
        model = train_shape_model(shapes, 100)
        assert model.noise_variance < 1e-6
        assert np.trace(held_out_noise(shapes, model).mean(axis=0)) / 2 > 0.2

    def test_it_turns_with_the_shapes(self):
        shapes = self.shapes(40, 1.0)
        shapes[:, 3] += 3 * np.random.default_rng(1).normal(size=(40, 1)) * [1, 0]
        move = Similarity(np.asarray(2 * np.exp(0.6j)), np.asarray(30 - 8j))
        here, there = (
            held_out_noise(some, train_shape_model(some, 100).truncated(2))
            for some in (shapes, move.apply(shapes))
        )
        # Means are upright as their shapes are, and scaled by their boxes.
        ratio = (shape_size(shapes) / shape_size(move.apply(shapes)) * 2).mean() ** 2
        turn = np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
        expected = turn @ here @ turn.T * ratio
        assert_allclose(there, expected, rtol=0.1, atol=0.02 * np.max(expected))


class TestScatter:
    @staticmethod
    def drawn(factor, scatter, correlation=0.0, count=500):
        """Deviations of points that were thought to be off by covariances, and are by more."""
        rng = np.random.default_rng(0)
        size = rng.uniform(0.2, 3, (count, len(scatter)))
        spread = size[..., None, None] * np.array([[1.0, correlation], [correlation, 1.0]])
        root = np.linalg.cholesky(factor * spread + scatter + 1e-12 * np.eye(2))
        return (root @ rng.normal(size=(count, len(scatter), 2, 1)))[..., 0], spread

    @pytest.mark.parametrize("correlation", [0.0, 0.9, -0.9, -0.999])
    @pytest.mark.parametrize("factor", [0.0, 0.5, 2.0, 10.0])
    def test_known_ones_are_found(self, factor, correlation):
        scatter = np.array([[[1.0, 0.2], [0.2, 0.5]], [[0.3, 0.0], [0.0, 2.0]], [[1.0, -0.6], [-0.6, 1.0]]])
        found, beside = likeliest_scatter(*self.drawn(factor, scatter, correlation))
        assert abs(found - factor) < 0.25 * factor + 0.15
        whole = found * 1.6 * np.array([[1, correlation], [correlation, 1]]) + beside
        expected = factor * 1.6 * np.array([[1, correlation], [correlation, 1]]) + scatter
        assert_allclose(whole, expected, atol=0.25 * np.max(expected))

    def test_deviations_that_cancel_are_not_none(self):
        """Along the falling diagonal, entries of the products add up to nothing."""
        rng = np.random.default_rng(1)
        sizes = rng.uniform(0.1, 4, (400, 3, 1, 1))
        spread = sizes * np.array([[1.0, -0.98], [-0.98, 1.0]])
        deviations = 1.5 * (np.linalg.cholesky(spread) @ rng.normal(size=(400, 3, 2, 1)))[..., 0]
        found, _ = likeliest_scatter(deviations, spread)
        assert 1.6 < found < 3

    def test_it_is_a_covariance_and_moves_with_its_units(self):
        scatter = np.tile(np.diag([1.0, 0.3]), (4, 1, 1))
        deviations, spread = self.drawn(1.0, scatter, 0.4, 60)
        factor, found = likeliest_scatter(deviations, spread)
        again, larger = likeliest_scatter(7 * deviations, 49 * spread)
        assert again == pytest.approx(factor)
        assert_allclose(larger, 49 * found, rtol=1e-6)
        assert np.all(np.linalg.eigvalsh(found) > 0)
        assert_array_equal(found, np.swapaxes(found, 1, 2))

    def test_covariances_of_nothing_leave_all_to_the_scatter(self):
        deviations = np.random.default_rng(2).normal(size=(300, 2, 2))
        factor, found = likeliest_scatter(deviations, np.zeros((300, 2, 2, 2)))
        assert np.isfinite(factor)
        assert_allclose(found, np.tile(np.eye(2), (2, 1, 1)), atol=0.2)
