"""Experts on a device see what they see on the CPU, in batches. PyTorch runs on a GPU if there is one."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant import devices
from pliant.experts.frames import crop_frame
from pliant.experts.linear_training import train_linear
from pliant.experts.network import NetworkExpert, Stage
from pliant.experts.posterior import shape_noise
from pliant.experts.sightings import Sightings
from pliant.fitting.fitter import make_fitter
from pliant.fitting.guided import guides, shape_of_sightings
from pliant.namespace import inverses, on_host, solutions
from pliant.shape import Similarity, align, shape_size
from test_network_expert import random_weights

torch = pytest.importorskip("torch")

from pliant.appearance.device_pictures import upload  # noqa: E402
from pliant.experts import device_linear, device_network  # noqa: E402
from pliant.experts.on_device import look_on_device, looks_on_device  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NAME = "cuda" if torch.cuda.is_available() else "torch"


@pytest.fixture(scope="module")
def linear(dataset):
    return train_linear([(sample.image(), sample.points()) for sample in dataset[:10]], starts=60)


@pytest.fixture(scope="module")
def network(dataset):
    """Two networks with weights at random: what they say has no meaning, and must be the same everywhere."""
    mean = dataset[0].points()
    stages = []
    for number, (pixels, margin, widths, ups) in enumerate(
        [(48, 0.5, (4, 6, 8), 1), (64, 0.14, (4, 6, 8), 2)]
    ):
        frame = crop_frame(mean, pixels, margin, 8)
        weights = random_weights(widths, ups, len(mean), seed=number)
        weights["head.weight"] *= 6
        spread = np.tile(np.diag([0.5, 2.0]), (len(mean), 1, 1))
        stages.append(Stage(frame, weights, 0.7, spread))
    return NetworkExpert(tuple(stages))


def objects(dataset, rng):
    """Images in grey and colour, of several sizes and turned ones, and starts that are off."""
    images, starts = [], []
    for number, sample in enumerate(dataset[10:17]):
        image, points = sample.image(), sample.points()
        if number == 1:
            image, points = image[::2, ::2], points / 2
        if number == 2:
            image, points = np.repeat(np.repeat(image, 3, axis=0), 3, axis=1), points * 3 + 1
        if number == 3:
            turn = Similarity(np.asarray(1j), np.asarray(image.shape[0] - 1 + 0j))
            image, points = np.rot90(image, -1), turn.apply(points)
        if number == 4:
            # Upside down, without a copy.
            image, points = image[::-1, ::-1], np.array(image.shape[1::-1]) - 1 - points
        images.append(image)
        starts.append(points + 0.05 * shape_size(points) * rng.uniform(-1, 1, 2))
    return images, np.array(starts)


def assert_the_same(there, here, tolerance=1e-3):
    points, precision = on_host(there.points), on_host(there.precision)
    assert_array_equal(there.on_host().seen, here.seen)
    assert_allclose(points, here.points, rtol=0, atol=tolerance)
    largest = np.abs(here.precision).max(axis=(-2, -1), keepdims=True)
    assert np.all(np.abs(precision - here.precision) <= 2e-3 * largest)


def looked(expert, images, starts, number=0):
    which = np.arange(len(images))
    return look_on_device(expert, upload(images, DEVICE), which, starts, number)


def test_a_linear_expert(linear, dataset, rng):
    images, starts = objects(dataset, rng)
    seen = looked(linear, images, starts)
    assert seen.points.device.type == DEVICE.type
    assert_the_same(seen, linear.look(images, starts))


@pytest.mark.parametrize("number", [0, 1])
def test_a_network_expert(network, dataset, rng, number):
    images, starts = objects(dataset, rng)
    # One lies exactly as the frame does, so that its window is upright.
    starts[0] = network.stages[number].frame.mean * 0.9
    seen = looked(network, images, starts, number)
    assert_the_same(seen, network.look(images, starts, number), 2e-3)


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_images_that_are_floats(kind, dataset, rng, request):
    images, starts = objects(dataset, rng)
    expert = request.getfixturevalue(kind)
    images = [image / np.float32(255) for image in images]
    assert_the_same(looked(expert, images, starts), expert.look(images, starts, 0), 2e-3)


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_what_cannot_be_seen_is_not_and_the_others_are(kind, dataset, rng, request):
    images, starts = objects(dataset, rng)
    expert = request.getfixturevalue(kind)
    good = expert.look(images, starts, 0)
    assert good.seen.any(axis=1).all()
    starts[1] *= 1e5
    starts[3, 2] = np.nan
    starts[5] = starts[5, :1]
    seen = looked(expert, images, starts).on_host()
    assert_array_equal(seen.seen, expert.look(images, starts, 0).seen)
    assert not seen.seen[[1, 3]].any()
    assert_allclose(seen.points[[0, 2, 4, 6]], good.points[[0, 2, 4, 6]], atol=2e-3)
    nobody = looked(expert, images[:2], np.full_like(starts[:2], np.nan))
    assert not nobody.on_host().seen.any()


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_nothing_is_seen_in_an_image_without_numbers(kind, dataset, rng, request):
    images, starts = objects(dataset, rng)
    expert = request.getfixturevalue(kind)
    images = [image.astype(np.float32) / 255 for image in images]
    images[2] = np.full_like(images[2], np.nan)
    here, there = expert.look(images, starts, 0), looked(expert, images, starts)
    assert_the_same(there.of([0, 1, 3]), here.of([0, 1, 3]), 2e-3)
    assert here.seen[2].any() == there.on_host().seen[2].any()


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_parts_change_nothing(kind, dataset, rng, request, monkeypatch):
    images, starts = objects(dataset, rng)
    expert = request.getfixturevalue(kind)
    whole = looked(expert, images, starts).on_host()
    for module in (device_linear, device_network):
        monkeypatch.setattr(module, "memory_for_parts", lambda device: 1)
    parts = looked(expert, images, starts).on_host()
    assert_allclose(parts.points, whole.points, atol=1e-3)


def test_several_objects_in_one_picture(linear, dataset, rng):
    images, starts = objects(dataset, rng)
    which = np.array([2, 0, 2])
    near = np.stack([starts[2], starts[0], starts[2] + 1.0])
    seen = look_on_device(linear, upload(images, DEVICE), which, near, 0)
    assert_the_same(seen, linear.look([images[k] for k in which], near))


def test_shapes_of_sightings_on_a_device(model, rng):
    shape = model.levels[-1].shape
    noise = shape_noise(shape)
    modes = rng.normal(size=(3, shape.parameters)) * 0.5
    truths = Similarity(np.array([2.0, 1j, 0.6]), np.array([30 + 5j, 7j, 80 + 0j])).apply(
        shape.instance(modes)
    )
    roots = rng.normal(size=(*truths.shape, 2))
    seen = Sightings(truths + rng.normal(size=truths.shape), roots @ np.swapaxes(roots, -1, -2))
    seen.precision[0, 4] = 0
    there = Sightings(*(torch.as_tensor(part, device=DEVICE) for part in (seen.points, seen.precision)))
    for one, other in zip(
        shape_of_sightings(shape, noise, there, truths),
        shape_of_sightings(shape, noise, seen, truths),
        strict=True,
    ):
        assert_allclose(on_host(one), other, rtol=1e-6, atol=1e-6)


def test_similarities_of_tensors(rng):
    source, targets = rng.normal(size=(5, 2)), rng.normal(size=(4, 5, 2))
    here, there = align(source, targets), align(source, torch.as_tensor(targets, device=DEVICE))
    for name in ("factor", "offset", "scale", "angle"):
        assert_allclose(on_host(getattr(there, name)), getattr(here, name), rtol=1e-12, atol=1e-12)
    back = there.inverse().apply(torch.as_tensor(targets, device=DEVICE))
    assert_allclose(on_host(back), here.inverse().apply(targets), atol=1e-9)
    point = align(np.ones((5, 2)), torch.as_tensor(targets, device=DEVICE))
    assert_allclose(on_host(point.factor), 1.0)


def test_small_systems_of_tensors(rng):
    roots = rng.normal(size=(6, 3, 2, 2))
    positive = roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(2)
    there = torch.as_tensor(positive, device=DEVICE)
    assert_allclose(on_host(inverses(there)), inverses(positive), rtol=1e-8)
    right = rng.normal(size=(6, 2))
    found = solutions(there[:, 0], torch.as_tensor(right, device=DEVICE))
    assert_allclose(on_host(found), solutions(positive[:, 0], right), rtol=1e-7)


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_fits_that_an_expert_leads_end_where_those_of_the_cpu_do(kind, model, dataset, request):
    expert = request.getfixturevalue(kind)
    led = replace(model, expert=expert)
    samples = dataset[10:16]
    starts = [sample.points() + (2.0, -1.5) for sample in samples]
    here = pliant.fit(led, samples, starts)
    there = pliant.fit(led, samples, starts, device=NAME)
    assert any(fit.sightings is not None for fit in here)
    for one, other in zip(here, there, strict=True):
        assert one.status == other.status, other.reason
        assert_allclose(other.points, one.points, atol=0.05)


def test_the_host_is_not_asked_to_look(linear, model, dataset, monkeypatch):
    """And the images are uploaded once."""
    monkeypatch.setattr(type(linear), "look", lambda *given: pytest.fail("it looked on the host"))
    uploads = []
    from pliant.fitting import looking

    whole = looking.upload
    monkeypatch.setattr(looking, "upload", lambda *given: uploads.append(given) or whole(*given))
    fitter = make_fitter(replace(model, expert=linear), device=NAME)
    samples = dataset[10:13]
    fits = fitter.block([sample.image() for sample in samples], [sample.points() + 1.0 for sample in samples])
    assert all(fit.sightings is not None for fit in fits)
    assert len(uploads) == 1


def test_an_expert_of_a_user_looks_on_the_host(linear, model, dataset):
    class Own:
        looks = 1

        def look(self, images, shapes, number):
            return linear.look(images, shapes)

    assert looks_on_device(linear)
    assert not looks_on_device(Own())
    with pytest.raises(TypeError, match="Own does not look on a device"):
        looked(Own(), [dataset[0].image()], dataset[0].points()[None])
    samples = dataset[10:12]
    starts = [sample.points() + 1.0 for sample in samples]
    there = pliant.fit(replace(model, expert=Own()), samples, starts, device=NAME)
    assert all(fit.sightings is not None for fit in there)


def test_guides_are_arrays_of_the_host(linear, model, dataset):
    samples = dataset[10:13]
    images, starts = [sample.image() for sample in samples], [sample.points() + 1.0 for sample in samples]
    pictures = upload(images, DEVICE)

    def look(some, shapes, number):
        which = np.array([next(k for k, image in enumerate(images) if image is one) for one in some])
        return look_on_device(linear, pictures, which, shapes, number)

    here, there = guides(model, linear, images, starts), guides(model, linear, images, starts, look)
    for one, other in zip(here, there, strict=True):
        assert isinstance(other.points, np.ndarray)
        assert isinstance(other.heeded.precision, np.ndarray)
        assert_allclose(other.points, one.points, atol=1e-3)
        assert_allclose(other.sightings.points, one.sightings.points, atol=1e-3)


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="PyTorch is older")
def test_convolutions_are_exact_whatever_the_user_allows():
    switch = torch.backends.cudnn.conv
    before = switch.fp32_precision
    switch.fp32_precision = "tf32"
    try:
        with devices.exact_convolutions():
            assert switch.fp32_precision == "ieee"
        assert switch.fp32_precision == "tf32"
    finally:
        switch.fp32_precision = before
