"""Synthetic wings and chests: the same every time, well formed, measured, and annotated where they are drawn."""

import json

import numpy as np
import pytest
from PIL import Image as PIL

import pliant
from pliant.synthetic import (
    CHEST_LANDMARKS,
    HEART,
    LEFT_LUNG,
    RIGHT_LUNG,
    WING_LANDMARKS,
    chest,
    chests,
    wing,
    wings,
    write_chests,
    write_wings,
)

COUNT = 40
DRAWN = {"wing": (wing, wings, WING_LANDMARKS), "chest": (chest, chests, CHEST_LANDMARKS)}


@pytest.fixture(params=list(DRAWN))
def kind(request):
    """What draws one, what gives many, and the names of the landmarks."""
    return DRAWN[request.param]


def test_the_same_arguments_give_the_same_picture(kind):
    draw = kind[0]
    image, points, spacing = draw(3, 5, 96)
    draw(4)
    again = draw(3, 5, 96)
    assert np.array_equal(image, again[0])
    assert np.array_equal(points, again[1])
    assert spacing == again[2]
    for other in ((4, 5), (3, 6)):
        assert np.abs(draw(*other, 96)[1] - points).max() > 1


def test_two_sizes_show_the_same_object(kind):
    draw = kind[0]
    small_image, small, coarse = draw(2, 1, 128)
    large_image, large, fine = draw(2, 1, 256)
    assert coarse == pytest.approx(2 * fine)
    np.testing.assert_allclose((small + 0.5) * 2 - 0.5, large, atol=1e-9)
    height, width = small_image.shape[:2]
    halved = large_image.reshape(height, 2, width, 2, -1).mean(axis=(1, 3))
    assert np.abs(halved - small_image.reshape(height, width, -1)).mean() < 0.03 * np.ptp(large_image)


def test_data_sets_have_what_the_pictures_have(kind):
    draw, make, names = kind
    sample = make(3, seed=2, image_size=96)[2]
    image, points, spacing = draw(2, 2, 96)
    assert np.array_equal(sample.points(), points)
    assert sample.spacing() == spacing
    assert sample.annotation().names == names
    assert sample.annotation().size == image.shape[1::-1]
    assert sample.image().shape == image.shape
    assert len(points) == len(names) == len(set(names))


@pytest.mark.parametrize("make", [wings, chests])
def test_points_lie_inside_and_apart(make):
    for sample in make(COUNT, image_size=256):
        points, (width, height) = sample.points(), sample.annotation().size
        assert (points > 2).all()
        assert (points < (width - 3, height - 3)).all()
        apart = np.linalg.norm(points[:, None] - points[None], axis=2) + 100 * np.eye(len(points))
        assert apart.min() > 2.5, sample.name


def test_wings_are_as_long_as_those_of_flies_and_differ():
    made = wings(COUNT)
    lengths = np.array([np.ptp(one.points()[:, 0]) * one.spacing() for one in made])
    assert lengths.min() > 1.6
    assert lengths.max() < 2.8
    assert len({round(one.spacing(), 5) for one in made}) == 3, "microscopes have several magnifications"


def test_hearts_are_half_as_wide_as_chests():
    ratios = []
    for one in chests(COUNT):
        points = one.points()
        heart, lungs = points[list(HEART)], points[list(RIGHT_LUNG + LEFT_LUNG)]
        ratios.append(np.ptp(heart[:, 0]) / np.ptp(lungs[:, 0]))
    assert 0.40 < np.mean(ratios) < 0.52
    assert np.std(ratios) > 0.02


def test_crossings_of_veins_are_dark():
    """Within a pixel of each crossing it is darker than in the membrane five pixels away."""
    darker = []
    for index in range(12):
        image, points, _ = wing(index)
        grey = image.astype(float).mean(axis=2)
        x, y = np.rint(points[7:]).astype(int).T
        here = np.min([grey[y + j, x + i] for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)
        ring = [(5, 3), (-5, 3), (5, -3), (-5, -3), (3, 5), (-3, 5), (3, -5), (-3, -5)]
        around = np.median([grey[y + j, x + i] for i, j in ring], axis=0)
        darker.append(here < around - 15)
    assert np.mean(darker) > 0.95


def test_lungs_are_darker_inside_than_beyond_their_sides():
    for index in range(12):
        image, points, spacing = chest(index)
        assert image.dtype == np.uint16
        assert 255 < image.max() < 4096, "12 bits in 16"
        for widest, inwards in ((3, 1), (12, -1)):
            x, y = points[widest]
            inside, outside = (
                image[int(y) - 4 : int(y) + 5, round(x + step / spacing)].mean()
                for step in (12 * inwards, -9 * inwards)
            )
            assert inside < outside, (index, widest)


def test_folders_are_read_back_with_their_scale(tmp_path):
    for write, make, ending in ((write_wings, wings, ".jpg"), (write_chests, chests, ".png")):
        folder = tmp_path / make.__name__
        folder.mkdir()
        stale = folder / f"{make.__name__[:-1]}-0099{ending}"
        stale.write_bytes(b"")
        counted = []
        write(folder, 3, seed=4, image_size=96, advance=lambda counted=counted: counted.append(1))
        assert len(counted) == 3
        assert not stale.exists()
        read, made = pliant.load_dataset(folder / f"{make.__name__}.tps"), make(3, seed=4, image_size=96)
        assert len(read) == 3
        for one, same in zip(read, made, strict=True):
            np.testing.assert_allclose(one.points(), same.points(), atol=1e-4)
            assert one.spacing() == pytest.approx(same.spacing())
            assert one.image().shape == same.image().shape
    with PIL.open(tmp_path / "chests" / "chest-0000.png") as file:
        assert file.mode.startswith("I;16")


def test_the_command_draws_what_it_is_told(command, tmp_path):
    said = command("synthetic", tmp_path / "w", "--kind", "wings", "--count", 2, "--json")
    assert json.loads(said.out) == {"wings": 2, "wrote": [str(tmp_path / "w")]}
    assert sorted(file.name for file in (tmp_path / "w").iterdir()) == [
        "wing-0000.jpg",
        "wing-0001.jpg",
        "wings.tps",
    ]
    said = command("synthetic", tmp_path / "c", "--kind", "chests", "--count", 1)
    assert "wrote 1 chest " in said.out
    said = command("synthetic", tmp_path / "v", "--kind", "wings", "--video", code=None)
    assert said.code != 0
    assert "--video shows a moving face" in said.err


def test_a_model_of_few_chests_finds_others():
    made = chests(24, seed=3, image_size=128)
    settings = {"preset": "quick", "size": 40, "experts": "none", "confidence": False, "progress": False}
    model = pliant.train(made[:20], **settings)
    errors = [
        np.linalg.norm(found.points - one.points(), axis=1).mean() * one.spacing()
        for found, one in zip(pliant.fit(model, made[20:]), made[20:], strict=True)
    ]
    assert np.median(errors) < 6, "millimetres, of a chest that is 270 wide"
