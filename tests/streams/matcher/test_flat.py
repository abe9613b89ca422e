"""Subscriptions that go into the index by columns match as those do that go one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.schemas import CanonicalSubscription, Rendezvous, Version, decode_rendezvous_chunk, encode
from pastforward.streams.matcher.records import add_to, new_subscriptions

CONDITIONS = [
    "x = 1",
    "x = 1.5",
    "x > 0.5 AND y <= 2",
    "x >= 1 AND x < 3 OR y = 2.5",
    "flag",
    "flag IS NOT NULL AND x IS NULL",
    "text = 'ab' AND x BETWEEN 1 AND 2",
    "text LIKE 'a%'",
    "text > 'a' AND text < 'c'",
    "at < TIMESTAMP '2030-01-01T00:00:00Z' AND at >= TIMESTAMP '2020-01-01T00:00:00Z'",
    "at = TIMESTAMP '2025-01-01T00:00:00Z'",
    "x IN (1, 2) OR text IN ('ab', 'b')",
    "x != 2 AND text LIKE '%b'",
    "x = 9223372036854775807 OR y >= -9223372036854775808",
    None,
]
PUBLICATIONS: list[dict[str, object]] = [
    {"x": x, "y": y, "text": text, "flag": flag}
    for x, y, text, flag in [
        (1, 2.5, "ab", True),
        (1.5, 2, "a", False),
        (2, 0, "b", True),
        (9223372036854775807, 3, "bb", False),
    ]
] + [{}, {"y": 1}, {"text": ""}]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(CONDITIONS),
            st.sampled_from(["", "1", "1.2", "2"]),
            st.sampled_from(["overlap", "subtree"]),
            st.sampled_from(["classical", "classical", "symmetric", "intersect"]),
            st.none() | st.integers(1, 20),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_columns_match_as_single_ones(drawn: list[tuple[Any, ...]]) -> None:
    values = [
        encode(
            Rendezvous(
                "subscriptions",
                0,
                number,
                0,
                1,
                (0,),
                CanonicalSubscription(
                    f"s{number}",
                    "anna",
                    Version(0, 0, number),
                    topic,
                    scope,
                    0,
                    ends_at,
                    "published",
                    ((),) if text is None else Condition.parse(text).disjuncts,
                    semantics,
                    False,
                ),
            )
        )
        for number, (text, topic, scope, semantics, ends_at) in enumerate(drawn)
    ]
    columns = decode_rendezvous_chunk(values)
    flat, single = Index(), Index()
    add_to(flat, columns, np.arange(len(values)), np.arange(len(values)))
    single.add_many(new_subscriptions(columns, range(len(values)), range(len(values))))
    for publication in PUBLICATIONS:
        for topic in ("", "1", "1.2.3", "3"):
            wanted = single.match(publication, topic=topic, published_at=10)
            assert sorted(flat.match(publication, topic=topic, published_at=10)) == sorted(wanted)
    flat.remove_many(np.arange(len(values)))
    assert len(flat) == 0
    assert flat.match(PUBLICATIONS[0]) == []
