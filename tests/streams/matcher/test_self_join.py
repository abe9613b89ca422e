"""Who is covered by an earlier subscription of the same subscriber, among many at once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.schemas import NEVER, Version
from pastforward.streams.matcher import self_join
from pastforward.streams.matcher.self_join import covered, covered_among
from pastforward.streams.matcher.subscribers import Subscriber

TOPICS = (b"", b"1", b"1.2", b"1.2.3", b"1.20", b"12", b"2.2", b"1.2.3,2", b"1.20,12", b"1.20,2.2")


def subscriber(
    version: int, recipient: bytes, topic: bytes, starts_at: int, ends_at: int, paused: bool = False
) -> Subscriber:
    at = Version(version, 0, version)
    return Subscriber(
        b"s%d" % version, recipient, at, (0,), topic, starts_at, ends_at, True, False, False, False, paused
    )


SOME = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b"]),
        st.sampled_from(TOPICS),
        st.integers(0, 9),
        st.integers(0, 9) | st.just(NEVER),
        st.booleans(),
    ),
    max_size=12,
)


@given(SOME, st.randoms())
def test_many_at_once_are_covered_as_one_by_one(
    some: list[tuple[bytes, bytes, int, int, bool]], random: Random
) -> None:
    everybody = [subscriber(version, *each) for version, each in enumerate(some)]
    random.shuffle(everybody)
    asked = everybody[::2]
    wanted = [covered(each, everybody) for each in asked]
    assert covered_among(asked, everybody).tolist() == wanted


def test_what_each_costs_does_not_grow_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside each other none covers another one: whoever looks at all earlier ones looks at millions."""

    def compared(*_: object) -> bool:
        raise AssertionError("subscriptions are compared one with the other")

    monkeypatch.setattr(self_join, "_overlap", compared)
    everybody = [subscriber(version, b"a", b"1.%d" % version, 0, NEVER) for version in range(3_000)]
    assert not covered_among(everybody, everybody).any()
