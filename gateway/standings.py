"""The subscriptions that stand, kept up to date by reading their topic: what is asked of them is answered from memory."""

from __future__ import annotations

import bisect
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from pastforward import topics
from pastforward.client import Client, Standing
from pastforward.client.listing import Entries, standing
from pastforward.client.moments import now_micros
from pastforward.client.reader import Reader
from pastforward.errors import PastforwardError, UserError
from pastforward.settings import Settings

CHUNK: Final = 10_000
PAUSE: Final = 1.0  # seconds until a reader that has failed is made anew
PATIENCE: Final = 15.0  # seconds for what was just written

log = logging.getLogger("pastforward.gateway")


class Standings:
    """Written by a thread of its own; every other thread may ask."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings, self._client = settings, client
        self._topic = topics.Topics(settings.topic_prefix).subscriptions
        self._entries = Entries(client.registry)
        self._names: list[bytes] = []  # in order, to page through
        self._owners: dict[str, set[bytes]] = {}
        self._owner_of: dict[bytes, str] = {}
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pastforward-subscriptions", daemon=True)

    def start(self) -> None:
        partitions = self._client.offsets.partitions(self._topic)
        self._positions = {p: self._client.offsets.bounds(self._topic, p)[0] for p in partitions}
        self._ends = self._client.offsets.ends(self._topic, partitions)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    # ------------------------------------------------------------ what is asked

    def wait_first(self, timeout: float = 30.0) -> bool:
        """Whether all that was there when the gateway started has been read."""
        return self._wait(self._ends, timeout)

    def wait_current(self) -> None:
        """Returns when all that is on the topic now has been read."""
        ends = self._client.offsets.ends(self._topic, tuple(self._positions))
        if not self._wait(ends, PATIENCE):
            raise UserError(f"the subscriptions are not read up to their end within {PATIENCE:.0f} s")

    def wait_version(self, version: str) -> None:
        partition, _, offset = version.partition("-")
        self._wait({int(partition): int(offset) + 1}, PATIENCE)

    def _wait(self, ends: dict[int, int], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        with self._changed:
            while any(self._positions[p] < end for p, end in ends.items()):
                left = deadline - time.monotonic()
                if left <= 0 or self._stopped.is_set():
                    return False
                self._changed.wait(left)
        return True

    def get(self, name: str) -> Standing | None:
        entry = self._entries.by_key.get(name.encode())
        return None if entry is None else standing(entry, now_micros())

    def count(self, subscriber: str | None = None) -> int:
        return len(self._names) if subscriber is None else len(self._owners.get(subscriber, ()))

    def live_count(self, subscriber: str) -> int:
        """Those that somebody holds: ended ones cost nothing any more."""
        return sum(each.state != "ended" for each in self.page(lambda _: True, subscriber=subscriber))

    def page(
        self, accept: Callable[[Standing], bool], *, subscriber: str | None = None, after: str = ""
    ) -> Iterator[Standing]:
        """By id, behind an id."""
        with self._changed:
            if subscriber is None:
                names = self._names[bisect.bisect_right(self._names, after.encode()) if after else 0 :]
            else:
                begin = after.encode()
                names = sorted(name for name in self._owners.get(subscriber, ()) if name > begin)
        now = now_micros()
        for name in names:
            entry = self._entries.by_key.get(name)
            found = None if entry is None else standing(entry, now)
            if found is not None and accept(found):
                yield found

    # ------------------------------------------------------------ what is read

    def _run(self) -> None:
        while not self._stopped.is_set():
            reader = Reader(self._settings, self._client.bootstrap_servers, CHUNK)
            try:
                reader.assign(self._topic, self._positions)
                while not self._stopped.is_set():
                    self._take(reader.arrived(), reader.ends)
            except PastforwardError as error:
                log.warning("the subscriptions cannot be read: %s", error)
                self._stopped.wait(PAUSE)
            finally:
                reader.close()

    def _take(self, messages: list[Any], ends: dict[int, int]) -> None:
        with self._changed:
            fresh: list[bytes] = []
            for message in messages:
                key = self._entries.take(message)
                self._positions[message.partition()] = message.offset() + 1
                if key is not None:
                    self._note(key, fresh)
            if fresh:
                self._insert(fresh)
            for partition, end in ends.items():
                self._positions[partition] = max(end, self._positions[partition])
            self._changed.notify_all()

    def _insert(self, fresh: list[bytes]) -> None:
        if len(fresh) * 20 > len(self._names):
            self._names = sorted({*self._names, *fresh})
            return
        for name in fresh:
            bisect.insort(self._names, name)

    def _note(self, key: bytes, fresh: list[bytes]) -> None:
        entry = self._entries.by_key[key]
        owner = None if entry.record is None else entry.record.subscriber_id
        before = self._owner_of.pop(key, None)
        if before is not None and before != owner:
            self._owners[before].discard(key)
            if not self._owners[before]:
                del self._owners[before]
        if owner is not None:
            self._owner_of[key] = owner
            self._owners.setdefault(owner, set()).add(key)
            if before is None:
                fresh.append(key)
        elif before is not None:
            at = bisect.bisect_left(self._names, key)
            if at < len(self._names) and self._names[at] == key:
                del self._names[at]
            elif key in fresh:
                fresh.remove(key)
