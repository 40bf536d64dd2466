"""Endpoints: plain functions with types, from which requests are checked and the OpenAPI document is made.

A function takes the studio first. What is in braces in its path comes from the address, `body` from the request's
JSON, `upload` are the request's bytes; all other parameters are queries. It returns a dataclass, a list, None for
"nothing there" (204), or a Starlette response.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pliant.data.names import readable
from pliant.limits import parsed_json
from pliant.studio.web.wire import from_json, from_text, schema, to_json
from pliant.version import __version__

Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST_BODY = 8 * 2**20
LARGEST_UPLOAD = 64 * 2**20
"""Bytes of a request with JSON, and of one with a file."""

SECONDS_TO_SEND = 60.0
"""How long a request may take to arrive."""


class Refused(Exception):
    """A request that is understood and not done: a sentence and the status that goes with it."""

    def __init__(self, sentence: str, status: int = 409) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Endpoint:
    """A function that answers requests with a method and a path."""

    method: str
    path: str
    function: Callable[..., Any]
    tag: str

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    @property
    def in_path(self) -> list[str]:
        """The names that are in its address."""
        return re.findall(r"{(\w+)}", self.path)

    @property
    def hints(self) -> dict[str, Any]:
        """The types of its parameters, and of what it returns."""
        return get_type_hints(self.function)


class Endpoints:
    """The endpoints of one part of the studio."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.every: list[Endpoint] = []

    def _adds(self, method: str, path: str) -> Callable[[Function], Function]:
        def add(function: Function) -> Function:
            self.every.append(Endpoint(method, path, function, self.tag))
            return function

        return add

    def get(self, path: str) -> Callable[[Function], Function]:
        """A function that answers GET."""
        return self._adds("GET", path)

    def post(self, path: str) -> Callable[[Function], Function]:
        """A function that answers POST."""
        return self._adds("POST", path)

    def put(self, path: str) -> Callable[[Function], Function]:
        """A function that answers PUT."""
        return self._adds("PUT", path)

    def delete(self, path: str) -> Callable[[Function], Function]:
        """A function that answers DELETE."""
        return self._adds("DELETE", path)


def as_route(endpoint: Endpoint, studio: Any) -> Route:
    """The route of an endpoint; functions that are not async run in threads, so that none holds up another."""
    hints = endpoint.hints
    parameters = list(inspect.signature(endpoint.function).parameters.values())[1:]

    async def arguments(request: Request) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for parameter in parameters:
            name, kind = parameter.name, hints[parameter.name]
            if name in endpoint.in_path:
                given[name] = from_text(kind, request.path_params[name], name)
            elif name == "body":
                given[name] = from_json(kind, _parsed(await received(request, LARGEST_BODY)), "the request")
            elif name == "upload":
                given[name] = await received(request, LARGEST_UPLOAD)
            elif name in request.query_params:
                given[name] = from_text(kind, request.query_params[name], name)
            elif parameter.default is inspect.Parameter.empty:
                raise ValueError(f"the address lacks ?{name}=.")
        return given

    async def answer(request: Request) -> Response:
        try:
            given = await arguments(request)
            if inspect.iscoroutinefunction(endpoint.function):
                result = await endpoint.function(studio, **given)
            else:
                result = await run_in_threadpool(endpoint.function, studio, **given)
        except Refused as error:
            return told(str(error), error.status)
        except LookupError as error:
            return told(str(error.args[0] if error.args else error), 404)
        except (ValueError, OSError) as error:
            return told(str(error), 400)
        except MemoryError:
            return told(
                "there is not enough memory for this: close other programs, or use smaller images.", 507
            )
        if isinstance(result, Response):
            return result
        if result is None:
            return Response(status_code=204)
        return JSONResponse(to_json(result), headers={"Cache-Control": "no-store"})

    return Route(endpoint.path, answer, methods=[endpoint.method])


def told(sentence: str, status: int) -> JSONResponse:
    """A sentence in place of what was asked for."""
    return JSONResponse({"error": readable(sentence)}, status)


async def received(request: Request, most: int) -> bytes:
    """The bytes of a request, which must be few enough, and arrive in time."""
    content = bytearray()

    async def read() -> None:
        async for part in request.stream():
            content.extend(part)
            if len(content) > most:
                raise Refused(f"this is larger than the limit of {most // 2**20} MB.", 413)

    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise Refused(f"this is larger than the limit of {most // 2**20} MB.", 413)
    try:
        await asyncio.wait_for(read(), SECONDS_TO_SEND)
    except TimeoutError:
        raise Refused(f"the request did not arrive within {SECONDS_TO_SEND:g} seconds.", 408) from None
    return bytes(content)


def _parsed(content: bytes) -> Any:
    try:
        return parsed_json(content)
    except ValueError:
        raise ValueError("the request is not JSON.") from None


def openapi(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of all endpoints."""
    components: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pliant studio", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    hints = endpoint.hints
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "operationId": endpoint.function.__name__,
        "parameters": [],
    }
    for parameter in list(inspect.signature(endpoint.function).parameters.values())[1:]:
        kind = hints[parameter.name]
        if parameter.name == "body":
            content: Any = {"application/json": {"schema": schema(kind, components)}}
            operation["requestBody"] = {"required": True, "content": content}
        elif parameter.name == "upload":
            content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
            operation["requestBody"] = {"required": True, "content": content}
        else:
            needed = parameter.default is inspect.Parameter.empty
            place = "path" if parameter.name in endpoint.in_path else "query"
            entry = {
                "name": parameter.name,
                "in": place,
                "required": needed,
                "schema": schema(kind, components),
            }
            operation["parameters"].append(entry)
    returned = hints.get("return")
    answer: dict[str, Any] = {"description": "done"}
    if returned is not None and not (isinstance(returned, type) and issubclass(returned, Response)):
        answer["content"] = {"application/json": {"schema": schema(returned, components)}}
    operation["responses"] = {"200": answer, "default": {"description": "a sentence in `error`"}}
    return operation
