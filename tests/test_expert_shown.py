"""What `inspect` and its page say about a model's expert, whatever is in the file."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pliant import report
from pliant.experts.frames import crop_frame
from pliant.experts.network import NetworkExpert, Stage, _shapes
from pliant.experts.sightings import Sightings
from pliant.tuning import choice

TRIED = [
    {"expert": "none", "fits": 45, "below_0.02": 0.9, "below_0.04": 0.95, "mean": 0.015, "median": 0.007},
    {
        "expert": "network",
        "fits": 45,
        "below_0.02": 1.0,
        "below_0.04": 1.0,
        "mean": 0.006,
        "median": 0.0055,
        "weight": 0.3,
        "alone": 0.0063,
    },
]


@dataclass(frozen=True)
class Own:
    """An expert of somebody's own."""

    looks: int = 1

    def look(self, images, shapes, number):
        return Sightings(np.asarray(shapes), np.zeros((*np.shape(shapes), 2)))


def network(model):
    """A network of the right shapes that has learned nothing."""
    frame = crop_frame(model.levels[-1].shape.mean, 32, 0.2, 4)
    weights = {
        name: np.zeros(shape, dtype=np.float32) for name, shape in _shapes((4, 6), 1, model.landmarks).items()
    }
    stage = Stage(frame, weights, 1.0, np.broadcast_to(np.eye(2), (model.landmarks, 2, 2)))
    return NetworkExpert((stage, stage)), 2 * sum(array.size for array in weights.values())


def remembering(model, experts, **changes):
    known = {**model.provenance, "choice": {"experts": experts}}
    return replace(model, provenance=known, **changes)


class TestExpert:
    def test_a_network_has_its_windows_and_weights(self, model):
        expert, count = network(model)
        known = choice.expert_of(replace(model, expert=expert, expert_weight=0.3))
        frame = expert.stages[0].frame
        assert known == {
            "kind": "network",
            "weight": 0.3,
            "looks": 2,
            "windows": [[frame.width, frame.height]] * 2,
            "weights": count,
        }
        said = choice.expert_sentence(replace(model, expert=expert, expert_weight=0.3))
        assert f"{frame.width} x {frame.height} and {frame.width} x {frame.height} pixels" in said
        assert f"{count:,} weights" in said
        assert said.endswith("the weight 0.3")

    def test_one_of_your_own_has_the_name_of_its_kind(self, model):
        assert choice.expert_of(replace(model, expert=Own()))["kind"] == "Own"
        assert choice.expert_sentence(replace(model, expert=Own())).startswith("expert: Own; ")

    def test_a_model_without(self, model):
        assert choice.expert_of(model) is None
        assert "no expert" in choice.expert_sentence(model)
        assert choice.terms_rows(model) == []
        assert choice.terms_sentence(model) == ""


class TestTerms:
    def test_each_term_has_a_row(self, model):
        expert, _ = network(model)
        taught = remembering(model, {"held_out": 15, "tried": TRIED}, expert=expert)
        assert choice.terms_rows(taught) == [
            ("model alone", "90.0%", "95.0%", "0.0150", "0.0070", "", ""),
            ("model and network expert", "100.0%", "100.0%", "0.0060", "0.0055", "0.3", "kept"),
            ("network expert alone", "", "", "0.0063", "", "", ""),
        ]
        assert all(len(row) == len(choice.TERMS_HEADER) for row in choice.terms_rows(taught))
        # It was not worth keeping: the model alone is what is left.
        rows = choice.terms_rows(remembering(model, {"tried": TRIED}))
        assert [row[-1] for row in rows] == ["kept", "", ""]

    def test_only_errors_of_the_same_fits_stand_in_one_table(self, model):
        scores = {"below_0.02": 0.5, "below_0.04": 1.0, "mean": 0.02, "median": 0.018}
        tried = [
            {"change": "at first", "fits": 60, **scores, "kept": True},
            {"change": "a weaker prior", "fits": 20, **scores, "kept": False},
            {"change": "a stronger prior", "fits": 60, **scores, "kept": False},
            {"change": "twice the iterations", "fits": 60, **scores, "kept": True},
        ]
        curve = [{"samples": 12, **scores}]
        searched = replace(model, provenance={**model.provenance, "choice": {"tried": tried, "curve": curve}})
        shown = ("50.0%", "100.0%", "0.0200", "0.0180")
        assert choice.tried_rows(searched) == [
            ("settings to begin with", *shown, "first"),
            ("a weaker prior", "", "", "", "", "no better"),
            ("a stronger prior", *shown, "no clear gain"),
            ("twice the iterations", *shown, "kept"),
        ]
        assert all(len(row) == len(choice.HEADER) for row in choice.tried_rows(searched))

    def test_every_table_has_a_title_and_every_column_a_name(self, model, command, tmp_path):
        tried = [{"change": "at first", "fits": 60, "kept": True}]
        known = {"tried": tried, "curve": [{"samples": 12}], "experts": {"tried": TRIED}}
        replace(model, provenance={**model.provenance, "choice": known}).save(tmp_path / "m.pliant")
        said = " ".join(command("inspect", tmp_path / "m.pliant").out.split())
        for title in (
            "with and without an expert: ",
            "settings chosen by fits of ? of the training samples with models of the others, from starts",
            "The samples are divided anew, so errors differ from those of the settings. An expert is kept",
            "effect of more samples: ",
        ):
            assert title in said
        assert "Mean error: an error above 0.1 counts as 0.1." in said
        for header in (choice.HEADER, choice.CURVE_HEADER, choice.TERMS_HEADER):
            assert all(header)

    def test_an_expert_is_no_search_for_settings(self, model):
        taught = remembering(model, {"held_out": 15, "tried": TRIED})
        assert choice.sentence(taught) == ""
        assert "divided anew" not in choice.terms_sentence(taught)
        assert choice.tried_rows(taught) == []

    @pytest.mark.parametrize(
        "experts",
        [
            None,
            7,
            "linear",
            [],
            {},
            {"tried": None},
            {"tried": 3},
            {"tried": {"expert": "none"}},
            {"tried": [None, 4, "none", []]},
        ],
    )
    def test_what_is_no_list_of_trials_has_no_rows(self, model, experts):
        assert choice.terms_rows(remembering(model, experts)) == []

    @pytest.mark.parametrize(
        "one",
        [
            {},
            {"expert": ["none"], "fits": True, "mean": "0.1"},
            {"expert": {"a": 1}, "mean": None, "alone": [1]},
            {"expert": "linear", "fits": 10**400, "mean": math.nan, "alone": math.inf, "weight": "\x1b[2J"},
        ],
    )
    def test_odd_entries_are_question_marks(self, model, one):
        rows = choice.terms_rows(remembering(model, {"tried": [one]}))
        assert len(rows) == 2
        assert set(rows[0][1:-1]) == {"?"}
        assert rows[1][3] == "?"

    def test_the_command_and_the_page_show_it(self, model, command, tmp_path):
        expert, count = network(model)
        odd = {"expert": "<script>\x1b[2J", "mean": 0.5}
        taught = remembering(model, {"held_out": 15, "tried": [*TRIED, odd]}, expert=expert)
        taught.save(tmp_path / "m.pliant")
        said = command("inspect", tmp_path / "m.pliant", "--report", tmp_path / "m.html").out
        assert f"{count:,} weights" in said
        assert "network expert alone" in said
        assert "settings were chosen" not in said
        assert "\x1b" not in said
        page = (tmp_path / "m.html").read_text()
        assert page == report.model_page(taught, "m")
        assert "0.0063" in page
        assert "<script>" not in page
        described = json.loads(command("inspect", tmp_path / "m.pliant", "--json").out)
        assert described["expert"]["weights"] == count
