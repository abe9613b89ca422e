"""What a worker shows of itself, and why a pair did or did not match."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pastforward.broker import Broker, any_port
from pastforward.columns.times import datetime_of
from pastforward.schemas import CanonicalSubscription, Rendezvous, Version, Withdrawal, decode_rendezvous, encode
from pastforward.settings import load
from pastforward.streams.explain import Explainer
from pastforward.topics import connect, ensure
from tests.conftest import Command, StartWorker
from tests.outside import PATIENCE, Outside
from tests.streams.system import Setup
from tests.streams.worker.test_edges import Plain, stamped

pytestmark = pytest.mark.broker
PLACE = "88"


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


# ------------------------------------------------------------------------------------------------------------------ metrics


def test_metrics_health_ready_and_json_lines(broker: Broker, start_worker: StartWorker) -> None:
    worker = start_worker(topic_prefix="seen.", partitions=1, log_format="json", notification_format="json")
    worker.wait_ready()
    client = Outside(broker.bootstrap, "seen.")
    client.subscribe("s", topic="1", where="x > 1")
    client.stored("s")
    client.publish("p", topic="1", attributes={"x": 2}, best={"attribute": "x", "prefer": "highest"})
    client.publish("q", topic="1", attributes={"x": 1})
    client.send("publications", "r", b"{")
    client.notified("s", 2)
    client.wait("dead-letters", lambda m: True)
    client.close()
    wanted = {
        ("lag_records", "0", "seen.publications"): 0,
        ("records_total", "seen.publications"): 3,
        ("matches_total", "live"): 1,
        ("notifications_total", "best"): 1,
        ("dead_letters_total", "malformed"): 1,
        ("live_subscriptions", "0"): 1,
        ("open_auctions", "0"): 1,
        ("state_items", "0"): 3,
    }
    deadline = time.monotonic() + PATIENCE
    found: dict[tuple[str, ...], float] = {}
    settled = ("commit_seconds_count", "seen.rendezvous")
    # some of it is counted after it can be seen, and the state is made durable now and then
    while {key: found.get(key) for key in wanted} != wanted or settled not in found:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
        found = metrics(worker.get("metrics")[1])
    assert found["state_bytes", "0", "disk"] > 0
    assert found["state_bytes", "0", "memory"] > 0
    (index,) = [key for key in found if key[0] == "index_bytes"]
    assert found[("index_subscriptions", *index[1:])] == 1
    for stage in ("compute", "send", "commit"):
        assert found[f"{stage}_seconds_count", "seen.rendezvous"] > 0
    assert found["chunk_records_count", "seen.publications"] > 0
    assert json.loads(worker.get("health")[1])["status"] == "ok"
    status, page = worker.get("ready")
    assert (status, json.loads(page)["ready"], len(json.loads(page)["owned"])) == (200, True, 3)
    assert worker.stop() == 0
    lines = [json.loads(line) for line in worker.said().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert any("owner of 3 partitions" in line["message"] for line in lines)


def test_what_is_dropped_is_counted_by_reason(broker: Broker, start_worker: StartWorker) -> None:
    """What the router finds, and what only the matcher can know."""
    worker = start_worker(topic_prefix="drops.", partitions=1, notification_format="json")
    worker.wait_ready()
    client = Outside(broker.bootstrap, "drops.")
    for _ in range(2):
        client.subscribe("s", topic="1")
    client.send("subscriptions", "nobody", None)
    for number in range(3):
        client.publish("p", topic="1")
        client.stored("p", number + 1)
    (kept,) = client.wait("rendezvous", lambda m: m.key() == b"s")
    client.send("rendezvous", "s", kept.value())  # as a worker leaves it that was cut off, at least once
    held = decode_rendezvous(kept.value()).record
    assert isinstance(held, CanonicalSubscription)
    elsewhere = [Version(held.version.arrived_at - 1, 1, offset) for offset in range(2)]
    older = [replace(held, version=elsewhere[0]), Withdrawal("stranger", elsewhere[1])]
    for offset, record in enumerate(older):
        envelope = Rendezvous("subscriptions", 1, offset, held.version.arrived_at - 1, 1, (0,), record)
        client.send("rendezvous", "s", encode(envelope))
    client.close()
    wanted = {
        "same_subscription": 1,
        "unknown_withdrawal": 2,
        "repeated_publication": 2,
        "repeat": 1,
        "older_version": 1,
    }
    found: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE
    while found != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
        counted = metrics(worker.get("metrics")[1])
        found = {key[1]: value for key, value in counted.items() if key[0] == "dropped_total" and value}


def metrics(page: str) -> dict[tuple[str, ...], float]:
    """By name without the prefix, and the values of the labels in the order of their names."""
    return {
        (
            sample.name.removeprefix("pastforward_"),
            *(sample.labels[label] for label in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_status_line_on_a_terminal(broker: Broker, tmp_path: Any) -> None:
    ours, theirs = pty.openpty()
    worker = subprocess.Popen(
        [
            *(sys.executable, "-m", "pastforward", "worker", "--bootstrap-servers", broker.bootstrap),
            *("--topic-prefix", "status.", "--partitions", "1", "--data-dir", str(tmp_path)),
            *("--web-port", str(any_port())),
        ],
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while b"3 partitions  0 records/s  0 notifications/s  lag 0" not in said:
            try:
                said += os.read(ours, 1000)
            except OSError:  # nobody writes there any more
                raise AssertionError(said.decode()) from None
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        os.close(ours)


def test_a_subscription_that_comes_through_two_partitions(broker: Broker, start_worker: StartWorker, name: str) -> None:
    """The higher version wins, and a metric and a warning say so."""
    worker = start_worker(topic_prefix="moved.", partitions=2, notification_format="json")
    worker.wait_ready()
    client = Outside(broker.bootstrap, "moved.")
    for number in (0, 1):
        fields = {"subscriber_id": "s", "topic": "1", "where": f"x = {number}"}
        client.send("subscriptions", name, fields, partition=number)
        client.stored(name, number + 1)
    for number in (0, 1):
        client.publish(f"{name}-{number}", topic="1", attributes={"x": number})
        client.stored(f"{name}-{number}")
    assert [n["publication_id"] for n in client.notified(name)] == [f"{name}-1"]
    client.close()
    assert metrics(worker.get("metrics")[1])["moved_subscriptions_total",] == 1
    assert worker.stop() == 0
    assert "came through another partition" in worker.said()


# ------------------------------------------------------------------------------------------------------------------ explain


@pytest.fixture
def why(broker: Broker, outside: Outside) -> Any:
    def ask(subscription: str, publication: str, prefix: str = outside.prefix) -> tuple[str, str]:
        settings = load({"topic_prefix": prefix, "hot_window": "10m"}, environment={})
        verdict = Explainer(settings, broker.bootstrap).explain(subscription, publication)
        return verdict.outcome, "; ".join(verdict.reasons)

    return ask


def test_the_command(broker: Broker, outside: Outside, command: Command, name: str) -> None:
    outside.subscribe(name, topic=PLACE)
    outside.stored(name)
    outside.publish(f"{name}-p", topic=PLACE)
    outside.publish(f"{name}-q", topic="1")
    outside.notified(name)
    outside.stored(f"{name}-q")
    flags = ("--bootstrap-servers", broker.bootstrap, "--topic-prefix", outside.prefix, "--hot-window", "10m")
    done = command("explain", name, f"{name}-p", *flags)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "matched"), done.stderr
    done = command("explain", name, f"{name}-q", "--json", *flags)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (3, "not matched"), done.stderr


CASES: list[tuple[dict[str, Any], dict[str, Any], bool, str, str]] = [
    # subscription, publication, is the publication first?, outcome, what is said
    ({}, {}, False, "matched", "live, notified to"),
    ({"starts_at": 0}, {}, True, "matched", "past, notified to"),
    ({}, {"topic": f"{PLACE}9"}, False, "not matched", f"topic: '{PLACE}9' is not above, at or below '{PLACE}'"),
    ({"scope": "subtree", "topic": f"{PLACE}.1"}, {}, False, "not matched", "is not at or below"),
    ({}, {}, True, "not matched", "time: published at"),
    ({"ends_at": 5, "starts_at": 1}, {}, False, "not matched", "to 1970-01-01T00:00:00.000"),
    (
        {"where": "x > 3 AND y = 1"},
        {"attributes": {"x": 2, "y": 1}},
        False,
        "not matched",
        "predicate: x > 3 failed on 2",
    ),
    ({"where": "x > 3"}, {"where": "x < 2"}, False, "not matched", "predicate: no alternative"),
    ({}, {"expires_at": 5, "published_at": 4}, False, "not matched", "time: published at 1970"),
    ({"starts_at": 0}, {"expires_at": 5, "published_at": 4}, False, "not matched", "expiry: it had expired at 1970"),
    ({"starts_at": 0}, {"published_at": 4}, True, "not matched", "the history answers"),
    ({"where": "x >"}, {}, False, "not matched", "the subscription was refused"),
    ({}, {"attributes": {"x": [1]}}, False, "not matched", "the publication was refused"),
]


def test_why(outside: Outside, why: Any, name: str) -> None:
    for number, (subscription, publication, publication_first, _, _) in enumerate(CASES):
        s, p = f"{name}-s{number}", f"{name}-p{number}"
        sends = [
            lambda s=s, fields=subscription: outside.subscribe(s, **{"topic": PLACE, **fields}),
            lambda p=p, fields=publication: outside.publish(p, **{"topic": PLACE, **fields}),
        ]
        for send, key in sorted(
            zip(sends, (s, p), strict=True), key=lambda each: each[1] == (s if publication_first else p)
        ):
            send()
            outside.routed(key)
    outside.settle(PLACE)
    for number, (_, _, _, outcome, says) in enumerate(CASES):
        found, reasons = why(f"{name}-s{number}", f"{name}-p{number}")
        assert (found, says in reasons) == (outcome, True), (CASES[number], found, reasons)


def test_why_by_history_of_the_pair(outside: Outside, why: Any, name: str) -> None:
    s, p = f"{name}-s", f"{name}-p"
    assert why(s, p) == ("unknown", f"no subscription '{s}' is in {outside.prefix}subscriptions")
    outside.subscribe(s, topic=PLACE)
    outside.stored(s)
    assert why(s, p) == ("unknown", f"no publication '{p}' is in {outside.prefix}publications")
    # of the same subscriber, with the same reach
    outside.send("subscriptions", f"{s}2", {"subscriber_id": f"{s}'s", "topic": PLACE, "self_join": True})
    outside.stored(f"{s}2")
    outside.publish(p, topic=PLACE)
    outside.notified(s)
    assert why(s, p)[0] == "matched"
    assert why(f"{s}2", p) == (
        "not matched",
        f"self-join: '{s}' of the same subscriber came earlier and matches as well",
    )
    outside.send("subscriptions", s, None)
    outside.stored(s, 2)
    outcome, reason = why(s, p)
    assert outcome == "unknown"
    assert reason.startswith("the subscription was withdrawn at")


def test_why_by_an_id_that_was_made_up(outside: Outside, why: Any, name: str) -> None:
    """As notifications and the history have it."""
    outside.subscribe(name, topic=PLACE)
    outside.stored(name)
    outside.send("publications", None, {"topic": PLACE})
    (told,) = outside.notified(name)
    made_up = told["publication_id"]
    assert made_up.startswith("~")
    assert why(name, made_up)[0] == "matched"
    assert why(name, made_up.removeprefix("~"))[0] == "unknown"


def test_why_of_one_id_on_several_topics(outside: Outside, why: Any, name: str) -> None:
    """The event whose topic overlaps counts, whichever came first; if there is none, each is named."""
    here, elsewhere = f"{name}-here", f"{name}-elsewhere"
    outside.subscribe(here, topic=PLACE)
    outside.subscribe(elsewhere, topic="77")
    outside.subscribe(f"{name}-both", topic=PLACE, where="x = 2")
    outside.settle(PLACE)
    outside.stored(elsewhere)
    topics = ("1", PLACE, f"{PLACE}.1")
    for number, topic in enumerate(topics):
        outside.publish(f"{name}-p", topic=topic, attributes={"x": number})
        outside.stored(f"{name}-p", number + 1)
    assert len(outside.notified(here, 2)) == 2
    outcome, reasons = why(here, f"{name}-p")
    assert (outcome, reasons.count("notified to")) == ("matched", 2)
    assert f"at '{PLACE}': live" in reasons
    outcome, reasons = why(f"{name}-both", f"{name}-p")
    assert (outcome, f"at '{PLACE}.1': live" in reasons, f"at '{PLACE}':" in reasons) == ("matched", True, False)
    outcome, reasons = why(elsewhere, f"{name}-p")
    assert (outcome, [f"topic: '{topic}' is not" in reasons for topic in topics]) == ("not matched", [True] * 3)


def test_why_goes_by_arrivals_that_never_go_back(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, why: Any
) -> None:
    """A publication and a subscription without times, behind a stamp that lies ahead: both have that one as their arrival."""
    system = Plain(broker.bootstrap, start_worker, tmp_path, Setup("explained.", partitions=1))
    system.start_all()
    system.wait_ready()
    begin = int(time.time() * 1000)
    stamped(system, "CreateTime")  # from here on the stamps are the test's
    system.at = begin + 60_000
    system.publish("ahead", x=1)
    system.subscribe("ahead", "x = 1")
    system.at = begin - 60_000
    system.subscribe("back", "x = 1")
    system.flush()
    system.wait()
    system.publish("back", x=1)
    system.flush()
    system.wait()
    assert ("back", "back") in system.told()
    assert why("back", "back", "explained.")[0] == "matched"
    system.subscribe("back", "x = 2")
    system.flush()
    system.wait()
    arrived_at = datetime_of((begin + 60_000) * 1000).isoformat(timespec="milliseconds")
    outcome, reasons = why("back", "back", "explained.")
    assert (outcome, f"this is the version that came at {arrived_at}" in reasons) == ("not matched", True), reasons
    system.finish()


def test_not_yet_processed(broker: Broker, outside: Outside, why: Any) -> None:
    settings = load({"topic_prefix": "nobody.", "partitions": "1"}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    client = Outside(broker.bootstrap, "nobody.")
    client.subscribe("s")
    client.close()
    outcome, reason = why("s", "p", "nobody.")
    assert outcome == "not yet processed"
    assert reason == "no worker has ever run here: start one"
