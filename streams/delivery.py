"""How the outputs of chunks and the offsets of their inputs become one thing.

Exactly once: one transaction, begun when outputs are ready (an open one stalls every reader), with outputs, changelog and offset in it. A
worker has one sender for all its partitions: whatever is ready while a transaction runs goes into the next, since a transaction costs the
broker as much as thousands of records. How an owner that is not one any more is kept from committing, `streams.claims` tells.
At least once: outputs at once, and when they are safe, now and then, the changelog, then the offset: whatever is cut off is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition

from pastforward.errors import UserError
from pastforward.settings import SECOND, Settings
from streams.connection import Connection
from streams.outgoing import Outgoing, Place, Records

BATCH: Final = 1 << 20  # bytes of a batch: the broker's own default for the largest
RETRY_MS: Final = 5  # while the last marker is being written the broker says "again"; with 100 the p99 is 130 ms
REQUEST_MAX: Final = 5 << 20  # above `max.message.bytes` of our largest topics, so that the broker decides
LEAST_LIMIT: Final = 10.0  # seconds that a transaction may take
TOGETHER: Final = 200_000  # records in a transaction, unless one chunk alone has more: some 100 MB

_NO_HEADERS: Final[list[Any]] = []

Offsets = dict[TopicPartition, tuple[int, str]]
Commit = Callable[[Offsets], Awaitable[None]]
Batches = Iterable[tuple[Place, Records]]


class Sender(Protocol):
    """For all partitions that a worker owns, from one takeover to the next. `name` is in the metadata of the offsets that it commits."""

    name: str

    async def start(self) -> None: ...

    async def send(self, chunk: Chunk) -> None:
        """Returns when what others read is safe at the broker. Of a partition chunks are sent in the order of the calls."""

    async def settle(self, partition: TopicPartition) -> None:
        """Returns when changelog and offset of all that was sent are safe, too."""

    async def stop(self) -> None: ...


def make_sender(
    settings: Settings, group: str, connection: Connection, name: str, commit: Commit, rendezvous: str
) -> Sender:
    if settings.delivery == "exactly-once":
        return ExactlyOnce(settings, group, connection, name)
    return AtLeastOnce(connection, commit, rendezvous)


def _producer(connection: Connection, **promise: Any) -> Any:
    return AIOKafkaProducer(
        **connection.arguments(),
        **promise,
        max_batch_size=BATCH,
        max_request_size=REQUEST_MAX,
        linger_ms=0,
        retry_backoff_ms=RETRY_MS,
    )


async def _queue(producer: Any, batches: Batches) -> list[Any]:
    """Queues whole batches; the futures tell when they are safe."""
    futures = []
    for (topic, partition), records in batches:
        begin = 0
        while begin < len(records):
            batch = producer.create_batch()
            begin += _append(batch, records, begin)
            futures.append(await producer.send_batch(batch, topic, partition=partition))
    return futures


def _append(batch: Any, records: Records, begin: int) -> int:
    """Fills a batch; returns how many records it took. Past aiokafka's `append`, which costs as much again as what it calls."""
    append = batch._builder.append
    taken = 0
    for key, value in islice(records, begin, None):
        if append(taken, None, key, value, _NO_HEADERS) is None:
            break
        taken += 1
    batch._relative_offset = taken
    batch.close()
    return taken


class Chunk(NamedTuple):
    """What a chunk of a partition has led to. `offset` None: there is none to commit."""

    partition: TopicPartition
    outgoing: Outgoing
    offset: int | None


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
        count = records = 0
        for chunk, _ in self._waiting:
            records += chunk.outgoing.count
            if count and records > TOGETHER:
                break
            count += 1
        together, self._waiting = self._waiting[:count], self._waiting[count:]
        return together


class ExactlyOnce:
    def __init__(self, settings: Settings, group: str, connection: Connection, name: str) -> None:
        # An owner that hangs must not stall readers for much longer than the group tolerates it; but a busy machine needs its time.
        self._limit = max(settings.session_timeout / SECOND, LEAST_LIMIT)
        self._producer = _producer(connection, transactional_id=name, transaction_timeout_ms=int(1000 * self._limit))
        self.name = name
        self._group = group
        self._transactions = _Joined(self._transaction)

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def send(self, chunk: Chunk) -> None:
        await self._transactions.put(chunk)

    async def settle(self, partition: TopicPartition) -> None:
        """They were in the transactions."""

    async def _transaction(self, chunks: list[Chunk]) -> None:
        try:
            async with asyncio.timeout(2 * self._limit):
                await self._attempt(chunks)
        except TimeoutError:
            # what the broker has given up after half of that, aiokafka would try for ever
            raise UserError(
                f"a transaction has not come to an end within {2 * self._limit:.0f} s: is the broker well?"
            ) from None

    async def _attempt(self, chunks: list[Chunk]) -> None:
        producer = self._producer
        await producer.begin_transaction()
        together = Outgoing.joined(chunk.outgoing for chunk in chunks)
        # All partitions at once: one request adds them to the transaction, and one carries the records. Sent one by one, the first
        # would leave alone. The offsets go beside the records.
        for topic, partition in (*together.outputs, *together.changelog):
            producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(topic, partition))
        waiting: list[Awaitable[Any]] = [*await _queue(producer, together.outputs.items())]
        waiting += await _queue(producer, together.changelog.items())
        offsets = _offsets(chunks, self.name)
        if offsets:
            waiting.append(producer.send_offsets_to_transaction(offsets, self._group))
        if waiting:
            await asyncio.gather(*waiting)
        await producer.commit_transaction()


class AtLeastOnce:
    """Outputs leave at once, those of all chunks that are ready together; changelog and offset follow when the partition settles.

    The rendezvous log has a producer of its own: aiokafka has one request under way to a broker, and what the router writes would wait
    until the broker has what the matcher wrote, and the other way round.
    """

    name = ""

    def __init__(self, connection: Connection, commit: Commit, rendezvous: str) -> None:
        self._rendezvous = rendezvous
        self._routing, self._telling = (_producer(connection, enable_idempotence=True) for _ in range(2))
        self._commit = commit
        self._outputs = _Joined(self._send_outputs)
        self._settling = _Joined(self._settle)
        self._unsettled: dict[TopicPartition, list[Chunk]] = {}

    async def start(self) -> None:
        await asyncio.gather(self._routing.start(), self._telling.start())

    async def stop(self) -> None:
        await asyncio.gather(self._routing.stop(), self._telling.stop())

    async def send(self, chunk: Chunk) -> None:
        self._unsettled.setdefault(chunk.partition, []).append(
            chunk._replace(outgoing=chunk.outgoing.changelog_alone())
        )
        futures = await self._outputs.put(chunk)
        if futures:
            await asyncio.gather(*futures)

    async def settle(self, partition: TopicPartition) -> None:
        chunks = self._unsettled.pop(partition, [])
        if chunks:
            changelog = Outgoing.joined(chunk.outgoing for chunk in chunks)
            offsets = [chunk.offset for chunk in chunks if chunk.offset is not None]
            await self._settling.put(Chunk(partition, changelog, offsets[-1] if offsets else None))

    async def _send_outputs(self, chunks: list[Chunk]) -> list[Any]:
        outputs = Outgoing.joined(chunk.outgoing for chunk in chunks).outputs
        routed = {place: outputs.pop(place) for place in [place for place in outputs if place[0] == self._rendezvous]}
        return [*await _queue(self._routing, routed.items()), *await _queue(self._telling, outputs.items())]

    async def _settle(self, chunks: list[Chunk]) -> None:
        changelog = Outgoing.joined(chunk.outgoing for chunk in chunks).changelog
        latest = ((place, _last_of_each_key(records)) for place, records in changelog.items())
        futures = await _queue(self._telling, latest)
        if futures:
            await asyncio.gather(*futures)
        offsets = _offsets(chunks, self.name)
        if offsets:
            await self._commit(offsets)


def _last_of_each_key(records: Records) -> Records:
    """In a changelog it is the one that counts; in its place, as the progress must not come before what it speaks of."""
    last: dict[bytes | None, bytes | None] = {}
    for key, value in records:
        last.pop(key, None)
        last[key] = value
    return list(last.items())


def _offsets(chunks: list[Chunk], name: str) -> Offsets:
    return {chunk.partition: (chunk.offset, name) for chunk in chunks if chunk.offset is not None}
