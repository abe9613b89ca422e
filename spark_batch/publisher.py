"""Sends what the outbox holds: for each request its notifications and the tombstone that closes it, in one transaction.

There is one publisher at a time: they all have the same transactional id, and a new one fences the others and ends what they had begun
before it looks which requests are open. A request that is closed by then was sent; everything else was not. So a kill at any moment
neither loses nor duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from pastforward import topics
from pastforward.errors import UserError
from pastforward.schemas import Version
from pastforward.settings import Settings
from pastforward.spark_batch.requests import Requests, is_over
from pastforward.spark_batch.tables import Places

MESSAGES: Final = (
    5_000  # of a transaction, at least, as long as requests are there: a transaction costs some milliseconds
)
TRANSACTION_MS: Final = (
    900_000  # the most a broker allows by default: a request with millions of pairs is one transaction
)
TIMEOUT: Final = 60.0  # seconds for the start and the end of a transaction
ROWS: Final = 8_192  # of a batch read from the outbox


@dataclass(slots=True)
class Sent:
    requests: int = 0
    notifications: int = 0


class Publisher:
    """Made once a run; from then on no other can write. `close` when done."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self._topics = topics.Topics(settings.topic_prefix)
        self._failed: list[str] = []
        self._messages = 0
        self._producer: Any = topics.make_client(
            Producer,
            topics.client_config(
                settings,
                bootstrap,
                **{
                    "transactional.id": f"{settings.topic_prefix}backfill",
                    "transaction.timeout.ms": TRANSACTION_MS,
                    "partitioner": "murmur2_random",  # a recipient's notifications come through one partition, as the workers'
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "message.max.bytes": topics.TOLD,
                },
            ),
        )
        self._ask(self._producer.init_transactions, TIMEOUT)
        self._open = False

    def publish(
        self, places: Places, run_names: list[str], requests: Requests, versions: Mapping[str, Version]
    ) -> Sent:
        """Sends all runs of the outbox. `requests` must have been read after this publisher was made."""
        sent = Sent()
        waiting = requests.offsets
        over = {each.key for each in requests.open if is_over(each.request, versions)}
        for run in run_names:
            for key, offset, closes, recipient, value in _rows(places, run):
                if waiting.get(key) != offset:
                    continue
                if closes:
                    self._close(key)
                    del waiting[key]
                    sent.requests += 1
                elif key not in over:
                    self._send(self._topics.notifications, recipient, value)
                    sent.notifications += 1
        self._commit()
        return sent

    def drop(self, keys: list[bytes]) -> None:
        """Closes requests without an answer."""
        for key in keys:
            self._close(key)
        self._commit()

    def close(self) -> None:
        if self._open:
            self._ask(self._producer.abort_transaction, TIMEOUT)

    def _close(self, key: bytes) -> None:
        self._send(self._topics.backfill_requests, key, None)
        if self._messages >= MESSAGES:
            self._commit()

    def _send(self, topic: str, key: bytes, value: bytes | None) -> None:
        if not self._open:
            self._ask(self._producer.begin_transaction)
            self._open = True
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: let some of it go
            else:
                break
        self._messages += 1
        if self._messages % 256 == 0:
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _commit(self) -> None:
        if self._open:
            self._ask(self._producer.commit_transaction, TIMEOUT)
            self._open = False
            self._messages = 0

    def _ask(self, step: Any, *arguments: Any) -> None:
        while True:
            try:
                step(*arguments)
            except KafkaException as error:
                found = error.args[0]
                if found.retriable():
                    continue
                if found.code() == KafkaError._FENCED or found.code() == KafkaError.INVALID_PRODUCER_EPOCH:
                    raise UserError("another `history backfill` has taken over; let it finish") from error
                reason = self._failed[0] if self._failed else found.str()
                raise UserError(f"Kafka does not take the answers: {reason}; run `history backfill` again") from error
            else:
                return


def _rows(places: Places, run: str) -> Iterator[tuple[bytes, int, bool, bytes, bytes | None]]:
    """The rows of a run, file by file, in the order in which they were written."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    dataset = DeltaTable(places.outbox).to_pyarrow_dataset()
    of_run = ds.field("run") == run
    for fragment in dataset.get_fragments(of_run):
        scanned = fragment.to_batches(schema=dataset.schema, filter=of_run, batch_size=ROWS, use_threads=False)
        for batch in scanned:
            columns = [
                batch.column(name).to_pylist() for name in ("request", "request_offset", "closes", "recipient", "value")
            ]
            yield from zip(*columns, strict=True)
