"""Pictures of comparisons: which numbers are on them, and which are left out or said in words."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgba

from pliant import plots
from pliant.plots import Style

SHARES = np.linspace(0, 1, 11)[:, None] * [0.5, 0.8, 1.0]


def texts(things):
    return [thing.get_text() for thing in things]


def courses(count, length=41):
    return {f"algorithm {k}": np.linspace(0.08, 0.01 + 0.001 * k, length) for k in range(count)}


def intervals(count):
    return {f"algorithm {k}": (0.02 + 0.001 * k, 0.015, 0.06) for k in range(count)}


def draw_grids(grids, rows=("100 %", "50 %"), columns=("2 %", "5 %", "10 %"), **more):
    return plots.plot_grids(
        grids, rows=rows, columns=columns, row_title="sampled", column_title="noise", **more
    )


class TestCourses:
    @settings(max_examples=15)
    @given(st.integers(1, 9), st.integers(1, 60))
    def test_every_curve_runs_from_iteration_0_and_has_a_marker(self, count, length):
        given = courses(count, length)
        lines = plots.plot_courses(given, y="error").axes[0].lines
        for line, (label, values) in zip(lines, given.items(), strict=True):
            assert line.get_label() == label
            np.testing.assert_array_equal(line.get_data(), [np.arange(length), values])
            begin, step = line.get_markevery()
            assert 1 <= len(range(length)[begin::step]) <= max(10, length // 5 + 2)

    def test_curves_that_rise_leave_the_plot(self):
        figure = plots.plot_courses({**courses(2), "lost": np.geomspace(0.08, 90, 41)}, y="error")
        assert figure.axes[0].get_ylim() == (0, pytest.approx(0.08, rel=0.1))
        assert figure.axes[0].get_ylim()[1] > 0.08
        assert plots.plot_courses(courses(2), y="error", limit=0.03).axes[0].get_ylim() == (0, 0.03)
        hopeless = plots.plot_courses({"a": np.full(3, np.inf), "b": np.zeros(3)}, y="error")
        assert hopeless.axes[0].get_ylim()[1] > 0

    def test_values_that_are_not_finite_break_the_line(self):
        [line] = plots.plot_courses({"a": np.array([3, np.inf, 2, np.nan, 1])}, y="cost").axes[0].lines
        np.testing.assert_array_equal(line.get_ydata(), [3, np.nan, 2, np.nan, 1])

    def test_levels_are_told_apart(self):
        axis = plots.plot_courses(courses(2), y="error", changes=(16, 24), title="faces").axes[0]
        dotted = [line.get_xdata() for line in axis.lines if line.get_linestyle() == ":"]
        assert dotted[:2] == [[16, 16], [24, 24]]
        assert (axis.get_title(), axis.get_ylabel()) == ("faces", "error")

    def test_a_long_legend_stands_beside(self):
        few, many = (plots.plot_courses(courses(count), y="error") for count in (6, 7))
        assert texts(few.axes[0].get_legend().get_texts()) == list(courses(6))
        assert not few.legends
        assert many.axes[0].get_legend() is None
        assert texts(many.legends[0].get_texts()) == list(courses(7))

    @pytest.mark.parametrize(
        ("wrong", "changes", "words"),
        [
            ({}, (), "at least one label"),
            ({"po-asy-gn": np.zeros((2, 3))}, (), r"po-asy-gn: .*not \(2, 3\)"),
            ({"po-asy-gn": np.zeros(0)}, (), r"po-asy-gn: .*not \(0,\)"),
            ({"a": np.ones(5)}, (5,), "cannot start at iteration 5: the curves go from 0 to 4"),
        ],
    )
    def test_wrong_input(self, wrong, changes, words):
        with pytest.raises(ValueError, match=words):
            plots.plot_courses(wrong, y="error", changes=changes)


class TestShares:
    def test_a_line_for_each_bound_and_its_best_value(self):
        shares = SHARES.copy()
        shares[4, 0], shares[7, 1] = 0.9, np.nan
        figure = plots.plot_shares(SHARES[:, 2], {"a": shares}, bounds=(0.02, 0.03, 0.04), x="rho")
        lines, best = figure.axes[0].lines[::2], figure.axes[0].lines[1::2]
        for number, (line, mark) in enumerate(zip(lines, best, strict=True)):
            np.testing.assert_array_equal(line.get_data(), [SHARES[:, 2], shares[:, number]])
            assert mark.get_markerfacecolor() == "none"
            assert mark.get_markersize() > line.get_markersize()
        assert [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in best] == [(0.4, 0.9), (1, 0.8), (1, 1)]
        words = ["below 0.02", "below 0.03", "below 0.04", "largest share"]
        assert texts(figure.legends[0].get_texts()) == words
        assert figure.get_supxlabel() == "rho"

    @pytest.mark.parametrize(("count", "across"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (7, 3)])
    def test_small_axes_have_the_same_limits(self, count, across):
        labels = [f"po-{k}" for k in range(count)]
        figure = plots.plot_shares(
            SHARES[:, 2], dict.fromkeys(labels, SHARES), bounds=(0.02, 0.03, 0.04), x="rho"
        )
        assert [axis.get_title() for axis in figure.axes] == labels
        assert figure.axes[0].get_gridspec().ncols == across
        assert len({(axis.get_xlim(), axis.get_ylim()) for axis in figure.axes}) == 1
        low, high = figure.axes[0].get_ylim()
        assert low == 0
        assert 1 <= high < 1.05
        figure.draw_without_rendering()
        with_numbers = [axis.xaxis.get_tick_params()["labelbottom"] for axis in figure.axes]
        assert sum(with_numbers) == across == sum(with_numbers[-across:])

    def test_bands_are_the_intervals(self):
        ends = np.stack([SHARES * 0.9, SHARES * 0.9 + 0.1], axis=-1)
        figure = plots.plot_shares(
            SHARES[:, 2], {"a": SHARES}, bounds=(1, 2, 3), x="rho", intervals={"a": ends}
        )
        for number, band in enumerate(figure.axes[0].collections):
            corners = band.get_paths()[0].vertices
            for value, (low, high) in zip(SHARES[:, 2], ends[:, number], strict=True):
                heights = corners[corners[:, 0] == value, 1]
                assert (heights.min(), heights.max()) == (pytest.approx(low), pytest.approx(high))
        assert len(figure.axes[0].collections) == 3

    def test_unknown_shares_are_left_out(self):
        figure = plots.plot_shares([0, 1], {"a": np.full((2, 1), np.nan)}, bounds=(0.02,), x="rho")
        assert len(figure.axes[0].lines) == 1
        assert_layout_is_steady(figure)

    @pytest.mark.parametrize(
        ("shares", "ends", "words"),
        [
            ({}, None, "at least one label"),
            ({"a": SHARES.T}, None, r"a: its shares have the shape \(3, 11\), but \(11, 3\) is needed"),
            ({"a": SHARES * 100}, None, "a: shares must be between 0 and 1, but these go from 0 to 100"),
            ({"a": SHARES}, {"a": SHARES}, r"a: its shares have the shape \(11, 3\), but \(11, 3, 2\)"),
            ({"a": SHARES}, {"b": np.zeros((11, 3, 2))}, "for all labels, or for none"),
        ],
    )
    def test_wrong_input(self, shares, ends, words):
        with pytest.raises(ValueError, match=words):
            plots.plot_shares(SHARES[:, 2], shares, bounds=(0.02, 0.03, 0.04), x="rho", intervals=ends)


class TestGrids:
    def test_numbers_stand_in_their_cells(self):
        grid = np.array([[0.004, 0.5, 1.0], [0.126, np.nan, 0.9]])
        axis, bar = draw_grids({"po-asy-gn": grid}).axes
        written = {text.get_position(): text.get_text() for text in axis.texts}
        assert written == {
            (0.5, 0.5): "0",
            (1.5, 0.5): "50",
            (2.5, 0.5): "100",
            (0.5, 1.5): "13",
            (2.5, 1.5): "90",
        }
        assert axis.yaxis_inverted()
        assert texts(axis.get_xticklabels()) == ["2 %", "5 %", "10 %"]
        assert texts(axis.get_yticklabels()) == ["100 %", "50 %"]
        assert axis.collections[0].get_array().mask.tolist() == [[False] * 3, [False, True, False]]
        assert bar.get_ylim() == axis.collections[0].get_clim() == (0, 1)

    @pytest.mark.parametrize("sequence", ["cividis_r", "viridis", "Greys"])
    def test_numbers_are_unlike_their_cells(self, sequence):
        grid = np.linspace(0, 1, 6).reshape(2, 3)
        axis = draw_grids({"a": grid}, style=Style(sequence=sequence)).axes[0]
        cells = axis.collections[0].to_rgba(grid).reshape(-1, 4)
        for text, cell in zip(axis.texts, cells, strict=True):
            ink = np.array(to_rgba(text.get_color()))
            assert np.abs(ink - cell)[:3] @ [0.299, 0.587, 0.114] >= 0.49

    def test_one_colour_bar_for_all(self):
        labels = [f"po-{k}" for k in range(5)]
        figure = draw_grids(dict.fromkeys(labels, np.full((2, 3), 0.5)))
        assert [axis.get_title() for axis in figure.axes] == [*labels, ""]
        assert (figure.get_supxlabel(), figure.get_supylabel()) == ("noise", "sampled")

    def test_wrong_input(self):
        with pytest.raises(ValueError, match="at least one label"):
            draw_grids({})
        with pytest.raises(
            ValueError, match=r"a: its shares have the shape \(3, 2\), but \(2, 3\) is needed"
        ):
            draw_grids({"a": np.zeros((3, 2))})
        with pytest.raises(ValueError, match="between 0 and 1, but these go from -0.5 to 0.5"):
            draw_grids({"a": np.array([[-0.5, 0, 0], [np.nan, 0, 0.5]])})


def assert_layout_is_steady(figure):
    figure.draw_without_rendering()
    before = figure.axes[0].get_position().bounds
    figure.draw_without_rendering()
    figure.draw_without_rendering()
    np.testing.assert_allclose(figure.axes[0].get_position().bounds, before, atol=0.02)


class TestIntervals:
    def test_dots_bars_and_diamonds_are_where_they_should_be(self):
        values = {"a": (0.02, 0.01, 0.04), "b": (0.03, 0.02, 0.05)}
        figure = plots.plot_intervals(
            values, x="mean error", reference={"b": 0.033, "other": 0.1}, reference_name="the paper"
        )
        axis = figure.axes[0]
        assert texts(axis.get_yticklabels()) == ["a", "b"]
        assert axis.yaxis_inverted()
        first, second = axis.get_yticks()
        np.testing.assert_allclose(axis.lines[0].get_data(), [[0.02, 0.03], [first, second]])
        [diamond] = [line for line in axis.lines if line.get_marker() == "D"]
        np.testing.assert_allclose(diamond.get_data(), [[0.033], [second]])
        bars = np.array(axis.collections[0].get_segments())
        np.testing.assert_allclose(bars[:, :, 0], [[0.01, 0.04], [0.02, 0.05]])
        assert texts(figure.legends[0].get_texts()) == ["measured, with 95 % interval", "the paper"]
        assert axis.get_xlim() == (0, pytest.approx(0.05, rel=0.1))
        assert not axis.texts

    def test_what_is_beyond_the_limit_is_an_arrow_with_its_number(self):
        values = {"a": (11.9, 3, 40), "b": (0.03, 0.02, 0.5), "c": (np.nan, np.nan, np.nan), "d": (0.03,) * 3}
        figure = plots.plot_intervals(
            values, x="error", reference={"b": 0.02, "d": 0.3}, reference_name="the paper", limit=0.1
        )
        axis = figure.axes[0]
        heights = dict(zip("abcd", axis.get_yticks(), strict=True))
        assert axis.get_xlim() == (0, 0.1)
        assert {text.xy: text.get_text() for text in axis.texts} == {
            (0.1, heights["a"]): "11.9",
            (0.1, heights["c"]): "nan",
            (0.1, heights["d"]): "the paper 0.3",
        }
        arrows = [line for line in axis.lines if line.get_marker() == ">"]
        np.testing.assert_allclose(arrows[0].get_data(), [[0.1] * 3, [heights[name] for name in "abc"]])
        np.testing.assert_allclose(arrows[1].get_data(), [[0.1], [heights["d"]]])
        assert axis.lines[0].get_xdata().max() <= 0.1

    def test_groups_stand_apart_and_set_the_order(self):
        values = intervals(5)
        a, b, c, d, e = values
        axis = plots.plot_intervals(values, x="error", groups=[[c, a], [b, e, d]]).axes[0]
        assert texts(axis.get_yticklabels()) == [c, a, b, e, d]
        steps = np.diff(axis.get_yticks())
        np.testing.assert_allclose(np.delete(steps, 1), 1)
        assert 1 < steps[1] < 2

    @pytest.mark.parametrize("font", [9, 14])
    def test_the_names_of_31_do_not_touch(self, font):
        figure = plots.plot_intervals(intervals(31), x="error", limit=0.05, style=Style(font=font))
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
        assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
        assert min(box.x0 for box in boxes) >= 0

    @settings(max_examples=10)
    @given(st.lists(st.floats(-2, 2) | st.just(np.nan) | st.just(np.inf), min_size=1, max_size=6))
    def test_without_a_limit_all_finite_values_are_inside(self, numbers):
        values = {str(k): (number, number, number) for k, number in enumerate(numbers)}
        axis = plots.plot_intervals(values, x="difference").axes[0]
        low, high = axis.get_xlim()
        finite = [number for number in numbers if np.isfinite(number)]
        assert low < high
        assert all(low <= number <= high for number in [0, *finite])
        np.testing.assert_array_equal(axis.lines[0].get_xdata(), finite)
        assert len(axis.texts) == len(numbers) - len(finite)

    def test_the_layout_is_steady(self):
        assert_layout_is_steady(plots.plot_intervals(intervals(3), x="error"))

    @pytest.mark.parametrize(
        ("values", "groups", "words"),
        [
            ({}, None, "at least one label"),
            ({"po-asy-gn": (0.1, 0.2)}, None, "po-asy-gn: give a value and the ends"),
            ({"po-asy-gn": (0.1, 0.2, 0.05)}, None, "low before high"),
            (intervals(3), [["algorithm 0", "algorithm 2"]], "these are not: algorithm 1"),
            (intervals(1), [["algorithm 0"], ["algorithm 0"]], "these are not: algorithm 0"),
            (intervals(1), [["algorithm 0", "po-inv-gn"]], "these are not: po-inv-gn"),
        ],
    )
    def test_wrong_input(self, values, groups, words):
        with pytest.raises(ValueError, match=words):
            plots.plot_intervals(values, x="error", groups=groups)
