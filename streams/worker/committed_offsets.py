"""The offsets that the group has committed for its partitions, and what stands beside them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.log_ends import out_of_range
from pastforward.streams.transport.readback import both_ends
from pastforward.streams.worker.fencing import Claim
from pastforward.streams.worker.offset_metadata import mark, read_mark
from pastforward.streams.worker.sender import Offsets
from pastforward.streams.worker.topic_identities import TopicIdentities, TopicIds

log = logging.getLogger("pastforward.worker")

Resume = Callable[[list[TopicPartition]], Awaitable[dict[TopicPartition, int]]]


class CommittedOffsets:
    def __init__(self, app: Any, connection: Connection, topic_ids: TopicIds, resume: Resume) -> None:
        self._app = app
        self._connection = connection
        self._resume = resume
        self.topics = TopicIdentities(app, topic_ids, self._earlier_ids)
        self.arrived: dict[TopicPartition, int] = {}  # below where each partition was taken over

    async def commit(self, offsets: Offsets) -> None:
        """Refused to whoever is not a member of the present generation."""
        marked = {
            p: (offset, mark(owner, self.topics.present, self.arrived.get(p, 0)))
            for p, (offset, owner) in offsets.items()
        }
        await self._app.consumer.commit_offsets(marked)

    async def claims(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        found = await self._app.consumer.committed_offsets(list(partitions))
        none = OffsetAndMetadata(-1, "")
        claims = {partition: found.get(partition, none) for partition in partitions}
        return {p: Claim(None if c.offset < 0 else c.offset, *read_mark(c.metadata or "")) for p, c in claims.items()}

    async def begin(self, claims: dict[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        """Raises `UserError` if what was committed does not fit the log that is there."""
        self.arrived = {partition: found.arrived_at for partition, found in claims.items()}
        ends = await both_ends(self._connection, claims)
        missing = [partition for partition, found in claims.items() if found.offset is None]
        known = await self._resume(missing) if missing else {}
        positions = {
            partition: known.get(partition, ends[partition][0]) if found.offset is None else found.offset
            for partition, found in claims.items()
        }
        await self.topics.check_earlier(positions, ends)
        await self.topics.see_all()
        if known:
            log.warning(
                "the group %s has no offset of %d partitions, although they were read: it was deleted or has expired. They are "
                "read on from where the changelogs say",
                self._app.conf.id,
                len(known),
            )
        for partition, position in positions.items():
            error = out_of_range(partition, self._app.conf.id, position, *ends[partition])
            if error is not None:
                raise error
        return positions

    async def _earlier_ids(self) -> dict[str, set[str]]:
        """The ids of the topics when offsets were committed, whoever committed them."""
        earlier: dict[str, set[str]] = {}
        for found in (await self.claims(self._app.consumer.all_partitions())).values():
            for topic, topic_id in found.topic_ids.items():
                earlier.setdefault(topic, set()).add(topic_id)
        return earlier
