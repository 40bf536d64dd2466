"""The studio's API, asked what its own description allows and what it does not: schemathesis on its OpenAPI.

No answer is an internal error, and nothing is written outside the folder that is open. `PLIANT_FUZZ=200` asks each
endpoint so often.
"""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from PIL import Image

from pliant.data.formats import write_landmarks

pytest.importorskip("schemathesis")
pytest.importorskip("starlette")
import schemathesis

from pliant.studio.opening import open_studio
from pliant.studio.server import endpoints, make_app

EXAMPLES = int(os.environ.get("PLIANT_FUZZ", "4"))
SECONDS = 60.0
"""How long one answer may take, on a machine that is busy."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A studio of three images in a folder, beside which there is a file that is nobody's business."""
    around = tmp_path_factory.mktemp("around")
    folder = around / "project"
    folder.mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (32, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"wing{number}.png")
    write_landmarks(folder / "wing0.pts", np.array([[5.0, 5], [30, 6], [18, 25]]))
    (around / "secret.txt").write_text("nobody reads this")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(around)
        studio = open_studio(folder)
        yield around, make_app(studio)
        studio.close()


def outside(around: Path) -> dict[str, int]:
    """All files beside the project, each with the time of its last change."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in around.rglob("*")
        if not path.is_relative_to(around / "project")
    }


def requests(operation):
    """Requests that follow the description of an operation, and requests that do not."""
    modes = schemathesis.GenerationMode
    return operation.as_strategy(generation_mode=modes.POSITIVE) | operation.as_strategy(
        generation_mode=modes.NEGATIVE
    )


@pytest.mark.parametrize("endpoint", endpoints(), ids=lambda one: f"{one.method} {one.path}")
def test_no_request_breaks_the_studio(opened, endpoint):
    around, app = opened
    before = outside(around)
    named = {"Host": "127.0.0.1"}
    api = schemathesis.openapi.from_asgi("/openapi.json", app, headers=named)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=requests(api[endpoint.path][endpoint.method]))
    def ask(case):
        began = time.monotonic()
        answer = case.call(headers=named)
        assert answer.status_code < 500, answer.text[:500]
        assert time.monotonic() - began < SECONDS
        assert b"nobody reads this" not in answer.content

    ask()
    assert outside(around) == before
