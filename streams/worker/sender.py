"""How the outputs of chunks and the offsets of their inputs become one thing.

Exactly once: one transaction, begun when outputs are ready (an open one stalls every reader), with outputs, changelog and offset in it. A
worker has one sender for all its partitions: whatever is ready while a transaction runs goes into the next, since a transaction costs the
broker as much as thousands of records. How an owner that is not one any more is kept from committing, `streams.worker.fencing` tells.
At least once: outputs at once, and when they are safe, now and then, one transaction with changelog and offset: whatever is cut off is done
again. So a changelog has one writer in this mode, too: an owner of the past is fenced.

A sender that has failed stays failed, with the first cause: what it was sending may or may not be safe, and only who takes the partitions
over anew, with a sender of another name, knows (`Interrupted`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)

from pastforward.columns.times import SECOND
from pastforward.settings import Settings
from pastforward.streams.stages.outgoing import Outgoing, Records
from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.producer import (
    Batches,
    add_to_transaction,
    failure_of,
    give_up,
    make_producer,
    queue,
    start,
)
from pastforward.streams.worker.offset_metadata import mark

log = logging.getLogger("pastforward.worker")

LEAST_LIMIT: Final = 10.0  # seconds that a transaction may take
TOGETHER: Final = 200_000  # records in a transaction, unless one chunk alone has more
TOGETHER_BYTES: Final = 64 << 20  # of their values


# What a producer says whose transaction the broker has given up, or that somebody has fenced. Another one can go on.
_OVER: Final = (
    ProducerFenced,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)


Offsets = dict[TopicPartition, tuple[int, str]]
Commit = Callable[[Offsets], Awaitable[None]]


class Interrupted(KafkaError):
    """The sender is of no use any more, through no fault of the records: the partitions are to be taken over again."""

    def __str__(self) -> str:
        return str(self.args[0])


def is_interruption(error: BaseException | None) -> bool:
    """Whether a broker that was away, or another owner, is the cause, so that taking over again mends it."""
    if isinstance(error, (Interrupted, *_OVER)):
        return True
    if isinstance(error, KafkaError):
        return bool(error.retriable) or is_interruption(error.__cause__)
    return False


def _kind(error: BaseException) -> str:
    return type(error.__cause__ or error).__name__


class Sender(Protocol):
    """For all partitions that a worker owns, from one takeover to the next. `name` is in the metadata of the offsets that it commits."""

    name: str

    async def start(self) -> None: ...

    async def send(self, chunk: Chunk) -> None:
        """Returns when what others read is safe at the broker. Of a partition chunks are sent in the order of the calls."""

    async def flush(self, partition: TopicPartition) -> None:
        """Returns when changelog and offset of all that was sent are safe, too."""

    async def stop(self) -> None:
        """Lets what is under way end, unless the sender has failed."""


def make_sender(
    settings: Settings, group: str, connection: Connection, name: str, rendezvous: str, topic_ids: Mapping[str, str]
) -> Sender:
    transactions = Transactions(settings, group, connection, name, topic_ids)
    if settings.delivery == "exactly-once":
        return ExactlyOnce(transactions)
    return AtLeastOnce(transactions, connection, rendezvous)


class Chunk(NamedTuple):
    """What a chunk of a partition has led to. `offset` None: there is none to commit. `arrived_at`: the highest one below it."""

    partition: TopicPartition
    outgoing: Outgoing
    offset: int | None
    arrived_at: int = 0


class _Joined:
    """Does something for many at once: whoever comes while it is being done waits for the next time. All get what it returns."""

    def __init__(self, do: Callable[[list[Chunk]], Awaitable[Any]]) -> None:
        self._do = do
        self._waiting: list[tuple[Chunk, asyncio.Future[Any]]] = []
        self._running: asyncio.Task[None] | None = None

    async def put(self, chunk: Chunk) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((chunk, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await done

    async def _run(self) -> None:
        while self._waiting:
            together = self._next()
            error: BaseException | None = None
            result = None
            try:
                result = await self._do([chunk for chunk, _ in together])
            except BaseException as failed:
                error = failed
            for _, done in together:
                if done.done():
                    continue  # nobody waits for it any more
                if error is None:
                    done.set_result(result)
                else:
                    done.set_exception(error)
        self._running = None

    def _next(self) -> list[tuple[Chunk, asyncio.Future[Any]]]:
        count = records = nbytes = 0
        for chunk, _ in self._waiting:
            records += chunk.outgoing.count
            nbytes += chunk.outgoing.nbytes
            if count and (records > TOGETHER or nbytes > TOGETHER_BYTES):
                break
            count += 1
        together, self._waiting = self._waiting[:count], self._waiting[count:]
        return together


class Transactions:
    """The transactions of one producer, one after the other, each with the offsets of what led to it."""

    def __init__(
        self, settings: Settings, group: str, connection: Connection, name: str, topic_ids: Mapping[str, str]
    ) -> None:
        # An owner that hangs must not stall readers for much longer than the group tolerates it; but a busy machine needs its time.
        self._limit = max(settings.session_timeout / SECOND, LEAST_LIMIT)
        self._producer = make_producer(
            connection, transactional_id=name, transaction_timeout_ms=int(1000 * self._limit)
        )
        self.name = name
        self._group = group
        self._topic_ids = topic_ids
        self.failure: Interrupted | None = None

    async def start(self) -> None:
        await start(self._producer)

    async def stop(self) -> None:
        if self.failure is None:
            await self._producer.stop()
        else:
            give_up(self._producer)

    async def run(self, batches: Callable[[Outgoing], Iterable[Batches]], chunks: list[Chunk]) -> None:
        """`batches`: what of the joined chunks goes into the transaction."""
        if self.failure is not None:
            raise self.failure
        try:
            self._check()
            async with asyncio.timeout(2 * self._limit):
                await self._attempt(batches, chunks)
        except TimeoutError:
            # what the broker has given up after half of that, aiokafka would try for ever
            self.failure = Interrupted(f"a transaction has not come to an end within {2 * self._limit:.0f} s")
            raise self.failure from None
        except Exception as error:
            if not is_interruption(error):
                raise
            self.failure = Interrupted(f"a transaction was cut off ({_kind(error)})")
            raise self.failure from error

    def _offsets(self, chunks: list[Chunk]) -> Offsets:
        return {
            chunk.partition: (chunk.offset, mark(self.name, self._topic_ids, chunk.arrived_at))
            for chunk in chunks
            if chunk.offset is not None
        }

    def _check(self) -> None:
        """A producer that has died between two transactions would only say that no other can begin."""
        error = failure_of(self._producer)
        if error is not None:
            raise error

    async def _attempt(self, batches: Callable[[Outgoing], Iterable[Batches]], chunks: list[Chunk]) -> None:
        producer = self._producer
        together = [
            [(place, records) for place, records in some]
            for some in batches(Outgoing.joined(chunk.outgoing for chunk in chunks))
        ]
        offsets = self._offsets(chunks)
        if not offsets and not any(together):
            return
        await producer.begin_transaction()
        # All partitions at once: one request adds them to the transaction, and one carries the records. Sent one by one, the first
        # would leave alone. The offsets go beside the records.
        add_to_transaction(producer, (place for some in together for place, _ in some))
        waiting: list[Awaitable[Any]] = []
        for some in together:
            waiting += await queue(producer, some)
        if offsets:
            waiting.append(producer.send_offsets_to_transaction(offsets, self._group))
        if waiting:
            await asyncio.gather(*waiting)
        await producer.commit_transaction()


def _outputs_and_changelog(outgoing: Outgoing) -> Iterable[Batches]:
    return [*outgoing.outputs.items(), *outgoing.frames.items()], outgoing.changelog.items()


def _latest_changelog(outgoing: Outgoing) -> Iterable[Batches]:
    return [[(place, _last_of_each_key(records)) for place, records in outgoing.changelog.items()]]


class ExactlyOnce:
    def __init__(self, transactions: Transactions) -> None:
        self.name = transactions.name
        self._transactions = transactions
        self._joined = _Joined(self._send)

    async def start(self) -> None:
        await self._transactions.start()

    async def stop(self) -> None:
        await self._transactions.stop()

    async def send(self, chunk: Chunk) -> None:
        await self._joined.put(chunk)

    async def flush(self, partition: TopicPartition) -> None:
        """They were in the transactions."""

    async def _send(self, chunks: list[Chunk]) -> None:
        await self._transactions.run(_outputs_and_changelog, chunks)


class AtLeastOnce:
    """Outputs leave at once, those of all chunks that are ready together; changelog and offset follow when the partition is flushed.

    The rendezvous log has a producer of its own: aiokafka has one request under way to a broker, and what the router writes would wait
    until the broker has what the matcher wrote, and the other way round.
    """

    def __init__(self, transactions: Transactions, connection: Connection, rendezvous: str) -> None:
        self.name = transactions.name
        self._rendezvous = rendezvous
        self._routing, self._notifying = (make_producer(connection, enable_idempotence=True) for _ in range(2))
        self._transactions = transactions
        self._outputs = _Joined(self._send_outputs)
        self._flushing = _Joined(self._flush)
        self._unflushed: dict[TopicPartition, list[Chunk]] = {}

    async def start(self) -> None:
        await asyncio.gather(start(self._routing), start(self._notifying), self._transactions.start())

    async def stop(self) -> None:
        await self._transactions.stop()
        for producer in (self._routing, self._notifying):
            if self._transactions.failure is None:
                await producer.stop()
            else:
                give_up(producer)

    async def send(self, chunk: Chunk) -> None:
        self._unflushed.setdefault(chunk.partition, []).append(
            chunk._replace(outgoing=chunk.outgoing.changelog_alone())
        )
        try:
            futures = await self._outputs.put(chunk)
            if futures:
                await asyncio.gather(*futures)
        except Exception as error:
            if not is_interruption(error):
                raise
            failure = self._transactions.failure or Interrupted(f"outputs could not be sent ({_kind(error)})")
            self._transactions.failure = failure
            raise failure from error

    async def flush(self, partition: TopicPartition) -> None:
        chunks = self._unflushed.pop(partition, [])
        if chunks:
            changelog = Outgoing.joined(chunk.outgoing for chunk in chunks)
            last = next((chunk for chunk in reversed(chunks) if chunk.offset is not None), chunks[-1])
            await self._flushing.put(last._replace(outgoing=changelog))

    async def _send_outputs(self, chunks: list[Chunk]) -> list[Any]:
        if self._transactions.failure is not None:
            raise self._transactions.failure
        together = Outgoing.joined(chunk.outgoing for chunk in chunks)
        outputs = together.outputs
        routed = {place: outputs.pop(place) for place in [place for place in outputs if place[0] == self._rendezvous]}
        notifications: Batches = [*outputs.items(), *together.frames.items()]
        return [*await queue(self._routing, routed.items()), *await queue(self._notifying, notifications)]

    async def _flush(self, chunks: list[Chunk]) -> None:
        await self._transactions.run(_latest_changelog, chunks)


def _last_of_each_key(records: Records) -> Records:
    """In a changelog it is the one that counts; in its place, as the progress must not come before what it speaks of."""
    last: dict[bytes | None, bytes | None] = {}
    for key, value in records:
        last.pop(key, None)
        last[key] = value
    return list(last.items())
