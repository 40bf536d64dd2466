"""What docs/explanation/framework.md says about the algebra, and its pictures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import draw_framework
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.cost import SSD, ProjectOut, weigh
from pliant.fitting.solve import increments
from pliant.kernels.reference import inner_products
from pliant.kernels.system import united


@pytest.mark.parametrize(("ssd", "project_out"), [("ssd", "po:0"), ("ssd:map", "po:map")])
def test_forward_composition_takes_the_same_steps_with_c_solved_and_projected_out(ssd, project_out):
    rng = np.random.default_rng(0)
    n, m = 7, 5
    basis = np.linalg.qr(rng.normal(size=(60, m)))[0].T
    e, Ji = rng.normal(size=60), rng.normal(size=(60, n))
    c, p = rng.normal(size=m), rng.normal(size=(1, n))
    variances, shape_variances, noise = rng.uniform(1, 5, m), rng.uniform(1, 5, n - 4), 0.3
    steps = []
    for name, own in ((f"{ssd}-for-gn-sch", c), (f"{project_out}-for-gn", np.zeros(m))):
        algorithm = Algorithm.parse(name)
        system = united([inner_products(e - own @ basis, basis, Ji, None)], np.stack)
        weights = weigh(algorithm.cost, shape_variances, variances, noise)
        steps.append(increments(algorithm, weights, system, p, own[None])[1])
    assert_allclose(*steps)


def test_solving_for_c_and_integrating_it_out_have_one_metric():
    variances, noise = np.array([4.0, 1.0, 0.2]), 0.5
    solved = weigh(SSD("map"), np.ones(1), variances, noise)
    integrated = weigh(ProjectOut(0.5, "map"), np.ones(1), variances, noise)
    assert solved.residual == pytest.approx(integrated.residual)
    eliminated = solved.residual**2 / (solved.residual + solved.appearance_precision)
    assert_allclose(eliminated, integrated.appearance)


@pytest.mark.parametrize("name", ["draw_flow", "draw_metric", "draw_parabolas"])
def test_pictures_are_drawn_and_kept(name):
    assert getattr(draw_framework, name)().axes
    assert (draw_framework.PICTURES / f"framework-{name.removeprefix('draw_')}.svg").is_file()


def test_the_mean_of_both_slopes_steps_nearest_to_the_minimum():
    axes = draw_framework.draw_parabolas().axes[0]
    curve = axes.lines[0].get_xydata()
    minimum = curve[np.argmin(curve[:, 1]), 0]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    forward, inverse, both = (abs(dot - minimum) for dot in dots)
    assert both < min(forward, inverse)
