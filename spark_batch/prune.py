"""What of the history some subscriptions can possibly reach, as a filter on columns whose bounds Delta keeps for each file.

A filter here may let too much through, never too little: what it lets through is matched exactly afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Final

from pastforward.columns.dewey import topics_of
from pastforward.matching.conditions.normal_form import Family
from pastforward.matching.conditions.oracle import Subscription
from pastforward.spark_batch.order import AFTER, ancestors, order_text
from pastforward.spark_batch.rows import Picked
from pastforward.spark_batch.tables import MAPS

# Filters that are written out one by one. Beyond that their hull is taken: Spark plans a long OR for longer than it saves.
MOST_WRITTEN: Final = 24
# Columns that are picked one by one. Beyond that whole maps are as fast.
MOST_PICKED: Final = 64

_COLUMNS_OF: Final = {
    Family.BOOLEAN: ("booleans",),
    Family.NUMBER: ("integers", "floats"),
    Family.STRING: ("strings",),
    Family.TIMESTAMP: ("timestamps",),
    Family.PATH: ("paths",),
    Family.GEOMETRY: ("points", "circles", "boxes"),
}


def moment(micros: int) -> Any:
    """A literal of that time; exact, whatever the session's zone, and beyond the years that Python knows."""
    from pyspark.sql import functions as f

    return f.timestamp_micros(f.lit(micros).cast("long"))


def reachable(subscriptions: Sequence[Subscription]) -> Any:
    """The filter, or None if there is nothing to leave out."""
    areas = {(s.topic, s.scope, s.starts_at, s.ends_at, s.time): s for s in subscriptions}
    if len(areas) <= MOST_WRITTEN:
        return any_of([all_of([_topic(s), _time(s)]) for s in areas.values()])
    # By topic and by time apart: many subscriptions share the one or the other.
    topics = {(s.topic, s.scope): s for s in subscriptions}
    by_topic = (
        any_of([_topic(s) for s in topics.values()]) if len(topics) <= MOST_WRITTEN else _topic_hull(subscriptions)
    )
    return all_of([by_topic, _time_hull(subscriptions)])


def held_before(horizon: int) -> Any:
    """`held_at`, the earlier of two times, lies before the horizon."""
    from pyspark.sql import functions as f

    return (f.col("published_at") < moment(horizon)) | (f.col("arrived_at") < moment(horizon))


def _topic(s: Subscription) -> Any:
    from pyspark.sql import functions as f

    if not s.topic:
        return None
    fits = []
    for topic in topics_of(s.topic):
        path = order_text(topic)
        below = (f.col("path") >= path) & (f.col("path") < path + AFTER)
        fits.append(below if s.scope == "subtree" else below | f.col("path").isin(ancestors(topic)))
    return any_of(fits)


def _topic_hull(subscriptions: Iterable[Subscription]) -> Any:
    """All within the least and the greatest path; what is above them lies elsewhere, and is let through by its own name."""
    from pyspark.sql import functions as f

    topics = {topic for s in subscriptions for topic in topics_of(s.topic)}
    if "" in topics:
        return None
    paths = [order_text(topic) for topic in topics]
    above = {each for topic in topics for each in ancestors(topic)}
    hull = (f.col("path") >= min(paths)) & (f.col("path") < max(paths) + AFTER)
    if len(above) > MOST_WRITTEN:
        return f.col("path") < max(paths) + AFTER
    return hull | f.col("path").isin(sorted(above))


def _time(s: Subscription) -> Any:
    from pyspark.sql import functions as f

    starts = None if s.starts_at is None else moment(s.starts_at)
    ends = None if s.ends_at is None else f.col("published_at") < moment(s.ends_at)
    if s.time == "published":
        return all_of([None if starts is None else f.col("published_at") >= starts, ends])
    lasting = None if starts is None else f.col("expires_at").isNull() | (f.col("expires_at") > starts)
    return all_of([lasting, ends])


def _time_hull(subscriptions: Sequence[Subscription]) -> Any:
    starts = [s.starts_at for s in subscriptions]
    ends = [s.ends_at for s in subscriptions]
    hull = Subscription(
        starts_at=None if None in starts else min(s for s in starts if s is not None),
        ends_at=None if None in ends else max(e for e in ends if e is not None),
        time="valid" if any(s.time == "valid" for s in subscriptions) else "published",
    )
    published = [s for s in subscriptions if s.time == "published"]
    if hull.time == "valid" and published:
        # a publication that has expired may still have been published in a window
        return any_of([_time_hull(published), _time_hull([s for s in subscriptions if s.time == "valid"])])
    return _time(hull)


def all_of(filters: Iterable[Any]) -> Any:
    known = [each for each in filters if each is not None]
    return reduce(lambda a, b: a & b, known) if known else None


def any_of(filters: Sequence[Any]) -> Any:
    """None, which is everything, if one of them is."""
    if not filters or any(each is None for each in filters):
        return None
    return reduce(lambda a, b: a | b, filters)


def columns_asked(subscriptions: Iterable[Subscription]) -> tuple[Picked, ...] | None:
    """The attributes and types that decide; None if everything that a publication says may.

    Under `symmetric` every attribute of the publication counts. Under `intersect` an attribute that is absent fits and one of
    another type does not, so all types of it count. `IS NULL` and `IS NOT NULL` ask about all types too.
    """
    found: dict[Picked, None] = {}
    for subscription in subscriptions:
        if subscription.semantics == "symmetric":
            return None
        for disjunct in subscription.disjuncts:
            for name, constraint in disjunct:
                relaxed = subscription.semantics == "intersect"
                columns = tuple(MAPS) if relaxed else _COLUMNS_OF.get(constraint.family, tuple(MAPS))
                found.update(dict.fromkeys(Picked(name, column) for column in columns))
        if len(found) > MOST_PICKED:
            return None
    return tuple(found)
