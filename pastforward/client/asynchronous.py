"""The client for asyncio: the same names, with `await`, `async with` and `async for`. Behind it is a `Client`, so properties mean the same.

librdkafka waits in threads of its own. Calls that wait for an answer run in a few threads of the client, and each open stream has one. What
a stream has read while its reader was cancelled is given to the next `async for`: nothing is lost.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast

from pastforward.client.client import Client
from pastforward.client.group import GroupStream
from pastforward.client.handle import Handle
from pastforward.client.notification import Notification
from pastforward.client.stream import Stream
from pastforward.client.tokens import write_token
from pastforward.errors import PastforwardError, UserError
from pastforward.schemas import Registry, Subscription
from pastforward.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

THREADS: Final = 8  # for calls that wait for an answer of the broker
WAIT: Final = 0.2  # seconds of a single look at a stream: as soon is its end seen
BATCH: Final = 500  # of a stream, what is handed over from its thread at once


class Source(Protocol[T]):
    """A `Stream` or a `Handle`: what an `AsyncStream` needs of it."""

    @property
    def positions(self) -> dict[int, int]: ...
    @property
    def ended(self) -> bool: ...
    def take(self, most: int, timeout: float) -> list[T]: ...
    def close(self) -> None: ...


class AsyncStream(Generic[T]):
    """As `Stream`. It is opened by `async for`, `async with` or `await`, whichever comes first: from then on nothing is missed."""

    def __init__(self, client: AsyncClient, open_stream: Callable[[], Source[T]], timeout: float | None = None) -> None:
        self._client, self._open, self._timeout = client, open_stream, timeout
        self._thread = ThreadPoolExecutor(1, "pastforward-stream")
        self._stream: Source[T] | None = None
        self._opening: Future[Source[T]] | None = None
        self._reading: Future[list[T]] | None = None
        self._ready: deque[T] = deque()
        self._positions: dict[int, int] = {}
        client._open_ones.add(self)

    async def opened(self) -> AsyncStream[T]:
        if self._stream is None:
            self._client._check_usable()
            if self._opening is None:
                self._opening = self._thread.submit(self._open)
            self._stream = await _shielded(self._opening)
            self._positions = self._stream.positions
        return self

    def __await__(self) -> Generator[Any, None, AsyncStream[T]]:
        return self.opened().__await__()

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> T:
        found = await self.next(self._timeout)
        if found is None:
            await self.aclose()
            raise StopAsyncIteration
        return found

    async def next(self, timeout: float | None = 0.0) -> T | None:
        """The next one, if it comes within `timeout` seconds; None: none has, and the stream goes on."""
        await self.opened()
        assert self._stream is not None
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while not self._ready:
            if self._stream.ended:
                return None
            if self._reading is None:
                self._reading = self._thread.submit(self._stream.take, BATCH, WAIT)
            left = None if deadline is None else max(0.0, deadline - loop.time())
            done, _ = await asyncio.wait([asyncio.wrap_future(self._reading)], timeout=left)
            if not done:
                return None  # what the thread finds is the next one's
            self._ready.extend(self._taken())
            if not self._ready:
                self._positions = self._stream.positions
                if deadline is not None and loop.time() >= deadline:
                    return None
        found = self._ready.popleft()
        if isinstance(found, Notification):
            partition, offset = found.place
            self._positions[partition] = offset + 1
        return found

    def _taken(self) -> list[T]:
        assert self._reading is not None
        reading, self._reading = self._reading, None
        return reading.result()

    @property
    def token(self) -> str:
        """The place behind what was read last, for `after=`."""
        if self._stream is None:
            raise UserError("the stream is not open yet: await it first")
        return write_token(self._positions)

    async def ack(self, notification: Notification) -> bool:
        """Of a named reader: this one and all before it are done."""
        await self.opened()
        stream: object = self._stream
        if not isinstance(stream, GroupStream):
            raise UserError("only a named reader acknowledges: give notifications(recipient, group=…)")
        return await _shielded(self._thread.submit(stream.ack, notification))

    async def aclose(self) -> None:
        if self._stream is not None:
            self._stream.close()
        await asyncio.get_running_loop().run_in_executor(None, partial(self._thread.shutdown, cancel_futures=True))
        if self._stream is not None:
            self._stream.close()  # what was in the middle of a look has ended
        self._client._open_ones.discard(self)

    async def __aenter__(self) -> AsyncStream[T]:
        return await self.opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncHandle(AsyncStream[Notification]):
    """As `Handle`. `async with client.subscribe(…) as handle` withdraws it at the end; `await client.subscribe(…)` leaves it."""

    def __init__(self, client: AsyncClient, send: Callable[[], Handle], sent: Handle | None = None) -> None:
        super().__init__(client, self._begin)
        self._send = send
        self._handle = sent

    def _begin(self) -> Any:
        self._handle = self._send()
        return self._handle

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise UserError("the subscription is not sent yet: await it first")
        return self._handle

    async def opened(self) -> AsyncHandle:
        await super().opened()
        return self

    def __await__(self) -> Generator[Any, None, AsyncHandle]:
        return self.opened().__await__()

    async def __aenter__(self) -> AsyncHandle:
        return await self.opened()

    @property
    def subscription(self) -> Subscription:
        return self.handle.subscription

    @property
    def subscription_id(self) -> str:
        return self.handle.subscription_id

    @property
    def version(self) -> str:
        return self.handle.version

    async def wait(self, timeout: float | None = 30.0) -> None:
        """Returns when the router has taken it; raises `Refused` or `NotTaken`."""
        await self._client._call(self.handle.wait, timeout)

    async def caught_up(self) -> bool:
        """Whether all that was there before it has been read from this handle."""
        return await self._client._call(self.handle.caught_up_at, dict(self._positions))

    async def replace(self, **changes: Any) -> None:
        await self._client._call(partial(self.handle.replace, **changes))

    async def pause(self) -> None:
        await self._client._call(self.handle.pause)

    async def resume(self) -> None:
        await self._client._call(self.handle.resume)

    async def extend(self, ends_at: Any) -> None:
        await self._client._call(self.handle.extend, ends_at)

    async def unsubscribe(self) -> None:
        await self._client._call(self.handle.unsubscribe)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        if self._handle is None and self._opening is not None and not self._opening.cancelled():
            await asyncio.wait([asyncio.wrap_future(self._opening)])  # it was cancelled while it was being sent
        if self._handle is not None:
            try:
                await self.unsubscribe()
            except PastforwardError:
                if kind is None:
                    raise


def _named(called: F, method: Callable[..., Any]) -> F:
    return cast(F, update_wrapper(called, method))


def _call(method: Callable[Concatenate[Client, P], R]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """The method of that name, awaited."""

    async def called(self: AsyncClient, /, *arguments: P.args, **options: P.kwargs) -> R:
        return await self._call(partial(method, self.client, *arguments, **options))

    return _named(called, method)


def _stream(
    method: Callable[Concatenate[Client, P], Stream[T]],
) -> Callable[Concatenate[AsyncClient, P], AsyncStream[T]]:
    def called(self: AsyncClient, /, *arguments: P.args, **options: P.kwargs) -> AsyncStream[T]:
        timeout: Any = options.pop("timeout", None)
        return AsyncStream(self, partial(method, self.client, *arguments, **options), timeout)

    return _named(called, method)


def _subscription(
    method: Callable[Concatenate[Client, P], Handle],
) -> Callable[Concatenate[AsyncClient, P], AsyncHandle]:
    def called(self: AsyncClient, /, *arguments: P.args, **options: P.kwargs) -> AsyncHandle:
        return AsyncHandle(self, partial(method, self.client, *arguments, **options))

    return _named(called, method)


class AsyncNames:
    """As `Names`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def topic(self, name: str) -> str:
        return await self._client._call(self._client.client.names.topic, name)

    async def name(self, path: str) -> str | None:
        return await self._client._call(self._client.client.names.name, path)

    async def below(self, name: str = "") -> list[str]:
        return await self._client._call(self._client.client.names.below, name)


def _itself(handle: Handle) -> Handle:
    return handle


class AsyncClient:
    """As `Client`. Cancelling a call that writes does not take back what is on its way; closing waits for it."""

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.client = Client(bootstrap_servers, settings=settings, registry=registry)
        self._threads = ThreadPoolExecutor(THREADS, "pastforward-client")
        self._open_ones: weakref.WeakSet[AsyncStream[Any]] = weakref.WeakSet()

    subscribe = _subscription(Client.subscribe)
    replace = _subscription(Client.replace)
    extend = _subscription(Client.extend)
    pause = _subscription(Client.pause)
    resume = _subscription(Client.resume)
    unsubscribe = _call(Client.unsubscribe)
    subscriptions = _call(Client.subscriptions)
    subscription = _call(Client.subscription)
    publish = _call(Client.publish)
    publish_many = _call(Client.publish_many)
    publication = _call(Client.publication)
    try_condition = _call(Client.try_condition)
    best_offers = _stream(Client.best_offers)
    refusals = _stream(Client.refusals)
    fault = _call(Client.fault)
    resend = _call(Client.resend)

    def notifications(self, recipient_id: str | None = None, **options: Any) -> AsyncStream[Notification]:
        """As `Client.notifications`, with the same options."""
        timeout = options.pop("timeout", None)
        return AsyncStream(self, partial(self.client.notifications, recipient_id, **options), timeout)

    async def subscribe_many(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> list[AsyncHandle]:
        """As `Client.subscribe_many`. They are sent when this returns; each handle may be iterated, and `async with` withdraws it."""
        sent = await self._call(self.client.subscribe_many, subscriptions)
        return [AsyncHandle(self, partial(_itself, handle), handle) for handle in sent]

    @property
    def names(self) -> AsyncNames:
        """As `Client.names`."""
        return AsyncNames(self)

    async def dead_letters(self, since: Any = None) -> list[Any]:
        """As `Client.dead_letters`, all at once."""
        return await self._call(lambda: list(self.client.dead_letters(since)))

    @property
    def bootstrap_servers(self) -> str:
        """As of `Client`."""
        return self.client.bootstrap_servers

    async def _call(self, function: Callable[..., R], *arguments: Any) -> R:
        self._check_usable()
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _check_usable(self) -> None:
        self.client._check_open("the client was used")

    async def aclose(self) -> None:
        """Ends all streams, sends what waits, or raises `DeliveryError`."""
        for stream in list(self._open_ones):
            await stream.aclose()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._threads.shutdown)
        await loop.run_in_executor(None, self.client.close)

    close = aclose

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _shielded(future: Future[R]) -> R:
    """Cancelling who waits does not cancel what is waited for."""
    return await asyncio.shield(asyncio.wrap_future(future))
