"""`pastforward routing apply` and `abort`: lead a change of the routing on a running system, step by step, or drop it.

What has been decided stands in the directory (`streams.routing.change`), so a change that was cut off is finished by the next call.
Decisions are written in transactions under one name: whoever decides next fences all before, so that no command goes on with a change that
another one has dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from pastforward import topics
from pastforward.errors import UserError
from pastforward.schemas import SchemaError, decode_rendezvous, decode_rendezvous_chunk
from pastforward.settings import Settings
from pastforward.streams.matcher.best_offers import KEY as AUCTION
from pastforward.streams.matcher.held import auction_of, unpack
from pastforward.streams.routing import Directory, Publication, RoutingError
from pastforward.streams.routing.change import STATE, State, View, version_key
from pastforward.streams.worker.directory import Said, decide, directory_producer, group_of, read_directory
from pastforward.topics import Topics

PAUSE: Final = 0.1  # seconds between two looks
NEAR: Final = 2_000  # records behind the end: a moment's work
WAIT: Final = 0.2  # seconds that a read of many waits for more
CHUNK: Final = 10_000  # records read at once
TIMEOUT: Final = 30.0  # seconds for an answer of the broker

Ends = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Step:
    """For the progress on the screen: what goes on, how many records are left, and of how many."""

    name: str
    left: int
    total: int


Report = Callable[[Step], None]


class Change:
    """From the version in force to the next one."""

    def __init__(self, settings: Settings, bootstrap: str, report: Report) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._report = report
        self._admin: AdminClient = topics.connect(settings, bootstrap)
        self._inputs = Topics(settings.topic_prefix)
        self._producer: Any = None
        self._consumer: Any = topics.make_client(
            Consumer,
            topics.client_config(
                settings,
                bootstrap,
                **{
                    "group.id": f"{settings.topic_prefix}change",
                    **topics.TO_THE_END,
                },
            ),
        )

    def close(self) -> None:
        self._consumer.close()

    def view(self) -> View:
        view = read_directory(self._settings, self._bootstrap)
        try:
            view.current()
        except RoutingError as error:
            raise UserError(str(error)) from error
        return view

    # ------------------------------------------------------------------------------------------ the steps

    def begin(self, wanted: Directory, *, drop_auctions: bool = False) -> None:
        """Makes the topics of the new version, says where its routers begin to read, and announces it. `wanted`: without a version.
        Auctions that are open go with it; `drop_auctions`: but for those that it cannot hold, which are then told of no more."""
        self._take_charge()
        view = self.view()
        state = view.current()
        if state.next is not None:
            raise UserError(
                f"a change to version {state.next} is under way; finish it first: `pastforward routing apply` without options, "
                f"or drop it: `pastforward routing abort`"
            )
        current = view.versions[state.in_force]
        if replace(current, version=0, begins_at=0, starts=()) == replace(wanted, version=0):
            raise UserError(f"that is what is in force already (version {state.in_force})")
        version = max(view.versions) + 1
        try:
            wanted.make()
        except RoutingError as error:
            raise UserError(str(error)) from error
        auctions = self._check_live(state.in_force, wanted, drop_auctions)
        topics.create_version(self._settings, self._admin, version, wanted.partitions)
        begins_at = int(time.time() * 1e6) - 2 * self._settings.hot_window
        starts = self._starts(state.in_force, begins_at)
        self._set_offsets(version, starts)
        entry = replace(wanted, version=version, begins_at=begins_at, starts=tuple(starts[p] for p in sorted(starts)))
        inherited = self._inherited(version, wanted, auctions, starts)
        self._say(
            [(version_key(version), entry.to_bytes()), (STATE, State(state.in_force, version).to_bytes())], inherited
        )

    def finish(self) -> int:
        """Waits until the new version has caught up, flips the tag, waits until the old one has nothing left. Returns the version."""
        self._take_charge()
        view = self.view()
        state = view.current()
        if state.next is None:
            raise UserError(
                "no change is under way; say what to change, for example --scheme pan --catalog catalog.toml"
            )
        version = state.next
        if not state.flipping:
            self._catch_up(version)
            self._say([(STATE, State(state.in_force, version, flipping=True).to_bytes())])
        flips = self._wait_for_flips(version)
        self._drain(state.in_force, version, flips)
        self._say([(STATE, State(version).to_bytes())])
        return version

    def abort(self) -> int:
        """Drops the version that is being built; returns it. The one in force has done all the work, so nothing is lost or repeated. Once
        the tag flips there is no way back: the old routers stop for good, each at its own moment."""
        self._take_charge()
        state = self.view().current()
        if state.next is None:
            raise UserError("no change is under way")
        if state.flipping:
            raise UserError(
                f"version {state.next} has begun to take over, and cannot be dropped any more; "
                f"finish the change: `pastforward routing apply` without options"
            )
        self._say([(STATE, State(state.in_force).to_bytes())])
        return state.next

    # ------------------------------------------------------------------------------------------ how

    def _take_charge(self) -> None:
        """From here on no other command can decide; what those before have decided is there to be read."""
        if self._producer is None:
            self._producer = directory_producer(self._settings, self._bootstrap)

    def _check_live(self, version: int, wanted: Directory, drop_auctions: bool) -> dict[bytes, bytes]:
        """The open auctions that the new version can hold, as the changelog has them. Raises if there is something that it cannot hold."""
        name = Topics(self._settings.topic_prefix, version).live
        held: dict[bytes, bytes] = {}
        for message in self._records(name):
            if message.value() is None:
                held.pop(message.key(), None)
            else:
                held[message.key()] = message.value()
        scheme = wanted.make()
        auctions: dict[bytes, bytes] = {}
        refused: list[tuple[str, str]] = []
        for key in [key for key in held if key.startswith(AUCTION)]:
            record, _, _ = auction_of(held[key])
            try:
                scheme.accepts.check_best(record.topic)
                auctions[key] = held[key]
            except SchemaError as error:
                refused.append((record.publication_id, error.reason))
        if refused and not drop_auctions:
            one, reason = refused[0]
            raise UserError(
                f"{len(refused)} auctions are open that the new version cannot hold, for example that of {one}: {reason}. "
                f"Try again when they have ended, or give them up with --drop-auctions"
            )
        if scheme.keeps_topics_together:
            return auctions
        live = [value for key, value in held.items() if not key.startswith(b"\0")]
        for start in range(0, len(live), CHUNK):
            columns = decode_rendezvous_chunk(live[start : start + CHUNK])
            for row in np.flatnonzero(columns.self_join)[:1].tolist():
                one = (columns.id[row] or b"").decode()
                raise UserError(f"subscription {one} joins itself, which needs dewey routing; withdraw such ones first")
        return auctions

    def _inherited(
        self, version: int, wanted: Directory, auctions: dict[bytes, bytes], starts: dict[int, int]
    ) -> list[Said]:
        """Records of the new version's changelog: auctions whose publications it will not read again."""
        scheme, topic = wanted.make(), Topics(self._settings.topic_prefix, version).live
        found = []
        for key, payload in auctions.items():
            envelope = decode_rendezvous(unpack(payload)[0])
            if envelope.offset < starts.get(envelope.partition, 0):
                record, _, _ = auction_of(payload)
                routed = Publication(record.publication_id, record.topic, record.attributes, record.where)
                (partition,) = scheme.publication(routed)
                found.append((topic, partition, key, payload))
        return found

    def _records(self, name: str) -> Iterator[Any]:
        for partition, (first, end) in topics.watermarks(self._consumer, name).items():
            self._consumer.assign([TopicPartition(name, partition, first)])
            at = first
            while at < end:
                for message in topics.arrived(self._consumer, CHUNK, WAIT):
                    if message.error() is None:
                        at = message.offset() + 1
                        yield message
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        at = end
                    else:
                        raise KafkaException(message.error())

    def _starts(self, old: int, begins_at: int) -> dict[int, int]:
        """Where the new version begins to read publications; where nothing is recent, with what the old one reads next."""
        name = self._inputs.publications
        there = topics.watermarks(self._consumer, name)
        read = self._committed(old, [TopicPartition(name, p) for p in there])
        asked = [TopicPartition(name, p, max(0, begins_at // 1000)) for p in there]
        found = topics.patiently(lambda: self._consumer.offsets_for_times(asked, TIMEOUT))
        recent = {p.partition: p.offset for p in found if p.offset >= 0}
        return {p: recent.get(p, max(first, read.get((name, p), 0))) for p, (first, _) in there.items()}

    def _set_offsets(self, version: int, starts: dict[int, int]) -> None:
        """All subscriptions, and the publications from `starts` on."""
        places = [TopicPartition(self._inputs.publications, p, at) for p, at in starts.items()]
        for p, (first, _) in topics.watermarks(self._consumer, self._inputs.subscriptions).items():
            places.append(TopicPartition(self._inputs.subscriptions, p, first))
        asked = [ConsumerGroupTopicPartitions(group_of(self._settings, version), places)]
        for future in self._admin.alter_consumer_group_offsets(asked).values():
            future.result()

    def _catch_up(self, version: int) -> None:
        names = [*self._input_names, Topics(self._settings.topic_prefix, version).rendezvous]
        total = 0
        while True:
            left = self._lag(version, names, self._ends(names))
            total = max(total, left)
            self._report(Step("the new version reads what is live and hot", left, total))
            if left <= NEAR:
                return
            time.sleep(PAUSE)

    def _wait_for_flips(self, version: int) -> Ends:
        wanted = {
            (name, p) for name in ("subscriptions", "publications") for p in self._ends_of(getattr(self._inputs, name))
        }
        while True:
            view = self.view()
            flips = {(name, p): at for (v, name, p), at in view.flips.items() if v == version}
            self._report(Step("input partitions change over", len(wanted - flips.keys()), len(wanted)))
            if wanted <= flips.keys():
                return {(getattr(self._inputs, name), p): at for (name, p), at in flips.items()}
            time.sleep(PAUSE)

    def _drain(self, old: int, version: int, flips: Ends) -> None:
        """The old routers have said their last word, so the log of the old version ends here, but for ticks."""
        name = Topics(self._settings.topic_prefix, old).rendezvous
        ends = self._ends([name])
        total = 0
        while True:
            left = self._unread(old, ends) + self._lag(version, self._input_names, flips)
            total = max(total, left)
            self._report(Step("the old version matches what it has", left, total))
            if not left:
                return
            time.sleep(PAUSE)

    def _unread(self, version: int, ends: Ends) -> int:
        """Like `_lag`, but the markers of transactions at the end, which nobody reads, do not count."""
        read = self._committed(version, [TopicPartition(name, p) for name, p in ends])
        behind = 0
        for (name, p), end in ends.items():
            at = max(0, read.get((name, p), 0))
            if at < end and self._next_record(name, p, at) < end:
                behind += end - at
        return behind

    def _next_record(self, name: str, partition: int, at: int) -> float:
        self._consumer.assign([TopicPartition(name, partition, at)])
        while True:
            message = self._consumer.poll(TIMEOUT)
            if message is None:
                raise UserError(f"{name} partition {partition} cannot be read; is the broker there?")
            if message.error() is None:
                return float(message.offset())
            if message.error().code() == KafkaError._PARTITION_EOF:
                return math.inf
            raise KafkaException(message.error())

    @property
    def _input_names(self) -> list[str]:
        return [self._inputs.subscriptions, self._inputs.publications]

    def _ends_of(self, name: str) -> dict[int, int]:
        return {p: end for p, (_, end) in topics.watermarks(self._consumer, name).items()}

    def _ends(self, names: Iterable[str]) -> Ends:
        return {(name, p): end for name in names for p, end in self._ends_of(name).items()}

    def _lag(self, version: int, names: list[str], ends: Ends) -> int:
        """Offsets between what the group of a version has committed and some ends."""
        wanted = {place: end for place, end in ends.items() if place[0] in names}
        read = self._committed(version, [TopicPartition(name, p) for name, p in wanted])
        return sum(max(0, end - max(0, read.get(place, 0))) for place, end in wanted.items())

    def _committed(self, version: int, places: list[TopicPartition]) -> Ends:
        asked = [ConsumerGroupTopicPartitions(group_of(self._settings, version), places)]
        (future,) = self._admin.list_consumer_group_offsets(asked).values()
        return {(at.topic, at.partition): at.offset for at in future.result().topic_partitions if at.offset >= 0}

    def _say(self, entries: list[tuple[bytes, bytes]], more: Sequence[Said] = ()) -> None:
        decide(self._producer, [*more, *((self._inputs.directory, 0, key, value) for key, value in entries)])
