"""Records that make a worker raise where nobody expects it, on a real broker: they are dead letters, and nothing else is lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pastforward.broker import Broker
from pastforward.matching import Index
from pastforward.schemas import acceptance, decode_dead_letter
from tests.conftest import StartWorker
from tests.outside import Outside

pytestmark = pytest.mark.broker
POISON = "poison"


def lay_traps() -> None:
    """In the worker: one in the matcher for publications, one in the matcher for subscriptions, one in the router."""
    match, add, read = Index.match_attributes, Index.add_flat, acceptance.normal_form

    def match_attributes(index: Any, attributes: Any, **options: Any) -> Any:
        number = [i for i, name in enumerate(attributes.names) if name == POISON]
        if number and (attributes.name == number[0]).any():
            raise RuntimeError("poisoned publication")
        return match(index, attributes, **options)

    def add_flat(index: Any, identities: Any, conditions: Any, places: Any) -> None:
        add(index, identities, conditions, places)
        if POISON in conditions.names:
            raise RecursionError("poisoned subscription")

    def normal_form(where: Any) -> Any:
        if where is not None and "venom" in str(where):
            raise KeyError("poisoned condition")
        return read(where)

    index: Any = Index
    index.match_attributes, index.add_flat = match_attributes, add_flat
    acceptance.normal_form = normal_form


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_poison_is_refused_for_good(broker: Broker, start_worker: StartWorker, tmp_path: Path, delivery: str) -> None:
    prefix = f"poison-{delivery}."
    settings = {"topic_prefix": prefix, "partitions": 1, "notification_format": "json", "data_dir": tmp_path / "w"}
    settings |= {"delivery": delivery, "prepare": lay_traps}
    (tmp_path / "w").mkdir()
    worker = start_worker(**settings)
    worker.wait_ready()
    outside = Outside(broker.bootstrap, prefix)
    outside.subscribe("all", topic="1", starts_at="2020-01-01T00:00:00Z")
    outside.stored("all")
    bad, good = set(), set()
    for number in range(60):
        if number % 7 == 3:
            outside.publish(f"bad-{number}", topic="1", attributes={POISON: number})
            outside.subscribe(f"bad-s{number}", topic="1", where=f"{POISON} = {number}")
            outside.subscribe(f"bad-v{number}", topic="1", where=f"venom = {number}")
            bad |= {f"bad-{number}", f"bad-s{number}", f"bad-v{number}"}
        else:
            outside.publish(f"good-{number}", topic="1", attributes={"x": number})
            good.add(f"good-{number}")
    letters = outside.wait("dead-letters", lambda m: True, len(bad))
    assert {m.key().decode() for m in letters} == bad
    reasons = {decode_dead_letter(m.value()).reason for m in letters}
    assert reasons == {
        f"the record cannot be processed: {what}"
        for what in (
            "RuntimeError: poisoned publication",
            "RecursionError: poisoned subscription",
            "KeyError: 'poisoned condition'",
        )
    }
    assert {n["publication_id"] for n in outside.notified("all", len(good))} == good
    # the same after a replay and after a rebuild, by a worker for which it would be no poison
    for at, then in enumerate(("killed", "wiped")):
        # at least once, half a second of work is not committed, and is done again: then it is no poison any more
        worker.kill() if delivery == "exactly-once" else worker.stop()
        if then == "wiped":
            shutil.rmtree(tmp_path / "w" / "worker")
        worker = start_worker(**{**settings, "prepare": None})
        worker.wait_ready()
        outside.subscribe(f"later-{at}", topic="1", starts_at="2020-01-01T00:00:00Z")
        outside.publish(f"next-{at}", topic="1")
        good.add(f"next-{at}")
        assert {n["publication_id"] for n in outside.notified(f"later-{at}", len(good))} == good
    assert len(outside.records["dead-letters"]) == len(bad)
    outside.close()
