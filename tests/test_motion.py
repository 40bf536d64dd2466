"""Frames, warps, their Jacobians, and their compositions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.motion import (
    MOTIONS,
    PiecewiseAffine,
    build_frame,
    build_motion,
    build_patches,
    checked_triangles,
    compose,
    delaunay,
    invert,
    jacobian,
    margin_around,
    rasterise,
)
from pliant.motion.frame import MARGIN
from pliant.motion.triangulation import signed_areas
from pliant.shape import SIMILARITY, ShapeModel, train_shape_model


def make_model(seed: int = 0, landmarks: int = 14, modes: int = 4) -> ShapeModel:
    """A shape model whose mean is a jittered grid of positive coordinates."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0, 2 * np.pi, landmarks - 4, endpoint=False)
    outline = np.stack([20 * np.cos(angle), 25 * np.sin(angle)], axis=-1)
    inner = rng.uniform(-8, 8, (4, 2)) + [[-6, -6], [6, -6], [6, 6], [-6, 6]]
    base = np.concatenate([outline, inner])
    directions = rng.normal(size=(modes, landmarks, 2))
    shapes = base + np.einsum("kn,nvd->kvd", rng.normal(size=(40, modes)), directions)
    model = train_shape_model(shapes, size=45).truncated(modes)
    return model.shifted(2 - model.mean.min(axis=0))


@pytest.fixture(params=sorted(MOTIONS))
def warp(request):
    return make_warp(request.param)


def make_warp(name: str):
    """A motion of this name and its shape model."""
    model = make_model()
    model = model.shifted(margin_around(name, model.mean) - model.mean.min(axis=0))
    return build_motion(name, model.mean, delaunay(model.mean)), model


def small(model: ShapeModel, seed: int, size: float) -> np.ndarray:
    """Parameters whose landmarks move about `size` pixels."""
    parameters = np.random.default_rng(seed).normal(size=model.parameters)
    return parameters * size / np.abs(model.instance(parameters) - model.mean).max()


class TestFrame:
    def test_every_pixel_lies_in_its_triangle_and_triangles_follow_each_other(self):
        model = make_model()
        frame = build_frame(model.mean, delaunay(model.mean))
        weights = PiecewiseAffine(frame).weights
        assert weights.min() > -1e-8
        assert np.all(np.diff(frame.triangle_of_pixel) >= 0)
        assert len(np.unique(frame.pixels, axis=0)) == len(frame.pixels)
        assert frame.mask.sum() == len(frame.pixels)

    def test_the_number_of_pixels_is_the_area(self):
        square = np.array([[2.0, 2], [32, 2], [32, 42], [2, 42]])
        frame = build_frame(square, delaunay(square))
        assert len(frame.pixels) == 31 * 41
        assert frame.shape == (45, 35)

    @pytest.mark.parametrize("build", [build_frame, build_patches])
    @pytest.mark.parametrize("corner", [(32, 42), (32.3, 41.7), (31.999, 42.001)])
    def test_the_rectangle_is_the_least_that_leaves_a_margin_everywhere(self, build, corner):
        right, bottom = corner
        square = np.array([[9.0, 9], [right, 9], [right, bottom], [9, bottom]])
        frame = build(square, delaunay(square))
        last = np.array(frame.shape[::-1]) - 1
        beyond = square.max(axis=0) + MARGIN + frame.reach
        assert np.all(last >= beyond)
        assert np.all(last - 1 < beyond)
        assert frame.mask.shape == frame.image(np.ones((len(frame.pixels), 1))).shape[:2] == frame.shape

    def test_the_gradient_of_a_plane_is_exact_wherever_a_neighbour_is_in_the_mask(self):
        model = make_model()
        frame = build_frame(model.mean, delaunay(model.mean))
        x, y = frame.pixels.T
        values = np.stack([3.0 * x - 2 * y, 0.5 * y + 1], axis=-1)
        slopes = frame.gradient(values)
        _, weights = frame.stencil
        assert slopes.shape == (2, len(x), 2)
        has = weights > 0
        assert has.mean() > 0.99
        assert_allclose(slopes[0][has[0]], [[3, 0]] * has[0].sum(), atol=1e-5)
        assert_allclose(slopes[1][has[1]], [[-2, 0.5]] * has[1].sum(), atol=1e-5)
        assert np.all(slopes[0][~has[0]] == 0)

    def test_stencils_are_central_inside(self):
        square = np.array([[2.0, 2], [12, 2], [12, 12], [2, 12]])
        frame = build_frame(square, delaunay(square))
        x = frame.pixels[:, 0].astype(float)
        slope = frame.gradient((x**2)[:, None])[0, :, 0]
        inside = (x > 2) & (x < 12)
        assert_allclose(slope[inside], 2 * x[inside], atol=1e-5)
        assert_allclose(slope[x == 2], 5, atol=1e-5)

    def test_a_pixel_without_neighbours_has_no_slope(self):
        column = np.array([[2.7, 2], [3.3, 2], [3, 4]])
        frame = build_frame(column, np.array([[0, 1, 2]], dtype=np.int32))
        assert frame.pixels.tolist() == [[3, 2], [3, 3], [3, 4]]
        _, weights = frame.stencil
        assert weights.tolist() == [[0, 0, 0], [1, 0.5, 1]]
        assert frame.gradient(np.array([[5.0], [7], [13]]))[..., 0].tolist() == [[0, 0, 0], [2, 4, 6]]

    def test_nothing_comes_before_the_first_row_and_column(self):
        corner = np.array([[0.0, 0], [1, 0], [0, 1]])
        frame = build_frame(corner, np.array([[0, 1, 2]], dtype=np.int32))
        assert frame.pixels.tolist() == [[0, 0], [1, 0], [0, 1]]
        assert [side.tolist() for side in frame.beside(0)] == [[-1, 0, -1], [1, -1, -1]]
        assert [side.tolist() for side in frame.beside(1)] == [[-1, -1, 0], [2, -1, -1]]

    @pytest.mark.parametrize("share", [1.0, 0.5, 0.25, 0.12])
    def test_sampling_is_even(self, share):
        square = np.array([[2.0, 2], [82, 2], [82, 82], [2, 82]])
        frame = build_frame(square, delaunay(square))
        rows = frame.sample(share)
        assert len(rows) == round(share * len(frame.pixels))
        assert np.all(np.diff(rows) > 0)
        x, y = frame.pixels[rows].T
        counts, _, _ = np.histogram2d(x, y, bins=9, range=[[1.5, 82.5], [1.5, 82.5]])
        expected = len(rows) / 81
        assert np.abs(counts - expected).max() < 0.15 * expected + 3

    def test_smaller_samples_are_part_of_larger_ones(self):
        model = make_model()
        frame = build_frame(model.mean, delaunay(model.mean))
        assert set(frame.sample(0.12)) < set(frame.sample(0.25)) < set(frame.sample(0.5))

    def test_a_sample_has_the_first_ranks_of_the_lattice_of_the_plastic_number(self):
        """The plastic number is the real root of g³ = g + 1, and a pixel's rank is the fraction in x/g + y/g²."""
        square = np.array([[2.0, 2], [32, 2], [32, 42], [2, 42]])
        frame = build_frame(square, delaunay(square))
        plastic = np.roots([1, 0, -1, -1]).real.max()
        rank, _ = np.modf(frame.pixels[:, 0] / plastic + frame.pixels[:, 1] / plastic**2)
        chosen = np.isin(np.arange(len(rank)), frame.sample(0.3))
        assert rank[chosen].max() < rank[~chosen].min()

    def test_the_smallest_sample_is_a_pixel(self):
        model = make_model()
        assert len(build_frame(model.mean, delaunay(model.mean)).sample(1e-9)) == 1

    @pytest.mark.parametrize("share", [0, -1, 1.01, float("nan")])
    def test_a_share_that_is_none_is_refused(self, share):
        model = make_model()
        with pytest.raises(ValueError, match="between 0 and 1"):
            build_frame(model.mean, delaunay(model.mean)).sample(share)

    @pytest.mark.parametrize(
        ("build", "square", "count"),
        [
            (build_frame, [[2.0, 2], [6, 2], [6, 7], [2, 7]], 9 * 10),
            (build_patches, [[9.0, 9], [29, 9], [29, 29], [9, 29]], 4 * 9**2),
        ],
    )
    def test_a_frame_may_have_as_many_pixels_as_the_limit_and_no_more(
        self, build, square, count, monkeypatch
    ):
        """Those of the rectangle with its margin, or of all patches."""
        vertices = np.array(square)
        monkeypatch.setattr("pliant.motion.frame.MOST_PIXELS", count)
        build(vertices, delaunay(vertices))
        monkeypatch.setattr("pliant.motion.frame.MOST_PIXELS", count - 1)
        with pytest.raises(ValueError, match=f"would have {count} pixels, and {count - 1} is the most"):
            build(vertices, delaunay(vertices))

    @pytest.mark.parametrize("name", sorted(MOTIONS))
    def test_the_margin_around_all_pixels_is_the_same_on_all_sides(self, name):
        square = np.array([[0.0, 0], [40, 0], [40, 30], [0, 30]])
        square += margin_around(name, square)
        frame = build_motion(name, square, delaunay(square)).frame
        assert frame.pixels.min(axis=0).tolist() == [MARGIN, MARGIN]
        assert (frame.shape[::-1] - frame.pixels.max(axis=0) - 1).tolist() == [MARGIN, MARGIN]

    def test_an_image_of_the_values(self):
        square = np.array([[2.0, 2], [6, 2], [6, 6], [2, 6]])
        frame = build_frame(square, delaunay(square))
        picture = frame.image(frame.pixels.astype(float))
        assert picture[4, 3].tolist() == [3, 4]
        assert np.isnan(picture[0, 0]).all()

    def test_however_large_a_triangle_is_it_has_no_pixel_beyond_its_corners(self):
        """A pixel beside a triangle of 1e12 pixels is a weight of 1e-12 away from it, which might be rounding."""
        ways = np.array([[0.0, 0], [1, 0], [0, 1]]) * 1e12
        one = np.array([[0, 1, 2]])
        y, x = np.mgrid[:6, :6]
        assert np.array_equal(rasterise(2.5 + ways, one, (6, 6)) == 0, (x >= 3) & (y >= 3))
        assert np.array_equal(rasterise(2.5 - ways, one, (6, 6)) == 0, (x <= 2) & (y <= 2))
        assert np.all(rasterise([-0.5, 2.5] - ways, one, (6, 6)) == -1)
        assert np.all(rasterise([2.5, -0.5] - ways, one, (6, 6)) == -1)

    def test_rasterising_outside_the_image_is_cut_off(self):
        far = np.array([[-10.0, -10], [30, -10], [-10, 30]])
        owner = rasterise(far, np.array([[0, 1, 2]]), (8, 8))
        assert np.all(owner == 0)


class TestWarp:
    def test_zero_parameters_are_the_identity(self, warp):
        motion, model = warp
        assert_allclose(motion.positions(model.mean), motion.frame.pixels, atol=1e-8)

    def test_the_warp_is_the_matrix_times_the_shape(self, warp):
        motion, model = warp
        shape = model.instance(small(model, 1, 5))
        moved = motion.frame.pixels + motion.matrix() @ (shape - model.mean)
        assert_allclose(motion.positions(shape), moved, atol=1e-8)
        assert_allclose(motion.matrix().sum(axis=1), 1, atol=1e-8)

    @pytest.mark.parametrize("name", ["piecewise-affine", "thin-plate-spline"])
    def test_affine_maps_are_reproduced(self, name):
        motion, model = make_warp(name)
        matrix, shift = np.array([[1.1, 0.2], [-0.3, 0.9]]), np.array([5.0, -2])
        assert_allclose(
            motion.positions(model.mean @ matrix.T + shift), motion.frame.pixels @ matrix.T + shift, atol=1e-7
        )

    def test_vertices_go_where_the_shape_is(self, warp):
        motion, model = warp
        shape = model.instance(small(model, 2, 6))
        assert_allclose(motion.at_vertices(model.mean, shape), shape, atol=1e-8)

    def test_the_jacobian_agrees_with_differences(self, warp):
        motion, model = warp
        analytic = jacobian(motion, model)
        parameters = small(model, 3, 4)
        step = 1e-4
        for k in range(model.parameters):
            nudge = np.zeros(model.parameters)
            nudge[k] = step
            ahead = motion.positions(model.instance(parameters + nudge))
            behind = motion.positions(model.instance(parameters - nudge))
            assert_allclose(analytic[:, :, k], (ahead - behind) / (2 * step), atol=1e-8)

    def test_a_batch_equals_its_items(self, warp):
        motion, model = warp
        many = np.stack([small(model, seed, 3) for seed in range(5)])
        step = np.stack([small(model, seed + 50, 0.5) for seed in range(5)])
        for one in (
            lambda p, d: motion.positions(model.instance(p)),
            lambda p, d: compose(motion, model, p, d),
            lambda p, d: compose(motion, model, p, d, invert_increment=True),
            lambda p, d: invert(motion, model, d),
        ):
            singles = np.stack([one(p, d) for p, d in zip(many, step, strict=True)])
            assert_allclose(one(many, step), singles, atol=1e-9)


class TestComposition:
    @pytest.mark.parametrize("order", ["exact", "first-order"])
    def test_zero_is_neutral_on_both_sides(self, warp, order):
        motion, model = warp
        p, zero = small(model, 4, 5), np.zeros(model.parameters)
        assert_allclose(compose(motion, model, p, zero, order=order), p, atol=1e-8)
        assert_allclose(compose(motion, model, zero, p, order=order), p, atol=1e-8)
        assert_allclose(compose(motion, model, p, zero, invert_increment=True, order=order), p, atol=1e-8)

    def test_similarities_compose_and_invert_exactly(self, warp):
        motion, model = warp
        p, d = small(model, 5, 6), small(model, 6, 3)
        p[SIMILARITY:] = d[SIMILARITY:] = 0
        composed = model.instance(compose(motion, model, p, d))
        direct = motion.at_vertices(model.instance(d), model.instance(p))
        assert_allclose(composed, direct, atol=1e-8)
        undone = compose(motion, model, invert(motion, model, d), d)
        assert_allclose(undone, 0, atol=1e-7)

    @pytest.mark.parametrize("order", ["exact", "first-order"])
    def test_nothing_after_the_inverse_is_the_inverse(self, warp, order):
        motion, model = warp
        d, zero = small(model, 7, 1.0), np.zeros(model.parameters)
        inverse = invert(motion, model, d, order)
        assert_allclose(
            compose(motion, model, zero, d, invert_increment=True, order=order), inverse, atol=1e-8
        )

    def test_inverting_brings_the_vertices_back(self, warp):
        motion, model = warp
        d = small(model, 7, 1.0)
        back = motion.at_vertices(motion.onto_vertices(model.instance(d)), model.instance(d))
        assert_allclose(back, model.mean, atol=1e-6)

    def test_a_warp_that_cannot_be_inverted_does_not_keep_others_from_it(self, warp):
        motion, model = warp
        shapes = np.stack([model.mean * (-1, 1), model.instance(small(model, 7, 1.0))])
        back = motion.at_vertices(motion.onto_vertices(shapes), shapes)
        assert_allclose(back[1], model.mean, atol=1e-6)

    def test_the_exact_inverse_is_never_further_off_than_the_first_order_one(self, warp):
        motion, model = warp
        for seed in range(20):
            d = small(model, seed, 12)
            first = motion.at_vertices(2 * model.mean - model.instance(d), model.instance(d))
            exact = motion.at_vertices(motion.onto_vertices(model.instance(d)), model.instance(d))
            assert np.abs(exact - model.mean).max() <= np.abs(first - model.mean).max()

    @pytest.mark.parametrize("name", ["piecewise-affine", "thin-plate-spline"])
    def test_first_order_errs_in_the_second_order(self, name):
        """Halving the increment quarters the difference between exact and first-order composition."""
        motion, model = make_warp(name)
        p, d = small(model, 8, 4), small(model, 9, 1)

        def gap(scale: float) -> float:
            exact = compose(motion, model, p * scale, d * scale)
            added = compose(motion, model, p * scale, d * scale, order="first-order")
            return float(np.abs(exact - added).max())

        assert 3.0 < gap(1) / gap(0.5) < 5.0


class TestPatches:
    def test_every_landmark_has_a_square_of_its_own(self):
        motion, model = make_warp("patches")
        frame = motion.frame
        assert frame.side % 2 == 1
        assert frame.side > 1
        squares = frame.pixels.reshape(model.landmarks, frame.side, frame.side, 2)
        assert np.all(np.diff(squares[..., 0], axis=2) == 1)
        assert np.all(np.diff(squares[..., 1], axis=1) == 1)
        assert np.abs(squares.mean(axis=(1, 2)) - model.mean).max() <= 0.5
        assert frame.pixels.min() >= 0
        assert np.all(frame.pixels.max(axis=0) < frame.shape[::-1])

    @pytest.mark.parametrize("box", [(6.0, 6.0), (8, 8), (10, 10), (12, 9), (17.9, 17.9)])
    def test_small_patches_are_just_large_enough_to_cover_the_object(self, box):
        square = 30 + np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]) * box
        side = build_patches(square, delaunay(square)).side
        assert 4 * side**2 >= np.prod(box) > 4 * (side - 2) ** 2

    @pytest.mark.parametrize(("size", "side"), [(0.5, 3), (20, 9), (100, 9), (130, 11), (300, 25)])
    def test_large_patches_are_a_share_of_the_object_and_none_is_a_point(self, size, side):
        square = 60 + np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]) * size
        assert build_patches(square, delaunay(square)).side == side

    def test_patches_that_overlap_repeat_pixels_and_differences_stay_in_a_patch(self):
        crowded = np.array([[20.0, 20], [23, 20], [20, 23], [60, 60]])
        frame = build_patches(crowded, delaunay(crowded))
        assert len(np.unique(frame.pixels, axis=0)) < len(frame.pixels)
        own = frame.vertex_of_pixel
        neighbours, _ = frame.stencil
        assert np.all(own[neighbours] == own)
        # A ramp of its own in every patch: its slope is seen up to the border, and nothing of the others.
        x, y = frame.pixels.T
        slopes = frame.gradient((100.0 * own + (own + 1) * x - 2 * own * y)[:, None])[..., 0]
        assert_allclose(slopes, [own + 1, -2 * own], atol=1e-4)

    def test_patches_move_with_their_landmarks_and_do_not_deform(self):
        motion, model = make_warp("patches")
        shape = model.instance(small(model, 1, 5))
        moved = motion.positions(shape) - motion.frame.pixels
        assert_allclose(moved, (shape - model.mean)[motion.frame.vertex_of_pixel], atol=1e-9)

    def test_composition_is_exactly_addition(self):
        motion, model = make_warp("patches")
        p, d = small(model, 8, 4), small(model, 9, 3)
        assert_allclose(compose(motion, model, p, d), p + d, atol=1e-8)
        assert_allclose(compose(motion, model, p, d, invert_increment=True), p - d, atol=1e-8)
        assert_allclose(invert(motion, model, d), -d, atol=1e-8)


@pytest.mark.parametrize("build", [build_frame, build_patches])
@pytest.mark.parametrize("axis", [0, 1])
def test_neighbours_are_a_pixel_away_and_minus_one_is_none(build, axis):
    square = np.array([[9.0, 9], [29, 9], [29, 29], [9, 29]])
    frame = build(square, delaunay(square))
    group = frame.vertex_of_pixel if build is build_patches else np.zeros(len(frame.pixels))
    rows = {
        (part, x, y): row for row, (part, (x, y)) in enumerate(zip(group, frame.pixels.tolist(), strict=True))
    }
    step = np.eye(2, dtype=int)[axis]
    for found, way in zip(frame.beside(axis), (-step, step), strict=True):
        expected = [
            rows.get((part, *pixel), -1) for part, pixel in zip(group, frame.pixels + way, strict=True)
        ]
        assert found.tolist() == expected


def test_what_no_triangle_has_is_minus_one():
    owner = rasterise(np.array([[0.0, 0], [2, 0], [0, 2]]), np.array([[0, 1, 2]]), (3, 3))
    assert owner.tolist() == [[0, 0, 0], [0, 0, -1], [0, -1, -1]]


def test_a_triangle_without_area_has_no_pixels_and_no_warning():
    points = np.array([[0.0, 0], [2, 1], [4, 2], [0, 2]])
    owner = rasterise(points, np.array([[0, 1, 2], [0, 1, 3]]), (3, 5))
    assert owner.tolist() == [[1, -1, -1, -1, -1], [1, 1, 1, -1, -1], [1, -1, -1, -1, -1]]


def test_on_an_edge_the_first_triangle_wins():
    square = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    assert rasterise(square, np.array([[0, 1, 2], [0, 2, 3]]), (3, 3)).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [1, 1, 0],
    ]
    assert rasterise(square, np.array([[0, 2, 3], [0, 1, 2]]), (3, 3)).tolist() == [
        [0, 1, 1],
        [0, 0, 1],
        [0, 0, 0],
    ]


def test_a_warp_to_a_quarter_of_the_size_is_inverted_and_a_mirrored_one_to_first_order():
    motion, model = make_warp("piecewise-affine")
    assert_allclose(motion.onto_vertices(model.mean / 4), 4 * model.mean, atol=1e-6)
    turned = model.mean * (-1, 1)
    assert_allclose(motion.onto_vertices(turned), 2 * model.mean - turned)


class TestTriangulation:
    def test_delaunay_covers_the_hull_of_all_landmarks(self):
        model = make_model()
        triangles = delaunay(model.mean)
        assert set(triangles.ravel().tolist()) == set(range(model.landmarks))
        assert len({tuple(sorted(row)) for row in triangles.tolist()}) == len(triangles)

    def test_three_landmarks_are_one_triangle(self):
        assert delaunay(np.array([[0.0, 0], [0, 3], [4, 0]])).tolist() == [[0, 2, 1]]

    def test_triangles_turn_from_x_to_y_however_small_they_are(self):
        points = make_model().mean / 100
        areas = signed_areas(points, delaunay(points))
        assert areas.min() > 0
        assert areas.max() < 1

    def test_triangles_are_in_the_order_of_their_first_second_and_third_landmark(self):
        star = np.array([[0.0, 0], [4, 0], [-2, 3], [-2, -3]])
        expected = [[0, 1, 2], [0, 2, 3], [0, 3, 1]]
        assert delaunay(star).tolist() == expected
        assert checked_triangles(star, [[1, 3, 0], [2, 0, 1], [3, 2, 0]]).tolist() == expected

    @pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
    def test_a_triangle_below_a_hundred_thousandth_of_the_box_is_flat_in_all_units(self, size):
        mesh = [[0, 1, 4], [0, 4, 3], [1, 2, 4], [2, 3, 4]]

        def points(share: float) -> np.ndarray:
            """A square with a fifth point near an edge: the triangle between has this share of the area."""
            return size * np.array([[0.0, 0], [10, 0], [10, 10], [0, 10], [5, 20 * share]])

        assert checked_triangles(points(1.1e-5), mesh).tolist() == mesh
        with pytest.raises(ValueError, match="triangle 0 is degenerate: landmarks 0, 1, 4"):
            checked_triangles(points(0.9e-5), mesh)

    def test_a_triangle_on_a_line_along_an_axis_is_flat(self):
        with pytest.raises(ValueError, match="triangle 0 is degenerate"):
            checked_triangles(np.array([[0.0, 3], [4, 3], [9, 3]]), [[0, 1, 2]])

    def test_collinear_landmarks_get_a_sentence(self):
        with pytest.raises(ValueError, match="on one line"):
            delaunay(np.array([[0.0, 0], [1, 1], [2, 2], [5, 5]]))

    def test_coinciding_landmarks_are_named(self):
        points = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10], [10, 10]])
        with pytest.raises(ValueError, match="landmarks 4 coincide"):
            delaunay(points)

    def test_areas_are_positive_where_corners_turn_from_x_to_y(self):
        points = np.array([[1.0, 2], [5, 2], [1, 5], [7, 9]])
        areas = signed_areas(points, np.array([[0, 1, 2], [0, 2, 1], [1, 3, 2], [3, 0, 1]]))
        assert_allclose(areas, [6, -6, 17, 14])

    def test_numbers_before_the_first_landmark_are_refused(self):
        with pytest.raises(ValueError, match="triangle 1 has landmarks -1, 1, 2"):
            checked_triangles(np.array([[0.0, 0], [4, 0], [0, 4]]), [[0, 1, 2], [-1, 1, 2]])

    def test_the_users_triangles_are_kept(self):
        points = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10]])
        assert checked_triangles(points, [[3, 1, 0], [1, 2, 3]]).tolist() == [[0, 1, 3], [1, 2, 3]]

    @pytest.mark.parametrize(
        ("triangles", "sentence"),
        [
            ([[0, 1, 2], [0, 1, 4]], "triangle 1 is degenerate: landmarks 0, 1, 4"),
            ([[0, 1, 1], [0, 2, 3]], "triangle 0 is degenerate"),
            ([[0, 1, 9]], "triangle 0 has landmarks 0, 1, 9"),
            ([[0, 1, 2], [0, 1, 5]], "triangle 1 has landmarks 0, 1, 5, but .* numbered from 0 to 4"),
            ([[0, 1, 2], [0, 2, 3]], "landmarks 4 belong to no triangle"),
            ([[0, 1]], "rows of three"),
            ([[0.5, 1, 2]], "rows of three"),
            ([], "rows of three"),
        ],
    )
    def test_what_is_no_triangulation_gets_a_sentence(self, triangles, sentence):
        points = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10], [5, 0]])
        with pytest.raises(ValueError, match=sentence):
            checked_triangles(points, triangles)


def test_the_adjoint_of_the_gradient_is_its_transpose():
    model = make_model()
    frame = build_frame(model.mean, delaunay(model.mean))
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, len(frame.pixels), 2))
    slopes = rng.normal(size=(3, 2, len(frame.pixels), 2))
    assert_allclose(np.sum(frame.gradient(values) * slopes), np.sum(values * frame.gradient_adjoint(slopes)))
