"""The studio's server: who may ask, how requests are checked, and what describes them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pliant.studio.web.endpoints import Endpoint, Endpoints, Refused, as_route, openapi
from pliant.studio.web.events import Events
from pliant.studio.web.jobs import Jobs, Stopped
from pliant.studio.web.safety import LOOPBACK, Doorkeeper
from pliant.studio.web.wire import from_json, from_text, schema, to_json


@dataclass(frozen=True)
class Bar:
    start: tuple[float, float]
    unit: Literal["mm", "um"] = "mm"


@dataclass(frozen=True)
class Patch:
    """A patch."""

    id: str
    marks: dict[int, tuple[float | None, int]] = field(default_factory=dict)
    bar: Literal[False] | Bar | None = None
    done: bool | None = None


class TestWire:
    def test_a_value_comes_back(self) -> None:
        patch = Patch("a", {3: (1.5, 2), 4: (None, 0)}, Bar((0.0, 1.0), "um"), True)
        assert from_json(Patch, json.loads(json.dumps(to_json(patch))), "patch") == patch

    def test_false_is_told_from_nothing(self) -> None:
        assert from_json(Patch, {"id": "a", "bar": False}, "patch").bar is False
        assert from_json(Patch, {"id": "a", "bar": None}, "patch").bar is None

    def test_numbers_that_are_none_are_null(self) -> None:
        assert to_json(np.array([[1.0, np.nan]])) == [[1.0, None]]
        assert to_json({"x": float("inf")}) == {"x": None}

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ([], "patch must be an object"),
            ({}, "patch lacks 'id'"),
            ({"id": 3}, "patch.id must be a string"),
            ({"id": "a", "extra": 1}, "patch has no 'extra'"),
            ({"id": "a", "done": 1}, "patch.done must be a boolean"),
            ({"id": "a", "marks": {"x": [1, 2]}}, "a key of patch.marks must be an integer"),
            ({"id": "a", "marks": {"1": [1]}}, "patch.marks.1 must have 2 entries"),
            ({"id": "a", "marks": {"1": [float("nan"), 2]}}, "must be a finite number"),
            ({"id": "a", "marks": {"1": [10**400, 2]}}, "too large a number"),
            ({"id": "a", "marks": {"1": [1, True]}}, "must be an integer"),
            ({"id": "a", "bar": {"start": [0, 1], "unit": "mile"}}, "must be one of 'mm', 'um'"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(self, value: Any, said: str) -> None:
        with pytest.raises(ValueError, match=said.replace("[", r"\[")):
            from_json(Patch, value, "patch")

    def test_text_from_an_address(self) -> None:
        assert from_text(int, "7", "n") == 7
        assert from_text(int | None, "7", "n") == 7
        assert from_text(bool, "true", "n") is True
        with pytest.raises(ValueError, match="n must be an integer, not 'seven'"):
            from_text(int, "seven", "n")

    def test_schema_says_what_is_needed(self) -> None:
        components: dict[str, Any] = {}
        assert schema(Patch, components) == {"$ref": "#/components/schemas/Patch"}
        assert components["Patch"]["required"] == ["id"]
        assert components["Bar"]["properties"]["unit"] == {"enum": ["mm", "um"]}


AT = "http://127.0.0.1:8750"


def served(token: str = "") -> TestClient:
    app = Starlette(
        routes=[
            Route("/", lambda request: PlainTextResponse("in")),
            Route("/do", lambda request: PlainTextResponse("done"), methods=["POST"]),
        ]
    )
    return TestClient(Doorkeeper(app, LOOPBACK, token), base_url=AT, follow_redirects=False)


class TestDoorkeeper:
    def test_its_own_pages_come_in(self) -> None:
        assert served().get("/").text == "in"
        assert served().post("/do", headers={"Origin": "http://127.0.0.1:8750"}).text == "done"

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8750", "", "localhost.:80"])
    def test_other_names_stay_out(self, host: str) -> None:
        assert served().get("/", headers={"Host": host}).status_code == 421

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", "http://[::1"])
    def test_other_sites_stay_out(self, origin: str) -> None:
        assert served().post("/do", headers={"Origin": origin}).status_code == 403

    def test_a_form_of_another_site_stays_out_without_an_origin(self) -> None:
        assert served().post("/do", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403

    def test_token(self) -> None:
        door = served("secret")
        assert door.get("/").status_code == 401
        assert door.get("/?token=wrong").status_code == 401
        assert door.get("/", headers={"Cookie": "pliant-token=wrong"}).status_code == 401
        assert door.get("/", headers={"Authorization": "Bearer secret"}).text == "in"
        answer = door.get("/?token=secret&image=3")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?image=3")
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert door.get("/").text == "in"  # by the cookie

    def test_the_token_leads_to_no_other_host(self) -> None:
        assert (
            served("secret").get(AT + "//evil.example/?token=secret").headers["location"] == "/evil.example/"
        )

    def test_pages_load_nothing_from_elsewhere(self) -> None:
        policy = served().get("/").headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy


class TestEndpoints:
    def make(self, function: Any, method: str = "POST", path: str = "/x/{number}") -> TestClient:
        return TestClient(Starlette(routes=[as_route(Endpoint(method, path, function, "t"), "the studio")]))

    def test_what_a_function_takes_is_found(self) -> None:
        def change(studio: str, number: int, body: Patch, width: int | None = None) -> dict[str, Any]:
            return {"studio": studio, "number": number, "id": body.id, "width": width}

        answer = self.make(change).post("/x/5?width=9", json={"id": "a"})
        assert answer.json() == {"studio": "the studio", "number": 5, "id": "a", "width": 9}

    def test_nothing_is_204_and_troubles_are_sentences(self) -> None:
        def fails(studio: str, number: int) -> None:
            if number == 1:
                raise LookupError("there is no 1.")
            if number == 2:
                raise Refused("not now.", 409)
            if number == 3:
                raise ValueError("that is wrong.")
            if number == 4:
                raise MemoryError

        client = self.make(fails, "GET")
        assert [client.get(f"/x/{n}").status_code for n in range(5)] == [204, 404, 409, 400, 507]
        assert "not enough memory" in client.get("/x/4").json()["error"]
        assert client.get("/x/2").json() == {"error": "not now."}
        assert client.get("/x/two").status_code == 400

    def test_half_a_character_in_a_sentence_can_be_sent(self) -> None:
        def fails(studio: str, number: int, body: Patch) -> None:
            raise ValueError(f"there is no {body.id}.")

        answer = self.make(fails).post("/x/1", content=b'{"id": "\\ud800"}')
        assert answer.status_code == 400
        assert answer.json() == {"error": "there is no \\ud800."}

    def test_broken_requests(self) -> None:
        def change(studio: str, number: int, body: Patch) -> None: ...

        client = self.make(change)
        assert "not JSON" in client.post("/x/1", content=b"{").json()["error"]
        assert "not JSON" in client.post("/x/1", content=b"[" * 100_000).json()["error"]

    def test_large_requests_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def take(studio: str, number: int, upload: bytes) -> dict[str, int]:
            return {"bytes": len(upload)}

        monkeypatch.setattr("pliant.studio.web.endpoints.LARGEST_UPLOAD", 2**20)
        client = self.make(take)
        assert client.post("/x/1", content=b"1" * 2**20).json() == {"bytes": 2**20}
        assert client.post("/x/1", content=b"1" * (2**20 + 1)).status_code == 413

        def in_parts() -> Any:
            yield from [b"1" * 2**19] * 3

        assert client.post("/x/1", content=in_parts()).status_code == 413

    def test_openapi_describes_them(self) -> None:
        part = Endpoints("things")

        @part.post("/things/{number}")
        def make_thing(studio: str, number: int, body: Patch, width: int = 3) -> Bar:
            """Make a thing."""
            return Bar((0, 0))

        document = openapi(part.every)
        operation = document["paths"]["/things/{number}"]["post"]
        assert operation["summary"] == "Make a thing."
        assert [(one["name"], one["in"], one["required"]) for one in operation["parameters"]] == [
            ("number", "path", True),
            ("width", "query", False),
        ]
        assert set(document["components"]["schemas"]) == {"Patch", "Bar"}


class TestJobs:
    def run(self, work: Any) -> Any:
        jobs = Jobs(Events())
        job = jobs.start("work", work)
        for _ in range(500):
            if job.state.state != "running":
                break
            import time

            time.sleep(0.01)
        return job.state

    def test_work_that_ends(self) -> None:
        def work(job: Any) -> str:
            job.advance(1, 1)
            return "one thing was done."

        state = self.run(work)
        assert (state.state, state.done, state.sentence) == ("done", 1, "one thing was done.")

    def test_work_that_fails_is_a_sentence(self) -> None:
        def work(job: Any) -> str:
            raise OSError("the disk is full.")

        assert (self.run(work).state, self.run(work).sentence) == ("failed", "the disk is full.")

    def test_work_can_be_stopped(self) -> None:
        def work(job: Any) -> str:
            job.stop()
            job.advance(1, 2)
            raise AssertionError("it went on")

        assert self.run(work).state == "stopped"
        assert issubclass(Stopped, Exception)


class TestEvents:
    def test_they_reach_who_listens_until_the_end(self) -> None:
        events = Events()

        async def heard() -> list[str]:
            stream = events.listen()
            found = [await anext(stream)]
            events.tell("changed", index=3)
            found.append(await anext(stream))
            events.end()
            return found + [text async for text in stream]

        first, told = asyncio.run(heard())
        assert first.startswith("retry")
        assert json.loads(told.removeprefix("data: ")) == {"type": "changed", "index": 3}

    def test_who_is_far_behind_is_told_to_look_again(self) -> None:
        events = Events()

        async def heard() -> str:
            stream = events.listen()
            await anext(stream)
            for number in range(300):
                events.tell("changed", index=number)
            await asyncio.sleep(0)
            return await anext(stream)

        assert "behind" in asyncio.run(heard())
