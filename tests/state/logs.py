"""Logs of operations for the tests: small worlds in which everything meets everything."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TOPICS = ["", "1", "1.4", "1.4.2", "1.4.2.1", "1.4.10", "1.10", "1.9", "2", "2.300.70000", "2.300"]


@st.composite
def operation(draw: st.DrawFn, clock: int, integers: bool, several: bool) -> dict[str, Any]:
    """One operation that arrives at about `clock`."""
    kind = draw(st.sampled_from(["subscription", "subscription", "publication", "publication", "withdrawal"]))
    number = draw(st.integers(0, 11))
    row: dict[str, Any] = {"kind": kind, "id": number - 5 if integers else f"id-{number}" + "é" * (number % 3)}
    near = st.integers(-40, 40).map(lambda shift: clock + shift)
    maybe = st.none() | near
    arrived = clock + draw(st.integers(-3, 3))
    if kind == "withdrawal":
        row["time"] = draw(st.none() | st.just(arrived))
        return row
    row["topic"] = draw(st.sampled_from(TOPICS))
    if several and draw(st.booleans()):
        row["topic"] = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4))
    row["self_join"] = draw(st.booleans())
    row["payload"] = draw(st.none() | st.binary(max_size=60))
    if kind == "subscription":
        row["time"] = arrived
        row["starts_at"] = draw(maybe)
        row["ends_at"] = draw(maybe)
        row["scope"] = draw(st.sampled_from([None, "overlap", "subtree"]))
        row["valid"] = draw(st.sampled_from([None, False, True]))
        row["subscriber_id"] = draw(st.sampled_from([None, "a", "b"]))
        row["horizon"] = draw(st.none() | near)
    else:
        row["time"] = draw(near)
        row["expires_at"] = draw(maybe)
        row["arrived_at"] = draw(st.sampled_from([None, arrived]))
    return row


@st.composite
def logs(draw: st.DrawFn, most: int = 40) -> list[dict[str, Any]]:
    """Operations in log order. Time goes on, with jumps that let windows pass."""
    integers = draw(st.booleans())
    several = draw(st.booleans())
    rows = []
    clock = draw(st.integers(-10, 10))
    for _ in range(draw(st.integers(1, most))):
        clock += draw(st.sampled_from([0, 0, 1, 2, 5, 30]))
        rows.append(draw(operation(clock, integers, several)))
    return rows


@st.composite
def lives(draw: st.DrawFn, most: int = 14) -> list[dict[str, Any]]:
    """Operations that are needed for any time from their arrival on, so that what comes later often goes earlier. Time creeps."""
    rows: list[dict[str, Any]] = []
    clock = 0
    for _ in range(draw(st.integers(2, most))):
        clock += draw(st.sampled_from([0, 1, 2, 5]))
        row: dict[str, Any] = {"id": draw(st.integers(0, 9)), "time": clock, "topic": draw(st.sampled_from(TOPICS[:3]))}
        if draw(st.booleans()):
            row |= {"kind": "subscription", "ends_at": clock + draw(st.sampled_from([1, 3, 10, 17, 30, 60]))}
        else:
            row |= {"kind": "publication", "arrived_at": clock - draw(st.sampled_from([0, 0, 4, 9, 20]))}
        rows.append(row)
    return rows


@st.composite
def takes(draw: st.DrawFn, most: int = 60) -> list[dict[str, Any]]:
    """Publications on few topics that ask for those before them; now and then a subscription looks at all of them."""
    rows: list[dict[str, Any]] = []
    clock = 0
    for _ in range(draw(st.integers(2, most))):
        clock += draw(st.sampled_from([0, 0, 1, 1, 2, 9]))
        row: dict[str, Any] = {"id": draw(st.integers(0, 40)), "topic": draw(st.sampled_from(TOPICS[:4]))}
        if draw(st.integers(0, 9)) == 0:
            row |= {"kind": "subscription", "time": clock, "ends_at": clock + draw(st.integers(1, 30))}
        else:
            life = draw(st.sampled_from([None, None, 2, 10]))
            row |= {
                "kind": "publication",
                "time": clock + draw(st.integers(-6, 3)),
                "arrived_at": clock,
                "expires_at": life and clock + life,
                "self_join": draw(st.sampled_from([True, True, True, False])),
                "payload": b"payload",
            }
            if draw(st.integers(0, 9)) == 0:
                row["topic"] = draw(st.lists(st.sampled_from(TOPICS[:4]), min_size=1, max_size=3))
        rows.append(row)
    return rows
