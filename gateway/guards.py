"""What stands before every request: pages elsewhere cannot use a browser's cookie or an open gateway, and every answer tells the browser
what it may do with it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pastforward.gateway.options import GatewayOptions
from pastforward.gateway.problems import Problem

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
ALLOWED: Final = "GET, POST, PUT, PATCH, DELETE"
ASKED: Final = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
TOLD: Final = "Location, Retry-After"
# Everything a page needs comes from here; no script stands in a page. The colours of charts and maps are set by script, as properties.
POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOCAL: Final = ("localhost", "127.0.0.1", "::1", "testserver")


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, options: GatewayOptions) -> None:
        self._app, self._options = app, options
        self._hosts = {*LOCAL, options.bind, *options.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_friend = origin is not None and origin in self._options.origins
        try:
            self._check_host(headers)
            self._check_origin(scope, headers, is_friend)
        except Problem as problem:
            await _refuse(problem, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer.setdefault(name, value)
                answer.setdefault("Cache-Control", "no-store")
                if is_friend and origin is not None:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = TOLD
                    answer["Cross-Origin-Resource-Policy"] = "cross-origin"
                if self._options.origins:
                    answer.add_vary_header("Origin")
            await send(message)

        if scope["method"] == "OPTIONS" and is_friend and "access-control-request-method" in headers:
            await _preflight()(scope, receive, told)
            return
        await self._app(scope, receive, told)

    def _check_host(self, headers: Headers) -> None:
        """A page elsewhere whose name was made to lead here would be this page's own origin: an open gateway has known names only."""
        if self._options.authenticates or self._options.insecure:
            return
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if host not in self._hosts:
            detail = (
                f"this gateway is not called {host!r}: use http://localhost, or start it with --host {host or 'NAME'}"
            )
            raise Problem(403, "cross-origin", detail)

    def _check_origin(self, scope: Scope, headers: Headers, is_friend: bool) -> None:
        """What a browser sends for another page is not taken. Who is no browser sends neither header."""
        if is_friend or (scope["type"] == "http" and scope["method"] in SAFE):
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            if site in ("same-origin", "none"):
                return
        elif origin is None or urlsplit(origin).netloc == headers.get("host"):
            return
        detail = (
            f"a page of {origin or 'another site'} may not use this gateway: start it with --origin {origin or 'URL'}"
        )
        raise Problem(403, "cross-origin", detail)


def _preflight() -> Response:
    return Response(
        None,
        204,
        {
            "Access-Control-Allow-Methods": ALLOWED,
            "Access-Control-Allow-Headers": ASKED,
            "Access-Control-Max-Age": "600",
        },
    )


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await problem.response()(scope, receive, send)
        return
    await receive()  # the handshake
    await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:120]})
