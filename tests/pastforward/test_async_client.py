"""The client for asyncio does what the other one does, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from pastforward import AsyncClient, Circle, Client, ClientClosed, Notification, Point, Refused, SchemaError, UserError
from pastforward.broker import Broker
from pastforward.settings import Settings, load
from tests.conftest import StartWorker
from tests.outside import PATIENCE

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def system(broker: Broker, start_shared: StartWorker) -> tuple[str, Settings]:
    start_shared(topic_prefix="async.", partitions=2).wait_ready()
    return broker.bootstrap, load({"topic_prefix": "async."}, environment={})


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("pastforward")}


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 2 * PATIENCE))
    assert not threads()


def test_subscribe_publish_iterate(system: tuple[str, Settings]) -> None:
    async def main() -> None:
        async with AsyncClient(system[0], settings=system[1]) as client:
            await client.publish({"x": 1}, topic="1.1", publication_id="before")
            async with client.subscribe("x = 1", subscriber_id="anna", topic="1.1", starts_at="-10m") as handle:
                await handle.wait()
                first = await anext(handle)
                assert (first.publication_id, first.phase, first.subscription_id) == (
                    "before",
                    "past",
                    handle.subscription_id,
                )
                while not await handle.caught_up():
                    assert await handle.next(0.2) is None
                await asyncio.gather(
                    *(client.publish({"x": 1}, topic="1.1", publication_id=f"p{n}") for n in range(20))
                )
                found = set()
                async for notification in handle:
                    found.add(notification.publication_id)
                    if len(found) == 20:
                        break
                assert found == {f"p{n}" for n in range(20)}
                standing = await client.subscription(handle.subscription_id)
                assert standing is not None
                assert [each.subscription_id for each in await client.subscriptions("anna")] == [handle.subscription_id]
            assert await client.subscription(handle.subscription_id) is None
            told = [n async for n in client.notifications("anna", since="-10m", timeout=0.5)]
            assert len(told) == 21
            rest = client.notifications("anna", after=told[4].token, timeout=PATIENCE)
            assert [await anext(rest) for _ in range(16)] == told[5:]
            assert rest.token == told[-1].token

    run(main())


def test_what_a_cancelled_reader_has_read_is_not_lost(system: tuple[str, Settings]) -> None:
    async def main() -> None:
        async with AsyncClient(system[0], settings=system[1]) as client:
            handle = await client.subscribe(subscriber_id="ben", topic="2.1")
            await handle.wait()
            found: list[Notification] = []

            async def read() -> None:
                async for notification in handle:
                    found.append(notification)

            for number in range(20):
                task = asyncio.create_task(read())
                await client.publish({"x": 1}, topic="2.1", publication_id=f"p{number}")
                await asyncio.sleep(0.01 * (number % 5))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            while len(found) < 20:
                found.append(await anext(handle))
            assert sorted(each.publication_id for each in found) == sorted(f"p{number}" for number in range(20))

    run(main())


def test_a_task_that_is_cancelled_leaves_nothing_behind(system: tuple[str, Settings]) -> None:
    name = "cancelled-anywhere"

    async def program() -> None:
        async with (
            AsyncClient(system[0], settings=system[1]) as client,
            client.subscribe(subscriber_id="cleo", topic="3.1", subscription_id=name) as handle,
        ):
            async for _ in handle:
                pass

    async def main() -> None:
        for pause in (0.0, 0.001, 0.01, 0.1, 0.5):
            task = asyncio.create_task(program())
            await asyncio.sleep(pause)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with AsyncClient(system[0], settings=system[1]) as client:
            assert await client.subscription(name) is None

    run(main())


def test_errors_are_those_of_the_other_client(system: tuple[str, Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        client = AsyncClient(system[0], settings=system[1])
        with pytest.raises(SchemaError, match="at character 4"):
            await client.subscribe("x >", subscriber_id="anna")
        with pytest.raises(UserError, match="only a named reader acknowledges"):
            await client.notifications("anna").ack(None)  # type: ignore[arg-type]
        monkeypatch.setattr(client.client._rules, "accept", lambda *_: None)
        handle = await client.subscribe("x >", subscriber_id="anna")
        with pytest.raises(Refused):
            await handle.wait()
        with pytest.raises(Refused):
            await anext(handle)
        assert (await anext(client.refusals(timeout=PATIENCE))).name == handle.subscription_id
        await client.aclose()
        with pytest.raises(ClientClosed):
            await client.publish({"x": 1})
        with pytest.raises(ClientClosed):
            await client.subscribe(subscriber_id="anna")

    run(main())


def test_a_named_reader(system: tuple[str, Settings]) -> None:
    async def main() -> None:
        async with AsyncClient(system[0], settings=system[1]) as client:
            async with client.notifications("dora", group="g", timeout=PATIENCE) as stream:
                await client.subscribe(subscriber_id="dora", topic="4.1")
                handle = await client.subscribe(subscriber_id="probe", topic="4.1")
                await handle.wait()
                for name in ("a", "b", "c"):
                    await client.publish({"x": 1}, topic="4.1", publication_id=name)
                found = [await anext(stream) for _ in range(2)]
                assert await stream.ack(found[0])
            async with client.notifications("dora", group="g", timeout=PATIENCE) as stream:
                again = [await anext(stream) for _ in range(2)]
                assert again[0] == found[1]
                assert {each.publication_id for each in [found[0], *again]} == {"a", "b", "c"}

    run(main())


def test_many_subscriptions_and_names(system: tuple[str, Settings]) -> None:
    async def main() -> None:
        async with AsyncClient(system[0], settings=system[1]) as client:
            near = {"subscriber_id": "near", "near": Circle(0.0, 0.0, 500.0)}
            below = {"subscriber_id": "below", "topic": "roads/I-95"}
            first, second = await client.subscribe_many([near, below])
            assert first.subscription.topic.count(",") == 7
            async with first, second:
                await client.publish_many([{"at": Point(0.001, -0.001)}, {"topic": "roads/I-95/exit-4"}])
                assert await first.next(PATIENCE) is not None
                found = await second.next(PATIENCE)
                assert found is not None
                assert await client.names.name(found.topic) == "roads/I-95/exit-4"
                assert found.topic == await client.names.topic("roads/I-95/exit-4")
                assert await client.names.below("roads/I-95") == ["roads/I-95/exit-4"]
            assert await client.subscription(first.subscription_id) is None

    run(main())


def test_it_has_what_the_client_has() -> None:
    missing = {name for name in set(dir(Client)) - set(dir(AsyncClient)) if not name.startswith("_")}
    assert missing == {"check_sendable", "offsets", "registry", "workers"}  # of the inside
