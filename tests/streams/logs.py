"""Random rendezvous logs, small enough that everything meets everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pastforward.columns.times import SECOND
from pastforward.matching import Condition
from pastforward.schemas import Best, CanonicalPublication, CanonicalSubscription, Rendezvous, Version, Withdrawal
from tests.matching import strategies

HOT = 20 * SECOND
START = 1_000 * SECOND
CONDITIONS = [
    "x = 1",
    "x >= 2 OR y < 2",
    "x BETWEEN 1 AND 3 AND y != 2",
    "text LIKE 'a%'",
    "x IS NULL",
    "x <= 2",
    "x <= 3 AND y BETWEEN 0 AND 2",
    "text = 'ab' AND x IN (1, 2)",
]
WITH_PREVIOUS = ["previous.x < 2", "x = 1 AND previous.x IS NULL"]
PUBLISHED = ["x BETWEEN 0 AND 1", "y > 1 OR x = 3"]
SEVERAL_TOPICS = ["1.2,2", "1.2.3,1.9,1.10", "1.2,1.9,2"]  # of one subscription
TOPICS = ["", "1", "1.2", "1.2.3", "1.10", "2", "1.9"]
DELIVERS = st.sampled_from(["content", "content", "ids"])
PAUSES = st.sampled_from([False, False, False, True])
PARTITIONS = [(0,), (0,), (0, 1), (0, 1, 2), (0, 2)]


def form(text: str) -> Any:
    return Condition.parse(text).disjuncts


def _taken(some: st.SearchStrategy[Condition]) -> st.SearchStrategy[Any]:
    """Normal forms as the router lets them through: a condition that can never be true is refused."""
    return some.filter(lambda condition: not condition.never).map(lambda condition: condition.disjuncts)


@dataclass
class Language:
    """What the records of one log say: a few conditions and attributes of the whole language, beside those that are sure to meet."""

    asked: list[Any]
    asked_by_joins: list[Any]
    published: list[Any]
    attributes: list[dict[str, Any]]


@st.composite
def languages(draw: st.DrawFn) -> Language:
    def few(some: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(some, max_size=4))

    return Language(
        [*map(form, CONDITIONS), *few(_taken(strategies.conditions(4, previous=False)))],
        [*map(form, WITH_PREVIOUS), *few(_taken(strategies.conditions(4)))],
        [None, None, None, *map(form, PUBLISHED), *few(_taken(strategies.published_conditions(3)))],
        few(strategies.attributes_of(strange=False, most=3)),
    )


@dataclass
class Clock:
    """Times lie on a grid, a moment beside it, or anywhere: on the grid, what ends, expires and arrives does so at the same time."""

    now: int = START
    step: int = SECOND
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def next(self, origin: str, partition: int) -> int:
        at = self.offsets.get((origin, partition), -1) + 1
        self.offsets[origin, partition] = at
        return at

    def advance(self, draw: st.DrawFn) -> None:
        self.now += draw(st.sampled_from([0, 0, 1, self.step, 3 * self.step, 3 * self.step, HOT - SECOND * 5]))
        if draw(st.booleans()):
            self.now = -(-self.now // self.step) * self.step

    def late(self, draw: st.DrawFn) -> int:
        """When something arrived that comes now: arrivals of different input partitions reach the log out of order."""
        return self.now - draw(st.sampled_from([0, 0, 0, 2 * self.step, 8 * SECOND]))

    def expiry(self, draw: st.DrawFn, published: int, arrived: int) -> int | None:
        """Also at the very arrival, at the log's time, and at those of the grid; never before it is published."""
        lasts = draw(st.integers(1, 25)) * self.step
        chosen = [None, published + lasts, published + lasts, arrived, arrived + 1, self.now, self.now + self.step]
        expires = draw(st.sampled_from(chosen))
        return None if expires is None else max(expires, published + 1)

    def end(self, draw: st.DrawFn, starts: int, arrived: int) -> int | None:
        lasts = draw(st.integers(0, 40)) * self.step
        chosen = [None, starts + lasts, starts + lasts, arrived, self.now, self.now + self.step, self.now - HOT]
        ends = draw(st.sampled_from(chosen))
        return None if ends is None else max(ends, starts)


@st.composite
def logs(draw: st.DrawFn, longest: int = 40) -> list[Rendezvous]:
    clock = Clock(step=draw(st.sampled_from([SECOND, 5 * SECOND])))
    language = draw(languages())
    log: list[Rendezvous] = []
    for _ in range(draw(st.integers(1, longest))):
        clock.advance(draw)
        kind = draw(
            st.sampled_from(["subscribe", "subscribe", "publish", "publish", "publish", "withdraw", "tick", "repeat"])
        )
        if kind == "repeat":
            if log:
                log.append(draw(st.sampled_from(log)))
            continue
        if kind == "tick":
            log.append(Rendezvous("none", 0, 0, clock.now, 1, (0,)))
            continue
        arrived = clock.late(draw)
        partition = draw(st.integers(0, 1))
        partitions = draw(st.sampled_from(PARTITIONS))
        origin = "publications" if kind == "publish" else "subscriptions"
        offset = clock.next(origin, partition)
        topic = draw(st.sampled_from(TOPICS))
        record: Any
        if kind == "publish":
            published = arrived + draw(st.sampled_from([0, 0, 0, 1, -1])) * draw(st.integers(0, 30)) * clock.step
            attributes: dict[str, Any] = {}
            if draw(st.booleans()):
                attributes["x"] = draw(st.integers(0, 3))
            if draw(st.booleans()):
                attributes["y"] = draw(st.sampled_from([0, 1, 2, 2.5]))
            if draw(st.booleans()):
                attributes["text"] = draw(st.sampled_from(["ab", "b", ""]))
            if language.attributes and draw(st.booleans()):
                attributes |= draw(st.sampled_from(language.attributes))
            # the router takes them only where one partition has the whole topic
            asks = topic != "" and draw(st.integers(0, 2)) == 0
            if asks:
                partitions = (0,)
            record = CanonicalPublication(
                draw(st.sampled_from(["p1", "p2", "p3"])) if draw(st.integers(0, 5)) == 0 else f"q{len(log)}",
                draw(st.sampled_from([None, None, "publisher"])),
                topic,
                published,
                clock.expiry(draw, published, arrived),
                Best(draw(st.sampled_from(["x", "y", "text", "z"])), draw(st.sampled_from(["highest", "lowest"])))
                if asks
                else None,
                draw(st.booleans()),
                attributes,
                draw(st.sampled_from(language.published)),
                draw(st.sampled_from([None, None, b"", b"body"])),
            )
        elif kind == "subscribe":
            self_join = draw(st.booleans())
            asked = language.asked + (language.asked_by_joins if self_join else [])
            starts = (arrived // clock.step + draw(st.integers(-30, 30))) * clock.step
            record = CanonicalSubscription(
                draw(st.sampled_from(["s1", "s2", "s3", "s4"])),
                draw(st.sampled_from(["anna", "ben"])),
                Version(arrived, partition, offset),
                draw(st.sampled_from([topic, topic, topic, *SEVERAL_TOPICS])),
                draw(st.sampled_from(["overlap", "subtree"])),
                starts,
                clock.end(draw, starts, arrived),
                draw(st.sampled_from(["published", "valid"])),
                draw(st.sampled_from(asked)) if draw(st.booleans()) else ((),),
                draw(st.sampled_from(["classical", "classical", "symmetric", "intersect"])),
                self_join,
                draw(DELIVERS),
                paused=draw(PAUSES),
            )
        else:
            record = Withdrawal(draw(st.sampled_from(["s1", "s2", "s3"])), Version(arrived, partition, offset))
        log.append(Rendezvous(origin, partition, offset, arrived, 1, partitions, record))
    return log


@st.composite
def chains(draw: st.DrawFn, longest: int = 60) -> list[Rendezvous]:
    """Two ids come again and again, for several hot windows; subscriptions tell which of them counted."""
    clock = Clock()
    log: list[Rendezvous] = []
    for number in range(draw(st.integers(longest // 3, longest))):
        clock.now += draw(st.sampled_from([SECOND, 3 * SECOND, 3 * SECOND, 7 * SECOND]))
        kind = draw(st.sampled_from(["publish", "publish", "publish", "publish", "subscribe", "subscribe", "repeat"]))
        if kind == "repeat":
            if log:
                log.append(draw(st.sampled_from(log)))
            continue
        arrived = clock.now - draw(st.sampled_from([0, 0, 0, 2 * SECOND, 8 * SECOND]))
        partition = draw(st.integers(0, 1))
        origin = "publications" if kind == "publish" else "subscriptions"
        offset = clock.next(origin, partition)
        record: Any
        if kind == "publish":
            name = draw(st.sampled_from(["p1", "p2"]))
            record = CanonicalPublication(name, None, "1", arrived, None, None, draw(st.booleans()))
        else:
            version = Version(arrived, partition, offset)
            record = CanonicalSubscription(
                f"s{number}", "anna", version, "1", "overlap", START, None, "published", ((),)
            )
        log.append(Rendezvous(origin, partition, offset, arrived, 1, (0,), record))
    return log


@st.composite
def auctions(draw: st.DrawFn, longest: int = 40) -> list[Rendezvous]:
    """Publications that ask for the best offer, and who bids for them: bids, auctions and subscriptions that end together."""
    clock = Clock(step=5 * SECOND)
    log: list[Rendezvous] = []
    expiries: list[int] = []
    for _ in range(draw(st.integers(5, longest))):
        clock.advance(draw)
        kind = draw(st.sampled_from(["subscribe"] * 4 + ["publish", "publish", "withdraw", "tick", "repeat"]))
        if kind == "repeat" and log:
            log.append(draw(st.sampled_from(log)))
        if kind in ("repeat", "tick"):
            log.append(Rendezvous("none", 0, 0, clock.now, 1, (0,)))
            continue
        arrived = clock.late(draw)
        partition = draw(st.integers(0, 1))
        origin = "publications" if kind == "publish" else "subscriptions"
        offset = clock.next(origin, partition)
        version = Version(arrived, partition, offset)
        topic = draw(st.sampled_from(["1", "1", "1.2"]))
        record: Any
        if kind == "publish":
            name = draw(st.sampled_from(["p1", "p2", f"q{len(log)}"]))
            expires = clock.expiry(draw, arrived, arrived)
            expiries += [] if expires is None else [expires]
            best = Best("x", draw(st.sampled_from(["highest", "lowest"])))
            publisher = draw(st.sampled_from([None, "publisher"]))
            where = form(draw(st.sampled_from(["x >= 1", "x BETWEEN 0 AND 2"])))
            join = draw(st.booleans())
            record = CanonicalPublication(name, publisher, topic, arrived, expires, best, join, {}, where)
        elif kind == "subscribe":
            name = draw(st.sampled_from(["s1", "s2", "s3", "s4"]))
            starts = arrived - draw(st.sampled_from([0, clock.step, HOT]))
            ends = clock.end(draw, starts, arrived)
            if expiries and draw(st.integers(0, 2)) == 0:  # together with an auction
                ends = max(starts, draw(st.sampled_from(expiries)))
            where = form(
                draw(st.sampled_from(["x <= 1", "x < 2", "x <= 2", "x <= 2", "x > 1 AND x < 3", "x BETWEEN 1 AND 3"]))
            )
            record = CanonicalSubscription(
                name,
                draw(st.sampled_from([name, name, "anna"])),
                version,
                draw(st.sampled_from([topic, topic, topic, "1,2", "1.2,2"])),
                "overlap",
                starts,
                ends,
                "published",
                where,
                "intersect",
                False,
                draw(DELIVERS),
                paused=draw(PAUSES),
            )
        else:
            record = Withdrawal(draw(st.sampled_from(["s1", "s2", "s3", "s4"])), version)
        log.append(Rendezvous(origin, partition, offset, arrived, 1, (0,), record))
    return log


@st.composite
def pauses(draw: st.DrawFn, longest: int = 40) -> list[Rendezvous]:
    """Two subscriptions that are paused, resumed and withdrawn, and what is published meanwhile, some of it beyond the hot window."""
    clock = Clock(step=5 * SECOND)
    log: list[Rendezvous] = []
    kinds = ["publish"] * 4 + ["pause", "pause", "resume", "resume", "withdraw", "repeat", "tick"]
    for number in range(draw(st.integers(5, longest))):
        clock.advance(draw)
        kind = draw(st.sampled_from(kinds))
        if kind == "repeat" and log:
            log.append(draw(st.sampled_from(log)))
        if kind in ("repeat", "tick"):
            log.append(Rendezvous("none", 0, 0, clock.now, 1, (0,)))
            continue
        arrived, partition = clock.late(draw), draw(st.integers(0, 1))
        origin = "publications" if kind == "publish" else "subscriptions"
        offset = clock.next(origin, partition)
        version = Version(arrived, partition, offset)
        name = draw(st.sampled_from(["s1", "s2"]))
        record: Any = Withdrawal(name, version)
        if kind == "publish":
            published = arrived - draw(st.sampled_from([0, 0, HOT]))
            record = CanonicalPublication(f"p{number}", None, "1", published, None, attributes={"x": number % 2})
        elif kind != "withdraw":
            record = CanonicalSubscription(
                name, "anna", version, "1", "overlap", START - HOT, None, "published",
                form(draw(st.sampled_from(["x >= 0", "x = 1"]))), "classical", draw(st.booleans()), paused=kind == "pause",
            )  # fmt: skip
        log.append(Rendezvous(origin, partition, offset, arrived, 1, draw(st.sampled_from([(0,), (0, 1)])), record))
    return log
