"""Claims and senders, step by step; what they are for is in `test_faults`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    InvalidTxnState,
    KafkaError,
    NoBrokersAvailable,
    ProducerFenced,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)

from pastforward.settings import load
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.transport.connection import Connection
from pastforward.streams.worker import fencing as claims
from pastforward.streams.worker import sender as delivery
from pastforward.streams.worker.fencing import Claim, claim
from pastforward.streams.worker.sender import (
    TOGETHER,
    AtLeastOnce,
    Chunk,
    ExactlyOnce,
    Interrupted,
    Offsets,
    Transactions,
    is_interruption,
)

HERE, THERE, NEW = (TopicPartition("t", number) for number in range(3))
SETTINGS = load({}, environment={})
CONNECTION = Connection.of(SETTINGS, "nowhere:1")


def test_a_claim_fences_before_it_reads_and_is_written_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []
    at = {HERE: Claim(5, "dead"), THERE: Claim(7, ""), NEW: Claim(None, "")}

    async def fence(_: Connection, name: str) -> None:
        steps.append(("fence", name))
        at[HERE] = Claim(6, "dead")  # its last transaction was about to be committed

    async def read(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        steps.append("read")
        return {partition: at[partition] for partition in partitions}

    async def begin(found: dict[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        return {partition: 3 if offset is None else offset for partition, (offset, *_) in found.items()}

    async def commit(offsets: Offsets) -> None:
        steps.append(offsets)

    monkeypatch.setattr(claims, "fence", fence)
    found = asyncio.run(claim([HERE, THERE, NEW], "me", CONNECTION, read, begin, commit))
    assert found == {HERE: 6, THERE: 7, NEW: 3}
    assert steps == ["read", ("fence", "dead"), "read", {HERE: (6, "me"), THERE: (7, "me"), NEW: (3, "me")}]


def test_a_worker_without_partitions_claims_nothing() -> None:
    async def read(_: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        return {}

    async def begin(_: dict[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        return {}

    async def never(_: Offsets) -> None:
        raise AssertionError("there is nothing to commit")

    assert asyncio.run(claim([], "me", CONNECTION, read, begin, never)) == {}


def transactions() -> Transactions:
    return Transactions(SETTINGS, "g", CONNECTION, "me", {"t": "id-of-t"})


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (asyncio.sleep(60), "not come to an end"),
        (ProducerFenced(), "ProducerFenced"),
        (RequestTimedOutError(), "RequestTimedOutError"),
    ],
)
def test_a_sender_whose_transaction_was_cut_off_goes_on_saying_why(what: Any, said: str) -> None:
    async def run() -> None:
        made = transactions()
        sender = ExactlyOnce(made)
        made._limit = 0.01
        attempts = []

        async def attempt(*_: object) -> None:
            attempts.append(1)
            if isinstance(what, Exception):
                raise what
            await what

        made._attempt = attempt  # type: ignore[method-assign]
        for _ in range(2):  # the second does not say that a transaction is open
            with pytest.raises(Interrupted, match=said):
                await sender.send(Chunk(HERE, Outgoing(), 1))
        assert len(attempts) == 1
        await sender.stop()

    asyncio.run(run())


def test_what_no_other_sender_could_mend_is_an_error_as_it_is() -> None:
    async def run() -> None:
        made = transactions()

        async def attempt(*_: object) -> None:
            raise TopicAuthorizationFailedError("t")

        made._attempt = attempt  # type: ignore[method-assign]
        with pytest.raises(TopicAuthorizationFailedError):
            await ExactlyOnce(made).send(Chunk(HERE, Outgoing(), 1))

    asyncio.run(run())


def test_the_cause_counts_where_aiokafka_has_wrapped_it() -> None:
    wrapped = KafkaError("Unexpected error during batch delivery")
    assert not is_interruption(wrapped)
    wrapped.__cause__ = InvalidTxnState()
    assert is_interruption(wrapped)
    assert not is_interruption(ValueError())


@pytest.mark.parametrize(
    "begin",
    [
        lambda: transactions().start(),
        lambda: AtLeastOnce(transactions(), CONNECTION, "rendezvous").start(),
        lambda: claims.fence(CONNECTION, "dead"),
    ],
)
def test_a_broker_that_its_cluster_has_not_taken_back_is_waited_for(
    begin: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, and names no broker: not even itself."""

    async def bootstrap(_: Any) -> None:
        """As aiokafka's, with the answer of such a broker."""

    monkeypatch.setattr(AIOKafkaClient, "bootstrap", bootstrap)

    async def run() -> None:
        with pytest.raises(NoBrokersAvailable) as caught:
            await begin()
        assert is_interruption(caught.value)

    asyncio.run(run())


def test_what_is_ready_during_a_transaction_goes_into_the_next_one() -> None:
    seen: list[list[Chunk]] = []

    async def run() -> None:
        sender = ExactlyOnce(transactions())

        async def transaction(chunks: list[Chunk]) -> None:
            seen.append(chunks)
            await asyncio.sleep(0.01)
            if len(seen) == 3:
                raise ValueError("the third one fails")

        sender._joined._do = transaction
        first = asyncio.create_task(sender.send(Chunk(HERE, Outgoing(), 1)))
        await asyncio.sleep(0)
        large = Outgoing()
        large.outputs["t", 0] = [(None, b"")] * TOGETHER
        chunks = [Chunk(HERE, Outgoing(), 2), Chunk(THERE, Outgoing(), 1), Chunk(NEW, large, 1), Chunk(NEW, large, 2)]
        others = [asyncio.create_task(sender.send(chunk)) for chunk in chunks]
        await first
        ends = await asyncio.gather(*others, return_exceptions=True)
        assert [str(end) for end in ends] == ["None", "None", "None", "the third one fails"]
        await sender.send(Chunk(HERE, Outgoing(), 3))

    asyncio.run(run())
    assert [[(c.partition.partition, c.offset) for c in each] for each in seen] == [
        [(0, 1)],
        [(0, 2), (1, 1), (2, 1)],
        [(2, 2)],
        [(0, 3)],
    ]


def test_exactly_once_nothing_is_sent_before_its_transaction_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a chunk goes on when all of it is there for others to read, and not when it is on its way."""
    steps: list[str] = []
    gates: dict[str, asyncio.Future[None]] = {}

    async def step(name: str) -> None:
        steps.append(name)
        gates[name] = asyncio.get_running_loop().create_future()
        await gates[name]

    class Producer:
        _txn_manager = _sender = SimpleNamespace(maybe_add_partition_to_txn=lambda _: None, sender_task=None)

        async def begin_transaction(self) -> None:
            await step("begin")

        async def send_offsets_to_transaction(self, offsets: Offsets, _: str) -> None:
            await step(f"offset {offsets[HERE][0]}")

        async def commit_transaction(self) -> None:
            await step("commit")

    async def queue(_: object, batches: Iterable[tuple[tuple[str, int], object]]) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(step(topic)) for (topic, _), _ in batches]

    async def run() -> None:
        made = transactions()
        made._producer = Producer()
        monkeypatch.setattr(delivery, "queue", queue)
        outgoing = Outgoing()
        outgoing.send("out", (0,), b"k", b"v")
        outgoing.log("log", 0, b"k", b"v")
        sending = asyncio.create_task(ExactlyOnce(made).send(Chunk(HERE, outgoing, 5)))
        for together in (["begin"], ["log", "offset 5", "out"], ["commit"]):
            for name in together:
                await asyncio.sleep(0.001)
                assert sorted(steps[-len(together) :]) == together
                assert not sending.done()
                gates[name].set_result(None)
        await sending

    asyncio.run(run())


def test_at_least_once_outputs_leave_at_once_and_in_order_then_changelog_and_offset_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[object] = []

    class Producer:
        """In place of the transactional one."""

        _txn_manager = _sender = SimpleNamespace(maybe_add_partition_to_txn=lambda _: None, sender_task=None)

        async def begin_transaction(self) -> None:
            steps.append("begin")

        async def send_offsets_to_transaction(self, offsets: Offsets, _: str) -> None:
            steps.append(offsets)

        async def commit_transaction(self) -> None:
            steps.append("commit")

    async def run() -> None:
        acknowledged: list[asyncio.Future[None]] = []

        async def queue(
            producer: object, batches: Iterable[tuple[tuple[str, int], list[tuple[bytes, bytes]]]]
        ) -> list[asyncio.Future[None]]:
            futures = []
            for place, records in batches:
                assert (producer is sender._routing) == (place[0] == "rendezvous")
                assert (producer is fenced._producer) == (place[0] == "log")
                steps.append((place, records))
                futures.append(asyncio.get_running_loop().create_future())
            acknowledged.extend(futures)
            return futures

        fenced = transactions()
        fenced._producer = Producer()
        sender = AtLeastOnce(fenced, CONNECTION, "rendezvous")
        monkeypatch.setattr(delivery, "queue", queue)

        def chunk(partition: TopicPartition, number: int) -> Chunk:
            outgoing = Outgoing()
            outgoing.send("out", (0,), b"k", b"%d" % number)
            if number == 7:
                outgoing.send("rendezvous", (1,), b"k", b"%d" % number)
            outgoing.log("log", 0, b"s%d" % number, b"")
            outgoing.log("log", 0, b"progress", b"%d" % number)
            return Chunk(partition, outgoing, number)

        sends = [asyncio.create_task(sender.send(chunk(HERE, 1))), asyncio.create_task(sender.send(chunk(THERE, 7)))]
        await asyncio.sleep(0.01)
        sends.append(asyncio.create_task(sender.send(chunk(HERE, 2))))
        await asyncio.sleep(0.01)
        assert not any(sent.done() for sent in sends)
        for future in acknowledged:
            future.set_result(None)
        await asyncio.gather(*sends)
        flushing = asyncio.create_task(sender.flush(HERE))
        await asyncio.sleep(0.01)
        assert not flushing.done()
        acknowledged[-1].set_result(None)
        await flushing
        await sender.flush(HERE)  # there is nothing more
        await sender.send(Chunk(HERE, Outgoing(), None))
        await sender.flush(HERE)  # a tick leaves nothing to be flushed

    asyncio.run(run())
    assert steps == [
        (("rendezvous", 1), [(b"k", b"7")]),
        (("out", 0), [(b"k", b"1"), (b"k", b"7")]),
        (("out", 0), [(b"k", b"2")]),
        "begin",
        # a batch that is cut off must not tell of more than it holds
        (("log", 0), [(b"s1", b""), (b"s2", b""), (b"progress", b"2")]),
        {HERE: (2, "me t=id-of-t")},
        "commit",
    ]
