"""The linear expert: it finds landmarks, moves with the image, says how sure it is, and is refused if damaged."""

import numpy as np
import pytest

from pliant.experts import linear_training
from pliant.experts.linear import LinearExpert
from pliant.experts.linear_training import train_linear
from pliant.shape import Similarity, align, shape_size


@pytest.fixture(scope="module")
def known(dataset):
    return [(sample.image(), sample.points()) for sample in dataset]


@pytest.fixture(scope="module")
def expert(known) -> LinearExpert:
    return train_linear(known[:18], starts=180)


@pytest.fixture(scope="module")
def unseen(known, expert):
    """Faces that it has not seen: images, landmarks, and the mean shape off by up to 8 % of the face."""
    rng = np.random.default_rng(4)
    images = [image for image, _ in known[18:]]
    truth = np.array([points for _, points in known[18:]])
    starts = align(np.broadcast_to(expert.mean, truth.shape), truth).apply(expert.mean)
    return (
        images,
        truth,
        starts + 0.08 * shape_size(truth)[:, None, None] * rng.uniform(-1, 1, (len(truth), 1, 2)),
    )


def errors(points, truth):
    return np.mean(np.linalg.norm(points - truth, axis=-1), axis=-1) / shape_size(truth)


def test_it_finds_landmarks_of_faces_that_it_has_not_seen(expert, unseen):
    images, truth, starts = unseen
    found = errors(expert.look(images, starts).points, truth)
    assert np.mean(found) < 0.5 * np.mean(errors(starts, truth))
    assert np.max(found) < 0.05


def test_errors_are_as_large_as_it_says(expert, unseen):
    """Half of the squared errors, in the measure of the precision, are below 2 log 2 if all is normal."""
    images, truth, starts = unseen
    seen = expert.look(images, starts)
    away = seen.points - truth
    squares = np.einsum("bva,bvac,bvc->bv", away, seen.precision, away)
    assert 0.4 < np.median(squares) / (2 * np.log(2)) < 4
    assert np.all(np.linalg.eigvalsh(seen.precision) > 0)


def test_contours_are_less_sure_along_than_across(expert, unseen):
    """Landmarks of the jaw slide along it."""
    images, _, starts = unseen
    seen = expert.look(images, starts)
    along = np.roll(seen.points, -1, axis=1) - np.roll(seen.points, 1, axis=1)
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    across = along[..., ::-1] * (1, -1)
    jaw = np.s_[:, 2:15]

    def deviation(direction):
        covariance = np.linalg.inv(seen.precision)
        return np.sqrt(np.einsum("bva,bvac,bvc->bv", direction, covariance, direction))[jaw].mean()

    assert deviation(along) > 1.2 * deviation(across)


def test_a_similarity_of_image_and_start_moves_what_is_seen(expert, unseen):
    """The image is turned by a quarter and enlarged twice, so that its pixels stay what they are."""
    images, _, starts = unseen
    seen = expert.look(images[:2], starts[:2])
    height = images[0].shape[0]
    turned = [np.repeat(np.repeat(np.rot90(image), 2, axis=0), 2, axis=1) for image in images[:2]]
    # A quarter turn brings (x, y) to (y, width - 1 - x); a pixel becomes four.
    quarter = Similarity(np.asarray(-2j), np.asarray(0.5 + 1j * (2 * (height - 1) + 0.5)))
    there = expert.look(turned, quarter.apply(starts[:2]))
    expected = quarter.apply(seen.points)
    away = np.linalg.norm(there.points - expected, axis=-1) / (2 * shape_size(starts[0]))
    assert np.max(away) < 0.04
    assert np.median(away) < 0.005
    swapped = seen.precision[..., ::-1, ::-1] * [[1, -1], [-1, 1]] / 4
    assert np.median(np.abs(there.precision / swapped - 1)[..., [0, 1], [0, 1]]) < 0.1


def test_many_are_as_one_by_one(expert, unseen):
    images, _, starts = unseen
    together = expert.look(images, starts)
    for k, (image, start) in enumerate(zip(images, starts, strict=True)):
        alone = expert.look([image], start[None])
        np.testing.assert_array_equal(alone.points[0], together.points[k])
        np.testing.assert_array_equal(alone.precision[0], together.precision[k])


def test_training_is_the_same_on_any_number_of_threads(known, unseen):
    images, _, starts = unseen
    one, two = (train_linear(known[:6], starts=12, jobs=jobs).look(images[:1], starts[:1]) for jobs in (1, 2))
    np.testing.assert_array_equal(one.points, two.points)


@pytest.mark.parametrize("few", [12, 8])
def test_progress_ends_when_training_does(known, monkeypatch, few):
    """There is one coarse step more with as many images as are not few."""
    monkeypatch.setattr(linear_training, "_FEW", few)
    done = []
    train_linear(known[:8], starts=16, step=lambda: done.append(1))
    assert len(done) == linear_training.rounds(8) == (5 if few > 8 else 6)


def test_a_mirror_doubles_the_faces(known):
    """With every image and its mirror image, what is learned is nearly symmetric."""
    from pliant.shape.symmetry import find_mirror

    points = np.array([landmarks for _, landmarks in known])
    mirror = find_mirror(points)
    mean = train_linear(known[:6], mirror=mirror, starts=24).mean
    flipped = (mean * (-1, 1))[mirror]
    assert np.max(np.abs(align(flipped, mean).apply(flipped) - mean)) < 1e-6


def test_parts_make_the_same_expert(expert, unseen):
    images, _, starts = unseen
    again = LinearExpert.from_parts(expert.arrays(), expert.numbers())
    one, two = expert.look(images[:1], starts[:1]), again.look(images[:1], starts[:1])
    np.testing.assert_array_equal(one.points, two.points)
    np.testing.assert_array_equal(one.precision, two.precision)


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        ("mean", lambda a: a[:, :1], "'mean' of a linear expert has type float64"),
        ("mean", lambda a: 0 * a, "no extent"),
        ("basis", lambda a: a * np.nan, "'basis' of a linear expert has values that are not finite numbers"),
        ("variances", lambda a: -a, "modes without variance"),
        ("steps.0.weights", lambda a: a[:-1], "'steps.0.weights'"),
        (
            "steps.1.offset",
            lambda a: a.astype(np.float64),
            "'steps.1.offset' of a linear expert has type float64",
        ),
        ("filters.0.weights", lambda a: a[:, :-1], "'filters.0.weights'"),
        ("filters.0.sharpness", lambda a: 0 * a, "not positive"),
        ("filters.1.spread", lambda a: -a, "not a covariance"),
        ("filters.1.spread", None, "lacks 'filters.1.spread'"),
    ],
)
def test_wrong_arrays_are_refused(expert, name, spoil, sentence):
    arrays = expert.arrays()
    if spoil is None:
        del arrays[name]
    else:
        arrays[name] = spoil(arrays[name])
    with pytest.raises(ValueError, match=sentence):
        LinearExpert.from_parts(arrays, expert.numbers())


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("steps", "size", "40"),
        ("steps", "grid", 10**9),
        ("steps", "spacing", 0),
        ("filters", "size", float("nan")),
        ("filters", "reach", True),
        ("filters", "reach", 10**6),
        ("filters", "share", None),
        ("filters", "trust", 0.0),
    ],
)
def test_wrong_numbers_are_refused(expert, table, name, value):
    numbers = expert.numbers()
    numbers[table][0][name] = value
    with pytest.raises(ValueError, match=f"the {name} of a linear expert is"):
        LinearExpert.from_parts(expert.arrays(), numbers)


@pytest.mark.parametrize("table", ["steps", "filters"])
def test_what_is_no_list_of_tables_is_refused(expert, table):
    with pytest.raises(ValueError, match=f"the {table} of a linear expert"):
        LinearExpert.from_parts(expert.arrays(), expert.numbers() | {table: 3})


@pytest.mark.filterwarnings("error")
def test_odd_images_and_shapes_do_no_harm(expert, unseen):
    """Objects half or wholly outside, images of one pixel, noise, shapes that are a point or not finite."""
    images, _, starts = unseen
    image, start = images[0], starts[0]
    rng = np.random.default_rng(0)
    size = image.shape[0]
    odd = [
        (image, start - (size / 2, 0)),
        (image, start + (0, 10 * size)),
        (image, start * 30),
        (image, start * 1e-6),
        (image, start * 1e300),
        (image, start * 0),
        (image, start * np.nan),
        (image, rng.uniform(0, size, start.shape)),
        (image, start[::-1]),
        (np.zeros((1, 1), dtype=np.uint8), start),
        (np.zeros((1, 500), dtype=np.uint8), start),
        (np.zeros((size, size, 3), dtype=np.uint8), start),
        (rng.uniform(0, 255, (size, size)).astype(np.float32), start),
        (np.full((size, size), np.nan, dtype=np.float32), start),
        (rng.integers(0, 65535, (size, size)).astype(np.uint16), start),
    ]
    seen = expert.look([pair[0] for pair in odd], np.array([pair[1] for pair in odd]))
    assert np.all(np.isfinite(seen.points))
    assert np.all(np.isfinite(seen.precision))
    assert not np.any(seen.seen[[4, 5, 6, 9]])
    assert np.all(seen.seen[0])


def test_shapes_must_fit_the_images(expert, unseen):
    images, _, starts = unseen
    with pytest.raises(ValueError, match=r"shapes must have the shape"):
        expert.look(images, starts[:1])


def test_few_or_incomplete_images_are_refused(known):
    with pytest.raises(ValueError, match="at least 4 images"):
        train_linear(known[:3])
    image, points = known[0]
    with pytest.raises(ValueError, match="complete the missing ones"):
        train_linear([(image, np.where(np.arange(len(points))[:, None] == 3, np.nan, points))])
