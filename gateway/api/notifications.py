"""`/v1/notifications`: as a stream of events, or a page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pastforward.client.tokens import read_token
from pastforward.errors import BrokerError
from pastforward.gateway.api.times import moment_of
from pastforward.gateway.context import Asked, Gateway, gateway_of, who_of
from pastforward.gateway.hub import Hub
from pastforward.gateway.identity import Identity
from pastforward.gateway.listeners import Listener, of_subscriptions
from pastforward.gateway.problems import Problem, problem_of
from pastforward.topics import Topics

EVENTS: Final = "text/event-stream"
RETRY: Final = 1000  # milliseconds until a browser connects again
PAGE: Final = 100
MOST: Final = 1000
LONGEST_WAIT: Final = 30
LOOK: Final = 0.05  # seconds until a page that has to wait looks again how far it has come
FAREWELL: Final = 5.0  # seconds that a connection that was dropped has to be told so
SUBSCRIPTIONS: Final = 100  # that one connection may choose


async def begin(gateway: Gateway, identity: Identity, connection: HTTPConnection) -> tuple[str | None, dict[int, int]]:
    """Whose notifications are asked for, and from where on."""
    query = connection.query_params
    given = query.get("recipient") or None
    if identity.name is not None and given not in (None, identity.name):
        raise Problem(403, "forbidden", f"the notifications of {given!r} are not yours: you are {identity.name!r}")
    recipient = identity.name or given
    after = connection.headers.get("last-event-id") or query.get("after") or None
    since = moment_of(query.get("since"), "since")
    hub = gateway.hub
    partitions = hub.partitions_of(recipient)
    token = None if after is None else read_token(after)
    if token is not None and hub.has(partitions, token):
        return recipient, token
    if token is None and since is None:
        return recipient, {p: hub.delivered[p] for p in partitions}
    return recipient, await gateway.call(_positions, gateway, partitions, since, token)


def _positions(
    gateway: Gateway, partitions: tuple[int, ...], since: int | None, token: dict[int, int] | None
) -> dict[int, int]:
    offsets = gateway.client.offsets
    name = Topics(gateway.settings.topic_prefix).notifications
    if token is None:
        return offsets.since(name, partitions, since or 0)
    try:
        return offsets.checked(name, partitions, token)
    except BrokerError:
        return token  # Kafka is away for the moment: whoever catches up waits for it


def chosen(connection: HTTPConnection) -> Any:
    """Of which subscriptions; None: of all."""
    names = connection.query_params.getlist("subscription")
    if len(names) > SUBSCRIPTIONS:
        raise Problem(
            400, "bad-request", f"{len(names)} subscriptions are named: at most {SUBSCRIPTIONS} can be chosen"
        )
    return of_subscriptions(frozenset(names)) if names else None


@contextmanager
def listening(hub: Hub, listener: Listener) -> Iterator[Listener]:
    hub.join(listener)
    try:
        yield listener
    finally:
        hub.leave(listener)


class Stream:
    """An ASGI application of its own: Starlette's response has four tasks a connection, and this has two."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        gateway = gateway_of(request)
        listener: Listener | None = None
        try:
            identity = await gateway.identify(request)
            gateway.throttle.take(who_of(request, identity))
            if EVENTS not in request.headers.get("accept", ""):
                response = await _page(Asked(request, gateway, identity))
                await response(scope, receive, send)
                return
            recipient, positions = await begin(gateway, identity, request)
            room, accept = gateway.options.effective_limits.pending, chosen(request)
            with gateway.throttle.stream(who_of(request, identity)):
                listener = Listener(recipient, positions, room, accept=accept)
                with listening(gateway.hub, listener):
                    await _send_events(gateway.hub, listener, receive, send)
        except Exception as error:
            if listener is not None:
                raise  # the answer has begun
            await problem_of(error).response()(scope, receive, send)


async def _send_events(hub: Hub, listener: Listener, receive: Receive, send: Send) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),  # nginx would keep events back
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    gone = asyncio.ensure_future(_disconnected(receive, listener))
    listener.on_drop = _ends_soon(asyncio.current_task())
    # the place before the first event, so that whoever is cut off before it misses nothing
    first = b"retry: %d\nid: %b\n\n" % (RETRY, listener.token.encode())
    try:
        await send({"type": "http.response.body", "body": first, "more_body": True})
        while not listener.ended:
            await listener.wait()
            while listener.has_more and not listener.ended:
                await send({"type": "http.response.body", "body": listener.events(), "more_body": True})
            if listener.take_beat() and not listener.ended:
                beat = b"id: %b\n\n" % hub.position_of(listener).encode()
                await send({"type": "http.response.body", "body": beat, "more_body": True})
        last = b"" if listener.closed else _farewell(listener)
        await send({"type": "http.response.body", "body": last, "more_body": False})
    finally:
        gone.cancel()


def _ends_soon(task: asyncio.Task[None] | None) -> Callable[[], None]:
    """A connection that takes nothing does not come to its farewell either."""

    def drop() -> None:
        if task is not None:
            asyncio.get_running_loop().call_later(FAREWELL, task.cancel)

    return drop


def _farewell(listener: Listener) -> bytes:
    return b"event: dropped\ndata: %b\n\n" % (listener.dropped or "").encode()


async def _disconnected(receive: Receive, listener: Listener) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.close()


async def _page(asked: Asked) -> Response:
    """What is there, up to `limit`; `wait`: seconds for the first, if there is none."""
    limit = asked.number("limit", PAGE, 1, MOST)
    wait = asked.number("wait", 0, 0, LONGEST_WAIT)
    recipient, positions = await begin(asked.gateway, asked.identity, asked.request)
    stream = await asked.gateway.call(_ends, asked.gateway, positions)
    listener = Listener(
        recipient, positions, asked.gateway.options.effective_limits.pending, accept=chosen(asked.request), patient=True
    )
    hub = asked.gateway.hub
    found: list[bytes] = []
    deadline = asyncio.get_running_loop().time() + (wait or LONGEST_WAIT)
    with asked.gateway.throttle.stream(asked.who), listening(hub, listener):
        while True:
            taken = listener.take(limit - len(found))
            found += [each.data for each in taken]
            token = hub.position_of(listener)
            there = all(listener.positions[p] >= end for p, end in stream.items())
            if len(found) >= limit or (there and not listener.has_more and (found or not wait)) or listener.ended:
                break
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(listener.wait(), min(left, LOOK))
    body = b'{"notifications":[%b],"token":"%b"}' % (b",".join(found), token.encode())
    return Response(body, 200, None, "application/json")


def _ends(gateway: Gateway, positions: dict[int, int]) -> dict[int, int]:
    name = Topics(gateway.settings.topic_prefix).notifications
    return gateway.client.offsets.ends(name, tuple(positions))
