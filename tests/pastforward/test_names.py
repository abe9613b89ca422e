"""Names as topics: the same number whoever computes it, and the way back."""

from __future__ import annotations

import pytest

from pastforward import SchemaError, UserError, names
from pastforward.testing import System


def test_the_number_of_a_name_never_changes() -> None:
    assert names.topic("roads/I-95/exit-4") == "4659139443720850.5272313761314384.6019543820326373"
    assert names.topic("roads/") == names.topic("roads")
    assert names.topic("Zu\u0308rich/") == names.topic("Z\u00fcrich/")
    assert [text for _, text in names.levels("a/b/c")] == ["a", "a/b", "a/b/c"]


def scene(system: System) -> None:
    """Two clients that do not know of each other meet at a name."""
    first, second = system.client(), system.client()
    first.publish({"n": 1}, topic="roads/I-95/exit-4", publication_id="before")
    system.settle()
    with second.subscribe(subscriber_id="anna", topic=["roads/I-95", "rails/"], starts_at="-10m") as handle:
        handle.wait()
        found = next(handle)
        assert found.publication_id == "before"
        assert second.names.name(found.topic) == "roads/I-95/exit-4"
        first.publish_many([{"topic": "roads/I-95/exit-5"}, {"topic": "roads/I-94"}, {"topic": "rails/"}])
        assert {second.names.name(next(handle).topic) for _ in range(2)} == {"roads/I-95/exit-5", "rails"}
    assert second.names.below("roads/I-95") == ["roads/I-95/exit-4", "roads/I-95/exit-5"]
    assert "roads/I-94" in second.names.below()
    assert second.names.name("1.2.3") is None


def test_who_uses_a_name_meets(pastforward: System) -> None:
    scene(pastforward)


@pytest.mark.pastforward_broker
def test_who_uses_a_name_meets_on_a_broker(pastforward: System) -> None:
    scene(pastforward)


def test_two_names_of_one_number_are_told(pastforward: System, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pastforward.client()
    monkeypatch.setattr(names, "component", lambda name: 7)
    client.publish(topic="a/")
    with pytest.raises(UserError, match="the topics 'b' and 'a' have the same number 7"):
        client.publish(topic="b/")
    client.publish(topic="a/")


def test_what_is_no_name() -> None:
    for wrong in ("/", "//", "a//b", "/a"):
        with pytest.raises(SchemaError, match="has an empty name"):
            names.topic(wrong)
    with pytest.raises(SchemaError, match="surrogate"):
        names.topic("\ud800/")
    with pytest.raises(SchemaError, match="deeper than 64"):
        names.topic("/".join("a" * 65))
