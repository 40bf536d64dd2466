"""What strangers put into files is shown on the terminal, and not obeyed by it."""

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

import pliant
from pliant.terminal import printable

SOURCE = Path(pliant.__file__).parent
EVIL = "see [/terms] [red]x[/red] :smile: \x1b]0;owned\x07\x1b[2J\x9b31m \u202egnp"
SHOWN = r"see [/terms] [red]x[/red] :smile: \x1b]0;owned\x07\x1b[2J\x9b31m \u202egnp"


def test_control_characters_are_spelt_out_and_the_rest_stays():
    assert printable(EVIL) == SHOWN
    plain = "Gesichter/München 顔.jpg: line 1\n\tline 2 \U0001f600"
    assert printable(plain) == plain


def test_names_that_are_not_utf8_can_be_printed():
    name = os.fsdecode(b"fa\xe7ade.jpg")
    assert printable(name) == r"fa\xe7ade.jpg"
    printable("\ud800").encode("utf-8")


@pytest.mark.parametrize("key", ["licence", "source", "trained", "pliant"])
def test_inspect_shows_what_a_model_says_of_itself(key, model, command, tmp_path):
    file = tmp_path / "evil.pliant"
    replace(model, provenance={**model.provenance, key: EVIL}).save(file)
    said = command("inspect", file)
    assert SHOWN in re.sub(r"\s+", " ", said.out)
    assert "\x1b" not in said.out + said.err


def test_names_of_files_and_samples_do_not_reach_the_terminal_as_commands(face_folders, command, tmp_path):
    import shutil

    folder = tmp_path / "faces"
    shutil.copytree(face_folders / "train", folder)
    shutil.copytree(face_folders / "test", folder, dirs_exist_ok=True)
    shutil.copy(folder / "face1.png", folder / "twin [red] \x1b[31m.png")
    (folder / "twin [red] \x1b[31m.pts").write_text(
        re.sub(r"\.\d+", ".5", (folder / "face1.pts").read_text())
    )
    (folder / "broken [bold] \x1b[31m.png").write_text("no image")
    (folder / "broken [bold] \x1b[31m.pts").write_text((folder / "face1.pts").read_text())
    said = command("check", folder, code=3)
    assert r"broken [bold] \x1b[31m.png" in said.out
    assert r"twin [red] \x1b[31m.png" in said.out
    assert "\x1b" not in said.out + said.err
    said = command("train", folder, "-o", tmp_path / "m.pliant", code=1)
    assert r"broken [bold] \x1b[31m.png" in said.err
    assert "\x1b" not in said.out + said.err


def test_settings_files_do_not_reach_the_terminal_as_commands(command, tmp_path):
    file = tmp_path / "evil.toml"
    file.write_text('[train]\n"\\u001b[31mkey" = 1\n')
    said = command("train", "faces", "--settings", file, code=2)
    assert r"\x1b[31mkey" in said.err
    assert "\x1b" not in said.err


def test_all_commands_speak_through_one_place():
    """`typer.echo`, `print` and rich's own console would pass on whatever they are given."""
    spoken = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in {"print", "typer.echo", "typer.secho", "Console"}:
                spoken.add(str(path.relative_to(SOURCE)))
    assert spoken == {"terminal.py"}
