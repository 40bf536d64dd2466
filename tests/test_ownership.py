"""Commands replace what pliant wrote, and nobody else's work."""

import pytest

from pliant.data.ownership import MODEL, SETTINGS, refuse_foreign

THEIRS = b"<?xml version='1.0'?><dataset>two days of clicking</dataset>"

COMMANDS = {
    "mine.xml": ("train", "{faces}/train", "-o", "mine.xml"),
    "mine.toml": ("train", "{faces}/train", "-o", "mine.pliant"),
    "few.csv": ("evaluate", "m.pliant", "{faces}/test", "-o", "few.csv", "--iterations", 1),
    "few.json": ("evaluate", "m.pliant", "{faces}/test", "-o", "few.json", "--iterations", 1),
    "few.parquet": ("evaluate", "m.pliant", "{faces}/test", "-o", "few.parquet", "--iterations", 1),
    "page.html": ("evaluate", "m.pliant", "{faces}/test", "--report", "page.html", "--iterations", 1),
    "curve.png": ("evaluate", "m.pliant", "{faces}/test", "--draw", "curve.png", "--iterations", 1),
    "modes.svg": ("inspect", "m.pliant", "--draw", "modes.svg"),
    "model.html": ("inspect", "m.pliant", "--report", "model.html"),
    "sheet.pdf": ("check", "{faces}/test", "--draw", "sheet.pdf"),
    "seen.png": (
        "convert",
        "{faces}/test",
        "all.json",
        "--to",
        "coco",
        "--overwrite",
        "--preview",
        "seen.png",
    ),
}


@pytest.fixture
def given(model, face_folders, tmp_path, monkeypatch):
    """A folder with a model, and the words of a command."""
    monkeypatch.chdir(tmp_path)
    model.save("m.pliant")
    return lambda name: [str(word).format(faces=face_folders) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_pliant_did_not_write_is_not_replaced(command, given, tmp_path, name):
    (tmp_path / name).write_bytes(THEIRS)
    said = command(*given(name), code=1)
    assert f"{name}: pliant did not write this file" in " ".join(said.err.split())
    assert (tmp_path / name).read_bytes() == THEIRS


@pytest.mark.parametrize("name", [name for name, words in COMMANDS.items() if words[0] != "train"])
def test_what_an_earlier_run_wrote_is_replaced(command, given, tmp_path, name):
    (tmp_path / name).touch()  # an empty file is nobody's loss
    command(*given(name), "-q")
    first = (tmp_path / name).stat()
    assert first.st_size
    command(*given(name), "-q")
    assert (tmp_path / name).stat().st_ino != first.st_ino


def test_models_and_their_settings_are_known(command, given, face_folders, tmp_path):
    """A dry run looks too; with a name of its own, training replaces its model and its settings."""
    command("train", face_folders / "train", "-o", "a.pliant", "--size", 30, "--no-confidence", "-q")
    refuse_foreign(tmp_path / "a.pliant", MODEL)
    refuse_foreign(tmp_path / "a.toml", SETTINGS)
    command("train", face_folders / "train", "--settings", "a.toml", "-o", "a.pliant", "--dry-run")
    (tmp_path / "a.toml").write_text("[train]\nsize = 40  # chosen by me\n")
    again = command("train", face_folders / "train", "-o", "a.pliant", "--dry-run", code=1)
    assert "a.toml: pliant did not write this file" in " ".join(again.err.split())


def test_a_mark_may_stand_at_the_end(tmp_path):
    """As in Parquet and PDF, whose end says what they are."""
    (tmp_path / "a").write_bytes(bytes(300_000) + MODEL)
    refuse_foreign(tmp_path / "a", MODEL)
    (tmp_path / "a").write_bytes(bytes(200_000) + MODEL + bytes(200_000))
    with pytest.raises(ValueError, match="Choose another name, or remove it first"):
        refuse_foreign(tmp_path / "a", MODEL)
