"""Features, views and interpolation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.ndimage import gaussian_filter

from pliant.appearance.features import feature_names, find_feature, register_feature
from pliant.appearance.interpolation import bilinear, resample
from pliant.appearance.view import (
    angle_to_frame,
    feature_view,
    scale_to_frame,
    view,
)
from pliant.kernels import reference
from pliant.kernels.mesh_loops import warp
from pliant.motion import rasterise
from pliant.shape import Similarity

BUILT_IN = ["dsift", "gradient", "igo", "intensity", "normalized"]


def smooth_image(height: int = 90, width: int = 110) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return (0.5 + 0.2 * np.sin(x / 9) * np.cos(y / 7) + 0.2 * np.cos((x + 2 * y) / 15)).astype(np.float32)


class TestInterpolation:
    def test_a_bilinear_function_is_reproduced(self, rng):
        y, x = np.mgrid[:20, :30].astype(np.float32)
        image = np.stack([0.01 * x + 0.02 * y, 0.001 * x * y], axis=-1).astype(np.float32)
        points = rng.uniform([0, 0], [29, 19], (200, 2))
        expected = np.stack([points @ [0.01, 0.02], 0.001 * points.prod(axis=1)], axis=-1)
        assert_allclose(bilinear(image, points), expected, atol=1e-5)

    def test_the_border_goes_on_outside(self):
        image = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
        assert_allclose(bilinear(image, np.array([[-5, -5], [9, 9], [3, 50.0]]))[:, 0], [0, 11, 11])

    def test_scale_one_without_shift_is_the_image_itself(self):
        image = (smooth_image() * 255).astype(np.uint8)
        assert_allclose(resample(image, np.zeros(2), 1.0, image.shape)[:, :, 0], image / 255, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    def test_every_type_of_pixel_is_brought_to_the_same_range(self, dtype):
        whitest = np.iinfo(dtype).max if dtype != np.float32 else 1
        image = (smooth_image() * whitest).astype(dtype)
        assert_allclose(resample(image, np.zeros(2), 0.5, (40, 40))[:, :, 0].max(), 0.89, atol=0.03)

    @pytest.mark.parametrize("scale", [0.3, 0.5, 0.8, 1.7])
    def test_a_plane_survives_at_any_scale_and_offset(self, scale):
        y, x = np.mgrid[:120, :140].astype(np.float32)
        image = (0.002 * x + 0.003 * y).astype(np.float32)
        origin = np.array([30.3, 22.7])
        window = resample(image, origin, scale, (20, 25))[:, :, 0]
        wy, wx = np.mgrid[:20, :25]
        expected = 0.002 * (origin[0] + wx / scale) + 0.003 * (origin[1] + wy / scale)
        assert_allclose(window, expected, atol=1e-5)

    def test_shrinking_smooths_what_would_alias(self):
        stripes = np.tile(np.array([0.0, 1.0], dtype=np.float32), (64, 32))
        assert resample(stripes, np.array([10.0, 10]), 0.25, (8, 8)).std() < 0.01

    def test_far_outside_there_is_the_border(self):
        image = np.full((5, 5), 0.25, dtype=np.float32)
        assert_allclose(resample(image, np.array([-1e5, 1e5]), 0.5, (4, 4)), 0.25, rtol=1e-5)

    @pytest.mark.parametrize("scale", [0.3, 1.0, 1.7])
    def test_a_window_over_the_border_sees_the_border_go_on(self, scale, rng):
        image = rng.integers(0, 256, (23, 31, 3), dtype=np.uint8)
        padded = np.pad(image, ((60, 60), (60, 60), (0, 0)), mode="edge")
        origin = np.array([-12.3, 8.6])
        expected = resample(padded, origin + 60, scale, (40, 30))
        assert_allclose(resample(image, origin, scale, (40, 30)), expected, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
    def test_brightness_of_the_window_is_the_window_of_brightness(self, dtype, rng):
        image = rng.random((50, 60, 3))
        image = image.astype(dtype) if dtype in (np.float32, np.float64) else (image * 255).astype(dtype)
        window = image[::-1], np.array([-4.2, 7.7]), 0.6, (20, 25)
        expected = resample(*window) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
        assert_allclose(resample(*window, grey=True)[:, :, 0], expected, atol=1e-6)


class TestAnyFloat:
    """No float becomes an index beside its array: a crafted model may make any of them."""

    ODD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 2.0**63, 2.0**32, -1e-300, -0.0, 3.0, 4.0)

    def positions(self):
        return np.array([(x, y) for x in self.ODD for y in self.ODD])

    def expected(self, image):
        height, width = image.shape[:2]
        x, y = np.nan_to_num(self.positions(), nan=0.0).T
        return image[np.clip(y, 0, height - 1).astype(int), np.clip(x, 0, width - 1).astype(int)]

    @pytest.fixture
    def image(self, rng):
        """One inside of a larger array, whose other values show where an index has gone astray."""
        around = np.full((9, 8, 2), 1e9, dtype=np.float32)
        around[:4] = rng.random((4, 8, 2))
        return around[:4]

    def test_bilinear(self, image):
        assert_allclose(bilinear(image, self.positions()), self.expected(image))

    def test_the_specification(self, image):
        assert_allclose(reference.bilinear(image, self.positions()), self.expected(image))

    def test_the_warp(self, image):
        corners, weights = self.positions(), np.tile([1.0, 0, 0], (len(self.positions()), 1))
        vertices = np.repeat(np.arange(len(corners), dtype=np.uint32)[:, None], 3, axis=1)
        with np.errstate(invalid="ignore"):
            found = warp(image, corners, vertices, weights, (0, 0))
        # Zero times infinity is not a number, and becomes the corner as well.
        finite = np.isfinite(corners)
        x, y = np.where(finite, corners, 0).T
        places = np.clip(y, 0, 3).astype(int), np.clip(x, 0, 7).astype(int)
        assert_allclose(found, image[places])

    def test_drawing(self):
        """A triangle far away is not drawn, and asks for no memory."""
        triangles = np.array([[0, 1, 2]], dtype=np.int32)
        for far in (1e19, -1e19, 1e30):
            vertices = far * np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
            assert np.all(rasterise(vertices, triangles, (8, 8)) == -1)


class TestTurnedWindows:
    @pytest.mark.parametrize("scale", [0.3, 0.5, 0.8, 1.0, 1.7])
    @pytest.mark.parametrize("angle", [1e-9, 0.4, -2.0, np.pi])
    def test_pixels_show_what_was_promised(self, scale, angle):
        """A blob, smoothed by as much as the window shrinks, at every pixel of the window."""
        y, x = np.mgrid[:120, :120]
        width = 6.0
        image = np.exp(-0.5 * ((x - 61) ** 2 + (y - 57) ** 2) / width**2).astype(np.float32)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        size = int(50 * scale)
        origin = np.array([61.0, 57]) - turn @ np.full(2, 25.3)
        window = resample(image, origin, scale, (size, size), angle=angle)[:, :, 0]
        j, i = np.mgrid[:size, :size]
        places = origin + np.stack([i, j], axis=-1) / scale @ turn.T
        wide = width**2 + 0.25 * max(scale**-2 - 1, 0) + 1 / 6
        distance = np.sum((places - (61, 57)) ** 2, axis=-1)
        expected = width**2 / wide * np.exp(-0.5 * distance / wide)
        assert_allclose(window, expected, atol=0.006)

    @pytest.mark.parametrize("scale", [0.2, 0.6, 1.0, 1.3])
    def test_a_window_that_is_hardly_turned_is_an_upright_one(self, scale, rng):
        image = rng.random((90, 80)).astype(np.float32)
        one = resample(image, np.array([12.3, 17.8]), scale, (14, 12))
        other = resample(image, np.array([12.3, 17.8]), scale, (14, 12), angle=1e-9)
        assert_allclose(one, other, atol=1e-5 if scale >= 0.5 else 0.05)

    def test_the_border_goes_on(self, rng):
        """As in an image that was made larger by its border."""
        image = rng.random((50, 40)).astype(np.float32)
        padded = np.pad(image, 80, mode="edge")
        for scale, origin in ((0.4, (-30.0, 45.0)), (1.2, (10.0, -20.0)), (0.7, (200.0, 200.0))):
            shape, angle = (30, 25), 0.7
            one = resample(image, np.array(origin), scale, shape, angle=angle)
            other = resample(padded, np.array(origin) + 80, scale, shape, angle=angle)
            assert_allclose(one, other, atol=0.05 if scale < 0.5 else 1e-5)


class TestView:
    def test_the_map_between_levels_is_exact(self, rng):
        image = smooth_image()
        points = rng.uniform(20, 70, (6, 2))
        fine, coarse = view(image, points, 1.0, 8), view(image, points, 0.5, 8)
        assert_allclose(fine.to_image(fine.to_view(points)), points, atol=1e-12)
        between = coarse.to_view(fine.to_image(fine.to_view(points)))
        values = [bilinear(fine.pixels, fine.to_view(points)), bilinear(coarse.pixels, between)]
        assert_allclose(values[0], values[1], atol=0.01)
        assert_allclose(
            bilinear(fine.pixels, fine.to_view(points)), bilinear(image[:, :, None], points), atol=0.01
        )

    @pytest.mark.parametrize("angle", [0.0, 0.3, -2.2])
    def test_a_turned_view_shows_the_same_places(self, rng, angle):
        image = smooth_image()
        points = rng.uniform(20, 70, (6, 2))
        seen = view(image, points, 1.2, 5, angle=angle)
        assert_allclose(seen.to_image(seen.to_view(points)), points, atol=1e-12)
        assert seen.to_view(points).min() >= 5 - 1e-9
        assert_allclose(
            bilinear(seen.pixels, seen.to_view(points)), bilinear(image[:, :, None], points), atol=0.02
        )

    def test_covariances_turn_with_the_view(self, rng):
        seen = view(smooth_image(), np.array([[20.0, 20], [70, 60]]), 0.7, 2, angle=0.9)
        cloud = rng.normal(size=(200, 2)) @ np.array([[2.0, 0.5], [0, 0.3]])
        spread = np.array([np.cov(cloud.T), np.eye(2)])
        assert_allclose(seen.spread_to_image(spread)[0], np.cov(seen.to_image(cloud).T), atol=1e-12)
        assert_allclose(seen.spread_to_image(spread)[1], np.eye(2) / 0.49, atol=1e-12)

    def test_the_angle_is_that_between_frame_and_object(self):
        frame = np.array([[0.0, 0], [50, 0], [50, 80]])
        turned = Similarity(np.asarray(2 * np.exp(0.3j)), np.asarray(5 + 7j)).apply(frame)
        assert angle_to_frame(frame, turned) == pytest.approx(0.3)
        upright = view(smooth_image(), turned, 0.5, 0, angle=0.3).to_view(turned)
        assert_allclose(upright - upright[0], frame - frame[0], atol=1e-9)

    def test_colour_becomes_brightness(self):
        image = np.zeros((30, 30, 3), dtype=np.uint8)
        image[:, :, 1] = 255
        corners = np.array([[5.0, 5], [20, 20]])
        assert_allclose(view(image, corners, 1.0, 0).pixels, 0.587, atol=1e-5)
        assert view(image, corners, 1.0, 0, grey=False).pixels.shape == (16, 16, 3)

    @pytest.mark.parametrize("name", BUILT_IN)
    def test_only_the_region_of_interest_matters(self, name):
        """A feature inside a small window is what it is in the whole image."""
        image = smooth_image(160, 160)
        feature = find_feature(name)
        inner = np.array([[70.0, 70], [90, 90]])
        small = feature_view(image, inner, 1.0, feature)
        whole = feature.compute(image)
        found = bilinear(small.pixels, small.to_view(inner))
        assert_allclose(found, bilinear(whole, inner), atol=0.02 if name == "normalized" else 2e-3)

    def test_the_scale_is_that_between_frame_and_object(self):
        frame = np.array([[0.0, 0], [50, 0], [50, 80]])
        turned = Similarity(np.asarray(2 * np.exp(0.3j)), np.asarray(5 + 7j)).apply(frame)
        assert scale_to_frame(frame, turned) == pytest.approx(0.5)


class TestFeatures:
    @pytest.mark.parametrize("name", BUILT_IN)
    def test_they_are_finite_float32_with_the_channels_they_claim(self, name, rng):
        feature = find_feature(name)
        for image in (rng.random((33, 41)).astype(np.float32), np.zeros((5, 1), np.float32)):
            values = feature.compute(image)
            assert values.dtype == np.float32
            assert values.shape == (*image.shape, feature.channels)
            assert np.all(np.isfinite(values))

    @pytest.mark.parametrize("name", ["igo", "dsift", "gradient"])
    def test_a_brighter_image_has_the_same_edges(self, name):
        image = smooth_image() * 0.5
        feature = find_feature(name)
        assert_allclose(feature.compute(image + 0.3), feature.compute(image), atol=1e-3)

    def test_normalised_grey_is_blind_to_contrast(self):
        image = smooth_image()
        feature = find_feature("normalized")
        inside = np.s_[30:-30, 30:-30]
        contrast = feature.compute(image * 0.5 + 0.2)[inside]
        assert np.corrcoef(contrast.ravel(), feature.compute(image)[inside].ravel())[0, 1] > 0.99
        assert contrast.std() > 0.8 * feature.compute(image)[inside].std()

    def test_the_gradient_of_a_plane(self):
        y, x = np.mgrid[:30, :30].astype(np.float32)
        slopes = find_feature("gradient").compute((0.01 * x - 0.02 * y).astype(np.float32))
        assert_allclose(slopes[10:20, 10:20], np.broadcast_to([0.01, -0.02], (10, 10, 2)), atol=1e-5)

    @pytest.mark.parametrize("direction", range(8))
    def test_dsift_puts_an_edge_into_the_bin_of_its_direction(self, direction):
        angle = direction * np.pi / 4
        y, x = np.mgrid[-20:21, -20:21]
        ramp = (1 / (1 + np.exp(-(x * np.cos(angle) + y * np.sin(angle)) / 2))).astype(np.float32)
        centre = find_feature("dsift").compute(ramp)[20, 20]
        assert np.argmax(centre) == direction
        assert centre[direction] > 0.9
        assert np.linalg.norm(centre) == pytest.approx(1, abs=0.05)

    @pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 3), (17, 40), (40, 17), (33, 50)])
    def test_dsift_is_what_it_says(self, shape, rng):
        image = rng.random(shape).astype(np.float32)
        dx, dy = np.moveaxis(find_feature("gradient").compute(image).astype(np.float64), -1, 0)
        angle = np.arctan2(dy, dx)[:, :, None] * 4 / np.pi
        distance = np.abs((angle - np.arange(8) + 4) % 8 - 4)
        histogram = np.hypot(dx, dy)[:, :, None] * np.maximum(1 - distance, 0)
        gathered = gaussian_filter(histogram, (2, 2, 0), mode="nearest", truncate=4)
        expected = gathered / np.sqrt(0.02**2 + (gathered**2).sum(axis=-1, keepdims=True))
        assert_allclose(find_feature("dsift").compute(image), expected, atol=1e-5)

    def test_igo_is_the_cosine_and_sine_of_the_angle_and_its_double(self):
        angle = 0.7
        y, x = np.mgrid[-20:21, -20:21]
        ramp = (0.5 + 0.3 * (x * np.cos(angle) + y * np.sin(angle))).astype(np.float32)
        expected = [np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]
        assert_allclose(find_feature("igo").compute(ramp)[20, 20], expected, atol=0.01)

    def test_flat_images_have_quiet_features(self):
        flat = np.full((30, 30), 0.4, dtype=np.float32)
        for name in ("normalized", "gradient", "igo", "dsift"):
            assert np.abs(find_feature(name).compute(flat)).max() < 1e-3

    def test_users_register_their_own(self):
        @register_feature("inverse", channels=1, reach=0)
        def inverse(grey):
            return 1 - grey[:, :, None]

        assert "inverse" in feature_names()
        assert find_feature("inverse").compute(np.zeros((2, 3), np.float32)).shape == (2, 3, 1)

    def test_a_feature_that_breaks_its_promise_is_named(self):
        @register_feature("broken", channels=2, reach=0)
        def broken(grey):
            return grey

        with pytest.raises(ValueError, match="feature 'broken' must return"):
            find_feature("broken").compute(np.zeros((4, 4), np.float32))

    def test_an_unknown_name_gets_a_suggestion(self):
        with pytest.raises(ValueError, match="Did you mean 'dsift'"):
            find_feature("dsfit")
