"""A studio in a process of its own, and a browser to look at it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Studio, draw_collection

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Headless Chromium; tests are skipped where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pages are tested in a browser: pip install playwright"
    )
    for module in ("starlette", "uvicorn"):
        pytest.importorskip(module, reason="the studio needs a web server: pip install 'pliant[studio]'")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("pages are tested in a browser: install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def start_studio(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Studio]]:
    """Start studios; all of them end with the tests of the module."""
    started: list[Studio] = []

    def start(source: Path, *options: str) -> Studio:
        started.append(Studio(source, tmp_path_factory.mktemp("log") / "studio.txt", *options))
        return started[-1].start()

    yield start
    for studio in started:
        studio.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Studio], tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """A studio of six pictures with five landmarks each, of which two are annotated."""
    return start_studio(draw_collection(tmp_path_factory.mktemp("collection") / "kites"))


@pytest.fixture(scope="module")
def profile(chromium: Any) -> Iterator[Any]:
    """A browser profile for a module: pages after the first have its scripts in the cache."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(15000)
    yield context
    context.close()


@pytest.fixture
def new_page(chromium: Any, profile: Any) -> Iterator[Callable[..., Any]]:
    """Open pages, which are closed with the test: in a profile of their own if they have options.

    No script of a page may fail.
    """
    opened: list[Any] = []
    errors: list[str] = []

    def new(address: str = "", **options: Any) -> Any:
        context = profile
        if options:
            context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            context.set_default_timeout(15000)
        page = context.new_page()
        opened.append(context if options else page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        if address:
            page.goto(address)
        return page

    yield new
    for one in opened:
        one.close()
    assert not errors, errors
