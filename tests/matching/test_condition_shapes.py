"""Known shapes are not parsed again, and what is remembered is bounded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from pastforward.matching import Condition
from pastforward.matching.conditions import parser as syntax
from pastforward.matching.conditions.scan import UNCLOSED, scan
from pastforward.matching.conditions.template_cache import ShapeCache
from pastforward.matching.conditions.templates import forget_shapes


def test_a_known_shape_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_shapes()
    Condition.parse("kind = 'a' AND x IN (1, 2) AND y > -3 AND t > TIMESTAMP '2026-01-01'")

    def refuse(_: str) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(syntax.sqlglot, "parse", refuse)
    condition = Condition.parse("kind = 'b''c' AND x IN (5, -6.5, 7) AND y > 4e3 AND t > TIMESTAMP '2026-02-01'")
    assert (
        str(condition)
        == "kind = 'b''c' AND t >= TIMESTAMP '2026-02-01T00:00:00.000001Z' AND x IN (-6.5, 5, 7) AND y > 4000"
    )
    with pytest.raises(AssertionError, match="parsed again"):
        Condition.parse("kind = 3 AND x IN (1, 2) AND y > -3 AND t > TIMESTAMP '2026-01-01'")


@pytest.mark.parametrize(
    ("text", "shape", "slots"),
    [
        ("x1 = 1", ("x1 = ", "0", ""), ["1"]),
        ("x=-1.5e3 OR y='a''b'", ("x=", "0", " OR y=", "'", ""), ["-1.5e3", "'a''b'"]),
        ("x IN ( 1 , -2 )", ("x IN ( ", "00", " )"), [["1", "-2"]]),
        ("x IN (1, 'a')", ("x IN (", "00", ", ", "'", ")"), [["1"], "'a'"]),
        ("x IN (1,", ("x IN (", "00", ","), [["1"]]),
        ('"a\'1" = 2', ('"a\'1" = ', "0", ""), ["2"]),
        ("x = 1.2.3", ("x = 1.2.3",), []),
        ("x = 'open", ("x = ", "'", UNCLOSED), ["'open"]),
    ],
)
def test_scan(text: str, shape: tuple[str, ...], slots: list[str | list[str]]) -> None:
    assert scan(text) == (shape, slots)


@dataclass
class Heavy:
    weight: int


def test_the_oldest_shapes_go_first() -> None:
    cache: ShapeCache[Heavy] = ShapeCache(max_count=3, max_weight=10)
    for place in range(4):
        cache.put((str(place),), Heavy(1))
    assert [cache.get((str(place),)) is not None for place in range(4)] == [False, True, True, True]
    cache.put(("heavy",), Heavy(9))
    assert len(cache) == 2
    cache.put(("heavy",), Heavy(9))
    cache.put(("too heavy",), Heavy(11))
    assert len(cache) == 2
    cache.clear()
    cache.put(("heavy",), Heavy(10))
    assert len(cache) == 1


def test_threads_read_the_same() -> None:
    forget_shapes()
    texts = [f"a{i % 50} = {i} AND b > {i}" for i in range(400)]
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(Condition.parse, texts))
    assert [str(condition) for condition in parsed] == texts
