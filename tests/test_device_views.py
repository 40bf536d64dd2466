"""Views of a batch in PyTorch are those that the CPU makes one by one. PyTorch runs on a GPU if there is one."""

import sys
from dataclasses import fields, replace

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.appearance.device_features import device_features, has_device_feature, loops_on
from pliant.appearance.device_pictures import upload
from pliant.appearance.device_views import feature_views
from pliant.appearance.features import _REGISTRY, find_feature, register_feature
from pliant.appearance.interpolation import resample
from pliant.appearance.view import feature_view
from pliant.devices import exact_products

torch = pytest.importorskip("torch")

NAMES = ["intensity", "normalized", "gradient", "igo", "dsift"]
COLOURS = ["gradient", "igo", "dsift"]
SIZES = [(90, 120), (140, 75), (64, 64), (200, 260)]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ANGLES = np.array([0.4, -2.8, 1.55, 0.02, -0.9, 3.0, 0.0])


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def textured(rng, size, channels, kind):
    """Images with structure of all sizes, and of as many channels; zero channels are a plain `(h, w)`."""
    values = rng.random((*size, max(channels, 1)))
    values = sum(cv2.GaussianBlur(values, (0, 0), s).reshape(values.shape) * s for s in (0.8, 2, 6))
    values = (values - values.min()) / np.ptp(values)
    values = values if channels else values[:, :, 0]
    return (values * 255).astype(np.uint8) if kind == "uint8" else values.astype(kind)


def batch(rng, sizes):
    """Which images, boxes of landmarks in them, some partly outside, and scales from a fifth to three."""
    which = np.array([0, 1, 2, 3, 3, 1, 0])
    scales = np.array([1.0, 0.7, 3.0, 0.2, 0.33, 1.3, 0.55])
    points = np.empty((len(which), 9, 2))
    for k, (image, scale) in enumerate(zip(which, scales, strict=True)):
        extent = np.array(sizes[image][::-1])
        low = rng.uniform(-0.3, 0.4, 2) * extent
        points[k] = low + rng.random((9, 2)) * min(90 / scale, 1.1 * extent.max())
    return which, points, scales


def compare(images, views, batched, name, margin, colour, angles, tolerance, edge):
    which, points, scales = batched
    feature = find_feature(name)
    for k in range(len(which)):
        one = feature_view(
            images[which[k]], points[k], scales[k], feature, margin, colour=colour, angle=float(angles[k])
        )
        height, width = one.pixels.shape[:2]
        assert views.sizes[k].tolist() == [height, width]
        assert_allclose(views.origins[k].numpy(), one.origin, rtol=1e-12, atol=1e-9)
        assert (float(views.scales[k]), float(views.angles[k])) == (one.scale, one.angle)
        pixels = views.pixels[views.rows[k], :height, :width].numpy()
        inside = np.s_[edge : height - edge, edge : width - edge]
        assert pixels[inside].size
        assert_allclose(pixels[inside], one.pixels[inside], rtol=0, atol=tolerance, err_msg=f"{name} {k}")


def looked_at(images, batched, name, margin=3.0, **how):
    """The views of a batch, brought back from the device."""
    which, points, scales = batched
    views = feature_views(upload(images, DEVICE), which, points, scales, name, margin, **how)
    return replace(views, **{field.name: getattr(views, field.name).cpu() for field in fields(views)})


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("channels", "kind"), [(0, "uint8"), (1, "float32"), (3, "uint8"), (3, "float64")])
def test_what_is_seen(rng, channels, kind, turned):
    images = [textured(rng, size, channels, kind) for size in SIZES]
    batched = batch(rng, SIZES)
    angles = ANGLES if turned else np.zeros(len(ANGLES))
    views = looked_at(images, batched, "intensity", angles=angles)
    compare(images, views, batched, "intensity", 3.0, False, angles, 1e-5 if turned else 2e-6, 0)
    assert views.pixels.is_contiguous()
    assert views.pixels.dtype == torch.float32


@pytest.mark.parametrize("turned", [False, True])
def test_views_show_more_of_the_image_beyond_their_own_size(rng, turned):
    images = [textured(rng, size, 0, "uint8") for size in SIZES]
    batched = batch(rng, SIZES)
    angles = ANGLES if turned else np.zeros(len(ANGLES))
    views = looked_at(images, batched, "intensity", angles=angles)
    for k, (image, _, scale) in enumerate(zip(*batched, strict=True)):
        shape = tuple(views.pixels.shape[1:3])
        origin, angle = views.origins[k].numpy(), float(angles[k])
        whole = resample(images[image], origin, scale, shape, grey=True, angle=angle)
        # A larger view on the CPU may interpolate between other pixels if it is turned.
        assert_allclose(views.pixels[k], whole, rtol=0, atol=0.05 if turned else 2e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("name", "colour"), [*((name, False) for name in NAMES), *((name, True) for name in COLOURS)]
)
def test_features(rng, name, colour, turned):
    images = [textured(rng, size, 3 if colour else 0, "uint8") for size in SIZES]
    batched = batch(rng, SIZES)
    angles = ANGLES if turned else np.zeros(len(ANGLES))
    edge, margin = find_feature(name).reach + 2, 3.0
    if name == "normalized":
        # Its reach leaves out the ends of two wide Gaussians, which larger views show more of.
        edge, margin = 65, 40.0
    views = looked_at(images, batched, name, margin, colour=colour, angles=angles)
    compare(images, views, batched, name, margin, colour, angles, 1e-4 if turned else 2e-5, edge)


@pytest.mark.parametrize("shape", [(3, 70, 91), (2, 64, 33), (2, 5, 6), (2, 1, 7), (1, 7, 1), (2, 40, 50, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_features_up_to_the_border(rng, name, shape):
    feature = find_feature(name)
    if len(shape) == 4 and not feature.colour:
        pytest.skip("it does not see colour")
    images = rng.random(shape, dtype=np.float32)
    found = device_features(torch.tensor(images, device=DEVICE), np.array([shape[1:3]] * shape[0]), feature)
    assert_allclose(found.cpu().numpy(), [feature.compute(image) for image in images], rtol=0, atol=2e-5)


def test_a_picture_of_one_colour_is_flat(rng):
    images = np.full((1, 40, 40), 0.3, dtype=np.float32)
    for name in NAMES[1:]:
        found = device_features(torch.tensor(images, device=DEVICE), np.array([[40, 40]]), find_feature(name))
        assert float(found.abs().max()) < 1e-4


def test_images_of_all_kinds_in_one_batch(rng):
    channels, kinds = (0, 3, 1, 3), ("uint8", "uint8", "float32", "float64")
    images = [textured(rng, *each) for each in zip(SIZES, channels, kinds, strict=True)]
    images[2] = (images[2] * 4000 + 300).astype(np.uint16)
    batched = batch(rng, SIZES)
    for name, colour in (("intensity", False), ("gradient", False), ("gradient", True)):
        views = looked_at(images, batched, name, colour=colour)
        edge = find_feature(name).reach
        compare(images, views, batched, name, 3.0, colour, np.zeros(len(ANGLES)), 2e-5, edge)


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="PyTorch is older")
@pytest.mark.parametrize("before", ["ieee", "tf32"])
def test_products_are_exact_whatever_the_user_allows(before):
    products = torch.backends.cuda.matmul
    known = products.fp32_precision
    products.fp32_precision = before
    try:
        with exact_products():
            assert products.fp32_precision == "ieee"
        assert products.fp32_precision == before
    finally:
        products.fp32_precision = known


def test_upload(rng):
    grey = [textured(rng, size, 0, "uint8") for size in SIZES]
    pictures = upload(grey, "cpu")
    assert pictures.pixels.dtype == torch.uint8
    assert pictures.pixels.shape == (4, 200, 260, 1)
    assert_array_equal(pictures.sizes, SIZES)
    assert len(pictures) == 4
    colour = textured(rng, (30, 40), 3, "uint8")
    pixels = upload([grey[0], colour], "cpu").pixels.numpy()
    assert_array_equal(pixels[0, :90, :120], np.repeat(grey[0][:, :, None], 3, axis=2))
    assert_array_equal(pixels[1, :30, :40], colour)
    pictures = upload([grey[0], grey[0] / 255], "cpu")
    assert pictures.pixels.dtype == torch.float32
    assert_allclose(pictures.pixels[0, :90, :120], pictures.pixels[1, :90, :120], atol=1e-7)


@pytest.mark.parametrize("turned", [False, True])
def test_chunks_change_nothing(rng, turned):
    images = [textured(rng, size, 3, "uint8") for size in SIZES]
    which, points, _ = batch(rng, SIZES)
    scales = np.linspace(0.55, 0.95, len(which))
    angles = ANGLES if turned else None
    at_once, one_by_one = (
        looked_at(images, (which, points, scales), "igo", angles=angles, budget=budget)
        for budget in (2**31, 1)
    )
    assert_allclose(at_once.pixels, one_by_one.pixels, atol=2e-5)


@pytest.mark.skipif(loops_on(torch.device(DEVICE)) is None, reason="the kernels need CUDA and Triton")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("name", "colour", "channels", "kind"),
    [
        ("intensity", False, 0, "float32"),
        ("intensity", False, 3, "uint8"),
        ("gradient", False, 3, "uint8"),
        ("gradient", True, 3, "uint8"),
        ("igo", True, 3, "float32"),
        ("dsift", False, 1, "uint8"),
        ("dsift", False, 3, "uint8"),
        ("dsift", True, 3, "uint8"),
    ],
)
def test_kernels_of_triton_change_nothing(rng, monkeypatch, name, colour, channels, kind, turned):
    images = [textured(rng, size, channels, kind) for size in SIZES]
    batched = batch(rng, SIZES)
    angles = ANGLES if turned else None
    fast = looked_at(images, batched, name, colour=colour, angles=angles)
    monkeypatch.setitem(sys.modules, "pliant.appearance.device_loops", None)
    assert loops_on(torch.device(DEVICE)) is None
    plain = looked_at(images, batched, name, colour=colour, angles=angles)
    assert fast.pixels.is_contiguous()
    different = (fast.pixels - plain.pixels).abs() > 2e-5
    # Where two colours change equally much, rounding decides which of them counts.
    assert float(different.float().mean()) <= (1e-3 if colour else 0)


def test_only_cuda_has_kernels_of_triton():
    assert loops_on(torch.device("cpu")) is None


def test_there_and_back(rng):
    images = [textured(rng, size, 0, "uint8") for size in SIZES]
    batched = batch(rng, SIZES)
    which, points, scales = batched
    views = looked_at(images, batched, "intensity", 7.0, angles=ANGLES)
    shapes = torch.as_tensor(points)
    inside = views.to_view(shapes)
    # The box is as tight as the margin says.
    assert_allclose(inside.amin(dim=1), 7.0)
    assert_allclose(views.to_image(inside), shapes)
    spread = rng.normal(size=(len(which), 9, 2, 2))
    spread = spread @ spread.swapaxes(-1, -2)
    found = views.spread_to_image(torch.as_tensor(spread))
    for k in range(len(which)):
        one = feature_view(
            images[which[k]], points[k], scales[k], find_feature("intensity"), 7.0, angle=float(ANGLES[k])
        )
        assert_allclose(inside[k], one.to_view(points[k]), atol=1e-9)
        assert_allclose(found[k], one.spread_to_image(spread[k]), rtol=1e-9)


def test_some_of_the_views(rng):
    images = [textured(rng, size, 0, "uint8") for size in SIZES]
    batched = batch(rng, SIZES)
    views = looked_at(images, batched, "gradient", angles=ANGLES)
    some = views.of(torch.tensor([4, 1, 1])).of(torch.tensor([True, True, False]))
    assert len(some) == 2
    assert some.pixels is views.pixels
    assert some.rows.tolist() == [4, 1]
    points = torch.as_tensor(batched[1])
    assert_array_equal(some.to_view(points[[4, 1]]), views.to_view(points)[[4, 1]])
    assert_array_equal(some.sizes, views.sizes[[4, 1]])


@pytest.mark.parametrize("colour", [False, True])
def test_a_feature_of_a_user(rng, monkeypatch, colour):
    monkeypatch.setattr("pliant.appearance.features._REGISTRY", dict(_REGISTRY))

    @register_feature("ramp", channels=2, reach=4, colour=True)
    def ramp(image):
        assert image.ndim == 2 + colour
        grey = image.mean(axis=2) if colour else image
        return np.stack([grey, np.cumsum(grey, axis=0)], axis=-1)

    images = [textured(rng, size, 0, "uint8") for size in SIZES]
    batched = batch(rng, SIZES)
    assert not has_device_feature("ramp")
    views = looked_at(images, batched, "ramp", colour=colour)
    compare(images, views, batched, "ramp", 3.0, colour, np.zeros(len(ANGLES)), 1e-3, 0)
    smallest = int(views.sizes[:, 0].argmin())
    height = int(views.sizes[smallest, 0])
    beyond = views.pixels[smallest, height - 1 :]
    assert len(beyond) > 1
    assert_array_equal(beyond, beyond[:1].expand_as(beyond))


def test_a_built_in_feature_that_a_user_replaced(monkeypatch):
    assert all(has_device_feature(name) for name in NAMES)
    monkeypatch.setattr("pliant.appearance.features._REGISTRY", dict(_REGISTRY))
    register_feature("igo", channels=1, reach=0)(lambda grey: grey[:, :, None])
    assert not has_device_feature("igo")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((np.nan, 1.0), "view 1: some landmarks are not finite"),
        ((1e5, 1.0), "view 1: the landmarks span 1e\\+05 pixels, but the image has 60 x 50"),
        ((0.0, np.inf), "view 1: a scale must be a positive number"),
    ],
)
def test_what_cannot_be_looked_at(rng, change, words):
    points, scales = rng.uniform(0, 40, (2, 5, 2)), np.ones(2)
    points[1, 0, 0] += change[0]
    scales[1] *= change[1]
    pictures = upload([textured(rng, (50, 60), 0, "uint8")], "cpu")
    with pytest.raises(ValueError, match=words):
        feature_views(pictures, np.zeros(2, dtype=int), points, scales, "gradient")


def test_a_feature_that_does_not_see_colour(rng):
    pictures = upload([textured(rng, (50, 60), 3, "uint8")], "cpu")
    with pytest.raises(ValueError, match="does not see colour"):
        feature_views(pictures, [0], rng.uniform(0, 40, (1, 5, 2)), [1.0], "intensity", colour=True)
