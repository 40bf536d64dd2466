"""CITATION.cff is right, and the program behind `make standards` sees what it should see."""

import ast
import re
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import pliant

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def spec_checks():
    return _tool("spec_checks")


@pytest.fixture(scope="module")
def standards():
    return _tool("standards")


def _tool(name):
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == pliant.__version__
    assert citation["license"] == CONFIG["project"]["license"]
    assert citation["authors"] == [{"name": one["name"]} for one in CONFIG["project"]["authors"]]
    (paper,) = citation["references"]
    assert re.fullmatch(r"10\.\d{4}/\S+", paper["doi"])


@pytest.mark.parametrize(
    ("package", "today", "oldest"),
    [
        ("numpy", "2026-08-18", "2.1"),  # the last day of 2.1
        ("numpy", "2026-08-19", "2.2"),
        ("python", "2025-10-24", "3.11"),
        ("python", "2025-10-25", "3.12"),
        ("scipy", "2040-01-01", "1.17"),  # the newest one stays
    ],
)
def test_windows_of_releases_end_on_their_day(spec_checks, package, today, oldest):
    assert spec_checks.oldest_supported(package, date.fromisoformat(today)) == oldest


def test_a_minimum_may_be_neither_too_old_nor_too_new(spec_checks):
    def verdicts(numpy):
        project = {"requires-python": ">=3.13", "dependencies": [f"numpy{numpy}"]}
        return {one.code: one.verdict for one in spec_checks.spec0(project, date(2026, 11, 16))}

    assert set(verdicts(">=2.2").values()) == {"pass"}
    assert [verdicts(numpy)["SPEC0-numpy"] for numpy in (">=1.26", ">=2.3", "<3")] == ["fail"] * 3


def test_global_random_state_is_noticed(spec_checks, tmp_path):
    (tmp_path / "draws.py").write_text(
        "import random\n"
        "np.random.shuffle(rows)\n"
        "rng = np.random.default_rng()\n"
        "torch.manual_seed(0)\n"
        "def draw(random_state): ...\n"
    )
    notes = {one.code: one.note for one in spec_checks.spec7(tmp_path)}
    assert notes["SPEC7-global-state"].count("draws.py") == 3
    assert notes["SPEC7-seeded"] == "draws.py:3"
    assert notes["SPEC7-names"] == "draws.py:draw"


def test_a_generator_that_is_put_back_is_allowed(spec_checks):
    tree = ast.parse("with torch.random.fork_rng():\n    torch.manual_seed(seed)\n")
    assert not list(spec_checks._shared(tree))


def test_pliant_draws_nothing_from_global_state_and_imports_nothing_heavy(spec_checks):
    outcomes = [*spec_checks.spec7(ROOT / "src"), *spec_checks.spec1(ROOT)]
    assert [one for one in outcomes if one.verdict != "pass"] == []


def test_an_exception_needs_a_failure(standards):
    failed, passed = (standards.Outcome("x", code, "", code) for code in ("fail", "pass"))
    verdicts = [
        one.verdict for one in standards.excused([failed, passed], {"fail": "why", "pass": "", "gone": ""})
    ]
    assert verdicts == ["exception", "fail", "fail"]


def test_a_question_without_an_answer_fails(standards):
    page = "## JOSS\n\n| question | answer |\n| --- | --- |\n| Why? | Because. |\n| How? | |\n"
    assert [(one.title, one.verdict) for one in standards.answers(page)] == [
        ("Why?", "by hand"),
        ("How?", "fail"),
    ]


def test_the_page_explains_every_check_and_has_every_answer(standards):
    page = (ROOT / "docs" / "standards.md").read_text(encoding="utf-8")
    assert {one.verdict for one in standards.answers(page)} == {"by hand"}
    outcomes = [
        *standards.project_outcomes(ROOT, CONFIG),
        *sys.modules["spec_checks"].spec0(CONFIG["project"], date(2026, 11, 16)),
    ]
    assert [one.code for one in outcomes if f"`{one.code}`" not in page] == []


def test_the_files_of_the_project_have_what_reviewers_ask_for(standards):
    found = standards.project_outcomes(ROOT, CONFIG)
    judged = standards.excused(
        found, {"PYOS-metadata": CONFIG["tool"]["standards"]["exceptions"]["PYOS-metadata"]}
    )
    assert [one for one in judged if one.verdict == "fail"] == []
