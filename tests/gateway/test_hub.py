"""One reader for all who listen: each gets what is its own, once and in order, whenever it comes and however slow it is."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator

import pytest

from pastforward import topics
from pastforward.broker import Broker
from pastforward.client import Client
from pastforward.client.tokens import read_token
from pastforward.gateway.hub import Hub
from pastforward.gateway.listeners import Listener
from pastforward.gateway.records import Delivered, fields_of, to_json_text
from pastforward.schemas import Content, Notification, encode
from pastforward.settings import Settings, load
from tests.outside import PATIENCE

RECIPIENTS = [f"r{number}" for number in range(6)]


def notification(recipient: str, number: int) -> Notification:
    name = uuid.uuid4().hex
    content = Content({"number": number, "text": "x" * 50})
    return Notification(name, "s", "0-0", f"p{number}", recipient, "subscriber", "1.4", 5, 6, "live", content=content)


class Feed:
    """The topic of notifications, written by the test."""

    def __init__(self, bootstrap: str) -> None:
        self.settings: Settings = load(
            {"topic_prefix": f"hub-{uuid.uuid4().hex[:8]}.", "partitions": 2}, environment={}
        )
        self.settings = load(
            {"topic_prefix": self.settings.topic_prefix, "partitions": 2, "bootstrap_servers": bootstrap},
            environment={},
        )
        topics.ensure(self.settings, topics.connect(self.settings, bootstrap))
        self.client = Client(settings=self.settings)
        self.sent: dict[str, list[int]] = {name: [] for name in RECIPIENTS}
        self._topic = topics.Topics(self.settings.topic_prefix).notifications
        self._count = 0

    def send(self, count: int, only: str | None = None) -> None:
        records = []
        for _ in range(count):
            recipient = only or random.choice(RECIPIENTS)
            self.sent[recipient].append(self._count)
            records.append((recipient, encode(notification(recipient, self._count))))
            self._count += 1
        self.client._send(self._topic, records)


@pytest.fixture
def feed(broker: Broker) -> Iterator[Feed]:
    found = Feed(broker.bootstrap)
    yield found
    found.client.close()


async def take(listener: Listener, enough: int, pause: float = 0.0) -> list[int]:
    got: list[int] = []
    while len(got) < enough and not listener.ended:
        await listener.wait()
        while listener.has_more:
            got += [fields_of(each)["content"]["attributes"]["number"] for each in listener.take(7)]
            await asyncio.sleep(pause)
    return got


@pytest.mark.broker
def test_whoever_comes_whenever_gets_its_own_once_and_in_order(feed: Feed) -> None:
    random.seed(1)

    async def run() -> None:
        feed.send(500)
        hub = Hub(feed.settings, feed.client)
        await hub.start()
        everything = dict.fromkeys(hub.delivered, 0)
        listening = []
        for step in range(8):
            await asyncio.to_thread(feed.send, 100)
            recipient = RECIPIENTS[step % len(RECIPIENTS)]
            for room in (1 << 20, 900):  # one has room for all of it, the other for a few at a time
                (partition,) = feed.client._partitions_of(recipient)
                listener = Listener(recipient, {partition: 0}, room, patient=True)
                hub.join(listener)
                listening.append((recipient, listener))
        everyone = Listener(None, everything, 2000, patient=True)
        hub.join(everyone)
        await asyncio.to_thread(feed.send, 300)
        total = sum(map(len, feed.sent.values()))
        jobs = [take(each, len(feed.sent[name])) for name, each in listening]
        found = await asyncio.wait_for(asyncio.gather(*jobs, take(everyone, total)), PATIENCE)
        for (name, _), got in zip(listening, found, strict=False):
            assert got == feed.sent[name]
        assert sorted(found[-1]) == list(range(total))
        for _, listener in listening:
            hub.leave(listener)
        hub.leave(everyone)
        assert not any(hub._live.values())
        assert not any(hub._behind.values())
        await hub.stop()

    asyncio.run(run())


@pytest.mark.broker
def test_a_slow_one_is_dropped_with_a_token_and_holds_up_nobody(feed: Feed) -> None:
    async def run() -> None:
        hub = Hub(feed.settings, feed.client)
        await hub.start()
        (partition,) = feed.client._partitions_of("r1")
        begin = {partition: hub.delivered[partition]}
        slow, quick = Listener("r1", begin, 3000), Listener("r1", begin, 1 << 20)
        hub.join(slow)
        hub.join(quick)
        await asyncio.to_thread(feed.send, 400, "r1")
        assert await asyncio.wait_for(take(quick, 400), PATIENCE) == feed.sent["r1"]
        assert slow.dropped
        got = [fields_of(each)["content"]["attributes"]["number"] for each in slow.take(20)]
        # it comes again with the token of the last that it was given, and has missed nothing
        again = Listener("r1", read_token(slow.token), 1 << 20)
        hub.leave(slow)
        hub.join(again)
        assert got + await asyncio.wait_for(take(again, 400 - len(got)), PATIENCE) == feed.sent["r1"]
        await hub.stop()

    asyncio.run(run())


def test_json_is_the_same_however_the_notification_was_written() -> None:
    record = notification("anna", 3)
    assert record.content is not None
    record.content.attributes |= {"n": float("nan"), "f": 1.5}
    record.content.body = b"abc\n"
    assert to_json_text(encode(record)) == encode(record, "json") == to_json_text(encode(record, "json"))
    spread = encode(record, "json").replace(b",", b",\n")
    assert b"\n" not in to_json_text(spread)
    assert fields_of(Delivered(0, 0, b"anna", encode(record)))["content"]["attributes"]["n"] == {"float": "NaN"}
