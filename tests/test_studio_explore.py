"""Models as browsers get them: instances that a page draws from them are those that the model draws."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pliant.appearance.texture import _without_holes
from pliant.model import Model
from pliant.studio import exploring
from pliant.studio.web.endpoints import Refused, as_route


def client_of(studio: object) -> TestClient:
    routes = [as_route(endpoint, studio) for endpoint in exploring.endpoints.every]
    return TestClient(Starlette(routes=routes))


@pytest.fixture(scope="module")
def client(model: Model) -> TestClient:
    return client_of(SimpleNamespace(model=lambda: model))


@pytest.fixture(scope="module")
def told(client: TestClient) -> dict:
    return client.get("/api/explore").json()


@pytest.fixture(scope="module")
def pictures(client: TestClient, told: dict) -> np.ndarray:
    """The texture's mean and modes, read as the page reads them."""
    texture = told["texture"]
    content = client.get("/api/explore/texture", params={"version": told["version"]}).content
    shape = (len(texture["factors"]), texture["height"], texture["width"], texture["channels"])
    numbers = np.frombuffer(content, dtype="<i2").reshape(shape)
    return numbers * np.array(texture["factors"])[:, None, None, None]


class TestShape:
    def test_instances_are_those_of_the_model(
        self, model: Model, told: dict, rng: np.random.Generator
    ) -> None:
        deviations = rng.normal(size=5)
        points = np.array(told["mean"]) + np.tensordot(deviations, np.array(told["modes"]), 1)
        shape = model.levels[-1].shape
        parameters = np.concatenate([np.zeros(4), deviations * np.sqrt(shape.eigenvalues)])
        assert np.abs(points - shape.instance(parameters)).max() < 1e-3

    def test_shares_are_those_of_all_variance(self, model: Model, told: dict) -> None:
        assert sum(told["shares"]) == pytest.approx(model.levels[-1].shape.variance_kept)
        assert sum(told["texture"]["shares"]) <= model.texture.pca.variance_kept + 1e-9

    def test_usual_instances_are_within_the_box(self, told: dict) -> None:
        low, high = np.array(told["low"]), np.array(told["high"])
        for mode in np.array(told["modes"])[:3]:
            points = np.array(told["mean"]) + 3 * mode
            assert np.all(points > low)
            assert np.all(points < high)


class TestTexture:
    def test_a_sum_of_pictures_is_the_texture_at_every_pixel(
        self, model: Model, pictures: np.ndarray, rng: np.random.Generator
    ) -> None:
        pca, frame = model.texture.pca, model.texture.frame
        count = len(pictures) - 1
        deviations = rng.normal(size=count)
        parameters = np.zeros(pca.modes)
        parameters[:count] = deviations * np.sqrt(pca.eigenvalues[:count])
        wanted = frame.image(pca.instance(parameters).reshape(-1, model.texture.channels))
        found = pictures[0] + np.tensordot(deviations, pictures[1:], 1)
        assert np.abs(found - wanted)[frame.mask].max() < 1e-3

    def test_the_picture_goes_on_beyond_the_mask(self, model: Model, pictures: np.ndarray) -> None:
        """At the edge, a browser interpolates between the same pixels as `Texture.draw`."""
        texture = model.texture
        mean = texture.pca.mean.reshape(-1, texture.channels)
        assert np.abs(pictures[0] - _without_holes(texture.frame, mean)).max() < 1e-4

    def test_another_model_is_refused(self, client: TestClient) -> None:
        answer = client.get("/api/explore/texture", params={"version": "other"})
        assert answer.status_code == 409
        assert "newer model" in answer.json()["error"]


def test_without_a_model_there_is_a_sentence() -> None:
    def nothing() -> Model:
        raise Refused("there is no model yet.")

    answer = client_of(SimpleNamespace(model=nothing)).get("/api/explore")
    assert answer.status_code == 409
    assert answer.json() == {"error": "there is no model yet."}
