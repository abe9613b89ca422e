"""Who owns a partition, so that nobody else commits for it.

The metadata of a partition's committed offset names the sender of its owner. On assignment: read the names; fence each, by starting a
producer of that name and stopping it, which aborts what it had open and refuses whatever it sends from then on; read the offsets, which
now cannot change any more; write the own name beside them. The group's coordinator takes that last commit from members of the present
generation only, so no claim comes from an owner of the past, and whoever comes next finds the name of everyone who may be at work.
A name is used from one takeover to the next: fencing it again hurts nobody who has let go of his partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition

from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.producer import RETRY_MS, start
from pastforward.streams.worker.sender import Commit


class Claim(NamedTuple):
    """`offset` None: nothing has been committed yet, or it has expired. `topic_ids`: as far as they are known, when it was committed."""

    offset: int | None
    owner: str
    topic_ids: Mapping[str, str] = {}
    arrived_at: int = 0  # the highest one below the offset, as far as it is known


Read = Callable[[Iterable[TopicPartition]], Awaitable[dict[TopicPartition, Claim]]]
Begin = Callable[[dict[TopicPartition, Claim]], Awaitable[dict[TopicPartition, int]]]


async def fence(connection: Connection, name: str) -> None:
    producer = AIOKafkaProducer(**connection.arguments(), transactional_id=name, retry_backoff_ms=RETRY_MS)
    try:
        await start(producer)
    finally:
        await producer.stop()


async def claim(
    partitions: list[TopicPartition], name: str, connection: Connection, read: Read, begin: Begin, commit: Commit
) -> dict[TopicPartition, int]:
    """Where to go on, by partition. `begin` tells the offsets to begin with, from what was committed."""
    owners = {found.owner for found in (await read(partitions)).values()}
    for owner in sorted(owners - {"", name}):
        await fence(connection, owner)
    positions = await begin(await read(partitions))
    if name and positions:
        await commit({partition: (position, name) for partition, position in positions.items()})
    return positions
