"""The gallery's examples run without a screen, and what they claim is true: each ends in its own checks.

All of them run whenever the site is built. Here, to save minutes, those run that are quick to train; the others are
read: each has prose, a figure and a check.
"""

import ast
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

GALLERY = Path(__file__).parent.parent / "docs" / "gallery"
EXAMPLES = sorted(GALLERY.glob("*/plot_*.py"))
QUICK = ("plot_annotation_mistakes", "plot_train_and_fit", "plot_wing_landmarks")
FIELDS = ("biology", "faces", "medicine", "video")


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.stem in QUICK], ids=lambda one: one.stem)
def test_examples_run_and_their_checks_hold(example, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with plt.rc_context({"backend": "agg"}):
        runpy.run_path(str(example), run_name="__main__")
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.stem not in QUICK], ids=lambda one: one.stem
)
def test_longer_examples_run_and_their_checks_hold(example, monkeypatch, tmp_path):
    test_examples_run_and_their_checks_hold(example, monkeypatch, tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.stem)
def test_examples_have_a_title_prose_a_figure_and_a_check(example):
    text = example.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, underline = (ast.get_docstring(tree) or "\n").splitlines()[:2]
    assert set(underline) == {"="}
    assert len(underline) == len(title)
    assert text.count("\n# %%\n") >= 3
    assert any(isinstance(node, ast.Assert) for node in tree.body)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert names & {"subplots"} or any(name.startswith("plot_") for name in names)
    assert not {"load", "read_csv"} & names, "examples draw their own images"


def test_each_field_says_what_it_is_about():
    assert sorted({one.parent.name for one in EXAMPLES}) == list(FIELDS)
    for field in FIELDS:
        assert len((GALLERY / field / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()) >= 4


def test_the_list_of_examples_has_all_of_them_by_their_titles():
    listed = re.findall(
        r"\| (\w+) \| \[(.+)\]\((.+)\) \|", (GALLERY.parent / "gallery.md").read_text(encoding="utf-8")
    )
    found = {GALLERY.parent / path: (field, title) for field, title, path in listed}
    assert sorted(found) == EXAMPLES
    for example in EXAMPLES:
        title = (ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or "").splitlines()[0]
        assert found[example] == (example.parent.name, title)


def test_the_first_page_leads_there_without_the_built_site():
    page = (GALLERY.parent / "index.md").read_text(encoding="utf-8")
    assert "[Gallery](gallery.md)" in page
    # Roles of Sphinx are plain text elsewhere.
    assert "{doc}" not in page
