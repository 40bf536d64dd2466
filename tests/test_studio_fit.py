"""Fits by the page: uploads that are refused in a sentence, one start for all, and files that hold the fit."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
import PIL.Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pliant.data.dataset import Dataset
from pliant.data.formats import read_landmarks
from pliant.fitting.algorithm import catalogue
from pliant.model import Model
from pliant.settings import Fitting
from pliant.settings.declaring import options
from pliant.studio import working
from pliant.studio.fits import endpoints as fits
from pliant.studio.fits import runs as fit_runs
from pliant.studio.web import pictures, uploads
from pliant.studio.web.endpoints import as_route
from pliant.studio.web.events import Events
from pliant.studio.web.jobs import Jobs


class Desk:
    """What these endpoints need of a studio."""

    def __init__(self, model: Model, folder: Path, dataset: Dataset) -> None:
        self.events = Events()
        self.jobs = Jobs(self.events)
        self.model = lambda: model
        entries = []
        for number, sample in enumerate(dataset[:2]):
            entries.append(SimpleNamespace(key=f"face {number}.png", source=folder / f"{number}.png"))
            PIL.Image.fromarray(sample.image()).save(entries[-1].source)
        points = [dataset[0].points(), np.full((68, 2), np.nan)]
        marks = [SimpleNamespace(points=one) for one in points]
        self.collection = SimpleNamespace(marks=marks.__getitem__)
        self.entry = dict(enumerate(entries)).__getitem__

    def client(self) -> TestClient:
        every = [*fits.endpoints.every, *working.endpoints.every]
        return TestClient(Starlette(routes=[as_route(endpoint, self) for endpoint in every]))


@pytest.fixture(scope="module")
def client(model: Model, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    return Desk(model, tmp_path_factory.mktemp("faces"), dataset).client()


def ended(client: TestClient, **body: Any) -> dict[str, Any]:
    """A run, once all of its fits are there."""
    answer = client.post("/api/fits", json=body)
    assert answer.status_code == 200, answer.json()
    deadline = time.monotonic() + 60
    while (run := client.get(f"/api/fits/{answer.json()['id']}").json())["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return dict(run)


def box_of(points: np.ndarray) -> list[float]:
    return [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()]


@pytest.fixture(scope="module")
def run(client: TestClient, dataset: Dataset) -> dict[str, Any]:
    """Two algorithms, started in a box, on an image whose landmarks are known."""
    return ended(client, image=0, box=box_of(dataset[0].points()), algorithms=["ssd-asy-gn-sch", "po-for-gn"])


def png(shape: tuple[int, ...] = (40, 30, 3)) -> bytes:
    content = io.BytesIO()
    PIL.Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(content, "PNG")
    return content.getvalue()


class TestUploads:
    def test_an_image_is_taken_under_the_last_part_of_its_name(self, client: TestClient) -> None:
        answer = client.post("/api/uploads", params={"name": "../../etc/a\x00b.png"}, content=png())
        assert answer.json()["name"] == "ab.png"
        assert (answer.json()["width"], answer.json()["height"]) == (30, 40)
        picture = client.get(f"/api/uploads/{answer.json()['id']}/picture", params={"width": 15})
        assert PIL.Image.open(io.BytesIO(picture.content)).size == (15, 20)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "a.jpg: the file is empty."),
            (
                b"These are no pixels, whatever the name says.",
                "a.jpg: this is not an image of a known format.",
            ),
            (png()[:60], "a.jpg: the image is damaged or incomplete"),
        ],
    )
    def test_what_is_no_image_is_refused_in_a_sentence(
        self, client: TestClient, content: bytes, said: str
    ) -> None:
        answer = client.post("/api/uploads", params={"name": "a.jpg"}, content=content)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(said)

    def test_too_many_pixels_are_refused_before_they_are_read(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pictures, "LARGEST_PIXELS", 1199)
        monkeypatch.setattr(pictures, "read_image", lambda path: pytest.fail("the image was read"))
        answer = client.post("/api/uploads", params={"name": "a.png"}, content=png())
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("a.png: 30 x 40 pixels are more")

    def test_the_oldest_is_forgotten_and_the_newest_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(uploads, "MOST_BYTES", 3 * 3600)
        kept = uploads.Uploads()
        first, second, third, fourth = (kept.take(png(), f"{n}.png") for n in range(4))
        for one in (second, third, fourth):
            assert kept.find(one.id) is one
        with pytest.raises(Exception, match="no longer available"):
            kept.find(first.id)
        monkeypatch.setattr(uploads, "MOST_BYTES", 1)
        newest = kept.take(png(), "newest.png")
        assert kept.find(newest.id) is newest

    def test_an_upload_is_fitted(self, client: TestClient, dataset: Dataset) -> None:
        content = io.BytesIO()
        PIL.Image.fromarray(dataset[3].image()).save(content, "PNG")
        id = client.post("/api/uploads", content=content.getvalue()).json()["id"]
        run = ended(client, upload=id, box=box_of(dataset[3].points()))
        found = run["fits"][0]
        assert np.abs(np.array(found["points"]) - dataset[3].points()).mean() < 3
        assert found["error"] is None
        assert found["levels"][0]["errors"] is None
        assert client.get(f"/api/fits/{run['id']}/picture").status_code == 200
        for _ in range(uploads.MOST_IMAGES):
            client.post("/api/uploads", content=png())
        # What is shown is kept with the fits; the image itself is not.
        assert client.get(f"/api/fits/{run['id']}/picture", params={"of": "residual"}).status_code == 200
        answer = client.get(f"/api/fits/{run['id']}/overlay")
        assert answer.status_code == 410
        assert "no longer available" in answer.json()["error"]


class TestRuns:
    def test_all_algorithms_begin_at_the_same_place(self, run: dict[str, Any]) -> None:
        one, other = run["fits"]
        assert (one["algorithm"], other["algorithm"]) == ("ssd-asy-gn-sch", "po-for-gn")
        assert one["start"] == other["start"]

    def test_what_was_found_is_where_the_others_begin(self, client: TestClient) -> None:
        found = ended(client, image=0, algorithms=["", "po-for-gn"], settings={"start": "centre"})["fits"]
        assert found[0]["start"] == found[1]["start"]

    def test_the_trace_leads_from_the_start_to_the_end(self, run: dict[str, Any]) -> None:
        for fit in run["fits"]:
            assert fit["iterations"] == sum(len(level["points"]) - 1 for level in fit["levels"])
            assert np.allclose(fit["levels"][-1]["points"][-1], fit["points"], atol=0.02)
            assert all(len(level["costs"]) == len(level["points"]) for level in fit["levels"])

    def test_errors_are_distances_from_the_marks(self, run: dict[str, Any], dataset: Dataset) -> None:
        truth, fit = dataset[0].points(), run["fits"][0]
        size = np.ptp(truth, axis=0).mean()
        off = np.linalg.norm(np.array(fit["points"]) - truth, axis=1).mean() / size
        assert fit["error"] == pytest.approx(off, abs=1e-3)
        assert fit["levels"][-1]["errors"][-1] == pytest.approx(off, abs=1e-3)

    def test_what_is_shown_has_all_landmarks(self, run: dict[str, Any]) -> None:
        left, top, right, bottom = run["crop"]
        points = np.concatenate([run["fits"][0]["points"], run["fits"][0]["start"]])
        assert np.all(points > (left - 1, top - 1))
        assert np.all(points < (right, bottom))

    def test_without_calibration_nobody_claims_to_know(self, run: dict[str, Any]) -> None:
        fit = run["fits"][0]
        assert fit["confidence"] is None
        assert fit["covariances"] is None
        assert "not calibrated" in fit["trust"]

    def test_an_image_without_marks_has_no_truth(self, client: TestClient) -> None:
        assert ended(client, image=1)["truth"] is None

    def test_work_is_stopped_between_two_algorithms(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = Event(), Event()
        fit = fit_runs.fit

        def slowly(*given: Any) -> Any:
            begun.set()
            assert go_on.wait(10)
            return fit(*given)

        monkeypatch.setattr(fit_runs, "fit", slowly)
        body = {"image": 0, "box": [20, 20, 70, 70], "algorithms": ["", "po-for-gn"]}
        run = client.post("/api/fits", json=body).json()
        assert begun.wait(10)
        client.delete(f"/api/jobs/{run['job']}")
        go_on.set()
        while (now := client.get(f"/api/fits/{run['id']}").json())["running"]:
            time.sleep(0.02)
        assert len(now["fits"]) == 1
        assert now["sentence"].startswith("stopped")

    def test_a_fourth_image_at_once_is_refused(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_on = Event()
        fit = fit_runs.fit
        monkeypatch.setattr(fit_runs, "fit", lambda *given: go_on.wait(10) and fit(*given))
        answers = [client.post("/api/fits", json={"image": 0}) for _ in range(4)]
        go_on.set()
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        for one in answers[:3]:
            while client.get(f"/api/fits/{one.json()['id']}").json()["running"]:
                time.sleep(0.02)

    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            ({}, 400, "there is no image to fit"),
            ({"upload": "gone"}, 410, "no longer available"),
            ({"image": 7}, 404, "7"),
            ({"image": 0, "box": [5, 5, 5, 9]}, 400, "the box is empty"),
            ({"image": 0, "algorithms": ["po-inv-xx"]}, 400, "there is no algorithm 'po-inv-xx'"),
            ({"image": 0, "settings": {"tries": "many"}}, 400, "tries=many: it must be a whole number"),
            ({"image": 0, "settings": {"trys": 3}}, 400, "Did you mean 'tries'?"),
            ({"image": 0, "settings": {"iterations": "20,1001"}}, 400, "iterations: at most 1000"),
            ({"image": 0, "settings": {"detector": "os:system"}}, 403, "would be run"),
        ],
    )
    def test_what_cannot_be_fitted_is_said(
        self, client: TestClient, body: dict[str, Any], status: int, said: str
    ) -> None:
        answer = client.post("/api/fits", json=body)
        assert answer.status_code == status
        assert said in answer.json()["error"]

    def test_at_most_four_algorithms(self, client: TestClient) -> None:
        names = [entry.name for entry in catalogue()[:5]]
        answer = client.post("/api/fits", json={"image": 0, "algorithms": names})
        assert answer.status_code == 400
        assert "at most 4" in answer.json()["error"]


class TestDeclarations:
    def test_every_setting_of_a_fit_is_there_with_its_own_help(self, client: TestClient) -> None:
        known = client.get("/api/fitting").json()
        told = {one["name"]: one["help"] for one in known["settings"]}
        assert told == {name: help for name, _, _, help in options(Fitting()) if name != "algorithm"}
        assert {one["name"] for one in known["algorithms"]} >= {entry.name for entry in catalogue()}

    def test_defaults_sent_back_are_the_defaults(self, client: TestClient) -> None:
        """What the page shows is what the library parses, for every kind of setting."""
        told = client.get("/api/fitting").json()["settings"]
        assert fits._settings({one["name"]: one["default"] for one in told}) == Fitting()

    def test_words_tell_all_algorithms_apart(self, client: TestClient) -> None:
        words = [one["words"] for one in client.get("/api/fitting").json()["algorithms"]]
        assert len(set(words)) == len(words)


class TestFiles:
    @pytest.mark.parametrize("format", ["pts", "csv", "ljson", "npy"])
    def test_points_come_back_from_the_file(
        self, client: TestClient, run: dict[str, Any], tmp_path: Path, format: str
    ) -> None:
        answer = client.get(f"/api/fits/{run['id']}/points", params={"fit": 1, "format": format})
        name = answer.headers["content-disposition"].split("''")[1]
        assert name.startswith("face%200")
        path = tmp_path / f"points{Path(name).suffix}"
        path.write_bytes(answer.content)
        assert np.abs(read_landmarks(path) - np.array(run["fits"][1]["points"])).max() < 0.02

    def test_the_table_has_a_row_for_each_fit(self, client: TestClient, run: dict[str, Any]) -> None:
        rows = list(csv.DictReader(io.StringIO(client.get(f"/api/fits/{run['id']}/table").text)))
        assert [row["algorithm"] for row in rows] == ["ssd-asy-gn-sch", "po-for-gn"]
        assert float(rows[1]["error"]) == pytest.approx(run["fits"][1]["error"])
        assert float(rows[0]["x0"]) == pytest.approx(run["fits"][0]["points"][0][0], abs=0.01)

    def test_the_overlay_is_the_whole_image(self, client: TestClient, run: dict[str, Any]) -> None:
        picture = PIL.Image.open(io.BytesIO(client.get(f"/api/fits/{run['id']}/overlay").content))
        assert picture.size == (run["width"], run["height"])
        assert picture.format == "PNG"

    def test_the_residual_is_dark_outside_of_the_object(
        self, client: TestClient, run: dict[str, Any]
    ) -> None:
        def shown(of: str) -> np.ndarray:
            content = client.get(f"/api/fits/{run['id']}/picture", params={"of": of}).content
            return np.asarray(PIL.Image.open(io.BytesIO(content)), dtype=float)

        image, model, residual = shown("image"), shown("reconstruction"), shown("residual")
        assert image.shape == model.shape == residual.shape
        assert residual[0].mean() < 12 < residual.max()
        apart = np.abs(image - model).mean(axis=2)
        assert np.corrcoef(apart.ravel(), residual.mean(axis=2).ravel())[0, 1] > 0.8

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("99", 404),
            ("{id}/points?fit=9", 404),
            ("{id}/points?format=doc", 400),
            ("{id}/picture?of=x", 400),
        ],
    )
    def test_what_is_not_there_is_said(
        self, client: TestClient, run: dict[str, Any], path: str, status: int
    ) -> None:
        answer = client.get("/api/fits/" + path.format(id=run["id"]))
        assert answer.status_code == status
        assert answer.json()["error"]


def test_a_calibrated_model_says_how_sure_it_is(calibrated: Model, dataset: Dataset, tmp_path: Path) -> None:
    client = Desk(calibrated, tmp_path, dataset).client()
    fit = ended(client, image=0, box=box_of(dataset[0].points()))["fits"][0]
    assert 0 < fit["confidence"] <= 1
    assert "probability that" in fit["trust"]
    xx, xy, yy = np.array(fit["covariances"]).T
    assert np.all(xx > 0)
    assert np.all(yy > 0)
    assert np.all(xx * yy > xy**2)
