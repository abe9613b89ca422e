"""Which of the pairs that were found belong to which request: the rules of hot and cold, and of who reports a pair.

A pair of a subscription and a publication is reported by the smallest partition they share; if that partition wrote a request, the pair
is that request's, provided the publication came up to the request's cut, is held before its horizon, and had not expired at its log time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pastforward.columns.arrow import texts_of
from pastforward.columns.kernel import kernel
from pastforward.matching.conditions.oracle import Subscription
from pastforward.schemas import BackfillRequest, CanonicalSubscription, SchemaError
from pastforward.spark_batch.pairs import Found
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.rows import micros, normal_forms
from pastforward.streams.reference import query_of
from pastforward.streams.routing import Directory, Placement, Publications
from pastforward.streams.routing import Subscription as RoutedSubscription

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

NO_CUT = -1  # the partition had seen nothing
MOST_PARTITIONS = 4_096  # of a topic, as the setting PARTITIONS takes them


@dataclass(frozen=True)
class Report:
    """`requests[subscription, partition]` is the number of a request, or -1. `covers[request]` are numbers of subscriptions.

    Travels to the workers; the scheme is made there.
    """

    directory: Directory
    requests: I32
    placed_start: I64
    placed: I32
    horizon: I64
    log_time: I64
    cut: I64  # by request and partition of the publications
    above: I64  # the same: of one that was paused, what it does not ask for again
    covers: dict[int, tuple[int, ...]]

    @cached_property
    def _scheme(self) -> Any:
        return self.directory.make()

    def __call__(self, found: Found) -> tuple[I64, I64]:
        row, asked = found.row, found.asked
        if not len(row):
            return row, asked
        placement = self._placement(found)
        reporting = np.empty(len(row), np.int64)
        smallest_shared(self.placed_start, self.placed, asked, placement.start, placement.partition, row, reporting)
        request = self.requests[asked, reporting].astype(np.int64)
        request[reporting < 0] = -1
        batch = found.batch
        arrived, published = micros(batch.column("arrived_at")), micros(batch.column("published_at"))
        held, expires = np.minimum(published, arrived), micros(batch.column("expires_at"))
        partition = batch.column("partition").to_numpy().astype(np.int64)
        offset = batch.column("offset").to_numpy()
        keep = request >= 0
        keep &= held[row] < self.horizon[request]
        keep &= expires[row] > self.log_time[request]
        known = partition[row] < self.cut.shape[1]
        place = request, np.where(known, partition[row], 0)
        keep &= known & (offset[row] <= self.cut[place]) & (offset[row] > self.above[place])
        if self.covers:
            self._leave_out_covered(row, asked, request, keep)
        return row[keep], request[keep]

    def _placement(self, found: Found) -> Placement:
        rows = found.batch.num_rows
        if self.directory.partitions == 1:
            return Placement(np.arange(rows + 1, dtype=np.int64), np.zeros(rows, np.int32))
        forms = normal_forms(found.batch)
        conditions = {} if forms is None else {row: form for row, form in enumerate(forms) if form is not None}
        ids, topics = (texts_of(found.batch.column(name)) for name in ("publication_id", "topic"))
        placement: Placement = self._scheme.route_publications(Publications(ids, topics, found.attributes, conditions))
        return placement

    def _leave_out_covered(self, row: I64, asked: I64, request: I64, keep: npt.NDArray[np.bool_]) -> None:
        matched = set(zip(row.tolist(), asked.tolist(), strict=True))
        for i in np.flatnonzero(keep).tolist():
            at = int(row[i])
            keep[i] = not any((at, other) in matched for other in self.covers.get(int(request[i]), ()))


@kernel
def smallest_shared(a_start: Any, a: Any, a_row: Any, b_start: Any, b: Any, b_row: Any, out: I64) -> None:
    """The smallest partition that two sorted lists share, for each pair of rows; -1 if they share none."""
    for pair in range(len(out)):
        i, i_end = a_start[a_row[pair]], a_start[a_row[pair] + 1]
        j, j_end = b_start[b_row[pair]], b_start[b_row[pair] + 1]
        out[pair] = -1
        while i < i_end and j < j_end:
            if a[i] == b[j]:
                out[pair] = a[i]
                break
            if a[i] < b[j]:
                i += 1
            else:
                j += 1


def make_report(requests: list[Open], directory: Directory) -> tuple[list[Subscription], Report]:
    """The subscriptions to look for, each version once, and who gets the pairs."""
    scheme = directory.make()
    numbers: dict[tuple[str, str], int] = {}
    subscriptions: list[CanonicalSubscription] = []

    def number_of(subscription: CanonicalSubscription) -> int:
        name = (subscription.subscription_id, str(subscription.version))
        if name not in numbers:
            numbers[name] = len(subscriptions)
            subscriptions.append(subscription)
        return numbers[name]

    asked = [number_of(each.request.subscription) for each in requests]
    by_request: dict[int, tuple[int, ...]] = {}
    for number, each in enumerate(requests):
        if each.request.covers:
            by_request[number] = tuple(number_of(other) for other in each.request.covers)
    for each in requests:
        _check(each.request, directory)
    lookup = np.full((len(subscriptions), directory.partitions), -1, np.int32)
    inputs = 1 + max((partition for each in requests for partition in each.request.cut), default=0)
    cut, above = np.full((2, len(requests), inputs), NO_CUT, np.int64)
    for number, each in enumerate(requests):
        lookup[asked[number], each.request.rendezvous_partition] = number
        for partition, offset in each.request.cut.items():
            cut[number, partition] = offset
            above[number, partition] = each.request.above.get(partition, NO_CUT)
    placed = Placement.of([scheme.subscription(_routed(s)) for s in subscriptions])
    report = Report(
        directory,
        lookup,
        placed.start,
        placed.partition,
        np.array([each.request.horizon for each in requests], np.int64),
        np.array([each.request.log_time for each in requests], np.int64),
        cut,
        above,
        by_request,
    )
    return [query_of(subscription) for subscription in subscriptions], report


def _check(request: BackfillRequest, directory: Directory) -> None:
    if not 0 <= request.rendezvous_partition < directory.partitions:
        raise SchemaError(
            "bad_value", f"rendezvous_partition is {request.rendezvous_partition} of {directory.partitions}"
        )
    if any(not 0 <= partition < MOST_PARTITIONS for partition in request.cut):
        raise SchemaError("bad_value", f"cut names a partition of the publications topic above {MOST_PARTITIONS}")


def _routed(s: CanonicalSubscription) -> RoutedSubscription:
    return RoutedSubscription(s.subscription_id, s.topic, s.scope, s.where, s.semantics, s.self_join)
