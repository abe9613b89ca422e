"""`/v1/notifications/socket`: notifications by WebSocket, with acknowledgements.

A message is `{"token": …, "notification": {…}}`. Whoever listens answers `{"ack": token}`, which covers all before it; when `window` of
them are not acknowledged, no more are sent until some are. With `group`, a named reader keeps its position in Kafka: what was not
acknowledged comes again, here or in any other client of that group.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import orjson
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketDisconnect

from pastforward.client import AsyncStream, Notification
from pastforward.client.tokens import read_token
from pastforward.errors import UserError
from pastforward.gateway.api.notifications import begin, chosen, listening
from pastforward.gateway.api.times import instant_of
from pastforward.gateway.context import Gateway, gateway_of, who_of
from pastforward.gateway.hub import Hub
from pastforward.gateway.identity import Identity
from pastforward.gateway.listeners import Listener
from pastforward.gateway.problems import Problem, problem_of
from pastforward.schemas import encode

WINDOW: Final = 100  # notifications that may be without an acknowledgement, if nobody says otherwise
MOST: Final = 10_000
LAST_WORDS: Final = 0.5  # seconds
REASON: Final = 120  # bytes: a closing frame takes 123
CODES: Final = {400: 4400, 401: 4401, 403: 4403, 410: 4410, 422: 4422, 429: 4429}


async def socket(websocket: WebSocket) -> None:
    gateway = gateway_of(websocket)
    await websocket.accept()
    try:
        identity = await gateway.identify(websocket)
        gateway.throttle.take(who_of(websocket, identity))
        with gateway.throttle.stream(who_of(websocket, identity)):
            if websocket.query_params.get("group"):
                await _named(gateway, identity, websocket)
            else:
                await _plain(gateway, identity, websocket)
    except WebSocketDisconnect:
        return
    except Exception as error:
        await _close(websocket, problem_of(error))


async def _close(websocket: WebSocket, problem: Problem) -> None:
    """The last message says what a closing frame has no room for."""
    try:
        await websocket.send_text(orjson.dumps({"problem": problem.fields()}).decode())
        await websocket.close(CODES.get(problem.status, 1011), problem.detail.encode()[:REASON].decode(errors="ignore"))
    except (RuntimeError, WebSocketDisconnect):
        return  # it has gone


def _window(connection: HTTPConnection) -> int:
    text = connection.query_params.get("window") or str(WINDOW)
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise Problem(400, "bad-request", f"window is {text!r}: write a whole number from 1 to {MOST}")
    return int(text)


def _ack_of(text: str) -> str:
    try:
        found = orjson.loads(text)
        return str(found["ack"])
    except (ValueError, KeyError, TypeError) as error:
        raise Problem(400, "bad-request", f'{text[:80]!r} is no acknowledgement: send {{"ack": token}}') from error


class Window:
    """What was sent and is not acknowledged, in the order in which it was sent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sent: deque[tuple[str, Any]] = deque()
        self._open = asyncio.Event()
        self._open.set()

    async def room(self) -> int:
        await self._open.wait()
        return self._size - len(self._sent)

    def put(self, token: str, what: Any = None) -> None:
        self._sent.append((token, what))
        if len(self._sent) >= self._size:
            self._open.clear()

    def ack(self, token: str) -> Any:
        """The last that it covers. One that was acknowledged before has no effect."""
        if not any(token == each for each, _ in self._sent):
            read_token(token)
            return None
        what: Any = None
        while self._sent:
            each, what = self._sent.popleft()
            if each == token:
                break
        self._open.set()
        return what


async def _plain(gateway: Gateway, identity: Identity, websocket: WebSocket) -> None:
    window = Window(_window(websocket))
    recipient, positions = await begin(gateway, identity, websocket)
    room = gateway.options.effective_limits.pending
    # it asks for more by acknowledging: it may fall behind, and nothing is lost
    listener = Listener(recipient, positions, room, accept=chosen(websocket), patient=True)
    with listening(gateway.hub, listener):
        await websocket.send_text(orjson.dumps({"token": listener.token}).decode())
        await _both(_hear(websocket, window), _tell(gateway.hub, websocket, window, listener))
    if listener.dropped is not None:
        raise Problem(410, "token-expired", listener.dropped)


async def _both(hearing: Any, telling: Any) -> None:
    """Until one of them ends."""
    tasks = [asyncio.ensure_future(hearing), asyncio.ensure_future(telling)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0] not in done:
            await asyncio.wait(tasks[:1], timeout=LAST_WORDS)  # acknowledgements that came before the end
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hear(websocket: WebSocket, window: Window) -> None:
    while True:
        window.ack(_ack_of(await websocket.receive_text()))


async def _tell(hub: Hub, websocket: WebSocket, window: Window, listener: Listener) -> None:
    while not listener.ended:
        await listener.wait()
        while listener.has_more and not listener.ended:
            for each in listener.take(await window.room()):
                token = each.token if len(listener.positions) == 1 else listener.token_after(each)
                window.put(token)
                await websocket.send_text(_message(token, each.data.decode()))
        if listener.take_beat():
            await websocket.send_text(orjson.dumps({"token": hub.position_of(listener)}).decode())


async def _named(gateway: Gateway, identity: Identity, websocket: WebSocket) -> None:
    """By a Kafka consumer of its own, as the client library does it: so a group may have members here, at other gateways and elsewhere."""
    query = websocket.query_params
    recipient = identity.own(query.get("recipient"), "recipient")
    if query.get("after"):
        raise UserError("group keeps its position in Kafka: give no after")
    if gateway.named >= gateway.options.effective_limits.named_readers:
        raise Problem(429, "too-many", f"this gateway has {gateway.named} named readers: it takes no more", None)
    since = instant_of(query.get("since"), "since")
    window = Window(_window(websocket))
    gateway.named += 1
    try:
        async with gateway.stream_client.notifications(recipient, group=query["group"], since=since) as stream:
            await websocket.send_text(orjson.dumps({"group": query["group"]}).decode())
            acks = Acknowledgements(stream)
            try:
                await _both(_hear_named(websocket, window, acks), _tell_named(websocket, window, stream))
            finally:
                await acks.close()
    finally:
        gateway.named -= 1


class Acknowledgements:
    """On their way to Kafka, one at a time: the last of those that come meanwhile counts. None is lost at the end."""

    def __init__(self, stream: AsyncStream[Notification]) -> None:
        self._stream = stream
        self._last: Notification | None = None
        self._running: asyncio.Task[None] | None = None

    def put(self, notification: Notification) -> None:
        self._last = notification
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._last is not None:
            notification, self._last = self._last, None
            await self._stream.ack(notification)

    async def close(self) -> None:
        if self._running is not None:
            await self._running


async def _hear_named(websocket: WebSocket, window: Window, acks: Acknowledgements) -> None:
    while True:
        found = window.ack(_ack_of(await websocket.receive_text()))
        if found is not None:
            acks.put(found)


async def _tell_named(websocket: WebSocket, window: Window, stream: AsyncStream[Notification]) -> None:
    while True:
        await window.room()
        found = await stream.next(1.0)
        if found is not None:
            window.put(found.token, found)
            await websocket.send_text(_message(found.token, encode(found.record, "json").decode()))


def _message(token: str, data: str) -> str:
    return f'{{"token":"{token}","notification":{data}}}'
