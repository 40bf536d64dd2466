"""Models that the studio trains: in a process of their own, stopped at any time, there again the next day."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from PIL import Image
from starlette.testclient import TestClient

from pliant.data.formats import write_landmarks
from pliant.studio.desk import KnownModel
from pliant.studio.opening import open_studio
from pliant.studio.proposing.apprentice import Apprentice
from pliant.studio.server import make_app


def write_blobs(folder: Path, count: int) -> Path:
    """Bright ellipses on grey with five landmarks each."""
    y, x = np.mgrid[:48, :48]
    for number in range(count):
        rng = np.random.default_rng(number)
        centre, radii = 24 + rng.normal(0, 2, 2), 12 + rng.normal(0, 1.5, 2)
        inside = ((x - centre[0]) / radii[0]) ** 2 + ((y - centre[1]) / radii[1]) ** 2 < 1
        noise = rng.integers(0, 20, (48, 48))
        Image.fromarray(np.uint8(60 + 120 * inside + noise)).save(folder / f"blob{number}.png")
        around = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
        write_landmarks(folder / f"blob{number}.pts", centre + around * radii)
    return folder


def idle(self: Apprentice, *lesson: object) -> None:
    """What proposes learns in a process too, for which these tests need not wait."""


def ended(client: TestClient) -> dict[str, str]:
    for _ in range(1200):
        (job,) = client.get("/api/jobs").json()
        if job["state"] != "running":
            return dict(job)
        time.sleep(0.05)
    raise AssertionError("it did not end")


def test_a_model_of_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Apprentice, "learn", idle)
    app = make_app(open_studio(write_blobs(tmp_path, 6)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/api/models/current").status_code == 404
        client.post("/api/models", json={"effort": "quick"})
        assert ended(client)["sentence"] == "a model of 6 images is ready."
        assert client.get("/api/models/current").content[8:9] == b"{"
    # The next day it is still there.
    with TestClient(make_app(open_studio(tmp_path)), base_url="http://127.0.0.1") as client:
        assert client.get("/api/models/current").status_code == 200


def test_training_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Apprentice, "learn", idle)
    with TestClient(make_app(open_studio(write_blobs(tmp_path, 5))), base_url="http://127.0.0.1") as client:
        number = client.post("/api/models", json={"effort": "best"}).json()["id"]
        client.delete(f"/api/jobs/{number}")
        assert ended(client)["state"] == "stopped"
        assert client.get("/api/models/current").status_code == 404


@pytest.mark.parametrize(
    ("finished", "learned", "said"),
    [
        (1, False, "yet. That takes 5 finished images, and 1 is finished: finish more in Annotate, or start"),
        (6, False, "yet. 6 images are finished: press “Train a model” in Explore, or start"),
        (6, True, "yet, and what proposes points in Annotate cannot be shown here. 6 images are finished"),
    ],
)
@pytest.mark.parametrize("page", ["explore", "fitting"])
def test_without_a_model_pages_say_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, finished: int, learned: bool, said: str
) -> None:
    monkeypatch.setattr(Apprentice, "learn", idle)
    studio = open_studio(write_blobs(tmp_path, finished))
    if learned:
        monkeypatch.setattr(studio, "known_model", lambda: KnownModel(5, 6, 1))
    with TestClient(make_app(studio), base_url="http://127.0.0.1") as client:
        answer = client.get(f"/api/{page}")
    assert answer.status_code == 409
    sentence = answer.json()["error"]
    assert sentence.startswith(f"no model is trained {said}")
    assert sentence.endswith("with a model that you have: pliant studio FOLDER --model model.pliant.")


def test_too_few_images_are_refused(tmp_path: Path) -> None:
    with TestClient(make_app(open_studio(write_blobs(tmp_path, 3))), base_url="http://127.0.0.1") as client:
        answer = client.post("/api/models", json={})
        assert answer.status_code == 409
        assert answer.json()["error"] == "3 images are finished, but a model needs at least 5."
