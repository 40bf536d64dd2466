"""What strangers put into files is shown on the terminal, and not obeyed by it."""

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

import pliant
from pliant.cli.compiling import SENTENCE
from pliant.progress import Progress
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


class TestProgressInALogFile:
    """Standard error is not a terminal here: it is captured."""

    @pytest.fixture
    def clock(self, monkeypatch):
        now = [1000.0]
        monkeypatch.setattr("pliant.progress.time.monotonic", lambda: now[0])
        return now

    def advance(self, clock, show, seconds, steps=20):
        with Progress(show) as bar:
            step = bar.start("trying settings", steps, 2, 1)
            for number in range(steps - 2):
                clock[0] += seconds
                step(failed=number == 0)

    def test_long_work_says_now_and_then_how_far_it_is(self, clock, capsys):
        self.advance(clock, None, 10.0)
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "trying settings: 3 of 20, 10 s, 2 failed"
        # Once in half a minute: at 10, 40, 70, 100, 130 and 160 seconds.
        assert len(lines) == 6
        assert lines[-1] == "trying settings: 18 of 20, 3 min, about 20 s left, 2 failed"

    def test_what_the_first_part_waited_for_is_not_expected_of_the_others(self, clock, capsys):
        with Progress() as bar:
            step = bar.start("evaluating", 100)
            for seconds in (76, 31, 1):
                clock[0] += seconds
                step()
        lines = capsys.readouterr().err.splitlines()
        assert lines == ["evaluating: 1 of 100, 76 s", "evaluating: 2 of 100, 2 min, about 51 min left"]

    def test_short_work_and_work_that_was_told_to_be_quiet_say_nothing(self, clock, capsys):
        self.advance(clock, None, 0.5)
        self.advance(clock, False, 100.0)
        assert capsys.readouterr().err == ""

    def test_without_a_total(self, clock, capsys):
        with Progress() as bar:
            step = bar.start("tracking frames", 0)
            clock[0] += 12
            step()
        assert capsys.readouterr().err == "tracking frames: 1, 12 s\n"


def test_what_is_said_of_compiling_promises_no_single_time():
    # Every command has functions of its own: the sentence comes with each that has not run before.
    assert "first time only" not in SENTENCE
    assert "kept for next time" in SENTENCE
