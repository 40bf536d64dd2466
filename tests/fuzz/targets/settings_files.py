"""TOML: settings of commands and experiments, and the curves of semi-landmarks; and the tables beside them."""

from pathlib import Path

from pliant import Fitting, Tracking, Training
from pliant.data.scales import given_scale
from pliant.experiments.conduct import EXPERIMENTS
from pliant.experiments.settings import read_file, settings_of
from pliant.morphometrics import read_sliders
from pliant.settings.declaring import as_toml

from .mutations import of_text
from .target import Target, refused, written

WATCHED = ("pliant.settings", "pliant.experiments.settings", "pliant.morphometrics", "pliant.data", "tomllib")
_KINDS = {name: experiment.Settings for name, experiment in EXPERIMENTS.items()}


def targets() -> list[Target]:
    return [
        Target("settings", _settings, _read_settings, of_text, WATCHED),
        Target("experiment-settings", _experiments, _read_experiments, of_text, WATCHED),
        Target("sliders-toml", _curves, _read_curves, of_text, WATCHED),
        Target("sliders-csv", _rows, _read_rows, of_text, WATCHED),
        Target("scales", _scales, _read_scales, of_text, WATCHED),
    ]


def _settings() -> list[bytes]:
    tables = {kind.TABLE: kind().to_dict() for kind in (Training, Fitting, Tracking)}
    return [
        as_toml(tables, "all").encode(),
        as_toml({"fit": {"iterations": [20, 10], "sampling": 0.5}}).encode(),
    ]


def _read_settings(content: bytes, folder: Path) -> bool:
    path, taken = written(content, folder / "a.toml"), False
    for kind in (Training, Fitting, Tracking):
        try:
            settings = kind.load(path)
            taken = True
        except ValueError as error:
            refused(error, f"{path}: ")
            continue
        # What was read can be written, and is the same when it is read again.
        assert kind.from_dict(settings.to_dict()) == settings
    return taken


def _experiments() -> list[bytes]:
    own = {"experiment": {"noise": 0.1, "starts": 2, "train": ["a", "b"], "scales": [0.5, 1.0]}}
    return [as_toml({**own, "experiment.alpha": {"starts": 1, "algorithms": ["po-for-gn"]}}).encode()]


def _read_experiments(content: bytes, folder: Path) -> bool:
    path = written(content, folder / "a.toml")
    try:
        table = read_file(path, _KINDS)
    except ValueError as error:
        return refused(error, f"{path}: ")
    for name, kind in _KINDS.items():
        try:
            settings_of(kind, name, table, {}, quick=False)
        except ValueError as error:
            refused(error, "")
    return True


def _curves() -> list[bytes]:
    return [b'[[curve]]\nname = "edge"\npoints = [1, "4-6", "tip"]\nfixed = [5]\nclosed = false\n']


def _read_curves(content: bytes, folder: Path) -> bool:
    return _slid(written(content, folder / "a.toml"))


def _rows() -> list[bytes]:
    return [b"before,slide,after\n1,3,4\n3,4,2\n"]


def _read_rows(content: bytes, folder: Path) -> bool:
    return _slid(written(content, folder / "a.csv"))


def _slid(path: Path) -> bool:
    try:
        sliders = read_sliders(path, 8, ["tip", *"abcdefg"])
    except ValueError as error:
        return refused(error, path)
    assert sliders.min() >= 0
    assert sliders.max() < 8
    return True


def _scales() -> list[bytes]:
    return [b"image,scale\none.jpg,0.02\nfolder/two.jpg,0.5\n"]


def _read_scales(content: bytes, folder: Path) -> bool:
    path = written(content, folder / "a.csv")
    try:
        lengths = given_scale(path)
    except ValueError as error:
        return refused(error, path, f"scale={path}")
    assert all(length > 0 for length in lengths.values())
    return True
