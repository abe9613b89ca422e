"""Whoever listens to notifications over one connection: what waits for it, and where it stands in each partition.

Everything here happens in the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from pastforward.client.tokens import write_token
from pastforward.gateway.records import Delivered, event_of, fields_of

CHUNK: Final = 64 << 10  # bytes that are written at once: as many as a transport buffers before it says stop

Accept = Callable[[Delivered], bool]


class Listener:
    """`recipient` None: all of them. `patient`: falls behind and catches up when it has no room; else it is dropped."""

    def __init__(
        self,
        recipient: str | None,
        positions: dict[int, int],
        room: int,
        *,
        accept: Accept | None = None,
        patient: bool = False,
    ) -> None:
        self.recipient = None if recipient is None else recipient.encode()
        self.positions = dict(positions)
        self.patient = patient
        self.dropped: str | None = None  # why
        self.closed = False
        self._accept = accept
        self._room, self._held = room, 0
        self._pending: deque[Delivered] = deque()
        self._taken = dict(positions)
        self._told = dict(positions)
        self._wake = asyncio.Event()
        self.on_room: Callable[[Listener], None] | None = None
        self.on_drop: Callable[[], None] | None = None
        self._beat = False

    # ------------------------------------------------------------ what comes in

    def wants(self, delivered: Delivered) -> bool:
        return self.recipient is None or self.recipient == delivered.recipient

    def offer(self, delivered: Delivered) -> bool:
        """False: there is no room, and it stands where it stood. One that is behind its position it has had."""
        partition, offset = delivered.partition, delivered.offset
        if offset < self.positions[partition]:
            return True
        if self._accept is None or self._accept(delivered):
            if self._held >= self._room:
                return False
            self._held += delivered.size
            self._pending.append(delivered)
            self._wake.set()
        self.positions[partition] = offset + 1
        return True

    def pass_over(self, partition: int, position: int) -> None:
        """There is nothing for it below that position."""
        self.positions[partition] = max(position, self.positions[partition])

    def drop(self, why: str) -> None:
        self.dropped = why
        self._wake.set()
        if self.on_drop is not None:
            self.on_drop()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    def beat(self) -> None:
        """It is time to say that the connection lives."""
        self._beat = True
        self._wake.set()

    # ------------------------------------------------------------ what goes out

    async def wait(self) -> None:
        """Returns when there is something to take or to say, or it has ended."""
        await self._wake.wait()
        self._wake.clear()

    def take_beat(self) -> bool:
        beat, self._beat = self._beat, False
        return beat

    @property
    def ended(self) -> bool:
        return self.closed or self.dropped is not None

    @property
    def has_more(self) -> bool:
        return bool(self._pending)

    def take(self, most: int | None = None) -> list[Delivered]:
        """Up to a chunk of them."""
        taken: list[Delivered] = []
        size = 0
        while self._pending and size < CHUNK and (most is None or len(taken) < most):
            delivered = self._pending.popleft()
            size += delivered.size
            taken.append(delivered)
            self._taken[delivered.partition] = delivered.offset + 1
        self._held -= size
        if taken and self.on_room is not None and self._held * 2 < self._room:
            self.on_room(self)
        return taken

    @property
    def token(self) -> str:
        """Behind what was taken; with nothing left to take, behind what was passed over as well."""
        if not self._pending:
            self._taken = dict(self.positions)
        return write_token(self._taken)

    def token_after(self, delivered: Delivered) -> str:
        """Of one that was taken, for a reader of several partitions."""
        self._told[delivered.partition] = delivered.offset + 1
        return write_token(self._told)

    def events(self) -> bytes:
        """What was taken, as events of a stream."""
        if len(self.positions) == 1:
            return b"".join([each.event for each in self.take()])
        return b"".join([event_of(self.token_after(each), each.data) for each in self.take()])


def of_subscriptions(wanted: Collection[str]) -> Accept:
    """Notifications of these subscriptions alone."""

    def accept(delivered: Delivered) -> bool:
        return fields_of(delivered)["subscription_id"] in wanted

    return accept
