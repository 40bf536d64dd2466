"""What fuzzing has found: each file was read without end, ended in a traceback, or was believed."""

import csv
import json
import os
import struct
import time
import zlib

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import pliant
from pliant.bulk import parts
from pliant.data import addresses, manifest
from pliant.data.formats import read_annotations_with, read_boxes
from pliant.data.formats.parquet import names_in
from pliant.data.scales import given_scale
from pliant.data.sources import find_images, local_matches
from pliant.distributed import connecting
from pliant.experiments import plans
from pliant.experiments.settings import Settings, read_file, settings_of
from pliant.limits import brief_refusals, parsed_json, parsed_toml
from pliant.morphometrics import read_sliders, read_specimens
from pliant.studio.storage.history import History
from pliant.studio.storage.locking import Lock
from pliant.table import read_fits, read_head, rows_of
from pliant.table.writing import NUMBER

DEEP = 60_000


def size_of(name):
    return 640, 480


class TestToml:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[fit]\nscales = " + "[" * DEEP, "nested too deeply"),
            ("[fit]\nx = " + "{a=" * 100 + "1" + "}" * 100, "nested too deeply"),
            ("[fit]\niterations = " + "9" * 5000, "too long to read"),
            ("[fit]\nlicence = '" + "a" * 2**20 + "'", "more than 1,024 KB"),
            ("[" + "a." * 5000 + "a]\n", "more than 2,000 dots"),
        ],
    )
    def test_settings_that_ask_for_too_much(self, tmp_path, text, said):
        path = tmp_path / "a.toml"
        path.write_text(text)
        with pytest.raises(ValueError, match=said) as refused:
            pliant.Fitting.load(path)
        assert str(refused.value).startswith(f"{path}: ")

    def test_a_long_key_takes_no_time(self):
        began = time.process_time()
        with pytest.raises(ValueError, match="dots"):
            parsed_toml("[" + "a." * 200_000 + "a]\n", "a.toml")
        assert time.process_time() - began < 1

    def test_a_whole_number_beyond_all_floats(self, tmp_path):
        path = tmp_path / "a.toml"
        path.write_text(f"[fit]\nsampling = 1{'0' * 400}\n")
        with pytest.raises(ValueError, match=f"^{path}: sampling="):
            pliant.Fitting.load(path)

    def test_lines_of_windows_are_read(self, tmp_path):
        path = tmp_path / "a.toml"
        path.write_bytes(b"[fit]\r\nsampling = 0.5\r\n")
        assert pliant.Fitting.load(path).sampling == 0.5

    @pytest.mark.parametrize(
        ("points", "said"),
        [
            (f"[1, 2, {10**30}]", "there is no landmark with a number of more than 18 digits"),
            (f"['1-{'9' * 5000}']", "there is no landmark"),
            ("[" + "'1-99999'," * 20 + "]", "more than 100,000 landmarks"),
            ("[" * DEEP, "nested too deeply"),
        ],
    )
    def test_curves_that_ask_for_too_much(self, tmp_path, points, said):
        path = tmp_path / "a.toml"
        path.write_text(f"[[curve]]\npoints = {points}\n")
        with pytest.raises(ValueError, match=said) as refused:
            read_sliders(path, 8)
        assert str(refused.value).startswith(str(path))
        assert len(str(refused.value)) < 2000

    def test_a_table_of_sliders_with_a_long_number(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(f"before,slide,after\n1,2,{10**30}\n")
        with pytest.raises(ValueError, match="more than 18 digits"):
            read_sliders(path, 8)

    def test_settings_in_a_pipe_are_not_waited_for(self, tmp_path):
        os.mkfifo(pipe := tmp_path / "a.toml")
        with pytest.raises(ValueError, match="this is a pipe") as refused:
            pliant.Fitting.load(pipe)
        assert str(refused.value).startswith(f"{pipe}: ")


class TestSmallTables:
    """Beside the landmarks: what the csv module refuses, and files that are none."""

    @pytest.fixture(autouse=True)
    def narrow(self):
        """Fields of 2 GB are refused, and none is made for a test."""
        before = csv.field_size_limit(100)
        yield
        csv.field_size_limit(before)

    def test_sliders(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(f"before,slide,after\n1,2,{'a' * 101}\n")
        with pytest.raises(ValueError, match="this is not a table") as refused:
            read_sliders(path, 8)
        assert str(refused.value).startswith(f"{path}: ")

    def test_scales(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(f"image,scale\na.jpg,{'a' * 101}\n")
        with pytest.raises(ValueError, match="line 2: this is not a row of a table") as refused:
            given_scale(path)
        assert str(refused.value).startswith(f"{path}, ")

    def test_a_long_name_beside_a_scale(self, tmp_path):
        csv.field_size_limit(10_000)
        path = tmp_path / "a.csv"
        path.write_text(f"image,scale\n{'b' * 5000}.jpg,none\n")
        with pytest.raises(ValueError, match="must be a number above 0") as refused:
            given_scale(path)
        assert len(str(refused.value)) < 2000

    @pytest.mark.parametrize("name", ["a.csv", "a.tps"])
    def test_scales_in_a_pipe_are_not_waited_for(self, tmp_path, name):
        os.mkfifo(pipe := tmp_path / name)
        with pytest.raises(OSError, match="this is a pipe"):
            given_scale(pipe)


class TestPatterns:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """Links to itself lead into it without end: forty levels of two have a million million folders."""
        for name in ("a.png", "inner/b.png", "inner/.hidden/c.png", ".d.png"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        (tmp_path / "one").symlink_to(tmp_path)
        (tmp_path / "other").symlink_to(tmp_path)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    @pytest.mark.parametrize("pattern", ["**/*.png", "./**/*.png", "**/**/*.png", "{folder}/**/*.png"])
    def test_linked_folders_are_not_entered(self, folder, pattern):
        found = find_images([pattern.format(folder=folder)])
        assert [os.path.relpath(name, folder) for name in found] == ["a.png", "inner/b.png"]

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("inner/**", ["inner/b.png"]),
            ("**", ["a.png", "inner", "inner/b.png", "one", "other"]),
            ("one/*.png", ["one/a.png"]),
            ("**/inner/*", ["inner/b.png"]),
            ("nothing/**", []),
        ],
    )
    def test_other_places_of_the_stars(self, folder, pattern, names):
        assert [str(path) for path in local_matches(pattern)] == names

    def test_too_many_files(self, folder, monkeypatch):
        monkeypatch.setattr(addresses, "_MOST_MATCHES", 1)
        for pattern in ("**/*.png", f"file://{folder}/**/*.png"):
            with pytest.raises(ValueError, match="matches more than 1 files: narrow it"):
                find_images([pattern])


class TestNames:
    @pytest.mark.parametrize("name", ["a\0.jpg", "bytes:a%00.jpg"])
    def test_no_image_has_a_null_character(self, tmp_path, name):
        path = tmp_path / "a.csv"
        path.write_text(f"image,landmark,x,y\n{name},0,1,2\n")
        with pytest.raises(ValueError, match="null character"):
            read_annotations_with(path, "csv-long", size_of)
        path.write_text(f"image,landmarks\n{name},a.pts\n")
        with pytest.raises(ValueError, match="null character"):
            manifest.read_manifest(path)

    def test_a_long_name_makes_no_long_sentence(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(f"image,{'a' * 60_000}_x\none.jpg,1\n")
        with pytest.raises(ValueError, match=r"no matching column for the other axis\.$") as refused:
            read_annotations_with(path, "csv", size_of)
        assert len(str(refused.value)) < 2000

    def test_half_a_character_makes_no_sentence_that_cannot_be_sent(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text('{"images": ["\\ud800"], "annotations": []}')
        with pytest.raises(ValueError, match="expected an object with 'id'") as refused:
            read_annotations_with(path, "coco", size_of)
        str(refused.value).encode()

    def test_other_errors_keep_their_kind(self):
        class Own(ValueError):
            pass

        with pytest.raises(Own), brief_refusals():
            raise Own("a" * 5000)


class TestBoxes:
    @pytest.mark.parametrize("side", ["nan", "inf", "1e999"])
    def test_a_box_of_a_manifest_is_finite(self, tmp_path, side):
        path = tmp_path / "a.csv"
        path.write_text(f"image,left,top,right,bottom\na.jpg,1,2,{side},4\n")
        with pytest.raises(ValueError, match="line 2: left, top, right, bottom must be four numbers"):
            manifest.read_boxes(path)

    def test_a_box_without_landmarks_is_finite(self, tmp_path):
        path = tmp_path / "a.json"
        image = {"id": 1, "file_name": "a.jpg"}
        document = {"images": [image], "annotations": [{"image_id": 1, "bbox": [1e308, 0, 1e308, 2]}]}
        path.write_text(json.dumps(document))
        with pytest.raises(ValueError, match=r"the box of a\.jpg has a side that is not a finite number"):
            read_boxes(path)

    def test_a_manifest_with_a_field_that_is_too_long(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text(f"image,landmarks\n{'a' * 200}.jpg,x\n")
        before = csv.field_size_limit(100)
        try:
            with pytest.raises(ValueError, match=f"^{path}: this is not a table of text"):
                manifest.read_manifest(path)
        finally:
            csv.field_size_limit(before)


class TestJson:
    def test_brackets_without_end(self):
        with pytest.raises(ValueError, match="nested too deeply"):
            parsed_json("[" * DEEP)

    def test_names_in_a_table(self):
        assert names_in({b"landmark_names": b"[" * DEEP}) == ()

    def test_a_lock(self, tmp_path):
        path = tmp_path / "lock"
        path.write_bytes(b"[" * 4096)
        lock = Lock(path)
        assert lock.held
        lock.release()


class TestHistory:
    @pytest.mark.parametrize(
        "change",
        [
            {"marks": {"999999999": [1, 2, 2]}},
            {"marks": {"-1": [1, 2, 2]}},
            {"marks": {"5": [10**400, 2, 2]}},
            {"marks": {"5": [1, 2, 300]}},
            {"marks": []},
            {"n": "7"},
            {"image": ["a"]},
            {"done": 3},
            {"before": []},
            {"scale": {"start": [0, 0]}},
            {"object": {"names": 3}},
            {"object": {"names": ["a"], "curves": [{"name": "c", "points": [9], "closed": False}]}},
        ],
    )
    def test_what_is_no_line_of_ours_is_passed_over(self, tmp_path, change):
        line = {"n": 1, "image": "a.png", "done": False, "marks": {"0": [1, 2, 2]}, "before": {}}
        path = tmp_path / "history.jsonl"
        path.write_text("\n".join(json.dumps(one) for one in (line | change, line | {"n": 2})) + "\n")
        history = History(path, writable=False)
        assert [one["n"] for _, one in history.lines()] == [2]
        assert history.number == 2

    def test_brackets_without_end(self, tmp_path):
        path = tmp_path / "history.jsonl"
        path.write_bytes(b"[" * DEEP + b"\n")
        assert list(History(path, writable=False).lines()) == []


class TestTables:
    def test_a_damaged_table(self, tmp_path):
        path = tmp_path / "fits.parquet"
        path.write_bytes(b"PAR1" + b"\0" * 40 + b"PAR1")
        for read in (read_head, read_fits, lambda one: list(rows_of(one))):
            with pytest.raises(ValueError, match=f"^{path}: this"):
                read(path)

    def test_rows_without_end_are_not_unpacked(self, tmp_path):
        path = tmp_path / "fits.parquet"
        nothing = pyarrow.nulls(30_000_000, pyarrow.float64())
        parquet.write_table(pyarrow.table({"status": nothing, "x": nothing, "y": nothing}), path)
        for read in (read_fits, lambda one: list(rows_of(one))):
            with pytest.raises(ValueError, match="too many for landmarks"):
                read(path)

    def test_one_long_row_does_not_make_all_others_as_long(self, tmp_path):
        path = tmp_path / "fits.parquet"
        lists = [[0.0] * 200_000, *([[0.0]] * 20_000)]
        parquet.write_table(pyarrow.table({"status": ["converged"] * 20_001, "x": lists, "y": lists}), path)
        with pytest.raises(ValueError, match="too many for landmarks"):
            read_fits(path)

    @pytest.mark.parametrize(
        "columns",
        [
            {"x": ["a"], "y": ["b"]},
            {"x": [[1.0, 2.0]], "y": [[1.0]]},
            {"x": [[["a"]]], "y": [[["a"]]]},
        ],
    )
    def test_columns_of_other_kinds(self, tmp_path, columns):
        path = tmp_path / "fits.parquet"
        parquet.write_table(pyarrow.table({"status": ["converged"], **columns}), path)
        with pytest.raises(ValueError, match=f"^{path}: this is not a table of fits"):
            read_fits(path)

    def test_a_version_of_many_digits(self, tmp_path):
        path = tmp_path / "fits.parquet"
        about = {NUMBER: b"9" * 5000}
        table = pyarrow.table({"status": ["converged"], "x": [[1.0]], "y": [[1.0]]})
        parquet.write_table(table.replace_schema_metadata(about), path)
        assert read_fits(path)["points"].shape == (1, 1, 2)


def test_a_dicom_image_has_no_more_pixels_than_others(tmp_path):
    pydicom = pytest.importorskip("pydicom")
    about = pydicom.dataset.FileMetaDataset()
    about.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    about.MediaStorageSOPInstanceUID = "1.2.3"
    about.TransferSyntaxUID = pydicom.uid.RLELossless
    image = pydicom.Dataset()
    image.file_meta = about
    image.Rows = image.Columns = 60_000
    path = tmp_path / "a.dcm"
    pydicom.dcmwrite(path, image, enforce_file_format=True)
    for read in (pliant.read_image, pliant.data.images.image_size):
        with pytest.raises(pliant.data.ImageError, match="the image has 3600000000 pixels, but at most"):
            read(path)


def test_a_part_of_a_png_that_claims_gigabytes_takes_no_memory(tmp_path):
    """OpenCV, which reads colours of 16 bits, would make room for the whole part: 4 GB for these few bytes."""
    resource = pytest.importorskip("resource")
    head = struct.pack(">IIBBBBB", 9, 8, 16, 2, 0, 0, 0)
    path = tmp_path / "a.png"
    parts_of = [(b"IHDR", len(head), head), (b"IDAT", 0xFF00_0104, zlib.compress(bytes(100)))]
    written = [
        struct.pack(">I", length) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, length, data in parts_of
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(written))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pliant.data.ImageError, match=f"^{path}: the image is damaged or incomplete"):
        pliant.read_image(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kilobytes


def test_a_manifest_that_names_an_address_of_many_letters(tmp_path):
    with pytest.raises(
        ValueError, match=r"^a\.csv, line 2: http://x+ \.\.\. x+ is not read, because"
    ) as refused:
        manifest.listed_file("http://" + "x" * 5000, "a.csv, line 2", tmp_path / "a.csv", named=False)
    assert len(str(refused.value)) < 2000


def test_a_table_of_fits_without_a_row(tmp_path):
    path = tmp_path / "fits.parquet"
    columns = {"status": ["converged"], "x": [[1.0]], "y": [[1.0]], "image": ["a.jpg"]}
    parquet.write_table(pyarrow.table(columns).slice(0, 0), path)
    with pytest.raises(ValueError, match=f"^{path}: no specimen has landmarks\\.$"):
        read_specimens(path)


def test_numbers_of_settings_are_still_numbers():
    assert pliant.Fitting(sampling=np.float32(0.5)).sampling == 0.5


class TestPlans:
    """Of runs in parts, experiments and clusters: others may have written to their folder."""

    NESTED = "[" * DEEP

    def test_a_plan_of_parts(self, tmp_path):
        (tmp_path / "plan.json").write_text(self.NESTED)
        with pytest.raises(ValueError, match=r"plan\.json: this plan is damaged"):
            parts.read_plan(tmp_path)
        (tmp_path / parts.marker_name(3)).write_text(self.NESTED)
        assert parts.read_marker(tmp_path, parts.marker_name(3)) is None

    @pytest.mark.parametrize(
        "text", [NESTED, "{}", "[]", '{"trials": 3}', '{"trials": [{"fitting": 1}]}', "\0"]
    )
    def test_a_plan_of_an_experiment(self, tmp_path, text):
        path = tmp_path / "alpha.json"
        path.write_text(text)
        assert not plans.is_experiment(tmp_path)
        with pytest.raises(ValueError, match=r"alpha\.json: this plan of an experiment is damaged"):
            plans.read_plan(path)

    @pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "inf", "nan"])
    def test_a_setting_of_an_experiment_that_is_beyond_all_floats(self, tmp_path, number):
        path = tmp_path / "a.toml"
        path.write_text(f"[experiment]\nnoise = {number}\n")
        table = read_file(path, {})
        with pytest.raises(ValueError, match=r"^noise = \S+: this must be one number\.$"):
            settings_of(Settings, "alpha", table, {}, quick=False)

    def test_a_scheduler_file(self, tmp_path):
        (tmp_path / "scheduler.json").write_text(self.NESTED)
        with pytest.raises(ValueError, match=r"scheduler\.json: this is not a Dask scheduler file"):
            connecting._address_in(tmp_path / "scheduler.json", 0)
