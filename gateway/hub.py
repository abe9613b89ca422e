"""One reader of the notifications for all who listen: each partition is read once, by one consumer, whatever the number of connections.

Two threads read, the event loop hands out. The first reads the end of the log. The second catches up: it reads from the lowest position
that somebody has asked for, gives each listener on the way what is its own, and those who have come to where the first one is go on there.
A listener's positions only ever grow, so that nothing is given twice, and nothing between the two readers is lost.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Final

from pastforward import topics
from pastforward.client import Client
from pastforward.client.partitions import partition_of
from pastforward.client.reader import Reader
from pastforward.errors import PastforwardError, TokenExpired
from pastforward.gateway.listeners import Listener
from pastforward.gateway.records import Delivered
from pastforward.settings import Settings

BEAT: Final = 15.0  # seconds: proxies close what is silent for a minute
RECENT: Final = 240  # beats, an hour: no retention is shorter than what a token may stand behind without a question
CHUNK: Final = 500  # messages that the loop hands out in one go: some 10 ms
PAUSE: Final = 1.0  # seconds until a reader that has failed is made anew
# The tail waits for nothing: a notification that is there is handed on at once.
TAIL: Final = {"fetch.wait.max.ms": 50, "queued.min.messages": 10_000, "queued.max.messages.kbytes": 16_384}
CATCH_UP: Final = {"queued.max.messages.kbytes": 16_384, "fetch.wait.max.ms": 10}

log = logging.getLogger("pastforward.gateway")


class Hub:
    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings, self._client = settings, client
        self._topic = topics.Topics(settings.topic_prefix).notifications
        self._partitions: tuple[int, ...] = ()
        self._began: dict[int, int] = {}
        self.delivered: dict[int, int] = {}  # up to where the tail was handed out
        self.recent: deque[tuple[float, Delivered]] = deque(maxlen=200)  # one of each chunk, and when it came
        self._live: dict[int, dict[bytes | None, list[Listener]]] = {}
        self._behind: dict[int, list[Listener]] = {}  # those that catch up, by partition
        self._full: dict[Listener, set[int]] = defaultdict(set)  # those of them without room
        self.listeners: set[Listener] = set()
        self._work = threading.Event()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._beats: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._partitions = await asyncio.to_thread(self._client.offsets.partitions, self._topic)
        self.delivered = await asyncio.to_thread(self._client.offsets.ends, self._topic, self._partitions)
        self._began = dict(self.delivered)
        self._live = {p: defaultdict(list) for p in self._partitions}
        self._behind = {p: [] for p in self._partitions}
        for name, run in (("tail", self._read_tail), ("catch-up", self._catch_up)):
            thread = threading.Thread(target=run, name=f"pastforward-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._beats = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        self._stopped.set()
        self._work.set()
        if self._beats is not None:
            self._beats.cancel()
        for listener in list(self.listeners):
            listener.close()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # ------------------------------------------------------------ who listens

    def partitions_of(self, recipient: str | None) -> tuple[int, ...]:
        there = self._partitions
        return there if recipient is None else (partition_of(recipient.encode(), len(there)),)

    def has(self, partitions: tuple[int, ...], token: dict[int, int]) -> bool:
        """Whether what comes behind a token has surely not been deleted: it came lately. So thousands who connect again at once cost
        Kafka no question."""
        return set(token) == set(partitions) and all(
            self._began[p] <= token[p] <= self.delivered[p] for p in partitions
        )

    def join(self, listener: Listener) -> None:
        """From its positions on. It gets what is there, and all that comes."""
        self.listeners.add(listener)
        listener.on_room = self._has_room
        for partition in listener.positions:
            self._place(listener, partition)

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)
        self._full.pop(listener, None)
        listener.on_room = None
        for partition in listener.positions:
            self._remove_live(listener, partition)
            if listener in self._behind[partition]:
                self._behind[partition].remove(listener)

    def _remove_live(self, listener: Listener, partition: int) -> None:
        there = self._live[partition]
        if listener in there.get(listener.recipient, ()):
            there[listener.recipient].remove(listener)
            if not there[listener.recipient]:
                del there[listener.recipient]

    def _place(self, listener: Listener, partition: int) -> None:
        if listener.positions[partition] >= self.delivered[partition]:
            self._live[partition][listener.recipient].append(listener)
        else:
            self._behind[partition].append(listener)
            self._work.set()

    def _has_room(self, listener: Listener) -> None:
        for partition in self._full.pop(listener, ()):
            self._place(listener, partition)

    def _has_no_room(self, listener: Listener, partition: int) -> None:
        self._full[listener].add(partition)

    # ------------------------------------------------------------ what is handed out, in the loop

    def _hand_out(self, messages: list[Any], ends: dict[int, int]) -> None:
        """Of the tail. `ends`: where there is nothing more. A log may end with the mark of a transaction, which has an offset."""
        registry = self._client.registry
        for message in messages:
            partition, offset, key = message.partition(), message.offset(), message.key() or b""
            there = self._live[partition]
            if there:
                found = (*there.get(key, ()), *there.get(None, ()))
                if found:
                    delivered = Delivered(partition, offset, key, message.value(), registry)
                    for listener in found:
                        if not listener.offer(delivered):
                            self._is_slow(listener, partition)
            self.delivered[partition] = offset + 1
        for partition, end in ends.items():
            self.delivered[partition] = max(end, self.delivered[partition])
        if messages:
            last = messages[-1]
            sample = Delivered(last.partition(), last.offset(), last.key() or b"", last.value(), registry)
            self.recent.append((time.time(), sample))
        # whoever got nothing has not fallen behind: its position moves with the beat, or when it asks

    def _is_slow(self, listener: Listener, partition: int) -> None:
        self._remove_live(listener, partition)
        if listener.patient:
            self._has_no_room(listener, partition)
        else:
            listener.drop("this connection is slower than its notifications come: connect again with the last token")

    def _hand_behind(self, partition: int, messages: list[Any], begin: int, end: int) -> bool:
        """Of those that catch up, to whoever stands at `begin` or later. Whether anybody goes on behind `end`."""
        registry = self._client.registry
        taking = [each for each in self._behind[partition] if each.positions[partition] >= begin]
        by_key: dict[bytes | None, list[Listener]] = defaultdict(list)
        for each in taking:
            by_key[each.recipient].append(each)
        stuck: set[Listener] = set()
        for message in messages:
            key = message.key() or b""
            found = (*by_key.get(key, ()), *by_key.get(None, ()))
            if not found:
                continue
            delivered = Delivered(partition, message.offset(), key, message.value(), registry)
            for listener in found:
                if listener not in stuck and not listener.offer(delivered):
                    stuck.add(listener)
        goes_on = False
        for listener in taking:
            if listener in stuck:
                self._behind[partition].remove(listener)
                self._has_no_room(listener, partition)
                if not listener.has_more:  # all of it was taken meanwhile
                    self._has_room(listener)
                continue
            listener.pass_over(partition, end)
            if end >= self.delivered[partition]:
                self._behind[partition].remove(listener)
                self._live[partition][listener.recipient].append(listener)
            else:
                goes_on = True
        return goes_on

    def _lowest(self) -> dict[int, int]:
        return {p: min(each.positions[p] for each in behind) for p, behind in self._behind.items() if behind}

    def position_of(self, listener: Listener) -> str:
        """The token of a listener: what is not its own counts as read."""
        if not listener.has_more:
            for partition in listener.positions:
                if listener in self._live[partition].get(listener.recipient, ()):
                    listener.pass_over(partition, self.delivered[partition])
        return listener.token

    async def _beat(self) -> None:
        earlier = dict(self._began)
        for count in itertools.count(1):
            await asyncio.sleep(BEAT)
            if not count % RECENT:
                self._began, earlier = earlier, dict(self.delivered)
            for number, listener in enumerate(list(self.listeners)):
                listener.beat()
                if number % CHUNK == CHUNK - 1:
                    await asyncio.sleep(0)

    def _lost(self, partitions: Iterable[int], why: str) -> None:
        """What comes next was deleted before it was read."""
        for partition in partitions:
            for listener in list(self.listeners):
                if partition in listener.positions:
                    listener.drop(why)

    # ------------------------------------------------------------ what is read, in threads

    def _read_tail(self) -> None:
        while not self._stopped.is_set():
            reader = Reader(self._settings, self._client.bootstrap_servers, CHUNK, **TAIL)
            try:
                reader.assign(self._topic, self.delivered)
                while not self._stopped.is_set():
                    messages = reader.arrived()
                    moved = {p: end for p, end in reader.ends.items() if end > self.delivered[p]}
                    if messages or moved:
                        self._in_loop(self._hand_out, messages, moved)
            except TokenExpired as error:
                log.error("notifications were deleted before the gateway read them: %s", error)
                self._start_over(str(error))
            except PastforwardError as error:
                log.warning("the notifications cannot be read: %s", error)
                self._stopped.wait(PAUSE)
            except RuntimeError:
                if not self._stopped.is_set():
                    raise
            finally:
                reader.close()

    def _start_over(self, why: str) -> None:
        bounds = {p: self._client.offsets.bounds(self._topic, p) for p in self._partitions}

        def jump() -> None:
            lost = [p for p, (first, end) in bounds.items() if not first <= self.delivered[p] <= end]
            self._lost(lost, why)
            self.delivered.update({p: bounds[p][1] for p in lost})
            self._began.update({p: bounds[p][1] for p in lost})

        self._in_loop(jump)

    def _catch_up(self) -> None:
        reader: Reader | None = None
        while not self._stopped.is_set():
            self._work.wait()
            self._work.clear()
            if self._stopped.is_set():
                break
            try:
                while (begin := self._in_loop(self._lowest)) and not self._stopped.is_set():
                    reader = reader or Reader(self._settings, self._client.bootstrap_servers, 4 * CHUNK, **CATCH_UP)
                    self._pass(reader, begin)
            except PastforwardError as error:
                log.warning("older notifications cannot be read: %s", error)
                if isinstance(error, TokenExpired):
                    self._in_loop(self._drop_behind, str(error))
                reader = self._closed(reader)
                self._work.set()
                self._stopped.wait(PAUSE)
            except RuntimeError:
                if not self._stopped.is_set():
                    raise
        self._closed(reader)

    def _drop_behind(self, why: str) -> None:
        for listener in {each for behind in self._behind.values() for each in behind}:
            self.leave(listener)
            listener.drop(why)

    @staticmethod
    def _closed(reader: Reader | None) -> None:
        if reader is not None:
            reader.close()

    def _pass(self, reader: Reader, begin: dict[int, int]) -> None:
        """Through the log from the lowest positions, until all who go along are where the tail is."""
        reader.ends.clear()
        reader.assign(self._topic, begin)
        position = dict(begin)
        open_ones = set(begin)
        while open_ones and not self._stopped.is_set():
            by_partition: dict[int, list[Any]] = defaultdict(list)
            for message in reader.arrived(0.05):
                by_partition[message.partition()].append(message)
            for partition in list(open_ones):
                messages = by_partition.get(partition, [])
                end = messages[-1].offset() + 1 if messages else reader.ends.get(partition, position[partition])
                if end <= position[partition] and not self._is_at_tail(partition, end):
                    continue
                if not self._in_loop(self._hand_behind, partition, messages, position[partition], end):
                    open_ones.discard(partition)
                position[partition] = end
        reader.consumer.unassign()

    def _is_at_tail(self, partition: int, end: int) -> bool:
        return end >= self.delivered[partition]

    def _in_loop(self, call: Any, *arguments: Any) -> Any:
        """Calls in the loop's thread, and waits: so nothing piles up between the two."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(call(*arguments))
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        while not self._stopped.is_set():
            try:
                return done.result(0.2)
            except TimeoutError:
                if done.done():
                    raise
        return None
