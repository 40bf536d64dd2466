"""Each pass over the basis of appearance by itself: what it adds up, against a sum that is written out."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.kernels import basis_pass
from pliant.kernels.basis_pass import LANES

IMAGES, MODES, VERTICES = 2, 3, 5
STARTS = np.array([0, 2, 3, 6], np.int32)
"""Three panels, of two, one and three vectors."""
VECTORS = int(STARTS[-1])
SPANS = [(0, 3), (1, 3), (0, 1), (2, 2)]


def packed(A):
    """A `(m, V, ...)` as a pass reads it: panel by panel, and component by component in a panel."""
    return np.concatenate([A[:, first:last].ravel() for first, last in pairwise(STARTS)])


def within(span):
    """One for the vectors of a span of panels, `(V,)`."""
    places = np.arange(VECTORS)
    return ((places >= STARTS[span[0]]) & (places < STARTS[span[1]])).astype(np.float32)


def numbers(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def corners_of(rng, count):
    return np.array([rng.permutation(VERTICES)[:count] for _ in range(len(STARTS) - 1)], np.int32)


def at_corners(sums, corners):
    """Sums `(b, m, V, corners, 2)`, added up at the vertices of their panels: `(b, 2v, m)`."""
    out = np.zeros((len(sums), 2 * VERTICES, MODES))
    for panel, (first, last) in enumerate(pairwise(STARTS)):
        for corner, vertex in enumerate(corners[panel]):
            out[:, 2 * vertex : 2 * vertex + 2] += np.swapaxes(
                sums[:, :, first:last, corner].sum(axis=2), 1, 2
            )
    return out


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("appearance", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
class TestImages:
    """Passes that multiply A with what is seen of images, and may add A c to what is modelled."""

    def room(self, rng, channels, appearance):
        A = numbers(rng, MODES, VECTORS, channels, LANES)
        c = numbers(rng, IMAGES, MODES if appearance else 0)
        return A, c, numbers(rng, IMAGES, VECTORS, channels, LANES), rng.normal(size=(IMAGES, MODES))

    def grown(self, A, c, a, span):
        return a + np.einsum("bm,mvcl,v->bvcl", c, A, within(span)) if c.size else a

    @pytest.mark.parametrize("corners", [3, 1])
    def test_with_slopes(self, span, appearance, corners, channels, rng):
        A, c, a, E = self.room(rng, channels, appearance)
        S, places = numbers(rng, IMAGES, VECTORS, channels, 3, LANES), corners_of(rng, corners)
        # The weight of a patch is one, and is not looked at.
        W = numbers(rng, VECTORS, 3, LANES) if corners == 3 else np.ones((VECTORS, 1, LANES), np.float32)
        G = rng.normal(size=(IMAGES, 2 * VERTICES, MODES))
        sums = np.einsum("mvcl,bvcal,vkl,v->bmvka", A, S[:, :, :, :2], W, within(span))
        expected = (
            G + at_corners(sums, places),
            E + np.einsum("mvcl,bvcl,v->bm", A, S[:, :, :, 2], within(span)),
            self.grown(A, c, a, span),
        )
        basis_pass.pass_with_slopes(packed(A), STARTS, places, W, S, c, a, G, E, span, (0,) * channels)
        for found, right in zip((G, E, a), expected, strict=True):
            assert_allclose(found, right, atol=1e-4)

    def test_with_values(self, span, appearance, channels, rng):
        A, c, a, E = self.room(rng, channels, appearance)
        S = numbers(rng, IMAGES, VECTORS, channels, 1, LANES)
        expected = (
            E + np.einsum("mvcl,bvcl,v->bm", A, S[:, :, :, 0], within(span)),
            self.grown(A, c, a, span),
        )
        basis_pass.pass_with_values(packed(A), STARTS, S, c, a, E, span, (0,) * channels)
        for found, right in zip((E, a), expected, strict=True):
            assert_allclose(found, right, atol=1e-4)

    def test_by_pixel(self, span, appearance, channels, rng):
        A, c, a, E = self.room(rng, channels, appearance)
        S = numbers(rng, IMAGES, VECTORS, channels, 3, LANES)
        first, last = STARTS[list(span)]
        H = np.full((IMAGES, MODES, last - first, 2, LANES), np.nan, np.float32)
        expected = (
            np.einsum("mvcl,bvcal->bmval", A, S[:, :, :, :2])[:, :, first:last],
            E + np.einsum("mvcl,bvcl,v->bm", A, S[:, :, :, 2], within(span)),
            self.grown(A, c, a, span),
        )
        basis_pass.pass_by_pixel(packed(A), STARTS, S, c, a, H, E, span, (0,) * channels)
        for found, right in zip((H, E, a), expected, strict=True):
            assert_allclose(found, right, atol=1e-4)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("channels", [1, 3])
class TestMovingBasis:
    """Passes that multiply the slopes of A with residuals."""

    @pytest.mark.parametrize("corners", [3, 1])
    def test_over_slopes(self, span, corners, channels, rng):
        A, r = (
            numbers(rng, MODES, VECTORS, channels, 2, LANES),
            numbers(rng, IMAGES, VECTORS, channels, LANES),
        )
        W = numbers(rng, VECTORS, 3, LANES) if corners == 3 else np.ones((VECTORS, 1, LANES), np.float32)
        places, G = corners_of(rng, corners), rng.normal(size=(IMAGES, 2 * VERTICES, MODES))
        sums = np.einsum("mvcal,bvcl,vkl,v->bmvka", A, r, W, within(span))
        expected = G + at_corners(sums, places)
        basis_pass.pass_over_slopes(packed(A), STARTS, places, W, r, G, span, (0,) * channels)
        assert_allclose(G, expected, atol=1e-4)

    def test_over_slopes_by_pixel(self, span, channels, rng):
        A, r = (
            numbers(rng, MODES, VECTORS, channels, 2, LANES),
            numbers(rng, IMAGES, VECTORS, channels, LANES),
        )
        first, last = STARTS[list(span)]
        H = np.full((IMAGES, MODES, last - first, 2, LANES), np.nan, np.float32)
        expected = np.einsum("mvcal,bvcl->bmval", A, r)[:, :, first:last]
        basis_pass.pass_over_slopes_by_pixel(packed(A), STARTS, r, H, span, (0,) * channels)
        assert_allclose(H, expected, atol=1e-4)
