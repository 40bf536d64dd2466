"""The network of a model as a judge of what a scan suspects: a shape that it sees whole is an object."""

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.experts.frames import crop_frame
from pliant.experts.network import NetworkExpert, Stage
from pliant.settings import Fitting, Starting
from pliant.shape import Similarity, shape_size
from pliant.shape.facing import flipped, other_way
from pliant.starts.choice import find_chain, find_starts
from pliant.starts.judging import agreement, judged
from pliant.starts.scan import make_object_search
from test_filters import scene

MEAN = np.array([[0.0, 0], [60, -8], [70, 50], [8, 66], [30, 22]])
TONES = np.linspace(0.2, 1, len(MEAN))


@dataclass(frozen=True, eq=False, repr=False)
class Toned(Stage):
    """A network that knows each landmark as a flat spot of its tone, and has no idea of how they lie."""

    asked: list = field(default_factory=list)

    def maps(self, window):
        self.asked.append(window)
        tones = np.linspace(0.2, 1, len(self.frame.mean), dtype=np.float32)
        around = np.ones((3, 3), np.uint8)
        slope = cv2.dilate(window, around) - cv2.erode(window, around)
        off = (window - tones[:, None, None]) ** 2 + slope**2
        return np.ascontiguousarray(-800 * off[:, ::2, ::2])


def toned(mean):
    frame = crop_frame(mean, 64, 0.5, 8)
    return NetworkExpert((Toned(frame, {}, 1.0, np.tile(np.eye(2), (len(mean), 1, 1))),))


@pytest.fixture
def expert():
    return toned(MEAN)


def painted(shapes, sides=(400, 600)):
    """A dark image with a spot of its tone at each landmark."""
    image = np.zeros(sides, dtype=np.uint8)
    for shape in shapes:
        radius = round(0.12 * float(shape_size(shape)))
        for (x, y), tone in zip(shape, TONES, strict=True):
            cv2.circle(image, (round(x), round(y)), radius, round(255 * tone), -1)
    return image


def placed(x, y, zoom=1.0, turn=0.0):
    return Similarity(zoom * np.exp(1j * turn), np.complex128(x + 1j * y)).apply(MEAN)


def off_by(share, shape):
    return shape + share * float(shape_size(shape)) * np.array([0.8, -0.6])


def errors(starts, truth):
    return np.linalg.norm(starts - truth, axis=-1).mean(axis=-1) / shape_size(truth)


class TestJudged:
    @pytest.mark.parametrize("turn", [0, 2])
    def test_objects_of_all_sizes_come_before_their_parts_in_disorder(self, expert, turn):
        large, small = placed(130, 130, 1.5, turn), placed(440, 60, 0.8, turn)
        other = placed(440, 270, 1.2, turn)
        disorder = other[[2, 3, 4, 1, 0]]
        image = painted([large, small, disorder])
        suspects = [off_by(0.12, shape)[None] for shape in (other, large, small)]
        found = judged(expert, image, suspects, 20, 5)
        assert len(found) == 3
        for truth in (large, small):
            ours = min(found[:2], key=lambda starts: errors(starts, truth)[0])
            assert errors(ours, truth)[0] < 0.04
        # The start of the search stays, in case that the network is wrong.
        assert any(np.array_equal(start, suspects[1][0]) for starts in found for start in starts)

    def test_no_more_than_asked_for(self, expert):
        shapes = [placed(100, 100), placed(300, 100), placed(480, 100)]
        suspects = [np.stack([off_by(share, shape) for share in (0.15, -0.15, 0.3)]) for shape in shapes]
        found = judged(expert, painted(shapes), suspects, 2, 2)
        assert [len(starts) for starts in found] == [2, 2]

    @pytest.mark.parametrize("both_ways", [True, False])
    def test_objects_that_face_the_other_way(self, expert, both_ways):
        """They are as good as others if they are known to be, and starts face as the search has them."""
        facing, away, other = placed(100, 250), placed(100, 60), placed(400, 200)
        image = painted([facing, other_way(MEAN, away), other[[2, 3, 4, 1, 0]]])
        suspects = [off_by(0.1, shape)[None] for shape in (other, away, facing)]
        found = judged(expert, image, suspects, 20, 5, both_ways)
        rank = int(np.argmin([errors(starts, away).min() for starts in found]))
        assert errors(found[rank], away)[0] < (0.05 if both_ways else 1)
        assert (rank < 2 and errors(found[rank], away)[0] < 0.05) == both_ways

    def test_mirror_images_are_judged_alike(self, expert):
        shape = placed(200, 100)
        image, start = painted([shape]), off_by(0.1, shape)
        [here] = judged(expert, image, [start[None]], 1, 1, True)
        mirrored = flipped(other_way(MEAN, start), 600)
        [there] = judged(expert, np.ascontiguousarray(image[:, ::-1]), [mirrored[None]], 1, 1, True)
        assert_allclose(flipped(other_way(MEAN, there[0]), 600), here[0], atol=1.0)

    def test_where_there_is_nothing_all_suspects_stay(self, expert):
        suspects = [placed(100, 100)[None], placed(400, 150)[None]]
        for image in (np.zeros((400, 600), np.uint8), np.full((400, 600, 3), 128, np.uint8)):
            found = judged(expert, image, suspects, 20, 5)
            for suspect in suspects:
                assert any(np.any(errors(starts, suspect[0]) < 0.1) for starts in found)

    @pytest.mark.parametrize("sides", [(1, 1), (1, 40), (3, 2)])
    def test_images_of_a_few_pixels(self, expert, sides):
        suspects = [placed(0, 0, 0.01)[None], placed(0, 0, 10.0)[None]]
        for found in judged(expert, np.zeros(sides, np.uint8), suspects, 20, 5):
            assert np.all(np.isfinite(found))

    def test_a_network_without_a_number_moves_nothing(self, expert, monkeypatch):
        monkeypatch.setattr(Toned, "maps", lambda self, window: np.full((5, 32, 32), np.nan, np.float32))
        suspects = [placed(100, 100)[None], placed(400, 150)[None]]
        assert_array_equal(judged(expert, painted([]), suspects, 20, 5), suspects)

    def test_nothing_to_judge(self, expert):
        assert judged(expert, painted([]), [], 20, 5) == []


class TestAgreement:
    def test_it_is_the_share_of_the_maps_that_is_near(self):
        maps = np.full((2, 32, 32), -100, dtype=np.float32)
        maps[0, 5, 9] = 0
        maps[1, 20, 4] = maps[1, 20, 30] = 0
        shape = np.array([(18.0, 10), (8, 40)])
        assert agreement(maps, shape, 64, 64, 4) == pytest.approx(0.75)
        assert agreement(maps, shape + 3, 64, 64, 4) == pytest.approx(0.75)
        assert agreement(maps, shape + (5, 0), 64, 64, 4) == pytest.approx(0, abs=1e-6)
        assert agreement(maps, shape, 64, 64, 100) == pytest.approx(1)


class TestScan:
    def test_the_network_has_the_last_word_on_the_order(self, model, dataset, monkeypatch):
        """The same suspects, in another order."""
        image, _ = scene(dataset, [(40, 40), (300, 190)])
        plain = make_object_search(model)(image)
        listening = replace(model, expert=toned(model.levels[-1].shape.mean))
        without = make_object_search(listening, experts=False)(image)
        assert len(plain) == len(without)
        for one, other in zip(plain, without, strict=True):
            assert_array_equal(one, other)
        last = plain[-1][0]

        def looked(stage, picture, shape):
            return float(np.array_equal(shape, last)), shape

        monkeypatch.setattr("pliant.starts.judging._looked", looked)
        found = make_object_search(listening)(image)
        assert_array_equal(found[0][0], last)

    @pytest.mark.parametrize("experts", [True, False])
    def test_fits_that_do_not_listen_do_not_ask(self, model, dataset, experts):
        image, _ = scene(dataset, [(40, 40)])
        listening = replace(model, expert=toned(model.levels[-1].shape.mean))
        [way] = find_chain(listening, Fitting(start="scan", experts=experts)).ways
        found = way.find(image)
        assert bool(listening.expert.stages[0].asked) == experts
        # The network has said where each is.
        assert (max(len(starts) for starts in found) == 1) == experts

    def test_find_starts_asks(self, model, dataset):
        image, _ = scene(dataset, [(40, 40)])
        listening = replace(model, expert=toned(model.levels[-1].shape.mean))
        assert len(find_starts(listening, Starting(start="scan", tries=2))(image)) == 2
        assert listening.expert.stages[0].asked
