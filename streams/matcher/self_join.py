"""Whether an earlier subscription of the same subscriber has the publication already."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.dewey import any_overlap, topics_of
from pastforward.matching import Index
from pastforward.schemas import decode_rendezvous_chunk
from pastforward.streams.matcher.conditions import attributes_for, published_conditions
from pastforward.streams.matcher.deciding import Deciding
from pastforward.streams.matcher.held import Publications
from pastforward.streams.matcher.records import read_subscriptions
from pastforward.streams.matcher.subscribers import Subscriber

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TRIED: Final = 1 << 16  # pairs of publications and earlier subscriptions that are tried together: some megabytes


def covered_before(
    deciding: Deciding,
    pairs: list[tuple[int, int, Subscriber]],
    publications: Publications,
    overlapping: dict[int, list[bytes]],
) -> set[tuple[int, int]]:
    """Rows and publications that an earlier subscription of the same subscriber has already. The earliest are tried first: of many that
    match, most are covered by the first."""
    joining = [(row, i, subscriber) for row, i, subscriber in pairs if subscriber.self_join]
    records = dict.fromkeys(payload for row in {row for row, _, _ in joining} for payload in overlapping.get(row, ()))
    if not records:
        return set()
    read = list(read_subscriptions(decode_rendezvous_chunk(list(records)), range(len(records))))
    number = {payload: i for i, payload in enumerate(records)}
    index = Index(algorithm="linear")
    index.add_many([replace(new, subscription_id=i) for i, (_, new) in enumerate(read)])
    covers: dict[int, list[int]] = {}
    for row, _, subscriber in joining:
        if row not in covers:
            others = sorted({number[payload] for payload in overlapping.get(row, ())}, key=lambda i: read[i][0].version)
            covers[row] = [i for i in others if covered(subscriber, [read[i][0]])]
    attributes = attributes_for(deciding, publications, any(subscriber.needs_previous for subscriber, _ in read))
    columns, at = publications.columns, publications.rows
    match = partial(
        index.match_pairs,
        topics=publications.topics(),
        published_at=columns.begins_at[at],
        expires_at=columns.ends_at[at],
        where=published_conditions(deciding, publications),
    )
    found: set[tuple[int, int]] = set()
    left = [(row, i) for row, i, _ in joining]
    begin, step = 0, 1
    while left:
        tried = [(row, i, cover) for row, i in left for cover in covers[row][begin : begin + step]]
        for low in range(0, len(tried), TRIED):
            some = tried[low : low + TRIED]
            rows, handles = np.array([i for _, i, _ in some]), np.array([cover for _, _, cover in some])
            fits = match(attributes, rows, handles)
            found.update(some[pair][:2] for pair in np.flatnonzero(fits).tolist())
        begin += step
        step = max(1, min(2 * step, TRIED // len(left)))
        left = [(row, i) for row, i in left if (row, i) not in found and len(covers[row]) > begin]
    return found


def covered(subscriber: Subscriber, others: Sequence[Subscriber]) -> bool:
    """Has an earlier overlapping subscription of the same subscriber the publication already?"""
    return any(
        other.recipient == subscriber.recipient
        and other.version < subscriber.version
        and not other.paused
        and _overlap(other, subscriber)
        for other in others
    )


def covered_among(asked: Sequence[Subscriber], others: Sequence[Subscriber]) -> Flags:
    """The same for many that match one publication, among all that match it: what each costs does not grow with the others."""
    answer = np.zeros(len(asked), np.bool_)
    seen: defaultdict[bytes, _Seen] = defaultdict(_Seen)
    recipients = {subscriber.recipient for subscriber in asked}
    covering = (other for other in others if other.recipient in recipients and not other.paused)
    earlier = sorted(covering, key=lambda other: other.version)
    taken = 0
    for i in sorted(range(len(asked)), key=lambda i: asked[i].version):
        while taken < len(earlier) and earlier[taken].version < asked[i].version:
            seen[earlier[taken].recipient].add(earlier[taken])
            taken += 1
        answer[i] = seen[asked[i].recipient].overlaps(asked[i])
    return answer


class _Seen:
    """Topics and times of subscriptions, so that one look tells whether any of them overlaps another one."""

    def __init__(self) -> None:
        self._at: defaultdict[str, _Spans] = defaultdict(_Spans)
        self._below: defaultdict[str, _Spans] = defaultdict(_Spans)  # at the topic itself as well

    def add(self, subscriber: Subscriber) -> None:
        for topic in topics_of(subscriber.topic.decode()):
            self._at[topic].add(subscriber.starts_at, subscriber.ends_at)
            for above in _upwards(topic):
                self._below[above].add(subscriber.starts_at, subscriber.ends_at)

    def overlaps(self, subscriber: Subscriber) -> bool:
        topics = topics_of(subscriber.topic.decode())
        below = [self._below.get(topic) for topic in topics]
        above = (self._at.get(topic) for lower in topics for topic in _upwards(lower))
        spans = (each for each in chain(below, above) if each is not None)
        return any(each.overlap(subscriber.starts_at, subscriber.ends_at) for each in spans)


class _Spans:
    """A union of times, begins in and ends out: those that overlap or touch are one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def overlap(self, start: int, end: int) -> bool:
        at = bisect_right(self._ends, start)
        return start < end and at < len(self._ends) and self._starts[at] < end


def _upwards(topic: str) -> Iterator[str]:
    """The topic and all above it."""
    while topic:
        yield topic
        topic = topic.rpartition(".")[0]
    yield ""


def _overlap(a: Subscriber, b: Subscriber) -> bool:
    if max(a.starts_at, b.starts_at) >= min(a.ends_at, b.ends_at):
        return False
    return any_overlap(a.topic.decode(), b.topic.decode())
