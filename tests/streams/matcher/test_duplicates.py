"""What is known of dropped publications is a function of the log, and goes when two hot windows have passed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pastforward.columns.times import SECOND
from pastforward.schemas import CanonicalPublication, Rendezvous
from pastforward.state import Store, open_store
from pastforward.streams.matcher.duplicates import BLOCK, DUPLICATES, Duplicates
from tests.streams.logs import HOT, START
from tests.streams.matcher.test_engine import Engines

KEEP = 50  # of the log's time, in this test
SPAN = 3 * BLOCK


def left_in(store: Store, slots: int) -> list[bytes]:
    """What the store still holds of a queue that had so many slots at most."""
    keys = [DUPLICATES, *(DUPLICATES + b" %d" % slot for slot in range(slots))]
    return [key for key in keys if store.get_meta(key) is not None]


@given(
    st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, 30)), max_size=30),
    st.lists(st.tuples(st.integers(1, 10), st.sampled_from(["go on", "load", "restore"])), min_size=30, max_size=30),
)
def test_what_is_known_does_not_depend_on_chunks(drops: list[tuple[int, int]], steps: list[tuple[int, str]]) -> None:
    offsets = sorted({offset for offset, _ in drops})
    times = np.cumsum([time for _, time in drops[: len(offsets)]], dtype=np.int64)
    changelog: dict[bytes, bytes] = {}
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(f"{directory}/0", "dual")
        duplicates, at = Duplicates(store), 0
        for number, (size, then) in enumerate(steps):
            if at == len(offsets):
                break
            piece = slice(at, at + size)
            at = min(at + size, len(offsets))
            now = int(times[at - 1])
            changelog.update(duplicates.note(np.array(offsets[piece]), times[piece]))
            for key, _ in duplicates.forget(now - KEEP):
                del changelog[key]
            store.commit(at)
            if then == "load":
                store.close()
                store = open_store(store.path, "dual")
                duplicates = Duplicates(store)
                duplicates.load()
            elif then == "restore":
                store.close()
                store = open_store(f"{directory}/{number + 1}", "dual")
                duplicates = Duplicates(store)
                duplicates.restore(changelog)
            assert len(duplicates) == len(changelog)
            # at least what was dropped in that time is known, and nothing else than what was dropped
            found = np.flatnonzero(duplicates.among(np.arange(SPAN + 1))).tolist()
            recent = [offset for offset, time in zip(offsets[:at], times.tolist(), strict=False) if time >= now - KEEP]
            assert set(recent) <= set(found) <= set(offsets[:at])
        for key, _ in duplicates.forget(1 << 62):
            del changelog[key]
        assert not changelog
        assert not duplicates
        assert not left_in(store, 30)
        store.close()


def published(offset: int, at: int) -> Rendezvous:
    record = CanonicalPublication("p", None, "1", at, None, None, False, {}, None)
    return Rendezvous("publications", 0, offset, at, 1, (0,), record)


def test_nothing_is_left_when_its_time_has_passed(tmp_path: Path) -> None:
    """In the changelog nor in the store, whatever has happened in between."""
    engines = Engines(str(tmp_path), "dual", True)
    first = [published(0, START), published(1, START + 1), published(1, START + 1)]
    assert engines.feed(first).dropped == {"repeated_publication": 1, "repeat": 1}
    engines.commit()
    (key,) = engines.changelog
    assert engines.changelog[key][8:].hex().rstrip("0") == "6"  # offsets 1 and 2
    engines.restart(1)
    engines.rebuild()
    assert list(engines.changelog) == [key]
    engines.feed([Rendezvous("none", 0, 0, START + 1 + 2 * HOT, 1, (0,))])
    assert list(engines.changelog) == [key]
    assert engines.engine.duplicates
    effects = engines.feed([Rendezvous("none", 0, 0, START + 2 + 2 * HOT, 1, (0,))])
    assert effects.live == {key: None}
    assert not engines.changelog
    assert not engines.engine.duplicates
    engines.commit()
    engines.restart(1)
    assert not engines.engine.duplicates
    assert not left_in(engines.engine.store, 2)
    engines.engine.close()


def test_a_storm_of_repeats_takes_a_bit_each(tmp_path: Path) -> None:
    """And a chunk without any adds nothing."""
    engines = Engines(str(tmp_path), "dual", True)
    engines.feed([published(0, START)])
    assert engines.feed([published(n, START + n) for n in range(1, 5000)]).dropped["repeated_publication"] == 4999
    assert len(engines.changelog) == -(-5000 // BLOCK)
    assert sum(map(len, engines.changelog.values())) < 5000 // 8 + 200
    other = published(5000, START + SECOND)
    assert isinstance(other.record, CanonicalPublication)
    other.record.publication_id = "q"
    assert not engines.feed([other]).live
    engines.engine.close()


def test_what_is_read_again_was_no_repeat(tmp_path: Path) -> None:
    """At least once, a rebuilt state may be ahead of the committed offset; what lies between comes again, and counted."""
    engines = Engines(str(tmp_path), "dual", True)
    engines.feed([published(0, START)])
    engines.rebuild(behind=True)
    engines.restart(1)  # killed, and started again from its own store
    assert engines.again().dropped == {"repeat": 1}
    assert not engines.changelog
    engines.rebuild()
    assert engines.feed([published(1, START + SECOND)]).dropped == {"repeated_publication": 1}
    engines.engine.close()
