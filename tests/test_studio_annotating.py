"""What Annotate asks for: images, marks, changes that are on the disk, and what comes next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from PIL import Image
from starlette.testclient import TestClient

from pliant.cli.studio import _welcome
from pliant.data.formats import read_landmarks, write_landmarks
from pliant.studio.opening import open_studio
from pliant.studio.server import endpoints, make_app

POINTS = np.array([[5.0, 5.0], [25.0, 6.0], [15.0, 24.0]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (32, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"wing{number}.png")
    write_landmarks(tmp_path / "wing0.pts", POINTS)
    return tmp_path


def open_at(folder: Path, **rest: object) -> TestClient:
    return TestClient(make_app(open_studio(folder, **rest)), base_url="http://127.0.0.1")  # type: ignore[arg-type]


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with open_at(folder) as client:
        yield client


def change(client: TestClient, index: int, **what: object) -> dict[str, object]:
    body = {"client": "tab", "changes": [{"id": f"{index} {what}", **what}]}
    answer = client.post(f"/api/images/{index}/changes", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_what_is_open(client: TestClient) -> None:
    project = client.get("/api/project").json()
    assert (project["count"], project["done"], project["format"], project["model"]) == (3, 1, "pts", None)
    assert project["names"] == ["0", "1", "2"]


def test_the_terminal_says_what_is_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for said in ("1 finished (landmarks: pts)", "0 finished (no landmarks yet)"):
        studio = open_studio(folder)
        _welcome(studio, "http://127.0.0.1:8750/")
        studio.close()
        assert capsys.readouterr().out.startswith(f"3 images in {folder.name}, {said}\n")
        (folder / "wing0.pts").unlink(missing_ok=True)


def test_lists_are_parts(client: TestClient) -> None:
    todo = client.get("/api/images?show=todo&first=1&count=5").json()
    assert (todo["total"], [one["name"] for one in todo["images"]]) == (2, ["wing2.png"])
    assert client.get("/api/images?first=-4&count=-1").json()["images"] == []
    assert client.get("/api/images?show=done").json()["images"][0]["state"] == "finished"


def test_a_change_is_in_the_file_within_a_second(client: TestClient, folder: Path) -> None:
    after = change(client, 0, marks={"1": [27.5, 8.25, 2]})
    assert after["points"][1] == [27.5, 8.25]  # type: ignore[index]
    expected = POINTS.copy()
    expected[1] = 27.5, 8.25
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline and read_landmarks(folder / "wing0.pts")[1, 0] != 27.5:
        time.sleep(0.01)
    np.testing.assert_allclose(read_landmarks(folder / "wing0.pts"), expected, atol=1e-4)


def test_undo_and_redo(client: TestClient) -> None:
    assert client.get("/api/images/0").json()["can_undo"] is False
    change(client, 0, marks={"1": [27.5, 8.25, 2]})
    back = client.post("/api/images/0/undo", json={"client": "tab"}).json()
    assert back["points"][1] == [25, 6]
    assert back["can_redo"] is True
    assert client.post("/api/images/0/redo", json={"client": "tab"}).json()["points"][1] == [27.5, 8.25]
    assert len(client.get("/api/images/0/history").json()) == 3


def test_hidden_absent_and_unseen_are_told_apart(client: TestClient) -> None:
    after = change(client, 1, marks={"0": [3, 4, 1], "1": [None, None, 0]})
    assert (after["states"], after["points"]) == ([1, 0, -1], [[3, 4], None, None])
    assert after["finished"] is False


def test_a_scale_bar_comes_and_goes(client: TestClient) -> None:
    bar = {"start": [0, 0], "end": [10, 0], "length": 2, "unit": "mm"}
    assert change(client, 0, scale=bar)["scale"] == bar
    table = client.get("/api/export?format=csv-mm").text
    assert float(table.splitlines()[1].split(",")[1]) == pytest.approx(5 * 0.2)
    assert change(client, 0, scale=False)["scale"] is None


def test_export_without_a_scale_says_so(client: TestClient) -> None:
    sentence = (
        "No image has a scale with a unit, so nothing can be given in mm. Draw a scale bar (R) in each."
    )
    assert client.get("/api/export?format=csv-mm").json()["error"] == sentence
    assert "no export" in client.get("/api/export?format=doc").json()["error"]


def test_pages_are_told_how_many_images_have_no_scale(folder: Path) -> None:
    studio = open_studio(folder)
    told: list[tuple[str, object]] = []
    with TestClient(make_app(studio), base_url="http://127.0.0.1") as client:
        marks = {str(k): [*point, 2] for k, point in enumerate(POINTS.tolist())}
        change(client, 1, marks=marks, finished=True)
        studio.events.tell = lambda kind, **details: told.append((kind, details.get("sentence")))  # type: ignore[method-assign]

        def exported() -> tuple[str, list[object]]:
            told.clear()
            content = client.get("/api/export?format=tps").text
            return content, [sentence for kind, sentence in told if kind == "note"]

        content, notes = exported()
        assert "SCALE" not in content
        assert notes == [
            "2 of 2 images have no scale, so the file has no SCALE for them. Draw a scale bar (R)."
        ]
        bar = {"start": [0, 0], "end": [10, 0], "length": 2, "unit": "mm"}
        change(client, 1, scale=bar)
        assert exported()[1] == [
            "1 of 2 images has no scale, so the file has no SCALE for it. Draw a scale bar (R)."
        ]
        change(client, 0, scale=bar)
        content, notes = exported()
        assert (content.count("SCALE=0.2"), notes) == (2, [])


def template(client: TestClient, index: int) -> np.ndarray:
    return np.array(client.get(f"/api/images/{index}/template").json()["points"])


def test_the_template_lies_as_what_is_finished(client: TestClient, folder: Path) -> None:
    np.testing.assert_allclose(template(client, 1), POINTS, atol=1e-3)
    # A shape that is shifted and grown about its middle shifts and grows the template half as far.
    middle, shift = POINTS.mean(axis=0), np.array([4.0, -3.0])
    other = 1.4 * (POINTS - middle) + middle + shift
    marks = {str(k): [*point, 2] for k, point in enumerate(other.tolist())}
    change(client, 1, marks=marks, finished=True)
    np.testing.assert_allclose(template(client, 2), 1.2 * (POINTS - middle) + middle + shift / 2, atol=1e-2)


def test_the_template_is_relative_to_the_image(folder: Path) -> None:
    for name, size in {"wing3.png": (120, 96), "wing4.png": (80, 16)}.items():
        Image.new("L", size).save(folder / name)
    with open_at(folder) as client:
        np.testing.assert_allclose(template(client, 3), 3 * (POINTS + 0.5) - 0.5, atol=1e-3)
        # Twice as wide and half as high is of the same area: the shape stays as large, and is not squeezed.
        wide = template(client, 4)
        np.testing.assert_allclose(wide - wide.mean(axis=0), POINTS - POINTS.mean(axis=0), atol=1e-3)
        np.testing.assert_allclose(wide.mean(axis=0) + 0.5, (POINTS.mean(axis=0) + 0.5) * (2, 0.5), atol=1e-3)


def test_there_is_no_template_of_nothing(folder: Path) -> None:
    (folder / "wing0.pts").unlink()
    with open_at(folder) as client:
        client.put("/api/object", json={"names": ["tip", "notch"], "curves": []})
        assert client.get("/api/images/1/template").status_code == 204
        # Neither does one point that is absent, nor an image that cannot be read, make one.
        change(client, 1, marks={"0": [3, 4, 2], "1": [None, None, 0]}, finished=True)
        assert client.get("/api/images/0/template").status_code == 204
        change(client, 2, marks={"0": [3, 4, 2], "1": [9, 9, 2]}, finished=True)
        (folder / "wing2.png").write_text("this is not a picture")
        assert client.get("/api/images/0/template").status_code == 204


def test_next_is_what_is_not_finished(client: TestClient) -> None:
    assert client.get("/api/next?order=list&after=1").json()["index"] == 2
    assert client.get("/api/next?order=list&after=2").json()["index"] == 1
    assert client.get("/api/next?order=list&after=2&skipped=1").json()["index"] == 2
    assert client.get("/api/next?order=list&after=0&skipped=2,1").json()["index"] == 1
    assert client.get("/api/next?skipped=all").status_code == 400
    for index in (1, 2):
        change(client, index, marks={"0": [3, 4, 2]}, finished=True)
    assert client.get("/api/next?order=list").status_code == 204


def test_without_a_model_nothing_is_proposed(client: TestClient) -> None:
    assert client.get("/api/images/1/proposal").status_code == 204


@pytest.mark.parametrize(
    "address",
    ["/api/images/99", "/api/images/-1", "/api/images/99/picture", "/api/nothing", "/pages/../server.py"],
)
def test_what_is_not_there(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    assert answer.json()["error"].endswith(".")


def test_wrong_changes_are_refused_in_a_sentence(client: TestClient) -> None:
    for mark in ([1, 1, 7], [None, None, 2], [1e9, 0, 2]):
        body = {"client": "tab", "changes": [{"id": "x", "marks": {"0": mark}}]}
        answer = client.post("/api/images/0/changes", json=body)
        assert (answer.status_code, answer.json()["error"][-1]) == (400, ".")


def test_a_broken_image_is_a_sentence_and_can_be_passed(folder: Path) -> None:
    (folder / "wing3.jpg").write_text("this is not a picture")
    (folder / "wing4.png").write_bytes((folder / "wing0.png").read_bytes()[:200])
    with open_at(folder) as client:
        view = client.get("/api/images/3").json()
        assert "not an image" in view["trouble"]
        assert client.get("/api/images/3/picture").status_code == 400
        assert client.get("/api/images/4/picture?width=20").status_code == 400
        assert change(client, 3, finished=True)["finished"] is True


def test_a_new_object_gets_its_landmarks(tmp_path: Path) -> None:
    Image.new("L", (20, 20)).save(tmp_path / "a.png")
    with open_at(tmp_path) as client:
        assert client.get("/api/project").json()["names"] == []
        made = {"names": ["tip", "notch"], "curves": [{"name": "edge", "points": [0, 1], "closed": False}]}
        assert client.put("/api/object", json=made).json()["names"] == ["tip", "notch"]
        change(client, 0, marks={"0": [3, 4, 2], "1": [5, 6, 1]}, finished=True)
    kept = json.loads((tmp_path / "landmarks.json").read_text())
    assert kept["annotations"][0]["keypoints"] == [3, 4, 2, 5, 6, 1]
    assert kept["categories"][0]["keypoints"] == ["tip", "notch"]


def test_read_only_refuses_and_says_so(folder: Path) -> None:
    with open_at(folder, read_only=True) as client:
        assert "read-only" in client.get("/api/project").json()["read_only"]
        body = {"client": "tab", "changes": [{"id": "x", "finished": False}]}
        assert client.post("/api/images/0/changes", json=body).status_code == 400
    np.testing.assert_allclose(read_landmarks(folder / "wing0.pts"), POINTS)


def test_every_endpoint_is_described_and_every_page_stands(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for endpoint in endpoints():
        described = document["paths"][endpoint.path][endpoint.method.lower()]
        assert described["summary"].endswith("."), endpoint.path
    for page in ("annotate", "check", "explore", "fit", "results", "docs"):
        assert f"/pages/{page}.js" in client.get(f"/{page}").text
        assert client.get(f"/pages/{page}.js").status_code == 200


def test_names_in_a_file_that_was_only_found_stay_in_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    Image.new("L", (20, 20)).save(tmp_path / "secret.png")
    Image.new("L", (20, 20)).save(inside / "a.png")
    names = ["a.png", "../secret.png", str(tmp_path / "secret.png"), "b/../../secret.png"]
    points = {"category_id": 1, "keypoints": [1, 1, 2, 9, 9, 2, 1, 9, 2]}
    document = {
        "images": [{"id": k, "file_name": name, "width": 20, "height": 20} for k, name in enumerate(names)],
        "categories": [{"id": 1, "name": "it", "keypoints": ["x", "y", "z"]}],
        "annotations": [{"id": k, "image_id": k, **points} for k in range(len(names))],
    }
    (inside / "labels.json").write_text(json.dumps(document))
    with open_at(inside) as client:
        listed = client.get("/api/images").json()["images"]
        assert [one["name"] for one in listed] == ["a.png"]
        change(client, 0, marks={"0": [3, 4, 2]})
    # And what is not shown is not lost.
    kept = json.loads((inside / "labels.json").read_text())
    assert [one["file_name"] for one in kept["images"]] == names
    assert kept["annotations"][1]["keypoints"] == points["keypoints"]
    assert kept["annotations"][0]["keypoints"][:3] == [3, 4, 2]
