"""The page Results asks for lists, rows in any order, curves, pictures, and fits to be corrected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from PIL import Image
from starlette.testclient import TestClient

from pliant.bulk.journal import JOURNAL, Journal
from pliant.data.formats import write_landmarks
from pliant.fitting.status import Status
from pliant.model import Model
from pliant.records import FitRecord, write_records
from pliant.studio.opening import open_studio
from pliant.studio.results.curves import _thinned
from pliant.studio.results.images import Gallery, ImageError, box_around
from pliant.studio.server import make_app
from pliant.table import columns_of, read_fits, write_table

SIZE = (60, 48)
SHAPE = np.array([[12.0, 9.0], [31.0, 10.0], [20.0, 30.0]])


def row(name: str, number: int = 0, **cells: Any) -> dict[str, Any]:
    generator = np.random.default_rng(number)
    points = SHAPE + generator.normal(0, 1, (3, 2))
    plain = {
        "image": name, "object": 0, "status": "converged", "reason": "", "confidence": float(generator.uniform()),
        "cost": 1.0, "iterations": 5, "seconds": 0.01, "width": SIZE[0], "height": SIZE[1],
        "x": points[:, 0].tolist(), "y": points[:, 1].tolist(), "spread": [1.0, 3.0, 2.0], "hidden": None,
    }  # fmt: skip
    return plain | cells


FAILED: dict[str, Any] = {"status": "failed", "reason": "it is too dark.", "x": None, "y": None, "cost": None}


def evaluation(count: int) -> list[dict[str, Any]]:
    """Rows with errors that are all different, but for some that are missing or infinite."""
    errors = np.random.default_rng(1).permutation(count) / (10 * count)
    statuses = ["converged", "iterations", "rising"]
    more = [
        {"algorithm": ["po-inv-gn", "ssd-for-gn-sch"][k % 2], "start": 0, "error": float(errors[k]), "pixels": 1.0,
         "status": statuses[k % 3], "found": True, "distances": [0.5, 0.1, 0.9]}
        for k in range(count)
    ]  # fmt: skip
    rows = [row(f"image{k % 4}.png", k, **cells) for k, cells in enumerate(more)]
    rows[3] |= {**FAILED, "error": float("inf"), "confidence": None}
    rows[7] |= {**FAILED, "error": None, "confidence": None}
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four images, two of which have landmarks, and a result of each kind below them."""
    folder = tmp_path_factory.mktemp("studio") / "images"
    folder.mkdir()
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 255, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"image{number}.png")
    for number in range(2):
        write_landmarks(folder / f"image{number}.pts", SHAPE)
    head = {"settings": {"model": "m.pliant"}, "annotations": None, "csv": False}
    fits = [row(f"image{k}.png", k) for k in range(3)] + [row("gone.png", 9), row("image3.png", 3, **FAILED)]
    (folder / "out").mkdir()
    write_table(folder / "out/fits.parquet", fits, head)
    write_table(folder / "errors.parquet", evaluation(1300), {"model": "m.pliant"}, (), "evaluation")
    events = ["restarted", "tracked", "lost", "lost", "restarted"]
    frames = [
        row("image0.png", k, frame=10 * k, time=k / 25, event=event, mismatch=k / 10)
        for k, event in enumerate(events)
    ]
    (folder / "film").mkdir()
    write_table(folder / "film/track.parquet", frames, {}, (), "track")
    write_experiment(folder / "rho")
    (folder / "foreign.parquet").write_bytes(b"PAR1 but not really")
    return folder


def write_experiment(folder: Path) -> None:
    """Two groups with three values each, of which the last has no rows yet."""
    (folder / "rows").mkdir(parents=True)
    trials = []
    for group in ("po-inv-gn", "po-for-gn"):
        for value in (0.0, 0.5, 1.0):
            name = f"{group}{value:g}".replace(".", "")
            trials.append({"rows": name, "label": f"{group} {value:g}", "group": group, "value": value, "starts": 1,
                           "test": ["images"], "sets": {"sources": []}})  # fmt: skip
            if value < 1:
                rows = [
                    row(
                        f"images/image{k}.png",
                        k,
                        error=0.01 + value / 20,
                        start=0,
                        trial=name,
                        algorithm=group,
                    )
                    for k in range(4)
                ]
                write_table(folder / f"rows/{name}-0.parquet", rows, {}, (), "experiment")
    plan = {"experiment": "rho", "settings": {"noise": 0.05}, "trials": trials}
    (folder / "rho.json").write_text(json.dumps(plan))
    (folder / "rho_best.csv").write_text("algorithm,rho\npo-inv-gn,0.5\npo-for-gn,0\n")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(make_app(open_studio(folder)), base_url="http://127.0.0.1") as client:
        yield client


def get(client: TestClient, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def found(client: TestClient) -> dict[str, Any]:
    """The results of the list by their names."""
    return {one["name"]: one for one in get(client, "/api/results")["results"]}


def address(client: TestClient, name: str) -> str:
    return f"/api/results/{found(client)[name]['id']}"


def column(client: TestClient, where: str, name: str) -> int:
    return [one["name"] for one in get(client, where)["columns"]].index(name)


def windows(client: TestClient, where: str, query: str) -> list[Any]:
    """All rows that are wanted, one window after the other."""
    rows: list[Any] = []
    while True:
        some = get(client, f"{where}/rows?{query}&first={len(rows)}&count=333")
        rows += some["rows"]
        if len(rows) >= some["total"]:
            return rows


def test_every_kind_is_found_and_files_that_are_none_say_why(client: TestClient) -> None:
    results = found(client)
    kinds = {name: one["kind"] for name, one in results.items()}
    assert kinds == {
        "out": "fits", "errors.parquet": "evaluation", "film": "track", "rho": "experiment",
        "foreign.parquet": "unknown",
    }  # fmt: skip
    assert results["errors.parquet"]["rows"] == 1300
    assert "not a Parquet file" in results["foreign.parquet"]["sentence"]
    assert (
        "not a Parquet file" in get(client, f"/api/results/{results['foreign.parquet']['id']}", 409)["error"]
    )


def test_nothing_is_opened_by_a_path(client: TestClient, folder: Path) -> None:
    for name in ("errors.parquet", "..%2Fimages", "%2Fetc%2Fpasswd", "0" * 16):
        assert client.get(f"/api/results/{name}").status_code == 404


@pytest.mark.parametrize("name", ["error", "confidence", "status", "image", "found"])
def test_windows_of_a_sorted_table_are_all_its_rows_in_order(client: TestClient, name: str) -> None:
    where = address(client, "errors.parquet")
    place = column(client, where, name)
    for query, backwards in ((f"sort={name}", False), (f"sort={name}&descending=true", True)):
        rows = windows(client, where, query)
        assert sorted(one["number"] for one in rows) == list(range(1300))
        # Infinity is null on the wire: the largest of all errors, and before what is not known at all.
        values = [one["cells"][place] for one in rows if one["number"] not in (3, 7)]
        assert values == sorted(values, reverse=backwards)
        if name == "error":
            assert [one["number"] for one in rows].index(7) == 1299
            assert [one["number"] for one in rows].index(3) == (0 if backwards else 1298)


def test_filters_keep_what_they_say_and_lose_nothing(client: TestClient) -> None:
    where = address(client, "errors.parquet")
    status, error = column(client, where, "status"), column(client, where, "error")
    choices = get(client, where)["choices"]["status"]
    parts = {one["value"]: windows(client, where, f"status={one['value']}") for one in choices}
    assert sum(map(len, parts.values())) == 1300
    for value, rows in parts.items():
        assert {one["cells"][status] for one in rows} == {value}
    between = windows(client, where, "measure=error&above=0.02&below=0.03&sort=error")
    expected = [one for one in evaluation(1300) if one["error"] is not None and 0.02 < one["error"] < 0.03]
    assert [one["cells"][error] for one in between] == sorted(one["error"] for one in expected)
    named = windows(client, where, "name=MAGE2&label=po-inv-gn")
    assert {one["cells"][0] for one in named} == {"image2.png"}
    assert get(client, f"{where}/rows?name=nothing")["total"] == 0


def test_what_cannot_be_sorted_or_found_is_said(client: TestClient) -> None:
    where = address(client, "errors.parquet")
    assert "no column 'beauty'" in get(client, f"{where}/rows?sort=beauty", 400)["error"]
    assert "no numbers" in get(client, f"{where}/rows?measure=status&above=1", 400)["error"]
    assert "no curve of 'image'" in get(client, f"{where}/curves?measure=image", 400)["error"]
    assert "no row 1300" in get(client, f"{where}/rows/1300", 404)["error"]
    assert "no frames" in get(client, f"{where}/course", 409)["error"]
    assert get(client, f"{where}/rows?first=99999")["rows"] == []


def test_curves_are_the_shares_of_fits_below(client: TestClient, folder: Path) -> None:
    fits = read_fits(folder / "errors.parquet")
    for curve in get(client, address(client, "errors.parquet") + "/curves")["curves"]:
        own = fits["error"][fits["algorithm"] == curve["label"]]
        x, shares = np.array(curve["x"]), np.array(curve["shares"])
        np.testing.assert_allclose(shares, [(own <= value).mean() for value in x])
        assert len(x) <= 401
        assert curve["missing"] == np.sum(~np.isfinite(own))


def test_figures_count_an_object_that_was_not_found_as_one(client: TestClient) -> None:
    opened = get(client, address(client, "errors.parquet"))
    figures = {one["label"]: one for one in opened["figures"]}
    rows = [one for one in evaluation(1300) if one["algorithm"] == "ssd-for-gn-sch"]
    errors = [1.0 if one["error"] in (None, float("inf")) else one["error"] for one in rows]
    assert figures["ssd-for-gn-sch"]["mean"] == pytest.approx(np.mean(errors))
    assert figures["ssd-for-gn-sch"]["failed"] == 2
    assert "1,300 fits to 4 images" in opened["sentences"][0]


def test_a_course_shows_where_an_object_was_lost(client: TestClient) -> None:
    where = address(client, "film")
    assert get(client, where)["sentences"][0] == "The object was found in 3 of 5 frames."
    (course,) = get(client, f"{where}/course?measure=mismatch")["courses"]
    assert course["frames"] == [0, 10, 20, 30, 40]
    assert [value is None for value in course["values"]] == [False, False, True, True, False]
    assert (course["lost"], course["restarted"]) == ([[20, 30]], [0, 40])


def test_a_long_course_keeps_its_extremes() -> None:
    values = np.random.default_rng(0).normal(size=50_000)
    values[20_000:20_010] = np.nan
    kept = _thinned(values)
    assert len(kept) <= 1300
    assert np.nanmin(values[kept]) == np.nanmin(values)
    assert np.nanmax(values[kept]) == np.nanmax(values)
    assert np.isnan(values[kept]).any()


def test_an_experiment_has_labels_sweeps_tables_and_says_what_is_missing(client: TestClient) -> None:
    where = address(client, "rho")
    opened = get(client, where)
    assert opened["count"] == 16
    assert "2 files of rows are missing" in opened["sentences"][-1]
    assert opened["label"] == "label"
    sweep = get(client, f"{where}/sweep")
    assert [line["group"] for line in sweep["lines"]] == ["po-inv-gn", "po-for-gn"]
    np.testing.assert_allclose(sweep["lines"][0]["values"], [0, 0.5])
    np.testing.assert_allclose(sweep["lines"][0]["figures"]["mean"], [0.01, 0.035])
    table = get(client, f"{where}/tables/{opened['tables'].index('rho best')}")
    assert (table["header"], table["numeric"]) == (["algorithm", "rho"], [False, True])
    assert {one["cells"][1] for one in windows(client, where, "label=po-for-gn 0.5")} == {"po-for-gn 0.5"}


def test_a_picture_shows_the_landmarks_where_they_are(client: TestClient, folder: Path) -> None:
    where = address(client, "out")
    fit = get(client, f"{where}/rows/1")
    left, top, right, bottom = fit["box"]
    answer = client.get(f"{where}/picture?row=1&around=true")
    cut = np.asarray(Image.open(BytesIO(answer.content)).convert("L"), dtype=float)
    whole = np.asarray(Image.open(folder / "image1.png").convert("L"), dtype=float)
    assert cut.shape == (bottom - top, right - left)
    assert np.abs(cut - whole[top:bottom, left:right]).mean() < 12  # JPEG of noise
    points = np.array(fit["points"])
    assert ((points >= (left, top)) & (points < (right, bottom))).all()


@pytest.mark.parametrize("shift", [(0, 0), (-500, 0), (900, 900), (25, -30)])
def test_a_box_is_never_empty_nor_outside(shift: tuple[int, int]) -> None:
    left, top, right, bottom = box_around(SHAPE + shift, SIZE)
    assert 0 <= left < right <= SIZE[0]
    assert 0 <= top < bottom <= SIZE[1]


def test_an_image_that_is_gone_leaves_its_points_and_a_sentence(client: TestClient) -> None:
    where = address(client, "out")
    fit = get(client, f"{where}/rows/3")
    assert fit["trouble"] == "gone.png no longer exists."
    assert len(fit["points"]) == 3
    assert client.get(f"{where}/picture?row=3").status_code == 404
    assert "no longer exists" in client.post(f"{where}/rows/3/take").json()["error"]


def test_an_image_that_has_moved_is_known_by_its_size(folder: Path) -> None:
    gallery = Gallery([folder])
    assert gallery.find("/elsewhere/images/image1.png", SIZE) == folder / "image1.png"
    for name, size in (
        ("/elsewhere/image1.png", (9, 9)),
        ("/elsewhere/image1.png", None),
        ("s3://a/b.png", SIZE),
    ):
        with pytest.raises(ImageError, match="no longer exists|not on this machine"):
            gallery.find(name, size)


def test_a_fit_is_proposed_where_a_person_corrects_it(client: TestClient, folder: Path) -> None:
    where = address(client, "out")
    assert client.post(f"{where}/rows/2/take").json() == {"index": 2}
    fit = get(client, f"{where}/rows/2")
    assert (fit["index"], fit["obstacle"]) == (2, "")
    proposal = get(client, "/api/images/2/proposal")
    np.testing.assert_allclose(proposal["points"], fit["points"], atol=0.01)
    assert proposal["order"] == [1, 2, 0]  # the widest spread first
    assert (
        proposal["reason"] == "These points are a fit from the results “out”. Correct those that are wrong."
    )
    refused = client.post(f"{where}/rows/4/take")
    assert (refused.status_code, refused.json()["error"][-16:]) == (409, "there is no fit.")


def test_fits_of_other_images_and_other_objects_cannot_be_corrected_here(tmp_path: Path) -> None:
    for name in ("open", "other"):
        (tmp_path / name).mkdir()
        Image.new("L", SIZE).save(tmp_path / name / f"{name}.png")
    write_landmarks(tmp_path / "open/open.pts", SHAPE)
    os.symlink(tmp_path / "open", tmp_path / "link")
    rows = [row(str(tmp_path / "link/open.png")), row(str(tmp_path / "other/other.png"))]
    rows.append(row(str(tmp_path / "open/open.png"), x=[1.0, 2.0], y=[3.0, 4.0]))
    write_table(tmp_path / "mine.parquet", rows, {})
    app = make_app(open_studio(tmp_path / "open", results=tmp_path / "mine.parquet"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        where = address(client, "mine.parquet")
        assert client.post(f"{where}/rows/0/take").json() == {"index": 0}
        assert "not in the open folder" in client.post(f"{where}/rows/1/take").json()["error"]
        assert "2 landmarks" in client.post(f"{where}/rows/2/take").json()["error"]


@pytest.mark.parametrize("names", [(), ("tip", "left", "right"), ("tip", "tip", " ")])
def test_images_without_landmarks_have_those_of_their_fits(tmp_path: Path, names: tuple[str, ...]) -> None:
    for number in range(2):
        (tmp_path / "new").mkdir(exist_ok=True)
        Image.new("L", SIZE).save(tmp_path / f"new/image{number}.png")
    (tmp_path / "fits").mkdir()
    image = str(tmp_path / "new/image1.png")
    other = row(str(tmp_path / "elsewhere.png"), x=[1.0, 2.0], y=[3.0, 4.0])
    # An image that is not open has no say, and an image that failed has no landmarks.
    rows = [other, row(str(tmp_path / "new/image0.png"), **FAILED), row(image)]
    write_table(tmp_path / "fits/fits.parquet", rows, {}, names)
    (tmp_path / "fits/broken.parquet").write_bytes(b"PAR1 but not really")
    expected = ["tip", "left", "right"] if "left" in names else ["0", "1", "2"]
    for results in (tmp_path / "fits", None):
        with TestClient(
            make_app(open_studio(tmp_path / "new", results=results)), base_url="http://127.0.0.1"
        ) as client:
            assert get(client, "/api/project")["names"] == ([] if results is None else expected)
        (tmp_path / "new/.pliant-studio").rename(tmp_path / f"kept{results is None}")
    # Without --results, they are known as soon as one of the fits is corrected.
    (tmp_path / "fits").rename(tmp_path / "new/fits")
    with TestClient(make_app(open_studio(tmp_path / "new")), base_url="http://127.0.0.1") as client:
        where = address(client, "fits")
        assert get(client, "/api/images/1")["points"] == []
        assert client.post(f"{where}/rows/2/take").json() == {"index": 1}
        assert get(client, "/api/project")["names"] == expected
        assert len(get(client, "/api/images/1")["points"]) == 3


def test_images_without_landmarks_have_those_of_the_model(tmp_path: Path, model: Model) -> None:
    (tmp_path / "new").mkdir()
    Image.new("L", SIZE).save(tmp_path / "new/image.png")
    model.save(tmp_path / "m.pliant")
    studio = open_studio(tmp_path / "new", tmp_path / "m.pliant")
    try:
        assert studio.collection.names == tuple(map(str, range(model.landmarks)))
    finally:
        studio.close()


def test_a_result_that_changes_is_read_again_and_a_run_under_way_opens(tmp_path: Path) -> None:
    Image.new("L", SIZE).save(tmp_path / "image0.png")
    out = tmp_path / "run"
    out.mkdir()
    names = columns_of("fits")
    with Journal(out / JOURNAL, {"settings": {}}) as journal:
        journal.append([[{name: row("image0.png", k).get(name) for name in names}] for k in range(3)])
    with open(out / JOURNAL, "ab") as file:
        file.write(b'{"rows": [{"image": "half')
    with TestClient(make_app(open_studio(tmp_path)), base_url="http://127.0.0.1") as client:
        opened = get(client, address(client, "run"))
        assert opened["count"] == 3
        assert "still running" in opened["sentences"][-1]
        write_table(out / "fits.parquet", [row("image0.png", 1)], {})
        (out / JOURNAL).unlink()
        where = address(client, "run")
        assert get(client, where)["count"] == 1
        write_table(out / "fits.parquet", [row("image0.png", k) for k in range(7)], {})
        assert get(client, f"{where}/rows")["total"] == 7
        (out / "fits.parquet").unlink()
        assert "no longer exists" in get(client, where, 404)["error"]


def test_an_evaluation_is_the_same_in_every_format(tmp_path: Path) -> None:
    Image.new("L", SIZE).save(tmp_path / "image0.png")
    nothing = np.full(3, np.nan)
    ended = [(Status.CONVERGED, 0.02), (Status.FAILED, float("inf")), (Status.RISING, 0.1)]
    records = [
        FitRecord(
            "image0.png", 0, SIZE, "po-inv-gn", k, status, "", error, 2.0, float("nan"),
            nothing if status is Status.FAILED else np.array([0.1, 0.2, 0.3]),
            np.full((3, 2), np.nan) if status is Status.FAILED else SHAPE,
            float("nan"), 1.0, 5, 0.01, True,
        )
        for k, (status, error) in enumerate(ended)
    ]  # fmt: skip
    (tmp_path / "out").mkdir()
    for ending in ("parquet", "csv", "json"):
        write_records(tmp_path / f"out/errors.{ending}", records, ("a", "b", "c"))
    (tmp_path / "out/labels.json").write_text('[{"image": 1}]')
    app = make_app(open_studio(tmp_path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert set(found(client)) == {"errors.parquet", "errors.csv", "errors.json"}
        one, *others = (
            get(client, address(client, f"errors.{ending}")) for ending in ("parquet", "csv", "json")
        )
        for other in others:
            for name in ("mean", "median", "shares", "failed"):
                assert other["figures"][0][name] == one["figures"][0][name]
        for ending in ("parquet", "csv", "json"):
            fit = get(client, address(client, f"errors.{ending}") + "/rows/2")
            np.testing.assert_allclose(fit["points"], SHAPE)
            assert get(client, address(client, f"errors.{ending}") + "/rows/1")["points"] is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"error": ["far"]}, "the column 'error' should hold numbers, but it holds string"),
        ({"x": [1.0]}, "the column 'x' should hold lists of numbers, but it holds double"),
        ({"status": None}, "not a table of fits"),
    ],
)
def test_tables_that_are_not_what_they_say(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    Image.new("L", SIZE).save(tmp_path / "image0.png")
    cells: dict[str, Any] = {
        "image": ["a"],
        "status": ["converged"],
        "x": [[1.0]],
        "y": [[2.0]],
        "error": [0.1],
    }
    cells = {name: value for name, value in {**cells, **change}.items() if value is not None}
    (tmp_path / "out").mkdir()
    parquet.write_table(pa.table(cells), tmp_path / "out/odd.parquet")
    with TestClient(make_app(open_studio(tmp_path)), base_url="http://127.0.0.1") as client:
        assert sentence in get(client, address(client, "odd.parquet"), 409)["error"]
