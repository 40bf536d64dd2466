"""Names of algorithms: the catalogue, round trips, and combinations without a meaning."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.composition import Asymmetric, Bidirectional, Forward, Inverse
from pliant.fitting.cost import SSD, ProjectOut
from pliant.fitting.method import Alternated, Dense, GaussNewton, Newton, Schur, Wiberg


class TestNames:
    def test_the_catalogue_has_the_31(self):
        names = [entry.name for entry in catalogue()]
        assert len(names) == len(set(names)) == 31
        assert sum(name.startswith("ssd") for name in names) == 20

    def test_names_round_trip(self):
        for entry in catalogue():
            assert str(Algorithm.parse(entry.name)) == entry.name
            assert Algorithm.parse(entry.paper_name.replace("_", "-")) == entry.algorithm

    @pytest.mark.parametrize(
        "algorithm",
        [
            Algorithm(ProjectOut(0.0), Asymmetric(0.2), GaussNewton()),
            Algorithm(ProjectOut(1e-05, "map"), Asymmetric(0.1), Newton(variant="safe")),
            Algorithm(SSD("map"), Inverse(), GaussNewton(Alternated(3))),
            Algorithm(SSD("ridge"), Bidirectional(), Newton(Alternated(2, joint=True), "printed")),
            Algorithm(SSD(), Forward(), GaussNewton(Dense())),
            Algorithm(ProjectOut(0.3), Bidirectional(), Wiberg()),
            Algorithm(SSD("map"), Bidirectional(), Wiberg("printed")),
        ],
        ids=str,
    )
    def test_options_round_trip(self, algorithm):
        assert Algorithm.parse(str(algorithm)) == algorithm

    @given(
        st.floats(0, 1),
        st.sampled_from(["derived", "printed", "turned"]),
        st.sampled_from([Schur(), Dense(), Alternated(), Alternated(3, joint=True)]),
        st.sampled_from([SSD("map"), ProjectOut(1e-05)]),
    )
    def test_shares_of_the_curvature_round_trip(self, share, variant, strategy, cost):
        algorithm = Algorithm(cost, Bidirectional(), Newton(strategy, variant, share))
        assert Algorithm.parse(str(algorithm)) == algorithm

    @pytest.mark.parametrize(
        ("name", "method", "written"),
        [
            ("ssd-for-n:0.25-sch", Newton(share=0.25), "ssd-for-n:0.25-sch"),
            ("ssd-for-n:1e-05-alt:2", Newton(Alternated(2), share=1e-05), "ssd-for-n:1e-05-alt:2"),
            ("ssd-inv-n:printed:.5-sch", Newton(variant="printed", share=0.5), "ssd-inv-n:printed:0.5-sch"),
            ("po-for-n:turned:1", Newton(variant="turned"), "po-for-n:turned"),
            ("po-for-n:1", Newton(), "po-for-n"),
            ("po-inv-n:printed", Newton(variant="printed", share=1.0), "po-inv-n:printed"),
            ("po-inv-n:safe:1", Newton(variant="safe"), "po-inv-n:safe"),
        ],
    )
    def test_a_share_is_a_number_behind_the_variant(self, name, method, written):
        algorithm = Algorithm.parse(name)
        assert algorithm.method == method
        assert str(algorithm) == written

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("po-asi-gn", "no algorithm 'po-asi-gn'. Did you mean 'po-asy-gn'"),
            ("nonsense", "no algorithm 'nonsense'"),
            ("po-inv-gn-alt", "nothing to alternate between"),
            ("po-for-w", "use the method gn"),
            ("po:1.5-inv-gn", "rho = 1.5"),
            ("ssd-asy:2-gn-sch", "alpha = 2"),
            ("ssd-inv-gn-alt:0", "at least one"),
            ("ssd-inv-gn-alt:-3", "at least one"),
            ("ssd-inv-gn-alt:2.7", "alt:2.7: the number of sweeps must be a whole number"),
            ("ssd-bid-gn-alt:0.5:joint", "alt:0.5: the number of sweeps must be a whole number"),
            ("ssd-inv-gn-alt:inf", "alt:inf: the number of sweeps must be a whole number"),
            ("ssd-inv-gn-alt:1e999", "alt:1e999: the number of sweeps must be a whole number"),
            ("ssd-inv-gn-alt:nan", "alt:nan: the number of sweeps must be a whole number"),
            ("ssd-inv-gn-alt:abc", "no algorithm"),
            ("ssd-inv-gn-alt:1_0", "no algorithm"),
            ("po:nan-inv-gn", "rho = nan"),
            ("po:-0.5-inv-gn", "rho = -0.5"),
            ("po:inf-inv-gn", "rho = inf"),
            ("po-asy:1e999-gn", "alpha = inf"),
            ("po-asy:0_1-gn", "no algorithm"),
            ("po-asy:\u0660.\u0662-gn", "no algorithm"),
            ("po-for-n:abc", "no algorithm"),
            ("ssd-inv-w-alt", "no algorithm"),
            ("ssd-inv-w:printed", "only one form of Wiberg"),
            ("ssd-bid-w:turned", "no algorithm"),
            ("ssd-for-n:1.5-sch", "share = 1.5: the share of the curvature must be between 0 and 1"),
            ("po-for-n:-2", "share = -2.0"),
            ("po-for-n:nan", "share = nan"),
            ("ssd-inv-n:safe:0.5-sch", "share = 0.5: newton-safe limits the curvature"),
            ("ssd-inv-n:0.5:printed-sch", "no algorithm"),
            ("ssd-inv-n:0.5:0.5-sch", "no algorithm"),
            ("ssd-inv-n:-sch", "no algorithm"),
            ("ssd-inv-gn:0.5-sch", "no algorithm"),
        ],
    )
    def test_what_has_no_meaning_gets_a_sentence(self, name, sentence):
        with pytest.raises(ValueError, match=sentence):
            Algorithm.parse(name)


def test_sweeps_are_counted():
    assert Algorithm.parse("ssd-inv-gn-alt:3.0").method == GaussNewton(Alternated(3))
    with pytest.raises(ValueError, match=r"sweeps = 2\.7"):
        Alternated(2.7)


def test_the_docs_list_the_catalogue():
    page = (Path(__file__).parents[1] / "docs" / "explanation" / "algorithms.md").read_text()
    for entry in catalogue():
        assert f"| `{entry.name}` | {entry.paper_name} | {entry.published} | {entry.also} |" in page
