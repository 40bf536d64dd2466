"""Finite input gives finite numbers or a sentence, however degenerate; and the same input gives the same bytes."""

import re
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pliant
from pliant.shape.facing import facing_alike, find_mirrored, other_way
from pliant.shape.missing import complete
from pliant.shape.symmetry import find_mirror
from pliant.shape.variance import procrustes_variance
from pliant.threads import _blas


def numbers_of(value):
    """All numbers in arrays, dataclasses and containers."""
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind in "fc" else []
    if isinstance(value, (float, complex)):
        return [np.asarray(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    return [one for part in value for one in numbers_of(part)] if isinstance(value, (tuple, list)) else []


def outcome(function, *arguments, **options):
    """What a function returns, without a nan in it; or None, if it raises a sentence. Warnings are errors here."""
    try:
        made = function(*arguments, **options)
    except ValueError as error:
        # Those of NumPy and SciPy have no full stop.
        if re.fullmatch(r"\S+ .*[.)]", str(error), flags=re.DOTALL):
            return None
        raise
    assert not any(np.isnan(array).any() for array in numbers_of(made))
    return made


KINDS = ("any", "one place", "a line", "alike", "turned", "twice", "one in one place")


@st.composite
def degenerate_shapes(draw):
    """Shapes `(k, v, 2)`: few, alike, on a line, in one place, tiny, huge and far away."""
    kind = draw(st.sampled_from(KINDS))
    count, landmarks = draw(st.integers(0, 4)), draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = rng.integers(-9, 10, size=(count, landmarks, 2)) / 7
    if kind == "one place":
        shapes[:] = rng.normal(size=(count, 1, 2))
    elif kind == "a line":
        shapes[..., 1] = 0.1 * shapes[..., 0]
    elif kind == "alike":
        shapes[1:] = shapes[:1]
    elif kind == "turned":
        shapes[1:] = -shapes[:1]
    elif kind == "twice":
        shapes[:, 1::2] = shapes[:, : landmarks // 2 * 2 : 2]
    elif kind == "one in one place":
        shapes[:1] = 0.1
    scale, shift = (10.0 ** draw(st.integers(-6, 6)) for _ in range(2))
    return scale * shapes + draw(st.sampled_from((0, shift)))


def trained_and_used(shapes):
    model = pliant.shape.train_shape_model(shapes, size=40)
    parameters = model.project(shapes)
    return model, parameters, model.instance(parameters), model.scaled(1e-3), model.truncated(0.5)


def moved_back(shapes):
    similarity = pliant.shape.align(shapes, shapes[::-1])
    return similarity, similarity.apply(shapes), similarity.inverse()


def with_a_gap(shapes):
    shapes = np.array(shapes)
    shapes[:1, :1] = np.nan
    return complete(shapes)


def motions(shapes):
    vertices = shapes[0] - shapes[0].min(axis=0) + 10
    triangles = pliant.motion.delaunay(vertices)
    for name in pliant.motion.MOTIONS:
        outcome(pliant.motion.build_motion, name, vertices, triangles)


@pytest.mark.parametrize(
    "function",
    [
        pliant.shape.generalised_procrustes,
        pliant.shape.shape_size,
        pliant.morphometrics.superimpose,
        pliant.morphometrics.centroid_size,
        trained_and_used,
        moved_back,
        with_a_gap,
        find_mirror,
        lambda shapes: facing_alike(shapes, find_mirrored(shapes)),
        lambda shapes: other_way(pliant.shape.generalised_procrustes(shapes)[0], shapes[-1]),
        lambda shapes: procrustes_variance(np.stack([shapes, 1.01 * shapes[::-1]])),
        lambda shapes: pliant.metrics.matched(list(shapes), list(shapes[1:])),
        lambda shapes: pliant.metrics.capped(
            pliant.metrics.normalised_error(one, shapes[0], np.arange(shapes.shape[1])) for one in shapes
        ),
    ],
)
@settings(max_examples=25, deadline=None)
@given(shapes=degenerate_shapes())
@example(shapes=np.full((3, 5, 2), 0.1))
@example(shapes=np.zeros((2, 1, 2)))
@example(shapes=np.zeros((0, 5, 2)))
@example(shapes=np.zeros((3, 0, 2)))
def test_degenerate_shapes_have_finite_numbers_or_get_a_sentence(function, shapes):
    outcome(function, shapes)


@settings(max_examples=40, deadline=None)
@given(shapes=degenerate_shapes().filter(lambda shapes: len(shapes) and shapes.shape[1]))
@example(shapes=1e6 * np.random.default_rng(0).normal(size=(1, 5, 2)))
def test_degenerate_meshes_have_finite_numbers_or_get_a_sentence(shapes):
    if np.ptp(shapes[0]) < 100 or np.ptp(shapes[0]) > 1e5:
        outcome(motions, shapes)


def test_a_point_is_shifted_and_not_scaled():
    """Its scale and its angle are nobody's guess; that of a shape on a point is 0, and cannot be undone."""
    point, square = np.full((4, 2), 0.1), np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    shifted = pliant.shape.align(point, square)
    assert shifted.factor == 1
    np.testing.assert_allclose(shifted.apply(point), np.ones((4, 2)))
    both = pliant.shape.align(np.stack([point, square]), square)
    np.testing.assert_allclose(both.factor, [1, 1])
    with pytest.raises(ValueError, match="cannot be undone"):
        pliant.shape.align(square, point).inverse()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: pliant.shape.generalised_procrustes(s), "shape 1 has all its landmarks in one place"),
        (lambda s: pliant.shape.train_shape_model(s, 40), "shape 1 has all its landmarks in one place"),
        (lambda s: pliant.morphometrics.superimpose(s), "specimen 1 has all its landmarks in one place"),
        (lambda s: with_a_gap(s), "shape 1 has all its known landmarks in one place"),
        (lambda s: pliant.metrics.normalised_error(s[0], s[1], np.arange(5)), "truth lie in one place"),
        (lambda s: pliant.metrics.normalised_error(s[0], s[2], np.arange(0)), "no landmark counts"),
        (lambda s: procrustes_variance(np.stack([s, s])[:, :, :2]), "at least three landmarks"),
        (lambda s: pliant.motion.delaunay(s[0, :2]), "at least three landmarks"),
        (lambda s: pliant.shape.generalised_procrustes(s[:0]), "no shapes"),
        (lambda s: pliant.shape.shape_size(s[:, :0]), "without landmarks"),
        (lambda s: pliant.morphometrics.centroid_size(s[:, :0]), "without landmarks"),
    ],
)
def test_what_has_no_answer_gets_its_sentence(call, sentence, rng):
    shapes = rng.normal(size=(3, 5, 2))
    shapes[1] = 0.1
    with pytest.raises(ValueError, match=sentence):
        call(shapes)


def test_points_that_face_nowhere_turn_no_other_shape(rng):
    shapes = np.repeat(rng.normal(size=(1, 6, 2)), 5, axis=0)
    shapes[3] = 0.1
    assert not find_mirrored(shapes).any()


@pytest.mark.parametrize("motion", sorted(pliant.motion.MOTIONS))
def test_a_mean_shape_that_would_fill_the_memory_is_refused(motion):
    square = 1e6 * np.array([[1.0, 1], [2, 1], [2, 2], [1, 2]])
    with pytest.raises(ValueError, match="pixels, and 268435456 is the most"):
        pliant.motion.build_motion(motion, square, pliant.motion.delaunay(square))


def test_nothing_is_matched_with_nothing(rng):
    shape = rng.normal(size=(5, 2))
    assert pliant.metrics.matched([], []) == pliant.metrics.matched([], [shape]) == []
    assert pliant.metrics.matched([shape], []) == [None]


# Images

SMALL = {"size": 16, "scales": (1.0,), "shape_modes": 2, "detector": None, "progress": False}

LINE = np.stack([np.linspace(5, 40, 12)] * 2, axis=-1)

SETS = {
    "one image": lambda images, shapes: (images[:1], shapes[:1]),
    "one image again and again": lambda images, shapes: (images[:1] * 6, shapes[:1] * 6),
    "one shape": lambda images, shapes: (images, shapes[:1] * 6),
    "constant": lambda images, shapes: ([np.full((96, 96), 128, np.uint8)] * 6, shapes),
    "one pixel": lambda images, shapes: ([np.zeros((1, 1), np.uint8)] * 6, shapes),
    "one channel": lambda images, shapes: ([image.mean(axis=-1) for image in images], shapes),
    "tiny values": lambda images, shapes: ([1e-6 * image for image in images], shapes),
    "huge values": lambda images, shapes: ([1e6 * image for image in images], shapes),
    "two landmarks": lambda images, shapes: (images, [shape[:2] for shape in shapes]),
    "on a line": lambda images, shapes: (images, [LINE] * 6),
    "in one place": lambda images, shapes: (images, [np.full((12, 2), 20.1)] * 6),
    "one in one place": lambda images, shapes: (images, [np.full((12, 2), 20.1), *shapes[1:]]),
    "tiny shapes": lambda images, shapes: (images, [1e-6 * shape for shape in shapes]),
    "huge shapes": lambda images, shapes: (images, [1e6 * shape for shape in shapes]),
    "far outside": lambda images, shapes: (images, [shape + 1e6 for shape in shapes]),
    "everything twice": lambda images, shapes: (images[:3] * 2, shapes[:3] * 2),
    "nothing": lambda images, shapes: ([], []),
}
"""What six images and their shapes may be like."""


@pytest.mark.parametrize("name", SETS)
def test_a_model_of_degenerate_images_is_finite_and_fits_or_there_is_a_sentence(dataset, name):
    motion = sorted(pliant.motion.MOTIONS)[len(name) % 3]
    images, shapes = SETS[name](
        [sample.image() for sample in dataset[:6]], [sample.points()[::6] for sample in dataset[:6]]
    )

    def trained():
        made = pliant.dataset_from_arrays(images, shapes)
        return pliant.train(made, **SMALL, motion=motion, confidence=False, jobs=1)

    model = outcome(trained)
    if model is not None:
        assert not any(np.isnan(array).any() for level in model.levels for array in numbers_of(level))
        [found] = pliant.fit(model, images[:1], shapes[:1], iterations=2, jobs=1)
        assert np.isfinite(found.points).all()


PICTURES = {
    "constant": np.full((48, 48), 7, np.uint8),
    "one pixel": np.ones((1, 1)),
    "a row": np.zeros((1, 50), np.uint8),
    "tiny": 1e-6 * np.random.default_rng(0).random((48, 48)),
    "huge": 1e6 * np.random.default_rng(0).random((48, 48)),
    "negative": -np.random.default_rng(0).random((48, 48)),
}
STARTS = {
    "where it is": lambda shape: shape,
    "far outside": lambda shape: shape + 1e6,
    "in one place": lambda shape: np.full_like(shape, 20.1),
    "on a line": lambda shape: np.stack([np.linspace(0, 40, len(shape))] * 2, axis=-1),
    "tiny": lambda shape: 1e-6 * shape,
    "huge": lambda shape: 1e6 * shape,
}


@pytest.mark.filterwarnings("ignore::pliant.NotFitted")
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(PICTURES)),
    st.sampled_from(sorted(STARTS)),
    st.sampled_from([entry.name for entry in pliant.catalogue()]),
)
def test_a_fit_ends_at_finite_points_or_says_why_it_failed(model, dataset, picture, start, algorithm):
    begin = STARTS[start](dataset[0].points())
    [fit] = pliant.fit(model, [PICTURES[picture]], [begin], algorithm=algorithm, iterations=2, jobs=1)
    failed = fit.status == pliant.Status.FAILED
    assert np.isfinite(fit.points).all() or failed
    assert bool(fit.reason) == failed
    if fit.status.ok:
        assert np.isfinite([fit.cost, fit.mismatch]).all()
        assert np.isfinite(fit.shape_parameters).all()
        assert np.isfinite(fit.appearance_parameters).all()


def test_no_images_have_no_fits(model):
    assert pliant.fit(model, [], []) == []
    assert list(pliant.track(model, [])) == []


@pytest.mark.parametrize("truth", [np.full((68, 2), 20.1), np.zeros((68, 2))])
def test_an_evaluation_against_a_point_gets_a_sentence(model, dataset, truth):
    with pytest.raises(ValueError, match=r"\.$"):
        pliant.evaluate(model, pliant.dataset_from_arrays([dataset[0].image()], [truth]), progress=False)


# The same bytes


def file_of(dataset, path, **options):
    pliant.train(dataset[:8], **SMALL, **options, confidence=False).save(path)
    return path.read_bytes()


@pytest.mark.usefixtures("filters_learned_anew")
def test_the_file_of_a_model_is_the_same_whatever_the_threads(dataset, tmp_path, monkeypatch):
    """Those that work side by side, and those of NumPy's products. The file also says when it was trained."""
    monkeypatch.setattr("pliant.building.build.datetime", SimpleNamespace(now=lambda zone: datetime.min))
    alone = file_of(dataset, tmp_path / "1.pliant", jobs=1)
    assert file_of(dataset, tmp_path / "3.pliant", jobs=3) == alone
    with _blas().limit(limits=2, user_api="blas"):
        assert file_of(dataset, tmp_path / "2.pliant", jobs=1) == alone


@pytest.mark.parametrize("algorithm", ["ssd:map-asy:0.2-gn-sch", "po-inv-gn", "ssd-bid-n-sch"])
def test_fits_are_the_same_bytes_whatever_the_threads(model, dataset, algorithm):
    def fitted(jobs):
        starts = [sample.points() + 1 for sample in dataset]
        fits = pliant.fit(model, dataset, starts, algorithm=algorithm, iterations=3, jobs=jobs)
        return [
            array.tobytes()
            for fit in fits
            for array in (fit.points, fit.shape_parameters, fit.appearance_parameters, np.array(fit.cost))
        ]

    alone = fitted(1)
    assert fitted(2) == fitted(5) == alone
    with _blas().limit(limits=2, user_api="blas"):
        assert fitted(1) == alone
