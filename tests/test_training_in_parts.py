"""Training on a crew that works elsewhere: the same model, whoever does which part, and that of one machine."""

import pickle
import random
import warnings
from dataclasses import dataclass, field, replace

import cloudpickle
import numpy as np
import PIL.Image
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.building import components
from pliant.building.build import checked_samples
from pliant.building.facing import MixedFacings
from pliant.building.vectors import all_vectors
from pliant.crew import Threads, merged_in_pairs, pairs, shared_out
from pliant.data.dataset import Dataset, Sample, dataset_from_arrays, evenly
from pliant.data.formats import write_landmarks
from pliant.data.validation import InvalidDataset, SamplesLeftOut, validate
from pliant.fitting.fitter import make_fitter
from pliant.pca import Accumulator, merged, pulled, refined
from pliant.settings import Training
from pliant.shape import pdm, procrustes, train_shape_model
from pliant.starts.filter_learning import learn_filter
from pliant.synthetic import write_faces
from pliant.trust.calibration import calibrate

SMALL = {"size": 30, "shape_modes": (1, 3), "appearance_modes": (4, 8), "progress": False, "detector": None}


def sent(value):
    """What arrives on another machine."""
    return pickle.loads(cloudpickle.dumps(value))


@dataclass
class Elsewhere:
    """A crew of which each member has one part, all that comes or goes is pickled, and nobody keeps to an order."""

    seed: int = 0
    threads: int = 1
    moved: list[int] = field(default_factory=list)

    def _call(self, work, part, shared):
        packet = cloudpickle.dumps((work, [part], shared))
        work, parts, shared = pickle.loads(packet)
        results = list(work(parts, *shared, threads=1 + self.seed % 3))
        assert len(results) == 1
        answer = cloudpickle.dumps(results[0])
        self.moved.append(len(answer))
        return pickle.loads(answer)

    def each(self, work, parts, *shared):
        order = list(range(len(parts)))
        random.Random(self.seed).shuffle(order)
        for number in order:
            yield number, self._call(work, parts[number], shared)

    def merged(self, work, parts, merge, *shared):
        found = dict(self.each(work, parts, *shared))
        for first, second in pairs(len(parts)):
            found[first] = sent(sent(merge)(found[first], found.pop(second)))
        return found[0]

    def one(self, work, *arguments):
        work, arguments = sent((work, arguments))
        return sent(work(*arguments, threads=1))


def arrays_of(value, path=""):
    """All arrays and numbers of a model, by where they are."""
    if isinstance(value, np.ndarray):
        return {path: value}
    if isinstance(value, (tuple, list)):
        parts = enumerate(value)
    elif hasattr(value, "__dataclass_fields__"):
        parts = ((name, getattr(value, name)) for name in value.__dataclass_fields__)
    elif isinstance(value, float):
        return {path: np.array(value)}
    else:
        return {}
    return {key: array for name, one in parts for key, array in arrays_of(one, f"{path}.{name}").items()}


def assert_same(one, other):
    mine, theirs = arrays_of(one), arrays_of(other)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert_array_equal(array, theirs[name], err_msg=name)


def angle(one, other):
    """The largest principal angle between two subspaces, in degrees."""
    a, b = (pca.components.astype(np.float64) for pca in (one, other))
    left = a - (a @ b.T) @ b
    return float(np.degrees(np.arcsin(min(1.0, np.linalg.norm(left, 2)))))


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of five or six samples: twenty-four make five parts."""
    monkeypatch.setattr(components, "shared_out", lambda count, least: shared_out(count, 5))
    monkeypatch.setattr("pliant.crew.math.isqrt", lambda count: 1)


@pytest.fixture
def lossy(monkeypatch, small_parts):
    """Sketches of fewer rows than there are samples, though memory has room for all."""
    monkeypatch.setattr(components, "rows_of_sketches", lambda *known: [8, 14, 16])


@pytest.mark.parametrize("count", [1, 7, 127, 128, 129, 1000, 100_000])
def test_parts_cover_all_and_are_of_about_one_size(count):
    parts = shared_out(count)
    numbers = [number for part in parts for number in range(count)[part]]
    assert numbers == list(range(count))
    sizes = {len(range(count)[part]) for part in parts}
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) <= max(1, count / 64)


class TestSketches:
    def samples(self, count, dimension=300, seed=0):
        rng = np.random.default_rng(seed)
        deviations = 1.0 / np.arange(1, 61) ** 0.8
        return (5 + (rng.normal(size=(count, 60)) * deviations) @ rng.normal(size=(60, dimension))).astype(
            np.float32
        )

    def sketch(self, data, most, capacity=None):
        collected = Accumulator(data.shape[1], capacity or max(3, len(data) + 1))
        for row in data:
            collected.add(row)
        return collected.sketch(most)

    def whole(self, data, modes):
        collected = Accumulator(data.shape[1], len(data) + 1)
        for row in data:
            collected.add(row)
        return collected.finish(modes)

    @pytest.mark.parametrize("size", [1, 7, 40])
    def test_nothing_is_lost_while_there_are_rows_for_all(self, size):
        data = self.samples(100)
        parts = [self.sketch(data[k : k + size], 100) for k in range(0, 100, size)]
        found, exact = merged_in_pairs(parts, len(parts), merged).finish(20), self.whole(data, 20)
        assert angle(found, exact) < 0.1
        assert_allclose(found.eigenvalues, exact.eigenvalues, rtol=1e-4)
        assert_allclose(found.total_variance, exact.total_variance, rtol=1e-5)
        assert_allclose(found.mean, exact.mean, atol=1e-5)
        assert found.rank == exact.rank

    @pytest.mark.parametrize("capacity", [33, 90])
    def test_a_second_pass_brings_back_what_few_rows_have_lost(self, capacity):
        data, modes = self.samples(400), 12
        parts = [data[k : k + 80] for k in range(0, 400, 80)]
        sketches = [self.sketch(part, 20, capacity) for part in parts]
        assert all(len(one.rows) == 20 for one in sketches)
        sketch = merged_in_pairs(sketches, len(parts), merged)
        assert sketch.count == 400
        exact, rough = self.whole(data, modes), sketch.finish(1.0)
        pull = merged_in_pairs((pulled(rough, part) for part in parts), len(parts), np.add)
        once, twice = sketch.finish(modes), refined(sketch, rough, pull).finish(modes)
        assert angle(twice, exact) < 0.4 * angle(once, exact)
        off = [np.max(np.abs(one.eigenvalues / exact.eigenvalues - 1)) for one in (once, twice)]
        assert off[1] < 0.2 * off[0]
        assert_allclose(twice.components @ twice.components.T, np.eye(modes), atol=1e-4)
        assert_allclose(twice.total_variance, exact.total_variance, rtol=1e-5)

    def test_threads_change_no_bit(self):
        data = self.samples(50, 9000)
        one, other = (Accumulator(9000, 31, threads) for threads in (1, 3))
        for row in data:
            one.add(row)
            other.add(row)
        one, other = one.sketch(12), other.sketch(12)
        assert_same(one, other)
        rough = one.finish(6)
        assert_array_equal(pulled(rough, data), pulled(rough, data, 3))

    def test_samples_that_are_all_the_same_have_no_modes(self):
        data = np.ones((12, 30), dtype=np.float32)
        sketch = merged(self.sketch(data[:6], 4), self.sketch(data[6:], 4))
        rough = sketch.finish(1.0)
        assert rough.modes == 0
        assert refined(sketch, rough, pulled(rough, data)).rows.shape == (0, 30)

    def test_rows_follow_from_samples_modes_and_memory(self):
        few = components.rows_of_sketches([1000, 50_000, 400], [4, 80, 0.95], 300, 2.0)
        assert few == [300, 300, 300]
        many = components.rows_of_sketches([1000, 50_000, 400], [4, 80, 0.95], 10**6, 2.0)
        assert many == [44, 272, 256]
        tight = components.rows_of_sketches([1000, 50_000, 400], [4, 80, 0.95], 10**6, 0.15)
        assert 80 < tight[1] < 272
        assert 4 * 5 * sum(np.multiply(tight, [1000, 50_000, 400])) <= 0.15e9
        with pytest.raises(ValueError, match=r"memory_gb=0.01 is too little .* give at least 0.08"):
            components.rows_of_sketches([1000, 50_000, 400], [4, 80, 0.95], 10**6, 0.01)


class TestShapes:
    @pytest.fixture
    def shapes(self, dataset):
        points = np.array([sample.points() for sample in dataset])
        return np.concatenate([points + k for k in range(4)]) * np.linspace(1, 2, 96)[:, None, None]

    def test_models_are_the_same_bits_on_any_crew(self, shapes, monkeypatch):
        monkeypatch.setattr(procrustes, "AT_ONCE", 20)
        first = train_shape_model(shapes, 100.0)
        for jobs in (3, Elsewhere(1), Elsewhere(2)):
            assert_same(first, train_shape_model(shapes, 100.0, jobs=jobs))

    def test_a_scatter_matrix_has_the_modes_of_the_shapes(self, shapes, monkeypatch):
        one = train_shape_model(shapes, 100.0)
        monkeypatch.setattr(procrustes, "AT_ONCE", 20)
        other = train_shape_model(shapes, 100.0)
        assert_allclose(other.mean, one.mean, atol=1e-9)
        assert other.modes == one.modes
        assert other.rank == one.rank
        assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-6, atol=1e-9 * one.eigenvalues[0])
        assert_allclose(other.basis[:, :14], one.basis[:, :14], atol=1e-7)
        assert_allclose(other.basis.T @ other.basis, np.eye(other.parameters), atol=1e-9)

    def test_a_rigid_object_has_no_modes(self, shapes, monkeypatch, rng):
        monkeypatch.setattr(procrustes, "AT_ONCE", 20)
        turns = np.exp(1j * rng.uniform(-1, 1, 96)) * rng.uniform(0.5, 2, 96)
        moved = turns[:, None] * (shapes[0] @ (1, 1j))
        model = train_shape_model(np.stack([moved.real, moved.imag], axis=-1), 100.0)
        assert model.modes == 0

    def test_one_part_is_decomposed_as_it_is(self, shapes, monkeypatch):
        monkeypatch.setattr(pdm.pca, "scatter_pca", None)
        assert train_shape_model(shapes, 100.0, jobs=Elsewhere()).modes > 10


@pytest.fixture
def folder(dataset, tmp_path):
    """Files of which some cannot be used: a repeat, one without landmarks, a broken image, and others."""
    for number, sample in enumerate(dataset):
        PIL.Image.fromarray(sample.image()).save(tmp_path / f"face{number:02}.png")
        write_landmarks(tmp_path / f"face{number:02}.pts", sample.points())
    return tmp_path


def spoil(folder, dataset):
    (folder / "face03.pts").unlink()
    (folder / "face07.png").write_bytes(b"no image")
    write_landmarks(folder / "face11.pts", dataset[11].points()[:60])
    write_landmarks(folder / "face12.pts", dataset[12].points() + 1000)
    for ending in ("png", "pts"):
        (folder / f"face22.{ending}").write_bytes((folder / f"face01.{ending}").read_bytes())


class TestValidation:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_problems_are_the_same_sentences_in_the_same_order(self, folder, dataset, seed):
        spoil(folder, dataset)
        data = pliant.load_dataset(folder)
        here, there = validate(data, 2), validate(data, Elsewhere(seed))
        assert len(here.problems) == 5
        assert "is the same as" in here.problems[-1]
        assert there.problems == here.problems
        assert there.sizes == here.sizes
        assert there.left_out == here.left_out == 5
        assert_array_equal(there.points, here.points)
        assert there.dataset == here.dataset

    def test_errors_and_warnings_are_those_of_one_machine(self, folder, dataset):
        spoil(folder, dataset)
        said = []
        for jobs in (1, Elsewhere()):
            with pytest.raises(InvalidDataset) as error:
                pliant.train(folder, jobs=jobs, **SMALL)
            with pytest.warns(SamplesLeftOut) as left_out:
                checked_samples(pliant.load_dataset(folder), Training(skip_invalid=True), jobs=jobs)
            said.append((str(error.value), error.value.problems, str(left_out[0].message)))
        assert said[0] == said[1]

    def test_pixels_do_not_come_back_and_landmarks_are_read_once(self, folder):
        data = pliant.load_dataset(folder)
        crew = Elsewhere()
        there = validate(data, crew, keep=1e9)
        assert sum(crew.moved) < 3000 * len(data)
        assert all(sample.decoded is None for sample in there.dataset)
        for path in folder.glob("*.pts"):
            path.unlink()
        for sample, points in zip(there.dataset, there.points, strict=True):
            assert_array_equal(sample.points(), points)
            assert_array_equal(sent(sample).points(), points)

    def test_too_few_samples_get_the_same_sentence(self, dataset):
        with pytest.raises(ValueError, match="at least two usable samples, but there are 1"):
            checked_samples(dataset[:1], Training(), jobs=Elsewhere())

    def test_those_that_face_the_other_way_are_turned_and_named(self):
        fish = lopsided(12)
        turned = Dataset(
            tuple(
                one.mirrored(range(len(one.points()))) if k % 4 == 1 else one for k, one in enumerate(fish)
            ),
            "fish",
        )
        said, found = [], []
        for jobs in (1, Elsewhere()):
            with pytest.warns(MixedFacings) as warned:
                found.append(checked_samples(turned, Training(), jobs=jobs))
            said.append(str(warned[0].message))
        assert said[0] == said[1]
        assert found[1].mirrored == 3
        assert_array_equal(found[0].points, found[1].points)
        for sample, points in zip(found[1].dataset, found[1].points, strict=True):
            assert_array_equal(sample.points(), points)


def lopsided(count):
    """Shapes without symmetry in noise."""
    rng = np.random.default_rng(4)
    base = np.array([(10, 30), (24, 8), (60, 12), (66, 44), (40, 52), (20, 50), (30, 30.0)])
    shapes = [base + rng.normal(size=base.shape) for _ in range(count)]
    images = [rng.integers(0, 255, (64, 80), dtype=np.uint8) for _ in range(count)]
    return dataset_from_arrays(images, shapes)


class TestModels:
    @pytest.fixture(autouse=True)
    def _without_filters(self, monkeypatch):
        """They take most of the time that training takes."""
        monkeypatch.setattr("pliant.building.build.learn_filter", lambda *known: None)

    @pytest.fixture
    def files(self, folder):
        return pliant.load_dataset(folder)

    def test_the_same_bits_whoever_does_what(self, files, lossy):
        models = [pliant.train(files, jobs=Elsewhere(seed), confidence=False, **SMALL) for seed in range(3)]
        assert models[0].provenance["principal_components"] == "sketched"
        for other in models[1:]:
            assert_same(models[0], other)

    def test_that_of_one_machine_where_nothing_is_lost(self, files, small_parts):
        here = pliant.train(files, confidence=False, **SMALL)
        there = pliant.train(files, jobs=Elsewhere(), confidence=False, **SMALL)
        assert there.provenance["principal_components"] == "exact"
        assert_same(here.levels[-1].shape, there.levels[-1].shape)
        assert_same(here.placements, there.placements)
        for one, other in zip(here.levels, there.levels, strict=True):
            assert angle(one.appearance, other.appearance) < 0.1
            assert_allclose(other.appearance.eigenvalues, one.appearance.eigenvalues, rtol=1e-4)

    def test_near_that_of_one_machine_where_something_is_lost(self, files, lossy):
        here = pliant.train(files, confidence=False, **SMALL)
        there = pliant.train(files, jobs=Elsewhere(), confidence=False, **SMALL)
        assert here.provenance["principal_components"] == "exact"
        for one, other in zip(here.levels, there.levels, strict=True):
            assert angle(one.appearance, other.appearance) < 10
            assert_allclose(other.appearance.eigenvalues, one.appearance.eigenvalues, rtol=0.02)
            assert_allclose(other.appearance.total_variance, one.appearance.total_variance, rtol=1e-5)
        for sample in files[:4]:
            fits = [pliant.fit(model, sample, sample.points() + 2) for model in (here, there)]
            assert_allclose(fits[0].points, fits[1].points, atol=0.3)

    def test_mirrored_copies_missing_landmarks(self, dataset, small_parts):
        shapes = [sample.points().copy() for sample in dataset]
        shapes[3][5] = shapes[9][40] = np.nan
        data = dataset_from_arrays([sample.image() for sample in dataset], shapes)
        changes = {"mirror": True, "missing": "complete", "confidence": False, **SMALL}
        here, there = (pliant.train(data, jobs=jobs, **changes) for jobs in (1, Elsewhere(1)))
        assert there.provenance["mirrored"] == 24
        assert there.provenance["completed_landmarks"] == 2
        assert_same(here.levels[-1].shape, there.levels[-1].shape)
        assert angle(here.levels[-1].appearance, there.levels[-1].appearance) < 0.1

    def test_filters_are_those_of_one_machine(self, files):
        points = np.array([sample.points() for sample in files[:4]])
        here, there = (learn_filter(files[:4], points, points[0], jobs) for jobs in (1, Elsewhere()))
        assert_same(here, there)

    def test_folds_of_a_calibration_are_parts(self, files):
        model = pliant.train(files[:10], confidence=False, **SMALL)
        here, there = (
            calibrate(model, files[:10], images=5, jobs=jobs, progress=False) for jobs in (1, Elsewhere(2))
        )
        assert_same(here.confidence, there.confidence)

    def test_search_experts_and_confidence_are_learned_elsewhere(self, dataset, monkeypatch):
        """Bounded work goes to one of the crew, with no more samples than it needs."""
        import pliant.training as module

        asked = []
        found = {"size": 30.0, "shape_modes": (1, 3), "scales": (0.5, 1.0), "features": ("igo",)}

        def searched(data, settings, **rest):
            asked.append(("search", len(data)))
            return settings.changed(**found), {"tried": []}

        def taught(model, data, settings, kinds, **rest):
            asked.append(("teach", len(data), kinds[1:]))

        def calibrated(model, data, **rest):
            asked.append(("calibrate", len(data)))
            return model

        monkeypatch.setattr(module, "_MOST_SEEN", 18)
        monkeypatch.setattr(module.search, "search", searched)
        monkeypatch.setattr(module, "teach", taught)
        monkeypatch.setattr(module, "calibrate", calibrated)
        crew = Inside()
        made = pliant.train(dataset, jobs=crew, experts="linear", detector=None, progress=False)
        assert made.settings.size == 30
        assert made.provenance["samples"] == 24
        assert asked == [("search", 18), ("teach", 18, ("linear",)), ("calibrate", 18)]
        assert {"_kinds", "_searched", "_taught"} <= set(crew.did)

    def test_cascades_are_learned_elsewhere(self, dataset, monkeypatch):
        from pliant.building import build

        seen = []

        def learn(model, samples, **rest):
            seen.extend(samples)
            return model

        monkeypatch.setattr(build, "_CASCADED", 5)
        monkeypatch.setattr(build, "learn_descents", learn)
        crew = Inside()
        pliant.train(dataset, jobs=crew, cascade=True, confidence=False, **SMALL)
        assert crew.did[-1] == "_with_descents"
        assert len(seen) == 5
        for (image, points), k in zip(seen, (0, 6, 12, 17, 23), strict=True):
            assert_array_equal(image, dataset[k].image())
            assert_array_equal(points, dataset[k].points())


@dataclass
class Inside(Elsewhere):
    """The same in this process, for what was replaced in it to be seen."""

    did: list[str] = field(default_factory=list)

    def one(self, work, *arguments):
        self.did.append(work.__name__)
        return work(*arguments, threads=1)


class TestPickles:
    def test_a_sample_is_found_from_another_folder(self, tmp_path, monkeypatch):
        write_faces(tmp_path / "faces", 1, image_size=64)
        monkeypatch.chdir(tmp_path)
        [sample] = pliant.load_dataset("faces")
        assert not sample.image_source.is_absolute()
        packet = pickle.dumps([sample, sample.mirrored(range(68))])
        monkeypatch.chdir("/")
        there, mirrored = pickle.loads(packet)
        assert (there.name, there.points().shape) == (sample.name, (68, 2))
        assert_array_equal(mirrored.image(), there.image()[:, ::-1])

    def test_a_fitter_travels_without_what_it_has_prepared(self, model, dataset):
        fitter = make_fitter(model, jobs=1)
        before = len(pickle.dumps(fitter))
        here = fitter.block([dataset[0].image()], [dataset[0].points() + 1])
        assert "prepared" in vars(fitter)
        assert len(pickle.dumps(fitter)) < 1.3 * before
        there = sent(fitter)
        assert "prepared" not in vars(there)
        assert_array_equal(
            there.block([dataset[0].image()], [dataset[0].points() + 1])[0].points, here[0].points
        )

    def test_a_model_is_not_larger_than_its_arrays(self, model):
        packed = pickle.dumps(model)
        assert len(packed) < 1.5 * sum(array.nbytes for array in arrays_of(model).values())
        assert_same(model, pickle.loads(packed))

    def test_samples_travel_without_pixels_and_with_landmarks(self, folder):
        data = pliant.load_dataset(folder)
        valid = validate(data, keep=1e9)
        assert all(sample.decoded is not None for sample in valid.dataset)
        assert len(pickle.dumps(valid.dataset)) < 2000 * len(data)
        assert len(pickle.dumps(valid)) < 4000 * len(data)
        back = sent(valid.dataset)
        assert back == valid.dataset
        assert back[2].decoded is None
        assert_array_equal(back[2].image(), valid.dataset[2].image())

    def test_a_sampling_samples_the_same(self, dataset, monkeypatch):
        kept = []
        find = components.find_components
        monkeypatch.setattr(
            "pliant.building.build.find_components", lambda *given: kept.append(given) or find(*given)
        )
        pliant.train(dataset[:4], jobs=1, confidence=False, **SMALL)
        sampling, seen = kept[0][0], kept[0][2]
        here = list(all_vectors(sampling, seen.dataset, seen.points, 1))
        there = list(all_vectors(sent(sampling), seen.dataset, seen.points, 2))
        for mine, theirs in zip(here, there, strict=True):
            for one, other in zip(mine, theirs, strict=True):
                assert_array_equal(one, other)

    def test_errors_come_back_as_they_are(self):
        from pliant.experts.network_learning import NoPyTorch

        error = sent(InvalidDataset(["a: is wrong.", "b: too."], 4, "do something."))
        assert str(error) == str(InvalidDataset(["a: is wrong.", "b: too."], 4, "do something."))
        assert error.problems == ("a: is wrong.", "b: too.")
        assert str(sent(NoPyTorch())) == str(NoPyTorch())


def test_few_samples_are_taken_evenly(dataset):
    assert evenly(dataset, 24) is dataset
    assert [dataset.samples.index(one) for one in evenly(dataset, 4)] == [0, 8, 15, 23]


def test_what_was_read_belongs_to_the_very_sample(dataset):
    sample = dataset[0].keeping(dataset[0].image(), dataset[0].points())
    assert replace(sample).decoded is replace(sample).landmarks is None
    assert sample.mirrored(range(68)).landmarks is None
    with pytest.raises(ValueError, match="read-only"):
        sample.points()[0] = 0
    assert Sample("a", "a.png", None).keeping(None, sample.landmarks).points() is not None


def test_threads_are_a_crew_too(dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = pliant.train(dataset[:6], jobs=Threads(1), confidence=False, **SMALL)
        assert_same(one, pliant.train(dataset[:6], jobs=1, confidence=False, **SMALL))
