"""The reference of commands and settings says what the code has."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("list_commands", DOCS / "list_commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["commands.md", "settings.md"])
def test_pages_are_current(page):
    file = DOCS / "reference" / page
    assert file.read_text() == generator().current(file), (
        f"{page} is out of date: python docs/list_commands.py"
    )


def test_every_option_is_listed():
    """Also those that the page describes once for all commands."""
    import typer

    from pliant.cli import app

    page = (DOCS / "reference" / "commands.md").read_text()
    for name, command in typer.main.get_command(app).commands.items():
        section = page.partition(f"### pliant {name}\n")[2].partition("\n### ")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option":
                place = page if parameter.opts[0] in generator().EVERYWHERE else section
                for spelling in (*parameter.opts, *parameter.secondary_opts):
                    assert f"`{spelling}`" in place or f"`{spelling} " in place, f"{name} {spelling}"


def test_a_page_without_marks_is_refused(tmp_path):
    (tmp_path / "settings.md").write_text("# Settings\n")
    with pytest.raises(ValueError, match="the marks .* are missing"):
        generator().current(tmp_path / "settings.md")


def test_every_landmark_format_is_listed():
    from pliant.data.formats import formats

    page = (DOCS / "reference" / "landmark-files.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for name, module in formats().items():
        assert module.EXTENSIONS[0] in rows[name], name
        assert ("many" in rows[name]) == module.MANY or ".zip" in rows[name], name
        for variant in module.VARIANTS:
            assert f"`{name}:{variant}`" in rows[name], f"{name}:{variant}"


def test_every_shortcut_of_the_studio_is_listed():
    page = (DOCS / "reference" / "studio.md").read_text().partition("## Shortcuts")[2]
    found = 0
    for script in (DOCS.parent / "src" / "pliant" / "studio" / "pages").glob("*.js"):
        for keys in re.findall(r'^\s*\{? ?keys: "([^"]+)"', script.read_text(), re.MULTILINE):
            for key in keys.split(" "):
                assert f"`{key}`" in page, f"{script.name}: {key}"
                found += 1
    assert found > 40


def test_every_experiment_and_its_settings_are_listed():
    from dataclasses import fields

    from pliant.experiments.conduct import EXPERIMENTS
    from pliant.experiments.settings import Settings

    names, _, rest = (DOCS / "reference" / "experiments.md").read_text().partition("## Image sets")
    rows = [line.split(" | ") for line in rest.splitlines() if line.startswith("| `")]
    shared = {one.name for one in fields(Settings)}
    for name, experiment in EXPERIMENTS.items():
        assert f"| `{name}` |" in names, name
        for one in fields(experiment.Settings):
            if one.name not in shared:
                listed = [row for row in rows if f"`{one.name}`" in row[0]]
                assert any(f"`{name}`" in row[-1] or "all" in row[-1] for row in listed), (
                    f"{name}: {one.name}"
                )
