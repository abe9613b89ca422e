"""What a condition would have matched is what a subscription is told, and a miss says by how much."""

from __future__ import annotations

import pytest

from pastforward import Point, UserError
from pastforward.testing import System


def test_a_trial_counts_what_a_subscription_is_told(pastforward: System) -> None:
    client = pastforward.client()
    client.publish({"x": 1}, topic="1", publication_id="old")
    pastforward.clock.advance("2h")
    for number in range(10):
        client.publish({"x": number, "at": Point(8.5, 47.4)}, topic=f"1.{number % 2}", publication_id=f"p{number}")
    client.publish({"x": 9}, topic="1.1", publication_id="p9")  # it was there
    client.publish({"y": 9}, topic="1.1", publication_id="other")
    client._send("pastforward.publications", [("refused", b'{"attributes": {"previous.x": 9}}'), ("junk", b"junk")])
    for where, topic in (
        ("x >= 5", "1"),
        ("x >= 5", "1.1"),
        (None, "1.0"),
        ("x BETWEEN 2 AND 3 OR y = 9", ""),
        ("x = 99", ""),
    ):
        trial = client.try_condition(where, topic=topic, examples=99)
        with client.subscribe(where, subscriber_id="anna", topic=topic, starts_at="-1h") as handle:
            told = [each.publication_id for each in handle.take(99, 0.0)]
        assert sorted(each.publication_id or "" for each in trial.examples) == sorted(told)
        assert trial.matched == len(told)
    assert client.try_condition("x = 1", since="-3h").matched == 2


def test_a_miss_names_the_one_predicate_and_the_distance(pastforward: System) -> None:
    client = pastforward.client()
    for name, content in {
        "near": {"kind": "ice", "severity": 2.5},
        "far": {"kind": "ice", "severity": -4},
        "absent": {"kind": "ice"},
        "both": {"kind": "fog", "severity": 0},
        "kind": {"kind": "fog", "severity": 5},
    }.items():
        client.publish(content, publication_id=name)
    trial = client.try_condition("kind = 'ice' AND severity >= 3")
    severity, kind = trial.misses
    assert (severity.predicate, severity.count, severity.distance, severity.value) == ("severity >= 3", 3, 0.5, 2.5)
    assert severity.nearest is not None
    assert severity.nearest.publication_id == "near"
    assert (kind.predicate, kind.count, kind.distance) == ("kind = 'ice'", 1, None)
    assert trial.cost.disjuncts == 1
    assert trial.a_day == 0
    with pytest.raises(UserError, match="cannot be tried"):
        client.try_condition("x > 1 AND previous.x < 1")
