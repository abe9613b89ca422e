"""What a worker counts, in Prometheus' terms."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
RECORDS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


class Metrics:
    """One per worker; every counter is touched by one thread at a time."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self._registry, "namespace": "pastforward"}
        self.records = Counter("records", "Input records processed", ["topic"], **made)
        self.matches = Counter("matches", "Pairs found", ["phase"], **made)
        self.notifications = Counter("notifications", "Notifications sent", ["phase"], **made)
        self.dead_letters = Counter("dead_letters", "Input records that could not be taken", ["kind"], **made)
        self.dropped = Counter("dropped", "Records without effect, by reason", ["reason"], **made)
        self.moved = Counter("moved_subscriptions", "Subscriptions that came through two partitions", **made)
        self.interruptions = Counter(
            "interruptions", "Transactions that the broker has given up: the partitions are taken over again", **made
        )
        self.chunk_records = Histogram("chunk_records", "Records in a chunk", ["topic"], buckets=RECORDS, **made)
        self.compute = Histogram("compute_seconds", "Computing a chunk", ["topic"], buckets=SECONDS, **made)
        self.send = Histogram("send_seconds", "Sending and committing a chunk", ["topic"], buckets=SECONDS, **made)
        self.commit = Histogram("commit_seconds", "Making the state durable", ["topic"], buckets=SECONDS, **made)
        self.lag = Gauge("lag_records", "Committed records that are not processed yet", ["topic", "partition"], **made)
        self.index_bytes = Gauge("index_bytes", "Memory of the matching index", ["partition", "algorithm"], **made)
        self.index_subscriptions = Gauge(
            "index_subscriptions", "Subscriptions in the matching index", ["partition", "algorithm"], **made
        )
        self.state_bytes = Gauge("state_bytes", "Size of the store", ["partition", "where"], **made)
        self.searches = Gauge("past_searches", "Searches of the past, by state", ["partition", "state"], **made)
        self.auctions = Gauge("open_auctions", "Publications that ask for offers", ["partition"], **made)
        self.subscriptions = Gauge("live_subscriptions", "Subscriptions held", ["partition"], **made)
        self.items = Gauge("state_items", "Items in the store", ["partition"], **made)
        self.log_time = Gauge("log_time_seconds", "Log time of a rendezvous partition", ["partition"], **made)

        self._of_topic: dict[str, list[Any]] = {}

    def chunk(self, topic: str, records: int, computed: float, sent: float) -> None:
        if topic not in self._of_topic:  # to look a counter up by its label costs as much as to count
            counters: list[Any] = [self.records, self.chunk_records, self.compute, self.send]
            self._of_topic[topic] = [counter.labels(topic) for counter in counters]
        all_records, chunk_records, compute, send = self._of_topic[topic]
        all_records.inc(records)
        chunk_records.observe(records)
        compute.observe(computed)
        send.observe(sent)

    def forget_partitions(self) -> None:
        """What is measured per partition is measured anew: the partitions of a worker change."""
        for gauge in (
            self.lag,
            self.index_bytes,
            self.index_subscriptions,
            self.state_bytes,
            self.searches,
            self.auctions,
            self.subscriptions,
            self.items,
            self.log_time,
        ):
            gauge.clear()

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def total(self, counter: str) -> float:
        """Sum over all labels, for the status line."""
        samples = [sample for metric in getattr(self, counter).collect() for sample in metric.samples]
        return float(sum(sample.value for sample in samples if sample.name.endswith("_total")))
