"""Where the pages are, what they listen to, and how somebody says who they are."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from pastforward.gateway.api.notifications import EVENTS, listening
from pastforward.gateway.console import history, live, pages
from pastforward.gateway.console.render import HERE, html, shown
from pastforward.gateway.context import Asked, Gateway, answer, endpoint, gateway_of, who_of
from pastforward.gateway.identity import COOKIE, Identity
from pastforward.gateway.listeners import Listener
from pastforward.gateway.problems import Problem, problem_of
from pastforward.gateway.records import fields_of

REDRAW: Final = 5.0  # seconds between two looks at the subscriptions
STEP: Final = 0.25  # seconds between two messages to a map: as many as an eye follows
TOLD: Final = 100  # notifications of a message


def routes() -> list[BaseRoute]:
    both = ["GET", "POST"]
    return [
        Route("/", shown(pages.overview), name="overview"),
        Route("/map", shown(pages.map_)),
        Route("/subscriptions", shown(pages.listed)),
        Route("/subscriptions/{name:path}", shown(pages.one), methods=both),
        Route("/try", shown(pages.try_), methods=both),
        Route("/explain", shown(pages.explain)),
        Route("/dead-letters", shown(pages.dead_letters)),
        Route("/dead-letters/{place}", shown(pages.dead_letter), methods=both),
        Route("/history", shown(history.history)),
        Route("/auctions", shown(pages.auctions)),
        Route("/topics", shown(pages.topics)),
        Route("/api", shown(pages.api)),
        Route("/login", login, methods=both),
        Route("/logout", logout, methods=["POST"]),
        Route("/console/overview.json", endpoint(overview_numbers)),
        Route("/console/map/events", MapEvents()),
        Mount("/static", StaticFiles(directory=HERE / "static"), name="static"),
    ]


async def overview_numbers(asked: Asked) -> Response:
    return answer(await asked.request.app.state.numbers.now())


async def login(request: Request) -> Response:
    gateway = gateway_of(request)
    root = request.scope.get("root_path", "")
    if request.method == "GET" or not gateway.authenticator.asks:
        return html(request, "login.html", "Who are you?", wrong=None)
    form = await request.form(max_fields=3)
    token = str(form.get("token", "")).strip()
    try:
        gateway.throttle.take(who_of(request, Identity(None)))
        await gateway.call(gateway.authenticator.of_token, token)
    except Problem as problem:
        return html(request, "login.html", "Who are you?", problem.status, wrong=problem.detail)
    response = RedirectResponse(f"{root}/", 303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path=f"{root}/")
    return response


async def logout(request: Request) -> Response:
    root = request.scope.get("root_path", "")
    response = RedirectResponse(f"{root}/login", 303)
    response.delete_cookie(COOKIE, path=f"{root}/")
    return response


class MapEvents:
    """What a map shows, as events: subscriptions now and then, publications and notifications as they come, a few times a second."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        gateway = gateway_of(request)
        begun = False
        try:
            identity = await gateway.identify(request)
            gateway.throttle.take(who_of(request, identity))
            with gateway.throttle.stream(who_of(request, identity)):
                seen = await gateway.call(live.Publications, gateway.settings, gateway)
                try:
                    begun = True
                    await _send(gateway, identity, seen, receive, send)
                finally:
                    await gateway.call(seen.close)
        except Exception as error:
            if begun:
                raise
            await problem_of(error).response()(scope, receive, send)


async def _send(gateway: Gateway, identity: Identity, seen: live.Publications, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", EVENTS.encode())]})
    partitions = gateway.client._partitions_of(identity.name)
    positions = {p: gateway.hub.delivered[p] for p in partitions}
    listener = Listener(identity.name, positions, gateway.options.effective_limits.pending, patient=True)
    gone = asyncio.ensure_future(_until_gone(receive))
    drawn_at = 0.0
    told: deque[Any] = deque(maxlen=TOLD)
    try:
        with listening(gateway.hub, listener):
            while not gone.done() and not listener.ended:
                found: dict[str, Any] = {}
                if time.monotonic() - drawn_at > REDRAW:
                    drawn_at = time.monotonic()
                    found["subscriptions"] = await gateway.call(live.drawn, gateway, identity)
                found["publications"] = await gateway.call(seen.look, identity)
                while listener.has_more:
                    told.extend(listener.take())
                if told:
                    found["notifications"] = [_short(each) for each in told]
                    told.clear()
                if found["publications"] or len(found) > 1:
                    event = b"data: %b\n\n" % orjson.dumps(found)
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                await asyncio.wait([gone], timeout=STEP)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


def _short(delivered: Any) -> dict[str, Any]:
    fields = fields_of(delivered)
    return {name: fields[name] for name in ("phase", "subscription_id", "publication_id", "recipient_id")}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
