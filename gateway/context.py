"""What all requests of a gateway share, and how a request becomes a call: who asks, may they, and what became of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import orjson
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from pastforward.client import AsyncClient, Client
from pastforward.gateway.hub import Hub
from pastforward.gateway.idempotency import Answers
from pastforward.gateway.identity import Authenticator, Identity
from pastforward.gateway.limits import Throttle
from pastforward.gateway.options import GatewayOptions
from pastforward.gateway.problems import Problem, problem_of
from pastforward.gateway.standings import Standings
from pastforward.settings import Settings

T = TypeVar("T")

THREADS: Final = 16  # for calls that wait for an answer of the broker
DEAR: Final = 2  # requests at once that read whole topics: the others wait
STRANGER: Final = "open"

Call = Callable[["Asked"], Awaitable[Response]]


@dataclass(slots=True)
class Gateway:
    settings: Settings
    options: GatewayOptions
    stream_client: AsyncClient
    hub: Hub
    standings: Standings
    authenticator: Authenticator
    throttle: Throttle
    answers: Answers = field(default_factory=Answers)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "pastforward-gateway"))
    named: int = 0  # readers with a Kafka consumer of their own
    dear: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DEAR))

    @property
    def client(self) -> Client:
        return self.stream_client.client

    async def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """In a thread."""
        call = functools.partial(function, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    async def call_dear(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        async with self.dear:
            return await self.call(function, *arguments, **options)

    async def identify(self, connection: HTTPConnection) -> Identity:
        if not self.authenticator.asks:
            return self.authenticator.identify(connection)
        return await self.call(self.authenticator.identify, connection)


def gateway_of(connection: HTTPConnection) -> Gateway:
    return cast(Gateway, connection.app.state.gateway)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and who it is of."""

    request: Request
    gateway: Gateway
    identity: Identity

    @property
    def who(self) -> str:
        return who_of(self.request, self.identity)

    def text(self, name: str) -> str | None:
        found = self.request.query_params.get(name)
        return found or None

    def required(self, name: str) -> str:
        found = self.request.query_params.get(name)
        if not found:
            raise Problem(400, "bad-request", f"the address has no ?{name}=…")
        return found

    def number(self, name: str, usual: int, low: int, high: int) -> int:
        text = self.request.query_params.get(name)
        if text is None or text == "":
            return usual
        if not text.isdecimal() or not low <= int(text) <= high:
            raise Problem(400, "bad-request", f"{name} is {text!r}: write a whole number from {low} to {high}")
        return int(text)

    def choice(self, name: str, usual: str | None, *choices: str) -> Any:
        text = self.request.query_params.get(name) or usual
        if text is not None and text not in choices:
            raise Problem(400, "bad-request", f"{name} is {text!r}: write one of {', '.join(choices)}")
        return text

    def flag(self, name: str) -> bool:
        return bool(self.choice(name, "false", "true", "false", "1", "0") in ("true", "1"))

    @property
    def path_id(self) -> str:
        return str(self.request.path_params["name"])

    async def body(self) -> bytes:
        return await read_body(self.request, self.gateway.options.effective_limits.body)

    async def object(self) -> dict[str, Any]:
        return object_of(await self.body())


def who_of(request: HTTPConnection, identity: Identity) -> str:
    """Whose limits count: one's own, or those of the address that an open gateway is asked from."""
    if identity.name is not None:
        return identity.name
    return STRANGER if request.client is None else request.client.host


async def read_body(request: Request, most: int) -> bytes:
    """Ends as soon as there is too much of it, whatever its length was said to be."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Problem(413, "too-large", f"the body has more than {most:,} bytes: at most so many are taken")
        parts.append(part)
    return b"".join(parts)


def object_of(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except ValueError as error:
        raise Problem(400, "bad-request", f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem(400, "bad-request", "the body is no JSON object")
    return found


def answer(fields: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(fields, default=str), status, headers, "application/json")


def endpoint(call: Call) -> Callable[[Request], Awaitable[Response]]:
    return answering(call, lambda _, error: problem_of(error).response())


def answering(call: Call, failed: Callable[[Request, Exception], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Calls it for who asks, within the limits of that identity; whatever is raised is answered by `failed`."""

    async def handle(request: Request) -> Response:
        gateway = gateway_of(request)
        try:
            identity = await gateway.identify(request)
            asked = Asked(request, gateway, identity)
            gateway.throttle.take(asked.who)
            return await call(asked)
        except Exception as error:
            return failed(request, error)

    return functools.wraps(call)(handle)
