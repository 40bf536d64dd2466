"""The synthetic faces: the same every time, well formed, and annotated where they are drawn."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pliant.synthetic import face, faces

Sample = tuple[NDArray[np.uint8], NDArray[np.float64]]

COUNT = 60
LEFT_EYE, RIGHT_EYE = slice(36, 42), slice(42, 48)


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Images (n, 256, 256, 3) and points (n, 68, 2)."""
    images, points = zip(*(face(index) for index in range(COUNT)), strict=True)
    return np.stack(images), np.stack(points)


def upright(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (n, 68, 2) turned so that the line between the eyes is level."""
    between = points[:, RIGHT_EYE].mean(axis=1) - points[:, LEFT_EYE].mean(axis=1)
    cosine, sine = (between / np.linalg.norm(between, axis=1, keepdims=True)).T
    turn = np.stack([np.stack([cosine, sine], axis=1), np.stack([-sine, cosine], axis=1)], axis=1)
    return np.einsum("nij,nvj->nvi", turn, points - points.mean(axis=1, keepdims=True))


def bilinear(image: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values (m,) of a grey image at points (m, 2), pixel centres at integers."""
    x, y = np.clip(points, 0, image.shape[0] - 1.001).T
    column, row = x.astype(int), y.astype(int)
    u, v = x - column, y - row
    top = image[row, column] * (1 - u) + image[row, column + 1] * u
    bottom = image[row + 1, column] * (1 - u) + image[row + 1, column + 1] * u
    return top * (1 - v) + bottom * v


def inside(polygon: NDArray[np.float64], point: NDArray[np.float64]) -> bool:
    """Whether a point (2,) lies in a polygon (m, 2), by counting crossings."""
    start, end = polygon, np.roll(polygon, -1, axis=0)
    spans = (start[:, 1] > point[1]) != (end[:, 1] > point[1])
    start, end = start[spans], end[spans]
    at = start[:, 0] + (point[1] - start[:, 1]) * (end[:, 0] - start[:, 0]) / (end[:, 1] - start[:, 1])
    return bool((at > point[0]).sum() % 2)


def test_types_and_shapes() -> None:
    """What the signature promises."""
    image, points = face(3, seed=5, image_size=100)
    assert image.shape == (100, 100, 3)
    assert image.dtype == np.uint8
    assert points.shape == (68, 2)
    assert points.dtype == np.float64


def test_the_same_arguments_give_the_same_face() -> None:
    """Nothing but the arguments counts, not even calls in between."""
    image, points = face(7, seed=2, image_size=128)
    face(8)
    again_image, again_points = face(7, seed=2, image_size=128)
    assert np.array_equal(image, again_image)
    assert np.array_equal(points, again_points)


@pytest.mark.parametrize("other", [(8, 2), (7, 3), (2, 7)])
def test_other_arguments_give_another_face(other: tuple[int, int]) -> None:
    """Index and seed both count, and are not interchangeable."""
    image, points = face(7, seed=2, image_size=128)
    other_image, other_points = face(other[0], seed=other[1], image_size=128)
    assert np.abs(points - other_points).max() > 2
    assert np.abs(image.astype(int) - other_image).mean() > 5


def test_data_sets_have_the_points_of_the_pictures() -> None:
    """They are computed without drawing the face, and are the same all the same."""
    image, points = face(7, seed=2, image_size=64)
    sample = faces(8, seed=2, image_size=64)[7]
    assert np.array_equal(sample.points(), points)
    assert np.array_equal(sample.image(), image)


def test_two_sizes_show_the_same_face() -> None:
    """Points agree exactly under the map of pixel centres, pictures after averaging two by two."""
    for index in range(4):
        small_image, small = face(index, image_size=128)
        large_image, large = face(index, image_size=256)
        np.testing.assert_allclose((small + 0.5) * 2 - 0.5, large, atol=1e-9)
        halved = large_image.reshape(128, 2, 128, 2, 3).mean(axis=(1, 3))
        assert np.abs(halved - small_image).mean() < 4


def test_points_lie_inside_with_a_margin(sample: Sample) -> None:
    """Every point is in the image, and the face takes about half its width."""
    _, points = sample
    assert points.min() > 5
    assert points.max() < 250
    share = np.ptp(points[..., 0], axis=1) / 256
    assert share.min() > 0.4
    assert share.max() < 0.68
    assert np.ptp(share) > 0.1


def test_points_follow_the_ibug_order(sample: Sample) -> None:
    """Left to right, top to bottom, and clockwise around eyes and lips."""
    points = upright(sample[1])
    x, y = points[..., 0], points[..., 1]
    for brow in (slice(17, 22), slice(22, 27)):
        assert (np.diff(x[:, brow], axis=1) > 0).all()
    assert (x[:, 21] < x[:, 22]).all()
    assert (x[:, 0] < x[:, 8]).all()
    assert (x[:, 8] < x[:, 16]).all()
    assert (y[:, 8] > y[:, 57]).all()
    assert (np.diff(y[:, 27:31], axis=1) > 0).all()
    assert (np.diff(x[:, 31:36], axis=1) > 0).all()
    for corner in (36, 42):
        assert (np.diff(x[:, corner : corner + 4], axis=1) > 0).all()
    for ring in (LEFT_EYE, RIGHT_EYE, slice(48, 60), slice(60, 68)):
        after = np.roll(points[:, ring], -1, axis=1)
        area = (x[:, ring] * after[..., 1] - y[:, ring] * after[..., 0]).sum(axis=1)
        assert (area > 0).all(), "with y down, a positive area is clockwise to the eye"
    assert (np.diff(x[:, 48:55], axis=1) > 0).all()
    assert (np.diff(x[:, 60:65], axis=1) > 0).all()


def test_nothing_crosses(sample: Sample) -> None:
    """Upper lids stay above lower ones, and inner lips inside outer ones."""
    points = upright(sample[1])
    for upper, lower in ((37, 41), (38, 40), (43, 47), (44, 46), (61, 67), (62, 66), (63, 65)):
        assert (points[:, lower, 1] > points[:, upper, 1]).all(), (upper, lower)
    for shape in points:
        assert all(inside(shape[48:60], point) for point in shape[60:68])


def test_far_jaw_is_foreshortened(sample: Sample) -> None:
    """A turning head moves its nose off the middle of the jaw: some to the left, some to the right."""
    points = upright(sample[1])
    left = points[:, 30, 0] - points[:, 2, 0]
    right = points[:, 14, 0] - points[:, 30, 0]
    balance = (left - right) / (left + right)
    assert balance.min() < -0.35
    assert balance.max() > 0.35
    assert abs(np.median(balance)) < 0.3
    assert (left > 0).all()
    assert (right > 0).all()


@pytest.mark.parametrize("ring", [LEFT_EYE, RIGHT_EYE, slice(48, 60)], ids=["left eye", "right eye", "lips"])
def test_outlines_are_drawn_where_the_points_are(sample: Sample, ring: slice) -> None:
    """Brightness changes more along an outline in its place than along the same outline moved by 5 pixels."""
    images, points = sample
    here, away = [], []
    for image, shape in zip(images, points, strict=True):
        rows, columns = np.gradient(image.mean(axis=2))
        steepness = np.hypot(rows, columns)
        outline = shape[ring]
        middle = (outline + np.roll(outline, -1, axis=0)) / 2
        places = np.concatenate([outline, middle])
        here.append(bilinear(steepness, places).mean())
        moves = [(5, 0), (-5, 0), (0, 5), (0, -5)]
        away.append(np.mean([bilinear(steepness, places + move).mean() for move in moves]))
    assert np.mean(here) > 1.3 * np.mean(away)
    assert np.mean(np.array(here) > away) > 0.75


def test_jaw_is_on_the_visible_edge(sample: Sample) -> None:
    """The step of colour across the jaw is at its points, to a pixel, on the near and the far side."""
    offsets = np.arange(-8, 9)
    profile = np.zeros((2, len(offsets)))
    for image, points in zip(*sample, strict=True):
        jaw = points[:17]
        tangent = np.gradient(jaw, axis=0)
        normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        for half, part in enumerate((slice(3, 8), slice(9, 14))):
            for channel in range(3):
                grey = image[..., channel].astype(float)
                steps = [
                    np.abs(
                        bilinear(grey, jaw[part] + (k + 1) * normal[part])
                        - bilinear(grey, jaw[part] + (k - 1) * normal[part])
                    )
                    for k in offsets
                ]
                profile[half] += np.sum(steps, axis=1)
    assert (np.abs(offsets[profile.argmax(axis=1)]) <= 1).all()


def test_open_eyes_are_dark_in_white(sample: Sample) -> None:
    """Along the line between the corners of a wide open eye, a pupil is far darker than the white."""
    contrasts = []
    for image, shape in zip(*sample, strict=True):
        grey = image.mean(axis=2)
        for eye in (shape[LEFT_EYE], shape[RIGHT_EYE]):
            opening = (eye[4:6].mean(axis=0) - eye[1:3].mean(axis=0)) @ np.array([0.0, 1.0])
            if opening < 0.3 * np.linalg.norm(eye[3] - eye[0]):
                continue
            along = np.linspace(0.2, 0.8, 25)[:, None]
            row = bilinear(grey, eye[0] + along * (eye[3] - eye[0]))
            contrasts.append(row.min() / row.max())
    assert len(contrasts) > 10
    assert np.median(contrasts) < 0.5


def test_shapes_need_several_modes(sample: Sample) -> None:
    """After similarity alignment to the mean, 95 % of the variance takes between 6 and 25 modes."""
    _, shapes = sample
    flat = shapes[..., 0] + 1j * shapes[..., 1]
    flat -= flat.mean(axis=1, keepdims=True)
    mean = flat[0]
    for _ in range(5):
        scale = (flat.conj() @ mean) / (np.abs(flat) ** 2).sum(axis=1)
        aligned = flat * scale[:, None]
        mean = aligned.mean(axis=0)
        mean /= np.linalg.norm(mean)
    spread = aligned - aligned.mean(axis=0)
    variance = np.linalg.svd(np.concatenate([spread.real, spread.imag], axis=1), compute_uv=False) ** 2
    needed = int((np.cumsum(variance) / variance.sum() < 0.95).sum()) + 1
    assert 6 <= needed <= 25
