"""Who leads a change of the routing: nothing is announced before what makes it true is safe."""

from __future__ import annotations

from typing import Any

import pytest

from pastforward.settings import load
from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import STATE, State, View, version_key
from pastforward.streams.worker import routing_change as module
from pastforward.streams.worker.directory import decide
from pastforward.streams.worker.routing_change import Change, Step
from pastforward.topics import Topics

OLD = Directory(1, "dewey", 2)
WANTED = Directory(0, "dewey", 3)


class Led(Change):
    """A change whose steps are written down; the broker's answers are given. `left`: records that are behind, look by look."""

    def __init__(self, state: State, left: dict[str, list[int]] | None = None) -> None:
        self._settings = load({}, environment={})
        self._inputs = Topics(self._settings.topic_prefix)
        self._admin = self._bootstrap = self._consumer = self._producer = None  # type: ignore[assignment]
        self._report = self._told
        self.steps: list[Any] = []
        self.now = View({1: OLD, 2: Directory(2, "dewey", 3)} if state.next else {1: OLD}, state)
        self._left = left or {}

    def _told(self, step: Step) -> None:
        self.steps.append((step.name, step.left))

    def _take_charge(self) -> None:
        self.steps.append("in charge")

    def view(self) -> View:
        for name in ("subscriptions", "publications"):
            if self._left.get(name) and not self._left[name].pop(0):
                self.now.flips[2, name, 0] = 7
        return self.now

    def _say(self, entries: list[tuple[bytes, bytes]], more: Any = ()) -> None:
        self.steps.append(("say", [key for key, _ in entries], [value for key, value in entries if key == STATE], more))

    def _ends_of(self, name: str) -> dict[int, int]:
        return {0: 9}

    def _lag(self, version: int, names: list[str], ends: Any) -> int:
        assert version == 2, "the new version's own offsets"
        known = "drained" if self.now.flips else "caught up"
        assert known == "caught up" or set(ends.values()) == {7}, "up to the flips, and no further"
        return self._left[known].pop(0)

    def _unread(self, version: int, ends: Any) -> int:
        assert (version, ends) == (1, {(self._inputs.rendezvous, 0): 9})
        return self._left["old"].pop(0)

    def _check_live(self, version: int, wanted: Directory, drop_auctions: bool) -> dict[bytes, bytes]:
        return {}

    def _starts(self, old: int, begins_at: int) -> dict[int, int]:
        return {0: 4, 1: 3}

    def _set_offsets(self, version: int, starts: dict[int, int]) -> None:
        self.steps.append(("offsets", version, starts))

    def _inherited(self, version: int, wanted: Directory, auctions: Any, starts: Any) -> list[Any]:
        return ["inherited"]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0)


def test_a_version_is_announced_when_its_topics_and_offsets_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(State(1))
    monkeypatch.setattr(module.topics, "create_version", lambda *_: led.steps.append("topics"))
    led.begin(WANTED)
    announced = ("say", [version_key(2), STATE], [State(1, 2).to_bytes()], ["inherited"])
    assert led.steps == ["in charge", "topics", ("offsets", 2, {0: 4, 1: 3}), announced]


def test_a_step_is_decided_when_the_one_before_has_come_to_its_end() -> None:
    """Both sides are waited for at the end: what the old version has not matched, the new one does not report."""
    near = module.NEAR
    left = {
        "caught up": [3 * near, near + 1, near],
        "subscriptions": [1, 1, 0],  # the first look is that of who begins
        "publications": [1, 1, 1, 0],
        "old": [5, 0, 0],
        "drained": [5, 2, 0],
    }
    led = Led(State(1, 2), left)
    assert led.finish() == 2
    reads, flips, drains = (
        "the new version reads what is live and hot",
        "input partitions change over",
        "the old version matches what it has",
    )
    assert led.steps == [
        "in charge",
        *((reads, behind) for behind in (3 * near, near + 1, near)),
        ("say", [STATE], [State(1, 2, flipping=True).to_bytes()], ()),
        *((flips, missing) for missing in (2, 1, 0)),
        *((drains, behind) for behind in (10, 2, 0)),
        ("say", [STATE], [State(2).to_bytes()], ()),
    ]
    assert not any(left.values())


def test_who_goes_on_with_a_change_that_flips_does_not_wait_for_the_new_version_again() -> None:
    led = Led(State(1, 2, flipping=True), {"subscriptions": [0], "publications": [0], "old": [0], "drained": [0]})
    assert led.finish() == 2
    assert [step for step in led.steps if step[0] == "say"] == [("say", [STATE], [State(2).to_bytes()], ())]


class Producer:
    """Fails at a step, as a broker that is away does."""

    def __init__(self, fails: str = "") -> None:
        self.steps: list[Any] = []
        self._fails = fails

    def begin_transaction(self) -> None:
        self.steps.append("begin")

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        self.steps.append((topic, partition, key, value))

    def commit_transaction(self, _: float) -> None:
        if self._fails:
            raise RuntimeError(self._fails)
        self.steps.append("commit")


def test_a_decision_returns_when_it_is_committed_and_raises_when_it_is_not() -> None:
    producer = Producer()
    decide(producer, [("d", 0, b"k", b"v"), ("d", 1, b"l", b"w")])
    assert producer.steps == ["begin", ("d", 0, b"k", b"v"), ("d", 1, b"l", b"w"), "commit"]
    with pytest.raises(RuntimeError, match="away"):
        decide(Producer("away"), [("d", 0, b"k", b"v")])
