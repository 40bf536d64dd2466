"""Check in the studio: suspects are found, accepted for good, mended and undone; two annotations are compared."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pliant.data.annotation import Annotation
from pliant.data.formats import write_annotations, write_landmarks
from pliant.studio import agreeing, checking
from pliant.studio.storage.collection import Collection, open_collection
from pliant.studio.storage.marks import UNSEEN, VISIBLE, Change
from pliant.studio.web.endpoints import as_route
from pliant.studio.web.events import Events
from pliant.studio.web.jobs import Jobs

COUNT, LANDMARKS = 24, 8


class Desk:
    """What the endpoints of Check use of a studio, without an apprentice."""

    def __init__(self, collection: Collection) -> None:
        self.collection, self.events = collection, Events()
        self.jobs = Jobs(self.events)

    def entry(self, index: int) -> Any:
        return self.collection.entries[index]

    def apply(self, index: int, change: Change) -> None:
        self.collection.apply(index, change)


def leaves() -> np.ndarray:
    rng = np.random.default_rng(3)
    angles = np.linspace(0, 2 * np.pi, LANDMARKS, endpoint=False)
    mean = np.stack([40 * np.cos(angles), (25 + 8 * np.cos(angles)) * np.sin(angles)], axis=1)
    return mean + rng.normal(0, 0.4, (COUNT, LANDMARKS, 2)) + (80, 60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures with landmarks beside them; in the fifth, two are swapped."""
    place = tmp_path / "leaves"
    place.mkdir()
    points = leaves()
    points[4, [1, 5]] = points[4, [5, 1]]
    for number, shape in enumerate(points):
        Image.new("L", (160, 120), 90).save(place / f"leaf_{number:02d}.png")
        write_landmarks(place / f"leaf_{number:02d}.pts", shape)
    return place


@pytest.fixture
def opened(folder: Path) -> Any:
    def open_again() -> tuple[TestClient, Desk]:
        desk = Desk(open_collection(folder))
        desks.append(desk)
        parts = (*checking.endpoints.every, *agreeing.endpoints.every)
        return TestClient(Starlette(routes=[as_route(one, desk) for one in parts])), desk

    desks: list[Desk] = []
    yield open_again
    for desk in desks:
        desk.collection.close()


def checked(client: TestClient, desk: Desk) -> list[dict[str, Any]]:
    job = desk.jobs.find(client.post("/api/check").json()["id"])
    deadline = time.monotonic() + 20
    while job.state.state == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert job.state.state == "done", job.state
    return list(client.get("/api/check").json()["suspects"])


def test_a_swap_is_found_mended_and_undone(opened: Any) -> None:
    client, desk = opened()
    assert client.get("/api/check").json()["sentence"] == "Nothing has been checked yet."
    (one,) = checked(client, desk)
    assert (one["index"], one["kind"], one["landmarks"], one["state"]) == (4, "swapped", [1, 5], "open")
    assert one["reason"].startswith("Landmark 1 and landmark 5 seem to be swapped")
    said = client.get("/api/check").json()["sentence"]
    assert said.startswith(
        "24 images were compared: 1 of them may be wrong. Landmarks are counted from 0 here"
    )
    close = client.get("/api/check/0").json()
    assert (close["width"], close["height"]) == (160, 120)
    assert close["points"][1] == close["mend"][5]
    before = desk.collection.marks(4).points.copy()
    assert client.post("/api/check/0/mend", json={"client": "me"}).json()["state"] == "mended"
    np.testing.assert_allclose(desk.collection.marks(4).points[[1, 5]], before[[5, 1]], atol=1e-6)
    assert desk.collection.history(4)[-1].client == "me"
    # A second key press changes nothing.
    assert client.post("/api/check/0/mend", json={"client": "me"}).json()["state"] == "mended"
    desk.collection.undo(4, "me")
    np.testing.assert_array_equal(desk.collection.marks(4).points, before)
    assert client.get("/api/check").json()["suspects"][0]["state"] == "open"


def test_what_is_accepted_stays_accepted_until_it_changes(opened: Any) -> None:
    client, desk = opened()
    checked(client, desk)
    assert client.post("/api/check/0/accept", json={"accepted": True}).json()["state"] == "accepted"
    desk.collection.close()
    client, desk = opened()
    assert checked(client, desk)[0]["state"] == "accepted"
    assert client.post("/api/check/0/accept", json={"accepted": False}).json()["state"] == "open"
    client.post("/api/check/0/accept", json={})
    x, y = desk.collection.marks(4).points[1]
    desk.apply(4, Change("1", "me", {1: (x + 9.0, y, VISIBLE)}))
    assert client.get("/api/check").json()["suspects"][0]["state"] == "changed"
    assert checked(client, desk)[0]["state"] == "open"


@pytest.mark.parametrize("content", ["[" * 60_000, "{", "[]", '{"a": 5}'])
def test_a_list_of_accepted_findings_that_is_not_ours_counts_as_empty(opened: Any, content: str) -> None:
    client, desk = opened()
    file = desk.collection.side_folder / "accepted.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert checked(client, desk)


def test_points_that_were_changed_meanwhile_are_not_mended(opened: Any) -> None:
    client, desk = opened()
    checked(client, desk)
    desk.apply(4, Change("1", "other", {1: (50.0, 50.0, VISIBLE)}))
    answer = client.post("/api/check/0/mend", json={"client": "me"})
    assert answer.status_code == 409
    assert "have changed since the check" in answer.json()["error"]
    np.testing.assert_array_equal(desk.collection.marks(4).points[1], (50, 50))


def test_another_landmark_may_have_changed_meanwhile(opened: Any) -> None:
    client, desk = opened()
    checked(client, desk)
    desk.apply(4, Change("1", "other", {7: (None, None, UNSEEN)}))
    assert client.post("/api/check/0/mend", json={"client": "me"}).json()["state"] == "mended"


def test_y_counted_from_below_is_told_by_the_picture(opened: Any, folder: Path) -> None:
    """Landmarks in a mirror: the object does not face the other way, its picture says."""
    angles = np.linspace(0, 2 * np.pi, LANDMARKS, endpoint=False)
    shades = np.linspace(20, 230, LANDMARKS)
    for number, shape in enumerate(leaves() + (0, 8)):
        grid = np.stack(np.meshgrid(np.arange(160), np.arange(120)), axis=-1)
        nearest = np.argmin(np.linalg.norm(grid[:, :, None] - shape * (1, 1.1), axis=-1), axis=-1)
        Image.fromarray(shades[nearest].astype(np.uint8)).save(folder / f"leaf_{number:02d}.png")
        lopsided = shape + 14 * np.stack([np.sin(angles), np.cos(2 * angles)], axis=1)
        write_landmarks(
            folder / f"leaf_{number:02d}.pts", lopsided if number != 6 else (0, 119) + lopsided * (1, -1)
        )
    client, desk = opened()
    one = next(one for one in checked(client, desk) if one["index"] == 6)
    assert one["kind"] == "other edge"
    assert one["reason"].startswith("The y coordinates seem to be counted from the lower edge")
    mend = np.array(client.get(f"/api/check/{one['number']}").json()["mend"])
    np.testing.assert_allclose(mend, (0, 119) + desk.collection.marks(6).points * (1, -1), atol=1e-3)


def test_a_check_can_be_stopped(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before stays."""
    client, desk = opened()
    checked(client, desk)
    size_of, begun = checking.image_size, []

    def slowly(source: Path) -> tuple[int, int]:
        begun.append(source)
        time.sleep(0.05)
        return size_of(source)

    monkeypatch.setattr(checking, "image_size", slowly)
    job = desk.jobs.find(client.post("/api/check").json()["id"])
    assert client.post("/api/check").status_code == 409
    job.stop()
    deadline = time.monotonic() + 10
    while job.state.state == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert job.state.state == "stopped"
    assert len(begun) < COUNT
    assert len(client.get("/api/check").json()["suspects"]) == 1


def test_few_images_and_numbers_that_are_not_there(opened: Any, folder: Path) -> None:
    for number in range(6, COUNT):
        (folder / f"leaf_{number:02d}.pts").unlink()
    client, desk = opened()
    assert checked(client, desk) == []
    assert client.get("/api/check").json()["sentence"].startswith("6 images have landmarks: fewer than")
    assert client.get("/api/check/3").status_code == 404
    assert client.post("/api/check/0/mend", json={"client": "me"}).status_code == 404


class TestTwoAnnotators:
    @pytest.fixture
    def second(self, folder: Path) -> Path:
        """A file with a second annotation: the third landmark is always 4 px further right."""
        points = leaves() + np.random.default_rng(5).normal(0, 0.2, (COUNT, LANDMARKS, 2))
        points[:, 2] += (4, 0)
        points[9, 6] += (0, 30)
        made = [
            Annotation(f"leaf_{number:02d}.png", shape, size=(160, 120))
            for number, shape in enumerate(points)
        ]
        write_annotations(folder / "second.csv", made)
        return folder / "second.csv"

    def compare(self, client: TestClient, path: str) -> Any:
        return client.post("/api/agreement", json={"path": path})

    def test_a_file_beside_the_images(self, second: Path, opened: Any) -> None:
        client, _ = opened()
        assert client.get("/api/agreement").status_code == 204
        assert "second.csv" in client.get("/api/agreement/places").json()
        found = self.compare(client, "second.csv").json()
        assert found["compared"] == COUNT
        assert found["landmarks"][2]["bias"][0] == pytest.approx(4, abs=0.5)
        assert found["landmarks"][2]["bias_chance"] < 1e-6
        assert {one["index"] for one in found["images"][:2]} == {4, 9}
        assert "of the variation in shape comes from the annotators" in found["variance"]["sentence"]
        assert [row["source"] for row in found["variance"]["rows"]] == ["objects", "annotators", "rest"]
        row = next(one["row"] for one in found["images"] if one["index"] == 9)
        both = client.get(f"/api/agreement/{row}").json()
        assert int(np.argmax(both["distances"])) == 6
        assert client.get("/api/agreement/999").status_code == 404

    def test_a_file_that_is_sent(self, second: Path, opened: Any, tmp_path: Path) -> None:
        content = second.read_bytes()
        second.unlink()
        client, _ = opened()
        found = client.post("/api/agreement/upload?name=../../evil.csv", content=content).json()
        assert (found["name"], found["compared"]) == ("evil.csv", COUNT)
        assert not list(tmp_path.rglob("evil*"))
        broken = client.post("/api/agreement/upload?name=a.csv", content=b"\x00\x01 nothing")
        assert broken.status_code == 400
        assert gettempdir() not in broken.json()["error"]

    @pytest.mark.parametrize("path", ["../outside.csv", "/etc/passwd", "", "link.csv", "a\x00b"])
    def test_nothing_outside_is_read(self, opened: Any, folder: Path, path: str) -> None:
        (folder.parent / "outside.csv").write_text("image,x0,y0\nleaf_00.png,1,2\n")
        (folder / "link.csv").symlink_to(folder.parent / "outside.csv")
        client, _ = opened()
        answer = self.compare(client, path)
        assert answer.status_code in (400, 403)
        assert "outside.csv" not in str(client.get("/api/agreement/places").json())

    def test_other_landmarks_and_other_images(self, opened: Any, folder: Path) -> None:
        few = [Annotation("leaf_00.png", np.ones((3, 2)) * [[1], [2], [5]], size=(160, 120))]
        write_annotations(folder / "few.csv", few)
        other = [Annotation("tree.png", leaves()[0], size=(160, 120))]
        write_annotations(folder / "other.csv", other)
        client, _ = opened()
        assert "has 3 landmarks in leaf_00.png" in self.compare(client, "few.csv").json()["error"]
        assert "no image in common" in self.compare(client, "other.csv").json()["error"]
        assert self.compare(client, "not-there.csv").status_code == 404
