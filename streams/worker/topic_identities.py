"""The topics that this worker reads, told apart by their ids: one that is deleted and made anew goes by the same name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from aiokafka import TopicPartition

from pastforward.errors import UserError
from pastforward.streams.transport.log_ends import another, deleted, lost_changelog, made_anew
from pastforward.streams.worker.sender import Interrupted

UNKNOWN: Final = 5.0  # seconds that a topic may be unknown: not every broker hears at once of one that was just made
AGAIN: Final = 0.5  # seconds until it is asked for again

TopicIds = Callable[[Iterable[str]], Awaitable[dict[str, str | None]]]  # None: there is none of that name
EarlierIds = Callable[[], Awaitable[dict[str, set[str]]]]  # those that stand beside committed offsets


class TopicIdentities:
    """`present`: of each topic its id when the partitions were taken over."""

    def __init__(self, app: Any, ask: TopicIds, earlier: EarlierIds) -> None:
        self._app = app
        self._ask = ask
        self._earlier = earlier
        self.present: dict[str, str] = {}

    @property
    def _subscribed(self) -> set[str]:
        return set(self._app.consumer.subscribed())

    async def look_up(self) -> dict[str, str]:
        """Raises `UserError` if one of the topics is not there, and `Interrupted` if nobody answers."""
        waited = 0.0
        while True:
            found = await self._ask(self._subscribed)
            missing = sorted(topic for topic, topic_id in found.items() if topic_id is None)
            if not missing:
                break
            if waited >= UNKNOWN:
                raise deleted(missing[0], (await self._earlier()).get(missing[0], ()))
            await asyncio.sleep(AGAIN)
            waited += AGAIN
        return {topic: topic_id for topic, topic_id in found.items() if topic_id is not None}

    async def see_all(self) -> None:
        """The group gives nothing of a topic that its consumers do not see: they look again, and join again. Raises `Interrupted`."""
        unseen = sorted(self._subscribed - {partition.topic for partition in self._app.consumer.all_partitions()})
        if unseen:
            await self._app.consumer.look_again()
            raise Interrupted(f"the partitions of {unseen[0]} were not seen")

    def anew(self, topic: str, before: str, now: str) -> UserError:
        return another(topic, before, now) if topic in self._subscribed else lost_changelog(topic, before, now)

    async def check_earlier(
        self, positions: dict[TopicPartition, int], ends: dict[TopicPartition, tuple[int, int]]
    ) -> None:
        """All topics, also those of which the group has given nothing to this worker, or nothing at all: what is committed next says
        that all of them are the present ones."""
        for topic, ids in sorted((await self._earlier()).items()):
            now = self.present.get(topic)
            others = ids - {now}
            if now is None or not others:
                continue
            here = min((partition for partition in positions if partition.topic == topic), default=None)
            if here is None:
                raise self.anew(topic, min(others), now)
            raise made_anew(here, positions[here], *ends[here], min(others), now)
