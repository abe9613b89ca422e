"""Whatever bytes come, a decoder returns a record or raises `SchemaError`, and a chunk's decoder raises nothing.

That nothing else is raised holds by construction (`schemas.errors.refusal`); these tests also show that the net is not needed: the kind
of an error is never `internal`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward import schemas
from pastforward.schemas import SchemaError, chunks, codec, encode
from pastforward.schemas.chunk_reader import ChunkReader
from pastforward.schemas.codec import Format
from pastforward.streams.matcher.cold import Cold
from pastforward.streams.matcher.progress import Progress, decode_progress, encode_progress
from pastforward.streams.routing import Directory, RoutingError
from pastforward.streams.routing.change import STATE, State, View, version_key
from tests.schemas.fuzz import mutated
from tests.schemas.strategies import RECORDS
from tests.streams.routing.records import CATALOG

PLAIN: dict[str, Callable[[bytes | None, bytes], Any]] = {
    "subscription": schemas.decode_subscription,
    "publication": schemas.decode_publication,
    "notification": lambda key, value: schemas.decode_notification(value),
    "dead_letter": lambda key, value: schemas.decode_dead_letter(value),
    "rendezvous": lambda key, value: schemas.decode_rendezvous(value),
    "backfill_request": lambda key, value: schemas.decode_backfill_request(value),
    "best_offer": lambda key, value: schemas.decode_best_offer(value),
}


def places(count: int) -> tuple[int, Any, Any]:
    return 0, np.arange(count, dtype=np.int64), np.full(count, 1_700_000_000_000_000, np.int64)


CHUNKS: dict[str, Callable[[Sequence[bytes | None], Sequence[bytes]], list[tuple[int, SchemaError]]]] = {
    "subscription": lambda keys, values: schemas.decode_subscriptions(keys, values, *places(len(values))).errors,
    "publication": lambda keys, values: schemas.decode_publications(keys, values, *places(len(values))).errors,
    "notification": lambda keys, values: schemas.decode_notifications(values)[1],
    "rendezvous": lambda keys, values: rendezvous_errors(values),
}


def rendezvous_errors(values: Sequence[bytes]) -> list[tuple[int, SchemaError]]:
    """Conditions are read when they are asked for."""
    columns = schemas.decode_rendezvous_chunk(values)
    errors = list(columns.errors)
    for row in np.flatnonzero(columns.ok).tolist():
        try:
            columns.where[row]
        except SchemaError as error:
            errors.append((row, error))
    return sorted(errors, key=lambda each: each[0])


def refused(decode: Callable[[], Any]) -> str | None:
    kind: str | None = None
    try:
        decode()
    except SchemaError as error:
        kind = error.kind
    assert kind != "internal"
    return kind


def check(name: str, valid: bytes, seed: int, count: int) -> None:
    rng = random.Random(seed)
    values = [mutated(valid, rng) for _ in range(count)]
    keys = [rng.choice([None, None, b"id", b"", b"a\0", b"\xff", rng.randbytes(600)]) for _ in values]
    kinds = {
        row: kind
        for row, value in enumerate(values)
        if (kind := refused(lambda value=value, row=row: PLAIN[name](keys[row], value))) is not None
    }
    if name in CHUNKS:
        errors = CHUNKS[name](keys, values)
        assert {row: error.kind for row, error in errors} == kinds


@pytest.mark.parametrize("name", sorted(RECORDS))
@settings(max_examples=25)
@given(data=st.data(), format=st.sampled_from(["avro", "json"]), seed=st.integers(0, 2**32))
def test_mutated_records(name: str, data: Any, format: Format, seed: int) -> None:
    try:
        valid = encode(data.draw(RECORDS[name]), format)
    except SchemaError:  # a record that has no JSON form
        return
    check(name, valid, seed, 20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(RECORDS))
@settings(max_examples=1_000)
@given(data=st.data(), format=st.sampled_from(["avro", "json"]), seed=st.integers(0, 2**32))
def test_mutated_records_for_long(name: str, data: Any, format: Format, seed: int) -> None:
    try:
        valid = encode(data.draw(RECORDS[name]), format)
    except SchemaError:
        return
    check(name, valid, seed, 100)


@pytest.mark.parametrize("depth", [33, 400, 1_000, 200_000])
@pytest.mark.parametrize("name", sorted(PLAIN))
@pytest.mark.parametrize("extra", ["", ',"x":1e300'])
def test_nested_json(name: str, depth: int, extra: str) -> None:
    for begin, end in (("[", "]"), ('{"a":', "}")):
        value = f'{{"attributes":{begin * depth}1{end * depth}{extra}}}'.encode()
        assert refused(lambda value=value: PLAIN[name](b"id", value)) in ("malformed", "too_large")
        if name in CHUNKS:
            assert [row for row, _ in CHUNKS[name]([b"id"], [value])] == [0]


@pytest.mark.parametrize("name", ["subscription", "publication"])
def test_no_branch_of_a_condition_but_its_own(name: str) -> None:
    """The kernel took the sixteenth for one: the table of branches ends with a number of another meaning."""
    record = schemas.Subscription("id", "me") if name == "subscription" else schemas.Publication("id", topic="1")
    valid = encode(record)
    behind = 3  # fields behind `where`: one byte each
    at = len(valid) - behind - 1
    assert valid[at] == 0
    for branch in range(1, 64):
        value = valid[:at] + bytes([2 * branch]) + valid[at + 1 :]
        kind = refused(lambda value=value: PLAIN[name](None, value))
        assert kind is not None or branch == 1
        assert [error.kind for _, error in CHUNKS[name]([None], [value])] == ([] if kind is None else [kind])


# ---------------------------------------------------------------------------------------- what nobody has foreseen


class Unforeseen(Exception):
    pass


VALUES = [
    b'{"subscriber_id": "a", "topic": "1"}',
    b'{"subscriber_id": "b", "topic": "2"}',
    b'{"subscriber_id": "b", "topic": "1..2"}',
]


def test_an_exception_in_a_kernel_is_the_error_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ChunkReader.read

    def fails(self: ChunkReader, values: Any, *more: Any, **options: Any) -> None:
        if self._kernels and VALUES[1] in values:
            raise Unforeseen("of this record")
        read(self, values, *more, **options)

    monkeypatch.setattr(ChunkReader, "read", fails)
    columns = schemas.decode_subscriptions([b"0", b"1", b"2"], VALUES, *places(3))
    assert columns.ok.tolist() == [True, False, False]
    assert [(row, error.kind) for row, error in columns.errors] == [(1, "internal"), (2, "bad_path")]
    assert "Unforeseen: of this record" in columns.errors[0][1].reason
    assert columns.subscription_id[0] == b"0"


@pytest.mark.parametrize("decode", ["subscription", "notification", "rendezvous"])
def test_an_exception_in_the_plain_path_is_the_error_of_its_record(
    decode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise Unforeseen("x" * 10_000)

    monkeypatch.setattr(chunks.codec.plain, decode, fails)
    monkeypatch.setattr(ChunkReader, "read", lambda *_, **__: None)  # the kernels leave all rows
    (error,) = (error for _, error in CHUNKS[decode]([b"0"], [b"{}"]))
    assert error.kind == "internal"
    assert len(error.reason) < 1_000


@pytest.mark.parametrize("fault", [MemoryError, OSError, schemas.errors.RegistryUnavailable])
def test_faults_go_through(fault: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise fault("no record is to blame")

    monkeypatch.setattr(codec, "parse_json", fails)
    with pytest.raises(fault):
        schemas.decode_subscription(b"id", b"{}")
    with pytest.raises(fault):
        schemas.decode_subscriptions([b"id"], [b'{"a":'], *places(1))


# ------------------------------------------------------------------------------------------- the workers' own records


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_mutated_progress(seed: int) -> None:
    progress = Progress(5, {("publications", 0): 17, ("subscriptions", 1): 2**40}, 3, Cold(1, 2))
    value = encode_progress(progress, 99)
    assert encode_progress(*decode_progress(value)) == value
    rng = random.Random(seed)
    for _ in range(20):
        wrong = mutated(value, rng)
        refused(lambda wrong=wrong: decode_progress(wrong))


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_mutated_directory(seed: int) -> None:
    rng = random.Random(seed)
    directory = Directory(2, "pan", 4, 1, CATALOG, 7, (1, 2)).to_bytes()
    for key, value in (
        (version_key(2), directory),
        (STATE, State(1, 2, True).to_bytes()),
        (b"flip/2/publications/0", b"17"),
    ):
        for _ in range(10):
            try:
                View().apply(rng.choice([key, key, mutated(key, rng)]), mutated(value, rng))
            except RoutingError:
                continue
