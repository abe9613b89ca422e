"""What version 0.1 wrote is there, and the present decoders read it."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pastforward.schemas import (
    SchemaError,
    Withdrawal,
    decode_backfill_request,
    decode_best_offer,
    decode_dead_letter,
    decode_notification,
    decode_publication,
    decode_rendezvous,
    decode_subscription,
)
from pastforward.state import UnusableError, open_store
from pastforward.state.directory import FORMAT
from pastforward.streams.matcher.matcher import PROGRESS
from pastforward.streams.matcher.progress import decode_progress
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing.change import View
from pastforward.streams.stages.outgoing import Outgoing

FIXTURE = Path(__file__).parent / "fixtures" / "0.1"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text())
PREFIX = EXPECTED["settings"]["topic_prefix"]
MOST = 1_000_000  # bytes: a fixture is cloned with every copy of the repository


@pytest.fixture(scope="module")
def records() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(FIXTURE / "records.jsonl.gz") as lines:
        for line in lines:
            record = json.loads(line)
            for part in ("key", "value"):
                record[part] = None if record[part] is None else base64.b64decode(record[part])
            found.setdefault(record["topic"].removeprefix(PREFIX), []).append(record)
    return found


def unpack(name: str, target: Path) -> Path:
    with tarfile.open(FIXTURE / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / name


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURE.iterdir()) < MOST


def test_every_record_decodes(records: dict[str, list[dict[str, Any]]]) -> None:
    assert {PREFIX + name: len(found) for name, found in records.items()} == EXPECTED["records"]
    refused = Counter()
    for name, decode in (("subscriptions", decode_subscription), ("publications", decode_publication)):
        for record in records[name]:
            try:
                decode(record["key"], record["value"])  # type: ignore[operator]
            except SchemaError as error:
                refused[error.kind] += 1
    letters = Counter(decode_dead_letter(record["value"]).kind for record in records["dead-letters"])
    assert dict(letters) == EXPECTED["dead_letters"]
    assert not refused - letters
    phases = Counter(decode_notification(record["value"]).phase for record in records["notifications"])
    assert dict(phases) == EXPECTED["phases"]
    offers = [decode_best_offer(record["value"]) for record in records["best-offers"]]
    assert {offer.final for offer in offers} == {False, True}
    requests = [record["value"] for record in records["backfill-requests"]]
    assert all(decode_backfill_request(value) for value in requests if value is not None)
    assert None in requests
    kinds = {type(decode_rendezvous(record["value"]).record).__name__ for record in records["rendezvous"]}
    assert {"CanonicalSubscription", "CanonicalPublication", Withdrawal.__name__} <= kinds


def test_the_directory_and_the_progress_are_read(records: dict[str, list[dict[str, Any]]]) -> None:
    view = View()
    for record in records["directory"]:
        view.apply(record["key"], record["value"])
    assert view.state is not None
    assert view.versions[view.state.in_force].scheme == "dewey"
    described = json.loads((FIXTURE / "topics.json").read_text())
    ends = {(topic, partition): offset for topic, partition, offset, _ in described["groups"][f"{PREFIX}worker"]}
    progress = [record for record in records["live-changelog"] if record["key"] == PROGRESS]
    assert progress
    for record in progress:
        assert decode_progress(record["value"])[1] <= ends[f"{PREFIX}rendezvous", record["partition"]]


def test_the_routes_are_read_and_stay_for_ever(records: dict[str, list[dict[str, Any]]]) -> None:
    """They do not say when a subscription ends."""
    partitions = int(EXPECTED["settings"]["partitions"])
    for number in range(partitions):
        routes, kept = Routes("routes", number), {}
        for record in records["routes-changelog"]:
            if record["partition"] == number:
                routes.restore([SimpleNamespace(**record)])
                kept[record["key"]] = record["value"]
        routes.keep(1)
        routes.advance(1 << 62, Outgoing())
        standing = [key for key, value in kept.items() if value is not None]
        assert standing
        for route in (routes.get(key, 1 << 62) for key in standing):
            assert route is not None
            assert route.ends_at is None
            assert set(route.partitions) <= set(range(partitions))


def test_the_stores_are_of_another_format_and_rebuilt(tmp_path: Path) -> None:
    """A worker sets aside what is unusable, and rebuilds it from Kafka."""
    state = unpack("worker", tmp_path) / "worker" / "state"
    for partition in range(int(EXPECTED["settings"]["partitions"])):
        with pytest.raises(UnusableError, match=f"has format 1, and this version reads {FORMAT}"):
            open_store(state / f"{PREFIX}{partition}", layout="dual")


def test_the_history_opens_without_spark(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = deltalake.DeltaTable(str(unpack("history", tmp_path) / "publications")).to_pyarrow_table()
    assert table.num_rows == EXPECTED["ingested"]
    for column in ("booleans", "integers", "floats", "timestamps", "strings", "points", "circles", "boxes", "paths"):
        assert table.column(column).null_count < table.num_rows


def test_the_broker_has_its_logs(tmp_path: Path) -> None:
    data = unpack("broker", tmp_path) / "data"
    assert (data / "meta.properties").exists()
    assert (data / f"{PREFIX}publications-0").is_dir()
