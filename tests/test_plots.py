"""Pictures: what is on them, where it is, and what the numbers on them say."""

import re
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.colors import to_rgb
from PIL import Image

import pliant
from pliant import plots
from pliant.data.dataset import dataset_from_arrays
from pliant.data.suspects import Suspect
from pliant.fitting.status import Status
from pliant.plots import Style
from pliant.plots.axes import object_box
from pliant.plots.captions import caption_of, colour_of
from pliant.plots.confidence import _roc, _wilson
from pliant.plots.errors import _extremes, _in_lines, round_limit
from pliant.plots.fits import _mean_curve, _spread
from pliant.plots.lettering import write_labels
from pliant.plots.painter import paint_caption
from pliant.plots.style import STYLE
from pliant.starts.noise import perturbed

ERRORS = arrays(
    np.float64, st.integers(1, 30), elements=st.floats(0, 0.2) | st.just(np.nan) | st.just(np.inf)
)


def _contrast(light, dark):
    """How well two colours (3,), 0 to 255, can be told apart, as the guidelines for the web measure it."""
    bright, dim = (
        np.array([0.2126, 0.7152, 0.0722]) @ (np.asarray(colour) / 255) ** 2.2 for colour in (light, dark)
    )
    return (bright + 0.05) / (dim + 0.05)


ODD_NAME = "$\\frac{$.jpg"

FIGURES = {
    "samples": lambda t: plots.plot_samples(t.dataset[:3], columns=2),
    "suspects": lambda t: plots.plot_suspects(
        t.dataset,
        [Suspect(1, "sample 1", "shape", "landmark 3 is far off. " * 4, 2.0, (3,), other=t.dataset[0].name)],
    ),
    "overlay": lambda t: plots.plot_overlay(
        t.images[0], t.points[0], contours=[range(17)], triangles=t.model.texture.frame.triangles
    ),
    "uncertainty": lambda t: plots.plot_uncertainty(
        t.images[0], t.points[0], np.tile(np.diag([2.0, 1.0]), (68, 1, 1))
    ),
    "mean": lambda t: plots.plot_mean(t.model),
    "modes": lambda t: plots.plot_modes(t.model, 1, 1),
    "reconstructions": lambda t: plots.plot_reconstructions(t.model, t.dataset[:2]),
    "variance": lambda t: plots.plot_variance(t.model),
    "fit": lambda t: plots.plot_fit(t.fits[0], t.images[0]),
    "fits": lambda t: plots.plot_fits(t.fits, t.images),
    "iterations": lambda t: plots.plot_iterations(t.fits[0], t.images[0]),
    "convergence": lambda t: plots.plot_convergence({"a": t.fits, "b": t.fits}, t.truths),
    "ced": lambda t: plots.plot_ced({"a": t.errors.mean(axis=1), "b": t.errors[:, 0]}),
    "landmark errors": lambda t: plots.plot_landmark_errors(t.truths[0], t.errors),
    "best": lambda t: plots.plot_best_median_worst(
        t.images, t.points, t.truths, names=["a" * 40, "b", "c", "d"]
    ),
    "starts": lambda t: plots.plot_starts(
        t.images, {ODD_NAME: t.truths, "5 %": [fit.start for fit in t.fits]}, t.truths
    ),
    "sampling": lambda t: plots.plot_sampling(
        t.model.levels[-1].motion.frame, {"100 %": None, "25 %": t.model.levels[-1].motion.frame.sample(0.25)}
    ),
    "exemplars": lambda t: plots.plot_exemplars(
        t.images, {"a": t.points, "b": t.truths}, t.truths, {"a": [ODD_NAME] * 4, "b": ["x"] * 4}, columns=3
    ),
    "reliability": lambda t: plots.plot_reliability(np.linspace(0, 1, 20), np.arange(20) > 8),
    "roc": lambda t: plots.plot_roc(np.linspace(0, 1, 20), np.arange(20) % 3 == 0),
    "courses": lambda t: plots.plot_courses({"a": np.linspace(1, 0, 9)}, y="error", changes=(4,)),
    "shares": lambda t: plots.plot_shares([0, 1], {"a": np.eye(2)}, bounds=(0.02, 0.03), x="rho"),
    "grids": lambda t: plots.plot_grids(
        {"a": np.eye(2)}, rows="ab", columns="cd", row_title="sampled", column_title="noise"
    ),
    "intervals": lambda t: plots.plot_intervals({"a": (0.2, 0.1, 0.3), "b": (9, 8, 10)}, x="error", limit=1),
}


@dataclass(frozen=True)
class Things:
    model: pliant.Model
    dataset: pliant.Dataset
    images: list
    truths: list
    fits: list

    @property
    def points(self):
        return [fit.points for fit in self.fits]

    @property
    def errors(self):
        return np.linalg.norm(np.array(self.points) - self.truths, axis=2) / 50


@pytest.fixture(scope="module")
def things(model, dataset):
    some = dataset[:4]
    images, truths = [sample.image() for sample in some], [sample.points() for sample in some]
    starts = [perturbed(model, truth, 0.05, np.random.default_rng(k)) for k, truth in enumerate(truths)]
    fits = pliant.fit(model, images, starts, iterations=(4, 3), device="reference")
    return Things(model, some, images, truths, fits)


class TestFigures:
    def test_every_function_is_tried(self):
        assert len(FIGURES) == sum(name.startswith("plot_") for name in plots.__all__)

    @pytest.mark.parametrize("name", FIGURES)
    def test_is_saved_as_pixels_and_as_vectors(self, name, things):
        figure = FIGURES[name](things)
        for kind, begin in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=30)
            assert buffer.getvalue().startswith(begin)

    def test_no_figure_takes_text_for_a_formula(self, things):
        """Whoever adds text to a figure: names of files and landmarks are the user's."""
        for name, make in FIGURES.items():
            figure = make(things)
            axis = figure.axes[0]
            axis.set_title(ODD_NAME)
            axis.annotate(ODD_NAME, (0.5, 0.5))
            axis.plot([0, 1], [0, 1], label=ODD_NAME)
            axis.legend()
            axis.set_axis_on()
            axis.set_xticks([0.5], [ODD_NAME])
            text = BytesIO()
            with matplotlib.rc_context({"svg.fonttype": "none"}):
                figure.savefig(text, format="svg", dpi=30)
            assert text.getvalue().decode().count(f">{ODD_NAME}<") >= 3, name

    def test_names_that_no_font_has_are_drawn(self, things):
        """Bytes that are not UTF-8, as Python keeps them, and control characters."""
        names = [ODD_NAME, "a\udcff.jpg", "a\x1b[31m\x00.jpg"]
        three = things.images[:3], things.points[:3], things.truths[:3]
        for kind in ("png", "svg", "pdf"):
            figure = plots.plot_best_median_worst(*three, names=names)
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=30)
            if kind == "svg":
                ElementTree.fromstring(buffer.getvalue())  # noqa: S314  Our own drawing.
        titles = " ".join(axis.get_title() for axis in figure.axes)
        assert ODD_NAME in titles
        assert "a\N{REPLACEMENT CHARACTER}.jpg" in titles

    def test_landmarks_stay_vectors_on_an_embedded_image(self, things):
        svg = BytesIO()
        plots.plot_overlay(things.images[0], things.points[0]).savefig(svg, format="svg")
        text = svg.getvalue().decode()
        assert text.count("<image") == 1
        assert text.count(f"fill: {Style().fit.lower()}") == 68

    def test_the_style_is_obeyed(self, things):
        style = Style(fit="#112233", font=14, dpi=77)
        figure = plots.plot_fit(things.fits[0], things.images[0], style, name="wing.png")
        assert figure.dpi == 77
        assert figure.axes[0].title.get_fontsize() == 14
        fit = figure.axes[0].collections[1]
        assert tuple(np.round(fit.get_facecolor()[0][:3] * 255)) == (0x11, 0x22, 0x33)

    def test_curves_differ_without_their_colours(self):
        looks = [Style().curve(number) for number in range(31)]
        assert len({(str(look["linestyle"]), look["marker"]) for look in looks}) == 31

    def test_a_fit_without_a_trace_cannot_be_replayed(self, things, tmp_path):
        bare = replace(things.fits[0], trace=())
        for draw in (
            lambda: plots.plot_iterations(bare, things.images[0]),
            lambda: plots.write_animation(tmp_path / "a.gif", bare, things.images[0]),
            lambda: plots.plot_convergence({"a": [bare]}),
        ):
            with pytest.raises(ValueError, match="trace"):
                draw()
        assert not list(tmp_path.iterdir())


class TestSheets:
    """Contact sheets: their grid follows the shape of the samples, and colours follow the order of landmarks."""

    POINTS = np.array([(10.0, 10.0), (110.0, 12.0), (108.0, 30.0), (60.0, 40.0), (12.0, 32.0)])

    def wings(self, count, wrong=()):
        points = np.stack([self.POINTS[:: -1 if number in wrong else 1] for number in range(count)])
        return dataset_from_arrays([np.full((50, 120), 200, np.uint8)] * count, points)

    def test_wide_samples_fill_the_sheet(self):
        for count in (1, 23):
            figure = plots.plot_samples(self.wings(count))
            figure.savefig(BytesIO(), format="png")
            *cells, _ = figure.axes
            shown = [axis.get_position() for axis in cells if axis.images]
            assert len(shown) == count
            assert len({round(box.x0, 2) for box in shown}) <= 4
            assert sum(box.width * box.height for box in shown) > (0.5 if count == 1 else 0.65)

    def test_a_wrong_order_shows_in_the_colours(self):
        right, wrong = plots.plot_samples(self.wings(2, wrong=[1])).axes[:2]
        one, other = (axis.collections[0].get_facecolor() for axis in (right, wrong))
        assert len(np.unique(one, axis=0)) == 5
        np.testing.assert_array_equal(one, other)
        places = [axis.collections[0].get_offsets() for axis in (right, wrong)]
        np.testing.assert_array_equal(places[0], places[1][::-1])

    def test_titles_do_not_touch_the_edge(self):
        images, points = [np.full((240, 240), 200, np.uint8)] * 9, self.POINTS + 60
        samples = dataset_from_arrays(images, [points + number for number in range(9)])
        suspects = [
            Suspect(number, sample.name, "shape", "landmark 3 is far off. " * 6, 2.0, (3,))
            for number, sample in enumerate(samples)
        ]
        figure = plots.plot_suspects(samples, suspects)
        figure.savefig(BytesIO(), format="png", dpi=100)
        tops = [axis.title.get_window_extent().y1 for axis in figure.axes if axis.get_title()]
        assert len(tops) == 9
        assert max(tops) < figure.bbox.height - 8

    def test_labels_of_modes_stay_in_their_rows(self):
        def part(*variances):
            return SimpleNamespace(eigenvalues=np.array(variances), total_variance=10.0)

        for height in (20, 60, 300):
            flat = SimpleNamespace(
                levels=[SimpleNamespace(shape=part(5.0, 3.0))],
                texture=SimpleNamespace(pca=part(4.0, 2.0)),
                draw=lambda *_, height=height, **__: (np.zeros((height, 200, 3), np.uint8), None),
            )
            figure = plots.plot_modes(flat)
            figure.savefig(BytesIO(), format="png", dpi=100)
            labels = [axis.yaxis.label.get_window_extent() for axis in figure.axes if axis.get_ylabel()]
            assert len(labels) == 4
            for above, below in pairwise(labels):
                assert below.y1 < above.y0
            assert labels[0].x0 >= 0

    @given(st.text("ab_-. ", min_size=1, max_size=60))
    def test_long_names_keep_both_ends(self, name):
        lines = _in_lines(name).split("\n")
        assert max(map(len, lines)) <= 21
        if len(name) <= 42:
            assert "".join(lines) == name
        else:
            assert name.startswith(lines[0].removesuffix("…"))
            assert name.endswith(lines[1])


class TestIterations:
    @given(st.integers(2, 40), st.integers(1, 12))
    def test_frames_run_from_the_start_to_the_end(self, count, frames):
        shapes = np.cumsum(np.random.default_rng(count).normal(size=(count, 3, 2)), axis=0)
        chosen = _spread(shapes, frames)
        assert chosen[0] == 0
        assert chosen[-1] == count - 1
        assert len(chosen) <= max(2, frames)
        assert chosen == sorted(set(chosen))

    @pytest.mark.parametrize("name", ["fit.gif", "fit.webp"])
    def test_an_animation_has_a_frame_for_every_iteration(self, things, tmp_path, name):
        result = things.fits[1]
        plots.write_animation(tmp_path / name, result, things.images[1], longest=120)
        with Image.open(tmp_path / name) as moving:
            assert moving.n_frames == 1 + result.iterations
            assert moving.size[0] <= 120

    def test_contours_join_the_landmarks_of_every_frame(self, things, tmp_path):
        result, image = things.fits[0], things.images[0]
        strip = plots.plot_iterations(result, image, 3, contours=[range(17), range(17, 22)])
        assert [len(axis.lines) for axis in strip.axes] == [4, 4, 4]  # each contour has a dark edge below it
        np.testing.assert_allclose(strip.axes[-1].lines[1].get_xydata(), result.points[:17])
        frames = {}
        for name, contours in {"dots": [], "lines": [range(17)]}.items():
            plots.write_animation(tmp_path / f"{name}.gif", result, image, contours=contours)
            with Image.open(tmp_path / f"{name}.gif") as moving:
                moving.seek(moving.n_frames - 1)
                frames[name] = np.asarray(moving.convert("RGB"))
        assert (frames["dots"] != frames["lines"]).any(axis=2).mean() > 0.005

    def test_an_animation_needs_a_name_that_says_what_it_is(self, things, tmp_path):
        with pytest.raises(ValueError, match=r"\.gif or a \.webp"):
            plots.write_animation(tmp_path / "fit.avi", things.fits[0], things.images[0])

    def test_fits_that_end_early_keep_their_last_value(self):
        short, long = (
            [np.array([4.0, 2.0]), np.array([1.0])],
            [np.array([8.0, 6.0, 4.0]), np.array([3.0, 1.0])],
        )
        steps, means = _mean_curve([short, long], [3, 2])
        np.testing.assert_array_equal(steps, [0, 1, 2, np.nan, 3, 4])
        np.testing.assert_array_equal(means, [6, 4, 3, np.nan, 2, 1])

    def test_one_that_diverges_leaves_the_others_to_be_seen(self, things):
        wild = replace(
            things.fits[0],
            trace=tuple(replace(level, points=level.points * 1e9) for level in things.fits[0].trace),
        )
        first = [replace(level, points=things.fits[0].trace[0].points[:1]) for level in wild.trace[:1]]
        late = replace(wild, trace=(replace(first[0], costs=wild.trace[0].costs[:1]), *wild.trace[1:]))
        figure = plots.plot_convergence({"a": [late]}, things.truths[:1])
        assert figure.axes[0].get_ylim()[1] < 1
        unknown = np.full((68, 2), np.nan)
        plots.plot_convergence({"a": [late]}, [unknown]).savefig(BytesIO(), dpi=20)
        with pytest.raises(ValueError, match="a: there are 1 fits but 4 truths"):
            plots.plot_convergence({"a": [late]}, things.truths)


class TestErrors:
    def test_landmarks_without_a_truth_do_not_count(self, things):
        points, truth = things.points[0].copy(), things.truths[0].copy()
        truth[40:] = np.nan
        before = plots.errors.known_error(points, truth)
        points[40:] = 1e6
        assert plots.errors.known_error(points, truth) == before > 0
        assert np.isnan(plots.errors.known_error(points, np.full((68, 2), np.nan)))

    @given(ERRORS, st.floats(0.01, 0.3))
    def test_the_area_is_that_below_the_curve(self, errors, limit):
        grid = (np.arange(20_000) + 0.5) * limit / 20_000
        with np.errstate(invalid="ignore"):
            curve = np.mean(errors[:, None] <= grid, axis=0)
        assert plots.ced_area(errors, limit) == pytest.approx(curve.mean(), abs=1e-3)

    def test_the_legend_counts_what_is_beyond_the_limit(self):
        figure = plots.plot_ced(
            {"bad": [0.5, np.nan, 0.01, 0.01], "good": [0.01, 0.01, 0.02, 0.03]}, limit=0.05
        )
        labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert labels == ["good\narea 0.650, above 0.05: 0.0%", "bad\narea 0.400, above 0.05: 50.0%"]
        assert figure.axes[0].lines[1].get_ydata()[-1] == 0.5

    @given(ERRORS.filter(lambda errors: np.isfinite(errors).all()))
    def test_a_limit_is_round_and_beyond_most_errors(self, errors):
        limit = round_limit({"a": errors, "b": errors + 1})
        assert np.mean(errors < limit) >= 0.9 or limit > np.quantile(errors, 0.9, method="lower")
        assert re.fullmatch(r"[125]e[-+]\d+", f"{limit:.0e}")

    def test_long_names_of_landmarks_keep_both_ends(self, things):
        names = [f"landmark_{number}_of_the_left_side" for number in range(68)]
        figure = plots.plot_landmark_errors(things.truths[0], things.errors, names=names, worst=2)
        for label in figure.axes[1].get_yticklabels():
            assert re.fullmatch(r"landmar…eft_side", label.get_text())

    def test_the_worst_landmarks_are_named(self, things):
        errors = np.full((5, 68), 0.01)
        errors[:, [30, 8]] = 0.05, 0.04
        errors[:, 3] = np.nan
        figure = plots.plot_landmark_errors(things.truths[0], errors, worst=2)
        shape, listed = figure.axes[:2]
        assert [label.get_text() for label in listed.get_yticklabels()] == ["30", "8"]
        assert [text.get_text() for text in shape.texts] == ["30", "8"]
        assert len(shape.collections[0].get_offsets()) == 67

    def test_circles_are_as_large_as_the_errors(self, things):
        """Times the factor of the title."""
        mean = things.truths[0]
        figure = plots.plot_landmark_errors(mean, np.full((2, 68), 0.01))
        size = np.mean(np.ptp(mean, axis=0))
        assert "circles: 5 x" in figure.axes[0].get_title()
        np.testing.assert_allclose(figure.axes[0].collections[0].get_widths(), 2 * 5 * 0.01 * size, rtol=0.05)

    @given(ERRORS, st.integers(1, 6))
    def test_best_median_and_worst_are_in_order_and_once(self, errors, count):
        parts = _extremes(errors, count)
        chosen = [number for _, numbers in parts for number in numbers]
        assert len(chosen) == len(set(chosen)) <= 3 * count
        values = np.where(np.isfinite(errors), errors, np.inf)
        best, middle, worst = (values[numbers] for _, numbers in parts)
        assert best[0] == values.min()
        if len(worst):
            assert worst[0] == values.max()
            assert best.max() <= min([*middle, worst.min()])
            assert worst.min() >= max([*middle, best.max()])

    def test_only_the_images_shown_are_read(self, things):
        read = []

        def sample(number):
            def look():
                read.append(number)
                return things.images[number % 4]

            return pliant.Sample(f"{number}", look, None)

        points = [things.points[number % 4] for number in range(30)]
        errors = np.arange(30) / 1000
        figure = plots.plot_best_median_worst([sample(k) for k in range(30)], points, errors=errors, count=2)
        assert read == [0, 1, 14, 15, 29, 28]
        assert figure.axes[-2].get_title() == "0.0290"
        with pytest.raises(ValueError, match="errors of the fits, or the truths"):
            plots.plot_best_median_worst(things.images, things.points)


class TestConfidence:
    @given(st.integers(0, 2**32 - 1), st.integers(2, 40))
    def test_the_area_is_the_share_of_pairs_in_order(self, seed, count):
        rng = np.random.default_rng(seed)
        scores, happened = rng.integers(0, 6, count).astype(float), rng.random(count) < 0.5
        happened[:2] = True, False
        wrong, found = _roc(scores, happened.astype(float))
        area = np.sum(np.diff(wrong) * (found[1:] + found[:-1]) / 2)
        good, bad = scores[happened][:, None], scores[~happened]
        assert area == pytest.approx(np.mean((good > bad) + 0.5 * (good == bad)))

    def test_a_curve_needs_both_outcomes(self):
        with pytest.raises(ValueError, match="some true and some false"):
            plots.plot_roc(np.arange(3.0), np.ones(3))

    def test_reliability_counts(self):
        chance = np.array([0.0, 0.05, 0.55, 0.55, 1.0])
        figure = plots.plot_reliability(chance, np.array([0, 0, 1, 0, 1]))
        x, y = figure.axes[0].lines[1].get_data()
        np.testing.assert_allclose(x, [0.025, 0.55, 1.0])
        np.testing.assert_allclose(y, [0, 0.5, 1])
        assert [text.get_text() for text in figure.axes[1].texts] == ["2", "2", "1"]
        with pytest.raises(ValueError, match="between 0 and 1"):
            plots.plot_reliability(chance * 2, chance > 0)
        with pytest.raises(ValueError, match="give one outcome for each score"):
            plots.plot_reliability(chance, chance[1:] > 0)

    def test_wilson_solves_its_equation(self):
        """At its ends, the observed share is 1.96 deviations away."""
        share, count = np.array([0.0, 0.3, 1.0]), np.array([5.0, 10.0, 7.0])
        for end in _wilson(share, count):
            inside = (end > 1e-9) & (end < 1 - 1e-9)
            deviation = np.sqrt(end[inside] * (1 - end[inside]) / count[inside])
            np.testing.assert_allclose(np.abs(share - end)[inside] / deviation, 1.96)


class TestUncertainty:
    @settings(max_examples=20)
    @given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(-3, 3))
    def test_ellipses_are_the_deviations(self, long, short, angle):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        covariance = turn @ np.diag([long**2, short**2]) @ turn.T
        figure = plots.plot_uncertainty(np.zeros((40, 40)), np.full((1, 2), 20.0), covariance[None], 2.0)
        ellipses = figure.axes[0].collections[0]
        [width], [height], [drawn] = ellipses.get_widths(), ellipses.get_heights(), ellipses.get_angles()
        back = np.radians(drawn)
        axes = np.array([[np.cos(back), -np.sin(back)], [np.sin(back), np.cos(back)]])
        np.testing.assert_allclose(axes @ np.diag([width**2, height**2]) @ axes.T / 16, covariance, atol=1e-6)

    def test_the_covariance_must_fit(self):
        with pytest.raises(ValueError, match=r"\(v, 2, 2\)"):
            plots.plot_uncertainty(np.zeros((9, 9)), np.zeros((3, 2)), np.zeros((2, 2, 2)))


class TestPainter:
    @pytest.mark.parametrize("shape", [(60, 80), (60, 80, 1), (60, 80, 3)])
    @pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
    def test_any_image_becomes_the_same_picture(self, shape, kind):
        eight = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        scale = {np.uint8: 1, np.uint16: 257, np.float32: np.float32(1 / 255)}[kind]
        image = eight.astype(kind) * kind(scale)
        before = image.copy()
        picture = plots.paint_overlay(image, np.array([[20.0, 30.0], [60.0, 10.0]]))
        assert picture.dtype == np.uint8
        assert picture.shape == (60, 80, 3)
        np.testing.assert_array_equal(
            picture[45:], np.broadcast_to(eight.reshape(60, 80, -1), (60, 80, 3))[45:]
        )
        np.testing.assert_array_equal(image, before)

    @given(st.floats(20, 60), st.floats(20, 60), st.sampled_from([None, 50, 200]))
    def test_a_landmark_is_where_it_should_be(self, x, y, longest):
        style = Style(fit="#FFFFFF", marker=24)
        picture = plots.paint_overlay(
            np.full((80, 80), 128, np.uint8), np.array([[x, y]]), style, longest=longest
        )
        zoom = (longest or 80) / 80
        light = np.maximum(picture[:, :, 0].astype(float) - 128, 0)
        rows, columns = np.mgrid[: light.shape[0], : light.shape[1]]
        centre = np.array([(light * columns).sum(), (light * rows).sum()]) / light.sum()
        np.testing.assert_allclose(centre, (np.array([x, y]) + 0.5) * zoom - 0.5, atol=0.3)

    @pytest.mark.parametrize("shape", [(40, 60, 3), (600, 800, 3)])
    def test_a_caption_is_in_the_corner_and_can_be_read_on_any_picture(self, shape):
        for ground in (0, 255):
            picture = np.full(shape, ground, np.uint8)
            written = paint_caption(picture, "7  début", "#FFFFFF")
            changed = np.argwhere((written != ground).any(axis=2))
            assert 0 < len(changed) < 0.4 * shape[0] * shape[1]
            assert changed[:, 0].max() < max(24, shape[0] / 8)
            assert (picture == ground).all()

    @pytest.mark.parametrize("ground", [0, 128, 200, 255])
    @pytest.mark.parametrize("name", ["fit", "start", "truth", "doubt"])
    def test_labels_and_captions_can_be_read_on_any_picture(self, ground, name):
        colour = np.rint(255 * np.array(to_rgb(getattr(STYLE, name)))).astype(np.uint8)
        picture = np.full((300, 300, 3), ground, np.uint8)
        label = write_labels(picture, np.array([[150.0, 150.0]]), ["tip"], tuple(map(int, colour)), 5.0)
        for written in (label, paint_caption(picture, "tip", getattr(STYLE, name))):
            changed = np.argwhere((written != ground).any(axis=2))
            (top, left), (bottom, right) = changed.min(axis=0), changed.max(axis=0) + 1
            assert _contrast(colour, written[top, left]) > 3
            if ground:  # elsewhere, nobody sees where the ground of the text ends
                for border in (
                    written[(top, bottom - 1), left:right],
                    written[top:bottom, (left, right - 1)],
                ):
                    assert (border == written[top, left]).all()

    def test_labels_hide_no_landmarks_and_empty_ones_draw_nothing(self):
        points = np.array([[50.0, 50.0], [62.0, 50.0], [50.0, 62.0], [38.0, 50.0], [50.0, 38.0]])
        image = np.full((100, 100), 200, np.uint8)
        plain = plots.paint_overlay(image, points)
        labelled = plots.paint_overlay(image, points, labels=["a long name"] * 5)
        for x, y in points.astype(int):
            np.testing.assert_array_equal(labelled[y, x], plain[y, x])
        np.testing.assert_array_equal(plots.paint_overlay(image, points, labels=["", " "] * 2 + [""]), plain)

    def test_unknown_and_faraway_landmarks_are_left_out(self):
        image = np.full((40, 40), 90, np.uint8)
        points = np.array([[np.nan, 3.0], [1e12, 2.0], [-500.0, 20.0], [np.inf, np.inf]])
        assert (plots.paint_overlay(image, points, contours=[range(4)]) == 90).all()
        assert (plots.paint_overlay(image, points[:1]) == 90).all()

    @pytest.mark.parametrize("name", ["ä.png", "b.JPG"])
    def test_a_written_picture_has_the_right_colours(self, tmp_path, name):
        red = np.zeros((40, 80, 3), np.uint8) + np.array([200, 0, 0], np.uint8)
        plots.write_overlay(tmp_path / name, red, np.array([[20.0, 20.0]]), longest=160)
        picture = pliant.read_image(tmp_path / name)
        assert picture.shape == (80, 160, 3)
        np.testing.assert_allclose(picture[70, 150], (200, 0, 0), atol=5)
        with pytest.raises(ValueError, match="a .png or a .jpg file"):
            plots.write_overlay(tmp_path / "c.svg", red, np.zeros((1, 2)))

    def test_contours_join_landmarks(self):
        points = np.array([[5.0, 20.0], [35.0, 20.0]])
        style = Style(lines="#FF0000")
        picture = plots.paint_overlay(np.zeros((40, 40), np.uint8), points, style, contours=[[0, 1]])
        assert picture[20, 20, 0] > 200
        assert not picture[:, :, 1:][:, 12:28].any()


@given(arrays(np.float64, (5, 2), elements=st.floats(-1e9, 1e9) | st.just(np.nan)), st.integers(1, 50))
def test_a_box_lies_in_the_image(points, size):
    left, top, right, bottom = object_box(np.zeros((size, 2 * size)), points)
    assert 0 <= left < right <= 2 * size
    assert 0 <= top < bottom <= size


class TestHowFarAFitCanBeTrusted:
    @pytest.fixture
    def fit(self, calibrated, dataset):
        return pliant.fit(calibrated, dataset[0], dataset[0].points() + 1)

    def lost(self, fit):
        return replace(fit, status=Status.DIVERGED)

    def test_the_caption_has_the_confidence_and_how_a_fit_went_wrong(self, fit, model, dataset):
        fit = replace(fit, status=Status.ITERATIONS)
        assert caption_of([fit]) == f"confidence {fit.confidence():.2f}"
        assert caption_of([fit], 0.01) == f"confidence {fit.confidence(0.01):.2f}"
        assert caption_of([self.lost(fit)]) == "confidence 0.00, diverged, not trusted"
        both = [fit, self.lost(fit)]
        assert (
            caption_of(both)
            == f"2 objects, confidence {fit.confidence():.2f}, confidence 0.00, 1 not trusted"
        )
        plain = pliant.fit(model, dataset[0], dataset[0].points() + 1)
        assert plain.ok
        assert caption_of([plain]) == ""
        assert caption_of([plain, plain]) == "2 objects"
        rising = replace(plain, status=Status.RISING)
        assert caption_of([plain, rising]) == "2 objects, rising, 1 not trusted"
        assert plain.plot(dataset[0]).axes[0].get_title() == Path(dataset[0].name).name

    def test_the_colour_says_whether_it_is_trusted(self, fit):
        assert colour_of(fit, STYLE) == STYLE.fit
        assert colour_of(fit, STYLE, 1.01) == colour_of(self.lost(fit), STYLE) == STYLE.doubt

    def test_the_title_has_the_image_and_not_the_algorithm(self, fit, dataset, tmp_path):
        Image.fromarray(dataset[0].image()).save(tmp_path / "tom.png")
        title = fit.plot(tmp_path / "tom.png").axes[0].title
        assert title.get_text() == f"tom.png\n{caption_of([fit])}"
        assert title.get_color() != STYLE.doubt
        assert self.lost(fit).plot(dataset[0]).axes[0].title.get_color() == STYLE.doubt

    def test_landmarks_in_doubt_are_rings(self, fit, dataset):
        covariance = np.array(fit.covariance)
        covariance[3] *= 1000
        some = replace(fit, covariance=covariance)
        assert some.doubtful[3]
        count = int(some.doubtful.sum())
        assert 0 < count < 68
        _, solid, rings = some.plot(dataset[0]).axes[0].collections
        assert (len(solid.get_offsets()), len(rings.get_offsets())) == (68 - count, count)
        assert len(rings.get_facecolor()) == 0
        unsure = replace(fit, covariance=None)
        assert len(unsure.plot(dataset[0]).axes[0].collections) == 2

    def test_painted_rings_show_what_is_inside(self):
        red = np.zeros((60, 60, 3), np.uint8) + np.array([200, 0, 0], np.uint8)
        points = np.array([[15.0, 30.0], [45.0, 30.0]])
        style = Style(marker=60)
        solid, ring = (
            plots.paint_overlay(red, points, style, hollow=hollow, colours=["#00FF00"], longest=600)
            for hollow in (None, np.array([True, False]))
        )
        assert tuple(solid[304, 154]) == tuple(ring[304, 454]) == (0, 255, 0)
        assert tuple(ring[304, 154]) == (200, 0, 0)
        assert (ring == (0, 255, 0)).all(axis=2)[250:350, 100:200].any()

    def test_a_long_caption_stays_in_the_picture(self, tmp_path):
        grey = np.full((100, 160), 128, np.uint8)
        nowhere, caption = np.full((1, 2), np.nan), "confidence 0.31, implausible"
        plots.write_overlay(tmp_path / "a.png", grey, nowhere, longest=None, caption=caption)
        picture = pliant.read_image(tmp_path / "a.png")
        changed = (picture != 128).any(axis=(0, 2))
        assert changed.any()
        assert not changed[-4:].any()
