"""Compiled loops and products of a GPU against plain PyTorch: on a GPU, or with TRITON_INTERPRET=1 on the CPU."""

import dataclasses
import itertools
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("there is no GPU", allow_module_level=True)

from pliant.kernels import torch_loops, torch_pixels  # noqa: E402
from pliant.kernels.torch_halves import BLOCK, blend, halves, long_sums, vertex_product  # noqa: E402
from pliant.kernels.torch_products import PixelOrder, product_with  # noqa: E402
from pliant.motion import build_motion, delaunay  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOUNDS = [0, 40, 56, 112]


@pytest.fixture
def drawn():
    return np.random.default_rng(0)


def put(values) -> object:
    return torch.as_tensor(np.asarray(values, dtype=np.float32), device=DEVICE)


def plain_looking(drawn, channels: int, warped: int = 90) -> torch_pixels.Looking:
    f = BOUNDS[-1]
    own = drawn.integers(0, warped, f)
    own[[3, 50]] = -1
    steps = drawn.normal(size=(2, f)) * (own >= 0)
    tables = [torch.as_tensor(drawn.integers(0, warped, (2, 2, f)), device=DEVICE) for _ in range(2)]
    mean = put(drawn.normal(size=(f, channels)))
    return torch_pixels.Looking(torch.as_tensor(own, device=DEVICE), mean, *tables, put(steps))


def by_triangle(sums, weights):
    """Sums at pixels `(B, k, f)` times weights `(j, f)`, added up over triangles: `(B, k, T j)`."""
    parts = [
        torch.einsum("bkf,jf->bkj", sums[..., a:b], weights[:, a:b]) for a, b in itertools.pairwise(BOUNDS)
    ]
    return torch.cat(parts, -1)


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("model", ["none", "fixed", "own", "moving"])
@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("scaled", [None, False, True])
def test_loops_see_what_plain_functions_see(drawn, channels, model, image, scaled):
    plain = plain_looking(drawn, channels)
    shares = put(drawn.uniform(size=(BOUNDS[-1], 3)))
    scales = None if scaled is None else torch_loops.Scales(8.0, 4.0, rest=scaled)
    look = torch_loops.looking(plain, BOUNDS, shares, scales)
    values = put(drawn.normal(size=(2, 90, channels)))
    h = {"fixed": (2, 1), "own": (2, 2)}.get(model)
    h = None if h is None else put(drawn.normal(size=(*h, BOUNDS[-1], channels)))
    appearance = put(drawn.normal(size=(2, 90, channels))) if model == "moving" else None
    asked = {"image": image, "moving": model in ("own", "moving")}
    e, g, sums = look(values, h, appearance, **asked)
    e_plain, g_plain, per_pixel = plain(values, h, appearance, **asked)
    if scaled is not None:
        e, g = e.whole().reshape(e_plain.shape), None if g is None else g.whole().reshape(g_plain.shape)
    loose = 2e-3 if scaled is False else 1e-5
    torch.testing.assert_close(e, e_plain, atol=loose, rtol=loose)
    assert (g is None) == (g_plain is None)
    if g is not None:
        torch.testing.assert_close(g, g_plain, atol=loose, rtol=loose)
    u, v, w = shares.T
    two = torch.stack([u * u, u * v, u * w, v * v, v * w, w * w])
    wanted = {
        "values": by_triangle(per_pixel.values[:, None], torch.ones_like(u)[None])[:, 0],
        **{name: (shares.T, getattr(per_pixel, name)) for name in ("image_values", "model_values")},
        **{name: (two, getattr(per_pixel, name)) for name in ("image_image", "model_model", "image_model")},
    }
    for name, one in wanted.items():
        found = getattr(sums, name)
        if isinstance(one, tuple):
            weights, at_pixels = one
            assert (found is None) == (at_pixels is None), name
            one = None if at_pixels is None else by_triangle(at_pixels, weights)
        if one is not None:
            torch.testing.assert_close(found, one, atol=1e-3, rtol=1e-4, msg=name)


def test_pixels_are_where_their_corners_are(drawn):
    points = np.array([[3.0, 3.0], [14.0, 3.0], [14.0, 12.0], [3.0, 12.0]])
    motion = build_motion("piecewise-affine", points, delaunay(points))
    support = np.arange(len(motion.frame.pixels))[::2]
    images = dataclasses.make_dataclass("Images", ["pixels", "rows", "sizes"])(
        put(drawn.normal(size=(2, 16, 18, 4))),
        torch.tensor([1, 0], device=DEVICE),
        torch.tensor([[16, 18], [15, 17]], device=DEVICE),
    )
    fixed = put(np.zeros((len(support), 2)))
    shapes = torch.as_tensor(points + drawn.normal(0, 2, (2, 4, 2)), device=DEVICE)
    plain = torch_pixels.Positions(put(motion.matrix()[support]), fixed, torch_pixels.warp)
    for where in (
        torch_loops.corners(motion, support, fixed),
        dataclasses.replace(plain, warp=torch_loops.warp),
    ):
        torch.testing.assert_close(
            where.warped(images, shapes), plain.warped(images, shapes), atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("rest", [True, False])
def test_products_of_vertices_are_those_of_triangles(drawn, rest):
    points = np.array([[3.0, 3.0], [20.0, 3.0], [20.0, 18.0], [3.0, 18.0], [10.0, 9.0]])
    motion = build_motion("piecewise-affine", points, delaunay(points))
    counts = np.diff(motion.frame.first_pixel)
    size = int(-(-counts.max() // 8) * 8)
    places = np.full((len(counts), size), -1)
    for k, count in enumerate(counts):
        places[k, :count] = motion.frame.first_pixel[k] + np.arange(count)
    order = PixelOrder(places.ravel(), ((np.arange(len(counts)), 0, size),))
    real = order.places >= 0
    weights = put(motion.weights[np.maximum(order.places, 0)] * real[:, None])
    basis, shape_basis = put(drawn.normal(size=(5, len(real) * 8))), drawn.normal(size=(10, 3))
    g = put(drawn.normal(size=(2, 3, len(real), 8)))
    warp = torch.zeros(2, len(real), 3)
    expected = product_with(motion, shape_basis, order, weights, basis, warp, "float32")(g)
    product = vertex_product(motion, shape_basis, order, weights, basis, rest=rest)
    found = product(halves(g.reshape(6, -1), rest=rest))
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected, atol=(3e-6 if rest else 3e-3) * largest, rtol=0)


def test_long_sums_leave_out_no_bits(drawn):
    left, right = put(drawn.normal(size=(3, 10 * BLOCK))), put(0.01 * drawn.normal(size=(10 * BLOCK, 7)))
    expected = left.double() @ right.double()
    found = long_sums(right, rest=True).times(halves(left, rest=True))
    torch.testing.assert_close(found.double(), expected, atol=2e-6 * float(expected.abs().max()), rtol=0)


def test_appearances_leave_out_no_bits(drawn):
    mean, variances = put(drawn.normal(size=200)), put([400.0, 1.0, 1e-3])
    components = put(0.05 * drawn.normal(size=(3, 200)))
    c = put(drawn.normal(size=(4, 3))) * variances.sqrt()
    expected = c.double() @ components.double() + mean.double()
    found = blend(mean, components, variances, rest=True).of(c)[:, :200]
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)
