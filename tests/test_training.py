"""Training: what comes out, that it does not depend on how, and what is said when it cannot be done."""

import dataclasses
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.appearance.features import find_feature
from pliant.appearance.interpolation import bilinear, resample
from pliant.appearance.view import angle_to_frame, feature_view, scale_to_frame
from pliant.batch import fit
from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
from pliant.data.validation import InvalidDataset, SamplesLeftOut
from pliant.metrics import normalised_error
from pliant.shape import Similarity, align, shape_size
from pliant.shape.symmetry import find_mirror
from pliant.training import train


def appearance_of(level, image, points):
    feature = find_feature(level.features)
    scale, angle = scale_to_frame(level.shape.mean, points), angle_to_frame(level.shape.mean, points)
    seen = feature_view(image, points, scale, feature, angle=angle)
    return bilinear(seen.pixels, level.motion.positions(seen.to_view(points))).ravel()


def test_levels_have_what_was_asked_for(model):
    assert [level.scale for level in model.levels] == [0.5, 1.0]
    assert [level.shape.modes for level in model.levels] == [2, 5]
    assert model.size == pytest.approx(40)
    assert model.landmarks == 68
    for level in model.levels:
        assert shape_size(level.shape.mean) == pytest.approx(40 * level.scale)
        assert level.appearance.variance_kept >= 0.75
        assert level.appearance.mean.shape == (len(level.motion.frame.pixels) * 8,)
        assert level.appearance.components.dtype == np.float32
        assert_allclose(level.motion.positions(level.shape.mean), level.motion.frame.pixels, atol=1e-8)
    assert model.provenance["samples"] == 24
    assert model.provenance["licence"] == "synthetic"
    assert model.settings.scales == (0.5, 1.0)


def test_the_mean_appearance_is_the_mean_of_the_training_images(model, dataset):
    level = model.levels[-1]
    mean = np.mean([appearance_of(level, sample.image(), sample.points()) for sample in dataset], axis=0)
    assert_allclose(level.appearance.mean, mean, atol=1e-5)


def test_training_shapes_are_explained_to_the_share_that_is_claimed(model, dataset):
    level = model.levels[-1]
    shapes = np.array([sample.points() for sample in dataset])
    aligned = align(shapes, level.shape.mean).apply(shapes)
    rebuilt = level.shape.instance(level.shape.project(aligned))
    unexplained = np.sum((aligned - rebuilt) ** 2) / np.sum((aligned - aligned.mean(axis=0)) ** 2)
    assert unexplained == pytest.approx(1 - level.shape.variance_kept, abs=0.02)


def test_the_appearance_does_not_depend_on_the_pose_of_the_object(model, dataset):
    """Shift, scale and rotation of the image change nothing but what interpolation does to it."""
    level = model.levels[0]
    sample = dataset[3]
    image, points = sample.image(), sample.points()
    middle = points.mean(axis=0, keepdims=True)
    for angle in (0.0, 0.4, 3.0):
        turn = Similarity(np.asarray(np.exp(1j * angle)), np.zeros((), np.complex128))
        [corner] = middle + turn.apply(np.array([[-57.3, -53.4]]))
        larger = resample(image, corner, 1.5, (150, 165), angle=angle)
        moved = 1.5 * turn.inverse().apply(points - corner)
        one, other = appearance_of(level, image, points), appearance_of(level, larger, moved)
        assert np.corrcoef(one, other)[0, 1] > 0.99


def test_views_keep_the_axes_of_the_image_if_told_so(dataset):
    plain = train(dataset, size=40, shape_modes=(2, 5), confidence=False, upright=False)
    assert not any(level.upright for level in plain.levels)
    level, feature = plain.levels[-1], find_feature("dsift")
    seen = [
        feature_view(
            sample.image(), sample.points(), scale_to_frame(level.shape.mean, sample.points()), feature
        )
        for sample in dataset
    ]
    vectors = [
        bilinear(one.pixels, level.motion.positions(one.to_view(sample.points()))).ravel()
        for one, sample in zip(seen, dataset, strict=True)
    ]
    assert_allclose(level.appearance.mean, np.mean(vectors, axis=0), atol=1e-5)


def test_the_model_is_immutable(model):
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.levels = ()
    for array in (model.levels[0].appearance.components, model.levels[0].shape.basis, model.texture.pca.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("given", [[np.zeros((9, 9))], [(np.zeros((9, 9)), np.zeros((5, 2)))]])
def test_arrays_alone_are_not_samples(given):
    with pytest.raises(ValueError, match="make a data set of arrays with pliant.dataset_from_arrays"):
        train(given)


def test_threads_do_not_change_the_model(model, dataset):
    alone = train(dataset, size=40, shape_modes=(2, 5), jobs=1, confidence=False)
    for one, other in zip(alone.levels, model.levels, strict=True):
        assert_allclose(one.appearance.components, other.appearance.components, atol=1e-5)


def test_little_memory_streams_and_says_so(dataset):
    doubled = dataset_from_arrays(
        [sample.image() ^ flip for sample in dataset for flip in (0, 1, 2)],
        [sample.points() for sample in dataset for _ in range(3)],
    )
    settings = {"size": 40, "scales": (1.0,), "shape_modes": 5, "appearance_modes": 5}
    exact, streamed = (
        train(doubled, **settings, confidence=False),
        train(doubled, **settings, memory_gb=0.002, confidence=False),
    )
    assert exact.provenance["principal_components"] == "exact"
    assert streamed.provenance["principal_components"] == "streamed"
    cosines = np.linalg.svd(
        exact.levels[0].appearance.components @ streamed.levels[0].appearance.components.T, compute_uv=False
    )
    assert cosines.min() > 0.99
    with pytest.raises(ValueError, match="memory_gb=0.0001 holds"):
        train(dataset, memory_gb=0.0001, confidence=False)


@pytest.mark.parametrize("feature", ["intensity", "normalized", "gradient", "igo"])
def test_every_feature_trains(dataset, feature):
    model = train(dataset, size=30, scales=(1.0,), shape_modes=3, features=feature, confidence=False)
    assert model.levels[0].appearance.modes > 0


def test_thin_plate_splines_train(dataset):
    model = train(
        dataset, size=30, scales=(1.0,), shape_modes=3, motion="thin-plate-spline", confidence=False
    )
    assert model.levels[0].motion.name == "thin-plate-spline"
    assert model.levels[0].basis_slopes is not None
    assert model.levels[0].appearance.modes > 0


def test_grey_images_give_a_grey_texture(dataset):
    grey = dataset_from_arrays([sample.image()[:, :, 0] for sample in dataset], [s.points() for s in dataset])
    model = train(grey, size=30, scales=(1.0,), shape_modes=3, confidence=False)
    assert model.texture.channels == 1
    assert model.draw()[0].shape[2] == 1


def test_users_can_bring_their_own_triangles():
    square = np.array([[10.0, 10], [60, 12], [58, 60], [12, 58], [35, 35]])
    rng = np.random.default_rng(0)
    small = dataset_from_arrays(
        [rng.integers(0, 255, (70, 70), dtype=np.uint8) for _ in range(6)],
        [square + rng.normal(0, 1, (5, 2)) for _ in range(6)],
    )
    fan = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    model = train(small, size=30, scales=(1.0,), shape_modes=2, triangles=fan, confidence=False)
    assert {frozenset(row) for row in model.levels[0].motion.frame.triangles.tolist()} == set(
        map(frozenset, fan)
    )
    with pytest.raises(ValueError, match="triangle 1 is degenerate"):
        train(
            small, size=30, scales=(1.0,), shape_modes=2, triangles=[[0, 1, 4], [2, 2, 3]], confidence=False
        )


class TestDrawing:
    def test_an_instance_is_drawn_where_its_points_are(self, model):
        picture, points = model.draw(height=200)
        assert picture.shape[0] == 200
        inside = np.round(points.mean(axis=0)).astype(int)
        assert picture[inside[1], inside[0]].mean() < 0.95
        assert_allclose(picture[0, 0], 1)

    def test_modes_change_the_picture(self, model):
        mean = model.draw()[0]
        assert np.abs(model.draw([2.0])[0] - mean).max() > 0.1
        assert np.abs(model.draw(texture_deviations=[2.0])[0] - mean).max() > 0.1

    def test_too_many_modes_get_a_sentence(self, model):
        with pytest.raises(ValueError, match="the shape of this model has 5 modes, but 6 were given"):
            model.draw(np.zeros(6))

    def test_a_training_face_is_rebuilt_better_than_the_mean_does(self, model, dataset):
        sample = dataset[5]
        image, points = sample.image() / np.float32(255), sample.points()
        rebuilt = model.reconstruct(sample.image(), points)
        mean = model.texture.draw(np.zeros(model.texture.pca.modes), points, image)
        drawn = np.any(mean != image, axis=2)
        assert np.mean((rebuilt - image)[drawn] ** 2) < 0.3 * np.mean((mean - image)[drawn] ** 2)
        assert_allclose(rebuilt[~drawn], image[~drawn], atol=1e-5)


class TestInvalidInput:
    @pytest.fixture
    def broken(self, dataset):
        nowhere = Sample("nowhere.jpg", dataset[0].image_source, None)
        shifted = Sample("shifted.jpg", dataset[1].image_source, lambda: dataset[1].points() + 400)
        return Dataset((*dataset, nowhere, shifted), "broken")

    def test_all_problems_come_in_one_message(self, broken):
        with pytest.raises(InvalidDataset) as caught:
            train(broken, confidence=False)
        assert len(caught.value.problems) == 2
        assert "2 problems were found in 26 samples" in str(caught.value)
        assert "nowhere.jpg: there is no landmark file" in str(caught.value)
        assert "shifted.jpg: landmarks 0-67 lie far outside" in str(caught.value)

    def test_the_rest_is_trained_on_if_asked(self, broken, model):
        with pytest.warns(SamplesLeftOut, match=r"2 of 26 samples were left out:\n  nowhere.jpg"):
            rest = train(broken, size=40, shape_modes=(2, 5), skip_invalid=True, confidence=False)
        assert rest.provenance["samples"] == 24
        assert rest.provenance["left_out"] == 2
        assert_allclose(rest.levels[0].appearance.mean, model.levels[0].appearance.mean)

    def test_nothing_usable_gets_a_sentence(self, dataset):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplesLeftOut)
            with pytest.raises(ValueError, match="at least two usable samples, but there are 1"):
                train(Dataset((dataset[0], dataset[0]), "twice"), skip_invalid=True, confidence=False)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"features": "sift"}, "no feature 'sift'. Did you mean 'dsift'"),
            ({"motion": "rigid"}, "motion=rigid: it must be piecewise-affine, thin-plate-spline or patches"),
            ({"scales": (1.0, 0.5)}, "increase from coarse to fine"),
            ({"scales": (2.0,)}, "it must be scales from coarse to fine"),
            ({"size": 2}, "from 8 to 2000"),
            ({"shape_modes": (1, 2, 3), "scales": (0.5, 1.0)}, "3 values for 2 levels"),
            ({"shape_modes": (1, 2, 3), "features": ("dsift", "igo")}, "2 values for 3 levels"),
            ({"shape_modes": (1, 1, 1, 1, 1, 1)}, "scales: give them for 6 levels"),
            ({"shape_modes": 1.5}, "shape_modes=1.5: it must be a count"),
            ({"appearance_modes": -0.5}, "appearance_modes=-0.5: it must be a count"),
            ({"appearance_modes": 1.0}, "appearance_modes=1.0: it must be a count"),
        ],
    )
    def test_settings_without_meaning_get_a_sentence(self, dataset, settings, sentence):
        with pytest.raises(ValueError, match=sentence):
            train(dataset, **settings, confidence=False)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("memory_gb", [2.0, 0.02])
def test_two_samples_are_enough(dataset, count, mirrored, memory_gb):
    """As few as the sentence about them says: the model has their one difference, and fits one of them."""
    permutation = find_mirror(np.array([sample.points() for sample in dataset]))
    pairs = [(one, int(other)) for one, other in enumerate(permutation) if one < other]
    options = {"size": 40, "jobs": 1, "detector": None, "memory_gb": memory_gb}
    small = train(dataset[:count], mirror=pairs if mirrored else False, **options, confidence=False)
    copies = 2 if mirrored else 1
    assert small.provenance["samples"] == count
    assert [level.shape.modes for level in small.levels] == [
        min(wanted, copies * count - 1) for wanted in (5, 12, 40)
    ]
    assert all(1 <= level.appearance.modes < copies * count for level in small.levels)
    [found] = fit(small, [dataset[0]], [dataset[0].points() + 2.0], jobs=1)
    assert normalised_error(found.points, dataset[0].points(), np.arange(68)) < 0.03


def test_one_sample_is_too_few(dataset):
    with pytest.raises(ValueError, match="at least two usable samples, but there are 1"):
        train(dataset[:1], size=40, confidence=False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mirror": []}, "there is no pair: give the landmarks"),
        ({"size": 10, "scales": (0.01, 1.0)}, "at scale 0.01 the mean shape is .* pixels, too small"),
    ],
)
def test_a_mean_shape_without_pixels_is_refused(dataset, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        train(dataset, **settings, confidence=False)


@pytest.mark.usefixtures("filters_learned_anew")
@pytest.mark.parametrize("mirror", [False, True])
def test_every_image_is_decoded_once(face_folders, monkeypatch, mirror):
    """To check it, to find the object in it, for the vectors of the model, and for those that calibrate it."""
    from pliant.data import images

    read, names = images.read_image, []

    def counted(source):
        names.append(str(source))
        return read(source)

    monkeypatch.setattr(images, "read_image", counted)
    model = train(face_folders / "train", size=30, scales=1.0, shape_modes=2, mirror=mirror, progress=False)
    assert model.confidence is not None
    assert sorted(names) == sorted(set(names))
    assert len(names) == 14


@pytest.mark.usefixtures("filters_learned_anew")
def test_images_that_do_not_fit_into_memory_are_read_again(face_folders, monkeypatch):
    from pliant.data import images

    read, names = images.read_image, []
    monkeypatch.setattr(images, "read_image", lambda source: names.append(source) or read(source))
    small = {"size": 12, "scales": 1.0, "shape_modes": 2, "features": "intensity", "progress": False}
    train(face_folders / "train", memory_gb=0.0002, confidence=False, **small)
    assert len(names) > len(set(names)) == 14
