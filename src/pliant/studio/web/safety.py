"""Who may ask: this machine's own pages, or whoever has the token; no other site, and under no other name."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pliant.studio.web.endpoints import told

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_COOKIE = "pliant-token"

_HEADERS = {
    # Pages load nothing from elsewhere, and run no script that is not a file of ours.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Doorkeeper:
    """Lets requests in that name this server as their host, come from its own pages, and bring the token if any.

    The host is checked because any web site may have a name of its own point at 127.0.0.1 (DNS rebinding); the
    origin, because any web site may have a browser send requests here.
    """

    app: ASGIApp
    hosts: tuple[str, ...]
    token: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = _name(headers.get("host", ""))
        if host not in self.hosts:
            known = " or ".join(self.hosts)
            return told(f"this server only answers to {known}: use --host to set another.", 421)
        origin = headers.get("origin")
        if origin is not None and _place(origin) != headers.get("host"):
            return told("this request comes from the page of another site.", 403)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["method"] != "GET":
            return told("this request comes from the page of another site.", 403)
        return self._without_token(scope, headers) if self.token else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """None if the token is there; it may come once in the address, and is a cookie from then on."""
        queries = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if self._is_token(queries.pop("token", [""])[0]):
            # One slash: two of them would be the address of another host.
            address = (
                "/" + scope["path"].lstrip("/\\") + (f"?{urlencode(queries, doseq=True)}" if queries else "")
            )
            response = RedirectResponse(address, 303)
            response.set_cookie(_COOKIE, self.token, httponly=True, samesite="strict")
            return response
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or self._is_token(_cookie(headers.get("cookie", ""))):
            return None
        return told(
            "open the address that the server printed: it contains the token that this page needs.", 401
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
