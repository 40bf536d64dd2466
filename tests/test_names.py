"""Names of algorithms: the catalogue, round trips, and combinations without a meaning."""

from pathlib import Path

import pytest

from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.composition import Asymmetric, Bidirectional, Forward, Inverse
from pliant.fitting.cost import SSD, ProjectOut
from pliant.fitting.method import Alternated, Dense, GaussNewton, Newton, Wiberg


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
        ],
        ids=str,
    )
    def test_options_round_trip(self, algorithm):
        assert Algorithm.parse(str(algorithm)) == algorithm

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("po-asi-gn", "no algorithm 'po-asi-gn'. Did you mean 'po-asy-gn'"),
            ("nonsense", "no algorithm 'nonsense'"),
            ("po-inv-gn-alt", "nothing to alternate between"),
            ("po-for-w", "take the method gn"),
            ("po:1.5-inv-gn", "rho = 1.5"),
            ("ssd-asy:2-gn-sch", "alpha = 2"),
            ("ssd-inv-gn-alt:0", "at least one"),
            ("ssd-inv-w-alt", "no algorithm"),
        ],
    )
    def test_what_has_no_meaning_gets_a_sentence(self, name, sentence):
        with pytest.raises(ValueError, match=sentence):
            Algorithm.parse(name)


def test_the_docs_list_the_catalogue():
    page = (Path(__file__).parents[1] / "docs" / "algorithms.md").read_text()
    for entry in catalogue():
        assert f"| `{entry.name}` | {entry.paper_name} | {entry.published} | {entry.also} |" in page
