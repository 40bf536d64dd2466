"""Each loop over pixels by itself: small examples whose outcome is written out, and sums against NumPy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.kernels import mesh_loops, robust
from pliant.kernels.basis_pass import LANES
from pliant.kernels.dense import _turned
from pliant.kernels.panels import _place, make_layout
from pliant.kernels.projected import _products
from pliant.motion import build_motion

VECTORS, CHANNELS = 3, 2
STARTS = np.array([0, 1, 3], np.int32)
"""Two panels, of one and two vectors."""
ALL = (0,) * CHANNELS


def numbers(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def filled(shape, loop, *given):
    """Zeros after a loop has added to them."""
    out = np.zeros(shape)
    loop(*given, out)
    return out


@pytest.fixture
def own(rng):
    """The pixels of lanes, in any order, of which the last four of each vector have none."""
    lanes = np.full((VECTORS, LANES), -1, np.int32)
    lanes[:, :-4] = rng.permutation(VECTORS * (LANES - 4)).reshape(VECTORS, -1)
    return lanes


class TestReading:
    """The image is read between its pixels, and goes on beyond its border."""

    def image(self):
        y, x = np.mgrid[:5, :7]
        # Linear along both axes in one channel, their product in the other: what is bilinear is read exactly.
        return np.stack([10 + 2 * x - 3 * y, x * y], axis=-1).astype(np.float32)

    def truth(self, places):
        x, y = np.clip(places[:, 0], 0, 6), np.clip(places[:, 1], 0, 4)
        return np.stack([10 + 2 * x - 3 * y, x * y], axis=-1)

    def places(self, rng):
        inside = rng.uniform([0, 0], [6, 4], (20, 2))
        border = [[0, 0], [6, 4], [6, 1.5], [2.25, 4], [0.5, 0.0], [5.75, 3.5], [6, 0], [0, 4], [5, 3]]
        beyond = [[-3, 2.5], [9, 2.5], [1.5, -3], [1.5, 8], [-1, -1], [1e7, 1e7], [-0.25, 0.5], [6.25, 4.5]]
        return np.array([*inside, *border, *beyond])

    def test_at_positions(self, rng):
        places = self.places(rng)
        assert_allclose(mesh_loops.read(self.image(), places, ALL), self.truth(places), atol=1e-4)

    def test_what_is_no_position_is_the_corner(self):
        found = mesh_loops.read(self.image(), np.array([[np.nan, np.nan], [np.nan, 2.0]]), ALL)
        assert_allclose(found, self.truth(np.array([[0.0, 0], [0, 2]])), atol=1e-4)

    def test_between_three_vertices(self, rng):
        shape = rng.uniform([-1, -1], [7, 5], (5, 2))
        vertices = np.array([rng.permutation(5)[:3] for _ in range(12)], np.uint32)
        weights = rng.dirichlet([1, 1, 1], 12)
        places = np.einsum("qk,qkd->qd", weights, shape[vertices])
        found = mesh_loops.warp(self.image(), shape, vertices, weights, ALL)
        assert_allclose(found, self.truth(places), atol=1e-4)

    def test_beside_one_vertex(self, rng):
        shape, vertices = rng.uniform([0, 0], [6, 4], (5, 2)), rng.integers(0, 5, (12, 1)).astype(np.uint32)
        offsets = rng.normal(size=(12, 2))
        found = mesh_loops.shift(self.image(), shape, vertices, offsets, ALL)
        assert_allclose(found, self.truth(shape[vertices[:, 0]] + offsets), atol=1e-4)


class TestBlocks:
    """Pixels are put into lanes and found there again."""

    def test_residuals_are_put_into_their_field_and_nothing_where_no_pixel_is(self, own, rng):
        values, mean = numbers(rng, own.max() + 1, CHANNELS), numbers(rng, VECTORS, CHANNELS, 1, LANES)
        out = np.full((VECTORS, CHANNELS, 3, LANES), 7.0, np.float32)
        mesh_loops.residuals(values, own, mean, out, 1, ALL)
        expected = np.swapaxes(values[own], 1, 2) - mean[:, :, 0]
        expected[np.broadcast_to(own[:, None] < 0, expected.shape)] = 0
        assert_array_equal(out[:, :, 1], expected)
        assert_array_equal(out[:, :, [0, 2]], 7)

    def test_what_was_spread_is_gathered(self, own, rng):
        values = numbers(rng, own.max() + 1, CHANNELS)
        block = np.zeros((VECTORS, CHANNELS, 1, LANES), np.float32)
        mesh_loops.residuals(values, own, np.zeros_like(block), block, 0, ALL)
        assert_array_equal(mesh_loops.gather(block[:, :, 0], own, len(values), ALL), values)

    def test_slopes_are_differences_times_steps(self, rng):
        values, steps = numbers(rng, 9, CHANNELS), numbers(rng, VECTORS, LANES, 2)
        neighbours = rng.integers(0, 9, (VECTORS, LANES, 2, 2)).astype(np.uint32)
        out = np.full((VECTORS, CHANNELS, 3, LANES), 7.0, np.float32)
        mesh_loops.slopes(values, neighbours, steps, out, ALL)
        differences = values[neighbours[..., 1]] - values[neighbours[..., 0]]
        assert_allclose(out[:, :, :2], np.einsum("vlac,vla->vcal", differences, steps), atol=1e-6)
        assert_array_equal(out[:, :, 2], 7)

    def test_components_are_packed_panel_by_panel(self, rng):
        blocks = numbers(rng, 4, VECTORS, CHANNELS, 1, LANES)
        out = np.full(blocks.size, np.nan, np.float32)
        for number, block in enumerate(blocks):
            _place(block, STARTS, number, len(blocks), out)
        assert_array_equal(out, np.concatenate([blocks[:, :1].ravel(), blocks[:, 1:].ravel()]))


def plain_bends(values, frame):
    """Second derivatives by the stencil of a frame, applied twice, `(2, 2, f, c)`, with one mixed derivative."""
    twice = frame.gradient(frame.gradient(values))
    return (twice + np.swapaxes(twice, 0, 1)) / 2


class TestSums:
    def test_second_differences_are_the_stencil_applied_twice(self, rng):
        # A slanted object, for the two mixed derivatives differ at its border alone.
        slanted = np.array([[2.0, 4.0], [9.0, 2.0], [11.0, 8.0], [4.0, 10.0]])
        motion = build_motion("piecewise-affine", slanted, np.array([[0, 1, 2], [0, 2, 3]]))
        frame = motion.frame
        values = numbers(rng, len(frame.pixels), CHANNELS)
        for chosen in (np.arange(len(frame.pixels), dtype=np.int32), frame.sample(0.4)):
            layout, y = make_layout(motion, chosen), numbers(rng, len(chosen), CHANNELS)
            found = mesh_loops.bends(values, *frame.stencil, chosen, layout.own, y, ALL)
            products = np.einsum("abfc,fc->abf", plain_bends(values, frame)[:, :, chosen], y).reshape(4, -1)
            seen = layout.own.ravel() >= 0
            assert_allclose(found[:, seen], products[:, layout.own.ravel()[seen]], atol=1e-4)
            assert not found[:, ~seen].any()

    def test_products_of_slopes(self, rng):
        one, other = numbers(rng, 2, VECTORS, CHANNELS, 3, LANES)
        expected = np.einsum("vcal,vcbl->abvl", one[:, :, :2], other[:, :, :2]).reshape(4, -1)
        assert_allclose(mesh_loops.slope_products(one, other), expected, atol=1e-5)

    @pytest.mark.parametrize("field", [0, 1, 2])
    def test_slopes_times_a_field(self, rng, field):
        one, values = numbers(rng, 2, VECTORS, CHANNELS, 3, LANES)
        expected = np.einsum("vcal,vcl->avl", one[:, :, :2], values[:, :, field]).reshape(2, -1)
        assert_allclose(mesh_loops.value_products(one, values, field), expected, atol=1e-5)
        assert mesh_loops.squares(values, field) == pytest.approx(np.sum(values[:, :, field] ** 2), rel=1e-5)

    @pytest.mark.parametrize("corners", [3, 1])
    def test_sums_of_panels_go_to_the_rows_of_their_vertices(self, rng, corners):
        places = np.array([[1, 0, 3], [2, 3, 1]], np.int32)[:, :corners]
        weights = numbers(rng, corners, VECTORS * LANES)
        products, sums = numbers(rng, 4, VECTORS * LANES), numbers(rng, 2, VECTORS * LANES)
        # G has a row for each pixel and axis, and two columns for each vertex.
        G = np.zeros((VECTORS * LANES, 2, 8))
        for q in range(VECTORS * LANES):
            for corner, vertex in enumerate(places[0 if q < LANES else 1]):
                for axis in (0, 1):
                    G[q, axis, 2 * vertex + axis] = weights[corner, q]
        gram = np.einsum("qai,abq,qbj->ij", G, products.reshape(2, 2, -1), G)
        assert_allclose(filled((8, 8), mesh_loops.gram, products, weights, STARTS, places), gram, atol=1e-4)
        moments = np.einsum("qai,aq->i", G, sums)
        assert_allclose(filled(8, mesh_loops.moments, sums, weights, STARTS, places), moments, atol=1e-4)

    def test_a_matrix_for_each_pixel_turns_the_warp(self, rng):
        warp, products = numbers(rng, VECTORS, 2, LANES, 5), numbers(rng, 4, VECTORS * LANES)
        expected = np.einsum("abvl,vbln->valn", products.reshape(2, 2, VECTORS, LANES), warp)
        assert_allclose(_turned(products, warp), expected, atol=1e-5)

    @pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 4097])
    def test_products_of_rows(self, rng, size):
        rows, values = numbers(rng, 3, size), numbers(rng, size)
        assert_allclose(_products(rows, values), rows.astype(np.float64) @ values, atol=1e-3)


class TestWeights:
    def test_agreement_is_of_what_is_seen_and_explained_with_the_mean(self, rng):
        seen, explained = numbers(rng, VECTORS, CHANNELS, 3, LANES), numbers(rng, VECTORS, CHANNELS, LANES)
        mean = numbers(rng, VECTORS, CHANNELS, 1, LANES)
        i, a = seen[:, :, 2] + mean[:, :, 0], explained + mean[:, :, 0]
        by_vector = np.stack([np.sum(x * y, axis=(1, 2)) for x, y in ((i, a), (i, i), (a, a))], axis=-1)
        expected = np.add.reduceat(by_vector, STARTS[:-1], axis=0)
        assert_allclose(robust._products(seen, 2, explained, mean, STARTS), expected, rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("field", [0, 2])
    def test_what_is_hidden_becomes_what_is_explained(self, rng, field):
        """e becomes x + √w (e - x), and slopes √w of themselves; a panel with a weight of one stays as it is."""
        seen, explained = (
            numbers(rng, VECTORS, CHANNELS, field + 1, LANES),
            numbers(rng, VECTORS, CHANNELS, LANES),
        )
        roots = np.array([1.0, 0.25])
        before = seen.copy()
        robust.weigh_down(seen, explained, roots, STARTS, field)
        assert_array_equal(seen[0], before[0])
        assert_allclose(seen[1:, :, :field], 0.25 * before[1:, :, :field], atol=1e-6)
        expected = explained[1:] + 0.25 * (before[1:, :, field] - explained[1:])
        assert_allclose(seen[1:, :, field], expected, atol=1e-6)


class TestTogether:
    """What is done for an image, or for all of a group, is what the loops do one by one."""

    @pytest.mark.parametrize("patches", [False, True])
    @pytest.mark.parametrize("with_slopes", [False, True])
    def test_an_image_is_warped_and_spread(self, rng, own, patches, with_slopes):
        image, shape = numbers(rng, 9, 8, CHANNELS), rng.uniform(1, 7, (5, 2))
        pixels = own.max() + 1
        vertices = rng.integers(0, 5, (pixels, 1 if patches else 3)).astype(np.uint32)
        weights, offsets = rng.dirichlet([1, 1, 1], pixels), rng.normal(size=(pixels if patches else 0, 2))
        mean, steps = numbers(rng, VECTORS, CHANNELS, 1, LANES), numbers(rng, VECTORS, LANES, 2)
        neighbours = rng.integers(0, pixels, (VECTORS, LANES, 2, 2)).astype(np.uint32)
        found, expected = np.full((2, VECTORS, CHANNELS, 3 if with_slopes else 1, LANES), 7.0, np.float32)
        values = mesh_loops.look(
            image, shape, vertices, weights, offsets, own, mean, neighbours, steps, with_slopes, found, ALL
        )
        if patches:
            assert_array_equal(values, mesh_loops.shift(image, shape, vertices, offsets, ALL))
        else:
            assert_array_equal(values, mesh_loops.warp(image, shape, vertices, weights, ALL))
        mesh_loops.residuals(values, own, mean, expected, 2 if with_slopes else 0, ALL)
        if with_slopes:
            mesh_loops.slopes(values, neighbours, steps, expected, ALL)
        assert_array_equal(found, expected)

    def test_slopes_of_blocks(self, rng, own):
        blocks, steps = numbers(rng, 4, VECTORS, CHANNELS, LANES), numbers(rng, VECTORS, LANES, 2)
        neighbours = rng.integers(0, own.max() + 1, (VECTORS, LANES, 2, 2)).astype(np.uint32)
        found = np.full((4, VECTORS, CHANNELS, 2, LANES), 7.0, np.float32)
        mesh_loops.slopes_of_all(blocks, own, own.max() + 1, neighbours, steps, found, ALL)
        for block, out in zip(blocks, found, strict=True):
            expected = np.full_like(out, 7.0)
            values = mesh_loops.gather(block, own, own.max() + 1, ALL)
            mesh_loops.slopes(values, neighbours, steps, expected, ALL)
            assert_array_equal(out, expected)

    @pytest.mark.parametrize("same", [False, True])
    def test_sums_of_a_group(self, rng, same):
        one, other = numbers(rng, 2, 2, VECTORS, CHANNELS, 3, LANES)
        shared = other[:1] if same else other
        sums = numbers(rng, 3, VECTORS * LANES), STARTS, np.array([[1, 0, 3], [2, 3, 1]], np.int32)
        grams = mesh_loops.grams(one, shared, *sums, 8)
        moments = mesh_loops.moments_of_all(shared, one, 2, *sums, 8)
        for k, (mine, gram, moment) in enumerate(zip(one, grams, moments, strict=True)):
            its = shared[0 if same else k]
            products = mesh_loops.slope_products(mine, its), mesh_loops.value_products(its, mine, 2)
            assert_array_equal(gram, filled((8, 8), mesh_loops.gram, products[0], *sums))
            assert_array_equal(moment, filled(8, mesh_loops.moments, products[1], *sums))
        assert_array_equal(mesh_loops.squares_of_all(one, 1), [mesh_loops.squares(block, 1) for block in one])
