"""The one table of fits: what the docs say of it, what is written, and that all of its files are read."""

import csv
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import pliant
from pliant.bulk.rows import write_csv
from pliant.evaluation import evaluate
from pliant.experiments import algorithms
from pliant.experiments.conduct import conduct
from pliant.experiments.settings import settings_of
from pliant.fitting.result import failed
from pliant.records import write_records
from pliant.shape import shape_size
from pliant.table import (
    COLUMNS,
    VERSION,
    cells_of,
    columns_of,
    read_fits,
    read_head,
    table_writer,
    write_table,
)
from pliant.table.columns import TYPES, has_type, schema_of
from pliant.table.writing import KIND, NUMBER

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parent.parent / "docs" / "reference" / "table.md"
KINDS = ("fits", "track", "evaluation", "experiment")
TITLES = {"landmarks": "list of float64", "levels": "list of lists of float64"}


def a_row(**cells):
    """A row with a value in every cell that all tables have."""
    lists = {"x": [1.0, 2.0], "y": [3.0, 4.0], "spread": [0.1, 0.2], "hidden": [0.0, 1.0]}
    texts = {"image": "a.png", "status": "converged", "reason": ""}
    numbers = {"cost": 1.0, "iterations": 2, "seconds": 0.1, "width": 9, "height": 8, "confidence": 0.5}
    return {**texts, **numbers, **lists, **cells}


class TestColumns:
    def test_the_docs_have_the_same(self):
        """Name, type, unit, tables and meaning of every column, and the version."""
        text = DOCS.read_text()
        shown = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*) \|$", text, re.MULTILINE)
        expected = [
            (
                one.name,
                TITLES.get(one.type, one.type),
                one.unit,
                "all" if one.tables == KINDS else ", ".join(one.tables),
                one.meaning,
            )
            for one in COLUMNS.values()
        ]
        assert shown == expected
        assert f"version {VERSION}" in text

    def test_all_have_what_every_fit_has(self):
        shared = columns_of("fits")
        for kind in KINDS:
            assert columns_of(kind)[: len(shared)] == shared
        assert {one.type for one in COLUMNS.values()} == set(TYPES)

    def test_one_name_is_one_type(self):
        schemas = [schema_of(kind) for kind in KINDS]
        assert pa.unify_schemas(schemas).names == list(COLUMNS)

    def test_types_of_cells(self):
        row = a_row()
        assert all(has_type(row[name], name) for name in row)
        assert has_type(None, "cost")
        assert not has_type(None, "status")
        assert not has_type("1", "cost")
        assert not has_type(True, "iterations")
        assert not has_type([1], "x")


class TestWriting:
    def stopped_after(self, count):
        yield from (a_row(image=f"{number}.png") for number in range(count))
        raise KeyboardInterrupt

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_a_file_says_about_itself(self, kind, tmp_path):
        path = tmp_path / "t.parquet"
        write_table(path, [a_row()], {"a": [1]}, ("nose", "chin"), kind)
        assert read_head(path) == {"a": [1]}
        schema = parquet.read_schema(path)
        assert schema.names == columns_of(kind)
        assert (schema.metadata[KIND], schema.metadata[NUMBER]) == (kind.encode(), str(VERSION).encode())
        fits = read_fits(path)
        assert list(fits["landmark_names"]) == ["nose", "chin"]
        assert fits["points"].tolist() == [[[1, 3], [2, 4]]]
        assert fits["spread"].tolist() == [[0.1, 0.2]]
        assert fits["hidden"].tolist() == [[0, 1]]

    def test_an_error_leaves_what_was_there(self, tmp_path):
        path = tmp_path / "t.parquet"
        write_table(path, [a_row()], {})
        before = path.read_bytes()
        with pytest.raises(KeyboardInterrupt):
            write_table(path, self.stopped_after(1), {})
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_what_was_written_can_be_kept(self, tmp_path):
        path = tmp_path / "t.parquet"
        with (
            suppress(KeyboardInterrupt),
            table_writer(path, {}, keep_when_stopped=True) as write,
        ):
            for row in self.stopped_after(700):
                write(row)
        assert read_fits(path)["image"][-1] == "699.png"
        assert list(tmp_path.iterdir()) == [path]

    def test_cells_of_what_failed_are_empty(self, model):
        cells = cells_of("a.png", failed(model, "po-asy-gn", None, "a.png: it is broken."))
        assert cells["status"] == "failed"
        assert cells["reason"] == "it is broken."
        empty = ("cost", "iterations", "seconds", "width", "height", "x", "y", "spread", "hidden")
        assert [cells[name] for name in empty] == [None] * len(empty)
        assert list(cells) == columns_of("fits")
        assert cells["confidence"] == 0

    def test_the_docs_say_which_are_empty_and_that_confidence_is_not(self, model):
        cells = cells_of("a.png", failed(model, "po-asy-gn", None, "it is broken."), size=(9, 8))
        text = DOCS.read_text()
        said = re.search(r"^- where `status` is `failed`: (.*)$", text, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", said[1])) - {"distances"} == {
            name for name, value in cells.items() if value is None
        }
        assert "Where `status` is `failed`, `confidence` is 0" in text


class TestReading:
    @pytest.mark.parametrize("kind", ["fits", "track", "evaluation"])
    def test_tables_of_the_first_version(self, kind):
        fits = read_fits(GOLDEN / f"v1_{kind}.parquet")
        expected = json.loads((GOLDEN / "v1_tables.json").read_text())[kind]
        assert fits.keys() == expected.keys()
        for name, values in expected.items():
            now = fits[name] if fits[name].ndim == 1 else fits[name].sum(axis=1)
            np.testing.assert_array_equal(now, values, err_msg=name)

    def test_a_table_of_a_later_version_is_a_sentence(self, tmp_path):
        path = tmp_path / "t.parquet"
        write_table(path, [a_row()], {})
        later = parquet.read_table(path)
        later = later.replace_schema_metadata({**later.schema.metadata, NUMBER: b"99"})
        parquet.write_table(later, path)
        with pytest.raises(ValueError, match="version 99, but this pliant reads tables up to version 4"):
            read_fits(path)

    def test_other_files_are_a_sentence(self, tmp_path):
        parquet.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
        (tmp_path / "b.parquet").write_text("no")
        for name in ("a", "b"):
            with pytest.raises(ValueError, match=f"{name}.parquet: this is not a table of fits"):
                read_fits(tmp_path / f"{name}.parquet")
        with pytest.raises(ValueError, match="there is no such table"):
            read_fits(tmp_path)

    def test_rows_with_other_numbers_of_landmarks(self, tmp_path):
        rows = [a_row(), a_row(x=None, y=None), a_row(x=[5.0], y=[6.0])]
        write_table(tmp_path / "t.parquet", rows, {})
        points = read_fits(tmp_path / "t.parquet")["points"]
        assert points.shape == (3, 2, 2)
        assert points[2, 0].tolist() == [5, 6]
        assert np.isnan(points[1]).all()
        assert np.isnan(points[2, 1]).all()

    def test_the_folder_of_a_track(self, tmp_path):
        write_table(tmp_path / "track.parquet", [a_row(frame=3, event="lost")], {}, kind="track")
        assert read_fits(tmp_path)["frame"].tolist() == [3]

    def test_a_name_that_is_not_utf8(self, tmp_path):
        write_table(tmp_path / "t.parquet", [a_row(image="caf\udce9.png")], {})
        assert read_fits(tmp_path / "t.parquet")["image"].tolist() == ["caf\udce9.png"]


def test_evaluations_and_experiments_agree(face_folders, tmp_path):
    """The same start of the same image by the same algorithm is the same row in both tables."""
    sets = {"train": str(face_folders / "train"), "test": str(face_folders / "test")}
    given = {**sets, "size": 40.0, "shape_modes": (2, 5), "starts": 1, "algorithms": ("po-asy-gn",)}
    settings = settings_of(algorithms.Settings, "algorithms", {}, given, quick=False)
    conduct(tmp_path / "e", {"algorithms": settings}, jobs=1, progress=False)
    trained = pliant.train(sets["train"], settings.training, progress=False)
    done = evaluate(
        trained,
        sets["test"],
        ["po-asy-gn"],
        start="noise",
        starts=1,
        iterations=(24, 16),
        jobs=1,
        progress=False,
    )
    write_records(tmp_path / "v.parquet", done.records)
    one, other = read_fits(tmp_path / "e"), read_fits(tmp_path / "v.parquet")
    shared = set(columns_of("experiment")) & set(columns_of("evaluation")) - {"x", "y", "seconds"} | {
        "points"
    }
    assert {"error", "distances", "points", "iterations", "algorithm", "start"} <= shared
    for name in shared - {"image"}:
        assert one[name].dtype == other[name].dtype
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    head = read_head(next((tmp_path / "e" / "rows").iterdir()))
    assert pliant.Training.from_dict(head["training"]) == settings.training
    assert pliant.Fitting.from_dict(head["fitting"]) == settings.fitting.changed(algorithm="po-asy-gn")
    assert set(one["trial"]) == {path.stem[:-2] for path in (tmp_path / "e" / "rows").iterdir()}


def test_every_setting_of_training_works_in_experiments():
    given = {"train": "a", "test": "b", "colour": True, "mirror": True, "stopping_patience": 3}
    settings = settings_of(
        algorithms.Settings, "algorithms", {"appearance-variance": 1.0}, given, quick=False
    )
    trial = settings.trial("a", "po-asy-gn")
    assert (trial.training.colour, trial.training.mirror) == (True, True)
    assert trial.training.appearance_modes == ("all",)
    assert trial.fitting.stopping.patience == 3
    assert settings.to_dict()["stopping_patience"] == 3
    with pytest.raises(ValueError, match="got 2 values for 3 levels"):
        settings_of(algorithms.Settings, "a", {"scales": [0.2, 0.5, 1]}, {}, quick=False)


class TestForASpreadsheet:
    ROW = MappingProxyType(
        {
            "image": "a.png",
            "object": 0,
            "status": "converged",
            "reason": "",
            "confidence": 0.9123456,
            "cost": 1.23456789,
            "iterations": 3,
            "seconds": 0.123456,
            "width": 200,
            "height": 200,
            "x": [0.0, 100.0, 100.0, 0.00051],
            "y": [0.0, 0.0, 100.0, 100.0],
            "spread": [1.0, 3.5, 2.9, 1.0],
            "hidden": [0.0, 0.0, 0.0, 1.0],
        }
    )

    def csv(self, tmp_path, names=(), **changes):
        write_table(tmp_path / "fits.parquet", [{**self.ROW, **changes}], {}, names)
        write_csv(tmp_path / "fits.csv", tmp_path / "fits.parquet", 4, names)
        with open(tmp_path / "fits.csv", newline="", encoding="utf-8") as file:
            return next(csv.DictReader(file))

    def test_numbers_have_the_digits_that_people_need(self, tmp_path):
        row = self.csv(tmp_path)
        assert (row["x1"], row["x3"], row["y3"]) == ("100.000", "0.001", "100.000")
        assert (row["confidence"], row["cost"], row["seconds"]) == ("0.9123", "1.23457", "0.1235")
        assert pliant.read_fits(tmp_path)["points"][0, 3, 0] == 0.00051

    def test_landmarks_in_doubt_are_named(self, tmp_path):
        # The size is 100 pixels, and the bound 3: the second deviates by more, and the last is hidden.
        row = self.csv(tmp_path)
        assert (row["largest_spread"], row["hidden_landmarks"]) == ("3.500", "1")
        assert row["doubtful_landmarks"] == "1, 3"
        assert self.csv(tmp_path, ("nose", "chin", "ear", "eye"))["doubtful_landmarks"] == "chin, eye"
        assert self.csv(tmp_path, hidden=None)["doubtful_landmarks"] == "1"
        unknown = self.csv(tmp_path, hidden=None, spread=None)
        assert unknown["largest_spread"] == unknown["hidden_landmarks"] == unknown["doubtful_landmarks"] == ""

    def test_a_failed_fit_has_none(self, tmp_path):
        row = self.csv(tmp_path, status="failed", x=None, y=None, spread=None, hidden=None, cost=None)
        assert row["x0"] == row["cost"] == row["doubtful_landmarks"] == ""

    def test_python_says_the_same(self, calibrated, dataset):
        fit = pliant.fit(calibrated, dataset[0], dataset[0].points() + 1)
        cells = cells_of("a.png", fit)
        np.testing.assert_array_equal(fit.spread, cells["spread"])
        expected = fit.spread > 0.03 * shape_size(fit.points)
        np.testing.assert_array_equal(fit.doubtful, expected)
        plain = pliant.fit(replace(calibrated, confidence=None), dataset[0], dataset[0].points() + 1)
        assert plain.spread is plain.doubtful is None
