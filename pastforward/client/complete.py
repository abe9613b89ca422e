"""When all that was there before a subscription has been notified: the past of the hot window, and what the history had to answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pastforward.client.delivery import Receipt
from pastforward.client.offsets import Offsets
from pastforward.client.workers import SLACK, Workers
from pastforward.topics import Topics

PAUSE: Final = 0.1  # seconds between two looks


class Completion:
    """Goes from step to step: each looks whether the workers are done with what it waits for, and each is asked until they are.

    A record that is there may be read before the mark of its transaction: the ends that count are those of all that is written.
    """

    def __init__(
        self, names: Topics, offsets: Offsets, workers: Workers, receipt: Receipt, name: str, place: tuple[str, int]
    ) -> None:
        """`place`: the topic and the partition that the notifications come through."""
        self._names, self._offsets, self._workers = names, offsets, workers
        self._receipt, self._name, self._place = receipt, name, place
        self._steps: list[Callable[[], bool]] = [self._routed, self._matched, self._answered]
        self._rendezvous: tuple[str, dict[int, int]] | None = None
        self._looked = 0.0
        self.end: int | None = None  # of the notifications that were there when the last step was done

    @property
    def done(self) -> bool:
        while self._steps:
            if time.monotonic() - self._looked < PAUSE:
                return False
            if not self._steps[0]():
                self._looked = time.monotonic()
                return False
            del self._steps[0]
        return True

    def _routed(self) -> bool:
        at = self._receipt
        return self._workers.have_read(at.topic, {at.partition: at.offset + 1})

    def _matched(self) -> bool:
        if self._rendezvous is None:
            topic = Topics(self._names.prefix, self._workers.version()).rendezvous
            self._rendezvous = topic, self._workers.written(topic, self._offsets.partitions(topic))
        return self._workers.have_read(*self._rendezvous)

    def _answered(self) -> bool:
        topic = self._names.backfill_requests
        version = f"{self._receipt.partition}-{self._receipt.offset}"
        begins = f"{self._name}\0{version}\0".encode()
        begin = self._offsets.since(topic, [0], self._receipt.arrived_at - SLACK)[0]
        still_open: set[bytes] = set()
        for message in self._workers.scan(topic, 0, begin, self._workers.written(topic, [0])[0]):
            key = message.key() or b""
            if key.startswith(begins):
                (still_open.discard if message.value() is None else still_open.add)(key)
        if still_open:
            return False
        notifications, partition = self._place
        self.end = self._workers.written(notifications, [partition])[partition]
        return True
