"""A search of the past is a snapshot, taken a piece at a time."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastforward.columns import attributes
from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.state import Filter, Limits, Predicate, Range, Reader, Search, blocks, open_store, sealing, searching
from pastforward.state.operations import batch_of
from pastforward.state.search import BOOLEAN, NUMBER, TEXT, TIMESTAMP
from tests.state.tables import table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def found_by(search: Search) -> dict[int, set[bytes]]:
    """Payloads, by row of the subscription."""
    pairs: dict[int, set[bytes]] = {}
    while (piece := search.take()) is not None:
        texts = [piece.data[low:high].tobytes() for low, high in zip(piece.at, piece.at[1:], strict=False)]
        for row, publication in zip(piece.row.tolist(), piece.publication.tolist(), strict=True):
            assert texts[publication] not in pairs.setdefault(row, set()), "a pair twice"
            pairs[row].add(texts[publication])
    assert search.done
    return pairs


def publication(n: int, **fields: Any) -> dict[str, Any]:
    row = {"kind": "publication", "id": f"p{n}", "topic": f"1.{n}", "time": n, "now": n, "payload": f"{n}".encode()}
    return {**row, **fields}


def subscription(n: int, topic: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "subscription", "id": f"s{n}", "topic": topic, "time": n, "now": n, "starts_at": 0, **fields}


def test_a_search_answers_as_of_the_place_in_the_log(tmp_path: Path) -> None:
    with open_store(tmp_path, hot_window=1_000) as store:
        store.apply_columns(batch_of(table([publication(n) for n in range(1, 6)])), find="past")
        store.commit(1)
        rows = [publication(6), subscription(7, "1"), publication(8), subscription(9, "1.8"), publication(10)]
        store.apply_columns(batch_of(table(rows)), find="past")
        search, one = store.search(), store.search({3: Filter(((),))})
        store.apply_columns(batch_of(table([publication(5_000)])), find="past")  # the others' time has passed
        store.commit(2)
        store.apply_columns(batch_of(table([publication(5_001)])), find="past")
        store.commit(3)
        assert found_by(search) == {1: {b"1", b"2", b"3", b"4", b"5", b"6"}, 3: {b"8"}}
        assert found_by(one) == {3: {b"8"}}


def test_a_search_may_be_closed_before_its_end(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.apply_columns(batch_of(table([publication(1), subscription(2, "")])), find="past")
        search = store.search()
        search.close()
        search.close()
        assert search.done
        assert search.take() is None


Value = bool | int | float | str | tuple[float, float] | datetime
NAMES = ("a", "b", "c")
NUMBERS = [0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0.5, 1.0, -0.0, 2.0**53, 1e300, float("inf"), float("nan")]
TEXTS = ["", "a", "b", "accident", "accident-1", "accident-2", "é", "zz" * 40]
TIMES = [EPOCH + timedelta(microseconds=n) for n in (0, 1, 10**15)]

values = st.sampled_from([*NUMBERS, *TEXTS, *TIMES, True, False, (1.0, 2.0)])
publications = st.lists(st.dictionaries(st.sampled_from(NAMES), values), min_size=1, max_size=25)
numbers = st.none() | st.sampled_from([n for n in NUMBERS if n == n])
texts = st.none() | st.sampled_from([text.encode() for text in TEXTS])
ranges = st.one_of(
    st.builds(Range, st.just(NUMBER), numbers, numbers),
    st.builds(Range, st.just(TEXT), texts, texts),
    st.sampled_from([text.encode() for text in TEXTS]).map(lambda text: Range(TEXT, text, text)),
    st.builds(Range, st.just(TIMESTAMP), st.sampled_from([None, 0, 1]), st.sampled_from([None, 1, 10**15])),
    st.builds(Range, st.just(BOOLEAN), st.booleans(), st.booleans()),
)
predicates = st.builds(Predicate, st.sampled_from(NAMES), st.lists(ranges, max_size=3).map(tuple))
filters = st.builds(
    Filter, st.lists(st.lists(predicates, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple), st.booleans()
)


def reader_of(known: list[dict[str, Value]]) -> Reader:
    """A payload is the number of a publication."""

    def reader(payloads: Texts) -> Attributes:
        start, name, tag, bits, length, heap = [0], [], [], [], [], bytearray()
        for payload in payloads:
            for attribute, value in known[int(payload or b"0")].items():
                kind, number, text = coded(value, len(heap))
                name.append(NAMES.index(attribute))
                tag.append(kind)
                bits.append(number)
                length.append(len(text))
                heap += text
            start.append(len(name))
        return Attributes(
            list(NAMES), np.array(start), np.array(name, np.int32), np.array(tag, np.uint8), np.array(bits, np.int64),
            np.array(length, np.int32), np.frombuffer(bytes(heap), np.uint8),
        )  # fmt: skip

    return reader


def coded(value: Value, offset: int) -> tuple[int, int, bytes]:
    if isinstance(value, bool):
        return attributes.BOOLEAN, int(value), b""
    if isinstance(value, int):
        return attributes.INTEGER, value, b""
    if isinstance(value, float):
        return attributes.FLOAT, int(np.float64(value).view(np.int64)), b""
    if isinstance(value, datetime):
        return attributes.TIMESTAMP, (value - EPOCH) // timedelta(microseconds=1), b""
    if isinstance(value, str):
        return attributes.STRING, offset, value.encode()
    return attributes.POINT, offset, np.array(value).tobytes()


def within(value: Value, given: Range) -> bool:
    plain: Any = value
    if isinstance(value, bool):
        family = BOOLEAN
    elif isinstance(value, int | float):
        family = NUMBER
    elif isinstance(value, datetime):
        family, plain = TIMESTAMP, (value - EPOCH) // timedelta(microseconds=1)
    elif isinstance(value, str):
        family, plain = TEXT, value.encode()
    else:
        return False
    low: Any
    high: Any
    _, low, high = given
    return (
        family == given.family and plain == plain and (low is None or low <= plain) and (high is None or plain <= high)
    )


def passes(publication: dict[str, Value], given: Filter) -> bool:
    def holds(predicate: Predicate) -> bool:
        if predicate.attribute not in publication:
            return given.absent
        value = publication[predicate.attribute]
        return not predicate.ranges or any(within(value, one) for one in predicate.ranges)

    return any(all(map(holds, disjunct)) for disjunct in given.disjuncts)


def exact(given: Filter) -> bool:
    """Of texts and doubles a filter may let through a little more."""
    every = [one for disjunct in given.disjuncts for predicate in disjunct for one in predicate.ranges]
    return all(one.low == one.high if one.family == TEXT else one.family != NUMBER for one in every)


@pytest.mark.parametrize("layout", ["dual", "two"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(known=publications, given=st.lists(filters, min_size=1, max_size=3), most=st.integers(1, 30), data=st.data())
def test_a_filter_keeps_what_passes(
    layout: str, known: list[dict[str, Value]], given: list[Filter], most: int, data: st.DataObject
) -> None:
    """Whether it lies in slices or in memory, in blocks of any size, and whatever comes before the search is taken."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="store-") as directory:
        patch.setattr(blocks, "BLOCK", data.draw(st.integers(1, 8), "block"))
        patch.setattr(searching, "FEW", 0)
        with open_store(directory, layout, hot_window=1_000, reader=reader_of([*known, {}])) as store:
            store._publications.most = most
            for n in range(len(known)):
                row = publication(n, topic=f"1.{n % 3}")
                store.apply_columns(batch_of(table([row])), find="past")
                if data.draw(st.booleans(), "commit"):
                    store.commit(n)
            rows = [subscription(100 + n, "1") for n in range(len(given))]
            store.apply_columns(batch_of(table(rows)), find="past")
            search = store.search(dict(enumerate(given)))
            for n in range(data.draw(st.integers(0, 3), "later")):
                later = publication(2_000 * (n + 1), topic="1.0", payload=str(len(known)).encode())
                store.apply_columns(batch_of(table([later])), find="past")
                store.commit(200 + n)
            found = found_by(search)
            for row, one in enumerate(given):
                wanted = {str(n).encode() for n, publication in enumerate(known) if passes(publication, one)}
                assert wanted <= found.get(row, set())
                if exact(one):
                    assert wanted == found.get(row, set())


def test_a_selective_search_reads_few_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 10)
    known: list[dict[str, Value]] = [{"a": n, "b": f"kind-{n // 50}"} for n in range(1_000)]
    with open_store(tmp_path, reader=reader_of(known)) as store:
        store._publications.most = 100
        for n in range(0, 1_000, 50):
            rows = [publication(n + i, topic="1.1") for i in range(50)]
            store.apply_columns(batch_of(table(rows)), find="past")
            store.commit(n)
        store.apply_columns(batch_of(table([subscription(2_000, "")])), find="past")
        for given in (Range(NUMBER, 500, 509), Range(TEXT, b"kind-7", b"kind-7")):
            name = "a" if given.family == NUMBER else "b"
            search = store.search({0: Filter(((Predicate(name, (given,)),),))})
            assert len(found_by(search)[0]) == (10 if name == "a" else 50)
            assert search.blocks_read <= (2 if name == "a" else 20)


def test_an_attribute_that_has_a_column_is_found_in_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in one that has more attributes than there are columns, and others before it. The latest are in the first block."""
    monkeypatch.setattr(blocks, "BLOCK", 1)
    monkeypatch.setattr(sealing, "COLUMNS", 1)
    known: list[dict[str, Value]] = [{"b": 1, "a": 5}, {"a": 1}]
    with open_store(tmp_path, hot_window=1_000, reader=named_as_they_come(known)) as store:
        store._publications.most = 1
        store.apply_columns(batch_of(table([publication(n, topic="1.1") for n in range(2)])), find="past")
        store.commit(1)
        store.apply_columns(batch_of(table([subscription(100, "1")])), find="past")
        for name, value, wanted in (("a", 5, {b"0"}), ("a", 1, {b"1"}), ("b", 1, {b"0", b"1"})):
            given = Filter(((Predicate(name, (Range(NUMBER, value, value),)),),))
            found = found_by(store.search({0: given}))[0]
            assert found == wanted


def named_as_they_come(known: list[dict[str, Value]]) -> Reader:
    """A block has the names of its own publications, in the order in which they are met."""

    def reader(payloads: Texts) -> Attributes:
        whole = reader_of(known)(payloads)
        used = list(dict.fromkeys(whole.name.tolist()))
        number = {name: i for i, name in enumerate(used)}
        name = np.array([number[each] for each in whole.name.tolist()], np.int32)
        return replace(whole, names=[NAMES[each] for each in used], name=name)

    return reader


def test_many_searches_at_once_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds what there was when it was made, while slices are made and go."""
    monkeypatch.setattr(blocks, "BLOCK", 7)
    with open_store(tmp_path, hot_window=150) as store:
        store._publications.most = 20
        searches, wanted = [], []
        for n in range(1, 400):
            store.apply_columns(batch_of(table([publication(n)])), find="past")
            if n % 40 == 0:
                store.apply_columns(batch_of(table([subscription(n, "")])), find="past")
                searches.append(store.search())
                wanted.append({str(m).encode() for m in range(max(1, n - 150), n + 1)})
            store.commit(n)
            if n % 3 == 0 and len(searches) > 2:
                searches[n % len(searches)].take(Limits(blocks=1))
        for search, all_of_them in zip(searches, wanted, strict=True):
            found = found_by(search).get(0, set())
            assert found <= all_of_them
        store.apply_columns(batch_of(table([subscription(400, "")])), find="past")
        assert found_by(store.search()) == {0: {str(m).encode() for m in range(250, 400)}}


@pytest.mark.parametrize("most", [1, 1_000])
def test_a_pair_that_meets_at_several_topics_is_found_once(tmp_path: Path, most: int) -> None:
    with open_store(tmp_path) as store:
        store._publications.most = most
        rows = [publication(1, topic=["1.4"]), publication(2, topic=["1.4", "2", "3"])]
        store.apply_columns(batch_of(table(rows)), find="past")
        store.commit(1)
        rows = [{**subscription(3, ""), "topic": ["", "1", "1.4"]}, {**subscription(4, ""), "topic": [""]}]
        store.apply_columns(batch_of(table(rows)), find="past")
        assert found_by(store.search()) == {0: {b"1", b"2"}, 1: {b"1", b"2"}}
