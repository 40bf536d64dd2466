"""The web server: pages, endpoints and their description, behind a doorkeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from html import escape
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pliant.studio import agreeing, annotating, checking, exploring, training, working
from pliant.studio.desk import Studio
from pliant.studio.fits import endpoints as fits
from pliant.studio.results import endpoints as results
from pliant.studio.web.endpoints import Endpoint, as_route, openapi, told
from pliant.studio.web.safety import LOOPBACK, Doorkeeper

_PAGES = Path(__file__).parent / "pages"

PAGES = {
    "annotate": "Annotate",
    "check": "Check",
    "explore": "Explore",
    "fit": "Fit",
    "results": "Results",
}

_PARTS = (
    annotating.endpoints,
    checking.endpoints,
    agreeing.endpoints,
    exploring.endpoints,
    fits.endpoints,
    results.endpoints,
    training.endpoints,
    working.endpoints,
)


def endpoints() -> list[Endpoint]:
    """Every endpoint of the studio."""
    return [endpoint for part in _PARTS for endpoint in part.every]


def make_app(studio: Studio, hosts: Sequence[str] = LOOPBACK, token: str = "") -> ASGIApp:
    """The application for a studio; requests must name one of the hosts, and bring the token if there is one."""
    routes = [
        Route("/", lambda request: RedirectResponse("/annotate")),
        *(Route(f"/{name}", _page(name)) for name in (*PAGES, "docs")),
        Route("/openapi.json", lambda request: JSONResponse(openapi(endpoints()))),
        Route("/api/events", _events(studio)),
        *(as_route(endpoint, studio) for endpoint in endpoints()),
        Mount("/pages", StaticFiles(directory=_PAGES)),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        studio.close()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={404: _not_found, 500: _failed, Exception: _failed},
    )
    return Doorkeeper(app, tuple(hosts), token)


def _page(name: str):  # type: ignore[no-untyped-def]
    def page(request: Request) -> Response:
        return HTMLResponse(_framed(name), headers={"Cache-Control": "no-cache"})

    return page


@cache
def _framed(name: str) -> str:
    """The HTML of a page: what all have in common around its own part."""
    links = "\n".join(
        f'<a href="/{page}"{" aria-current=page" if page == name else ""}>{escape(title)}</a>'
        for page, title in PAGES.items()
    )
    frame = (_PAGES / "frame.html").read_text(encoding="utf-8")
    title = PAGES.get(name, "Web API")
    for mark, text in {"TITLE": title, "LINKS": links, "NAME": name}.items():
        frame = frame.replace(f"<!-- {mark} -->", text).replace(f"{{{mark}}}", text)
    return frame.replace("<!-- MAIN -->", (_PAGES / f"{name}.html").read_text(encoding="utf-8"))


def _events(studio: Studio):  # type: ignore[no-untyped-def]
    async def events(request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(studio.events.listen(), media_type="text/event-stream", headers=headers)

    return events


def _not_found(request: Request, error: Exception) -> Response:
    return told(f"there is nothing at {request.url.path}.", 404)


def _failed(request: Request, error: Exception) -> Response:
    return told(f"an unexpected error occurred: {type(error).__name__}: {error}", 500)
