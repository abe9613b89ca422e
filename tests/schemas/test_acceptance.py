"""Router, history and `schemas.acceptance` decide alike, whatever the record and whatever the routing."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward import schemas
from pastforward.matching.conditions.values import Box
from pastforward.schemas import Best, Predicate, Publication, SchemaError, Subscription, Withdrawal, acceptance, encode
from pastforward.schemas.acceptance import Rules, accept_publication, accept_subscription
from pastforward.schemas.codec import Format
from pastforward.spark_batch.decode import decode_batch
from pastforward.spark_batch.in_force import InForce
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import Directory, Scheme, make_scheme
from pastforward.streams.routing.change import State, View
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.topics import Topics
from tests import bad_records
from tests.bad_records import PUBLISHED, SUBSCRIBED, Sent, key_of
from tests.schemas import strategies
from tests.schemas.fuzz import mutated

TOPICS = Topics("")
ARRIVED = 1_700_000_000_000  # milliseconds
SCHEMES = [make_scheme("dewey", 4, depth) for depth in (1, 2, 3)] + [make_scheme("pan", 4)]
Decision = str | None  # the words of the refusal; None: accepted

names = strategies.ids | st.sampled_from(
    ["x", "y", "previous.x", "previous.", "previous", "n" * 255, "n" * 256, "ü" * 127, "ü" * 128]
)
wheres = strategies.wheres | st.sampled_from(
    [
        "x = 1",
        "x > 1 AND x < 1",
        "previous.x > 1",
        "x = 1 OR previous.x IS NULL",
        "kind LIKE 'a%' AND NOT road IN ('b', 'c')",
        "x >",
        "(" * 30 + "x = 1" + ")" * 30,
        f"p = PATH '{'.'.join(['1'] * 64)}'",
        f"p = PATH '{'.'.join(['1'] * 65)}'",
        "within(p, CIRCLE(1, 2, 3))",
        "within(p, CIRCLE(1, 200, 3))",
    ]
)


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    record = draw(strategies.publications())
    record.attributes = draw(st.dictionaries(names, strategies.values, max_size=3))
    record.where = draw(st.none() | wheres)
    record.best = draw(st.none() | st.none() | st.builds(Best, names, st.just("highest")))
    record.topic = draw(st.sampled_from(["", "1", "1.2", "1.2.3"]))
    return record


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    record = draw(strategies.subscriptions())
    record.where = draw(wheres)
    return record


def routed(scheme: Scheme, kind: str, keys: list[bytes | None], values: list[bytes | None]) -> list[Decision]:
    topic = getattr(TOPICS, kind)
    arguments: Any = (TopicPartition(topic, 0), kind, TOPICS, scheme, 1, View(state=State(1)), Metrics(), None)
    router: Any = (
        PublicationRouter(*arguments)
        if kind == "publications"
        else SubscriptionRouter(*arguments, routes=Routes(TOPICS.routes, 0))
    )
    records = [
        SimpleNamespace(offset=offset, timestamp=ARRIVED, key=key, value=value)
        for offset, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    outgoing: Outgoing = router.process(records)
    letters = {}
    for _, value in outgoing.outputs[TOPICS.dead_letters, 0]:
        assert value is not None
        letter = schemas.decode_dead_letter(value)
        assert letter.kind != "internal", letter.reason
        letters[letter.offset] = letter.reason
    return [letters.get(offset) for offset in range(len(values))]


def accepted(rules: Rules, kind: str, key: bytes | None, value: bytes | None) -> Decision:
    try:
        if kind == "publications":
            accept_publication(schemas.decode_publication(key, value), rules)
        else:
            read = schemas.decode_subscription(key, value)
            if not isinstance(read, Withdrawal):
                accept_subscription(read, rules, ARRIVED * 1000)
    except SchemaError as error:
        cut = schemas.dead_letter("", 0, 0, 0, error, key, value)
        return cut.reason
    return None


def kept(rules: Rules, keys: list[bytes | None], values: list[bytes | None]) -> list[bool]:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "arrived_at": pa.array([ARRIVED * 1000] * len(values), pa.int64()),
        }
    )
    return [each for part in decode_batch(batch, None, InForce(rules)) for each in part["readable"].to_pylist()]


def check(scheme: Scheme, kind: str, keys: list[bytes | None], values: list[bytes | None]) -> list[Decision]:
    decisions = routed(scheme, kind, keys, values)
    assert decisions == [accepted(scheme.accepts, kind, *each) for each in zip(keys, values, strict=True)]
    if kind == "publications":
        assert kept(scheme.accepts, keys, values) == [decision is None for decision in decisions]
    return decisions


def lenient(record: Any, format: Format) -> bytes | None:
    try:
        return encode(record, format)
    except SchemaError:  # it has no JSON form
        return None


CASES = st.tuples(st.sampled_from(["avro", "json"]), st.booleans(), st.integers(0, 2**32))


def drawn(record: Any, case: tuple[Any, bool, int]) -> bytes | None:
    format, wrong, seed = case
    value = lenient(record, format)
    return mutated(value, random.Random(seed)) if wrong and value else value


@settings(max_examples=150)
@given(st.sampled_from(SCHEMES), st.lists(st.tuples(publications(), CASES), max_size=6))
def test_publications(scheme: Scheme, sent: list[tuple[Publication, Any]]) -> None:
    values = [drawn(*each) for each in sent]
    check(scheme, "publications", [None] * len(values), values)


@settings(max_examples=100)
@given(st.sampled_from(SCHEMES), st.lists(st.tuples(subscriptions(), CASES), max_size=6))
def test_subscriptions(scheme: Scheme, sent: list[tuple[Subscription, Any]]) -> None:
    values = [drawn(*each) for each in sent]
    keys: list[bytes | None] = [None] * len(values)
    # an id that came before in the chunk: what is refused leaves it in force, and what is the same again is not looked at
    check(
        scheme,
        "subscriptions",
        [key if value is not None else b"s" for key, value in zip(keys, values, strict=True)],
        values,
    )


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=5_000)
@given(st.sampled_from(SCHEMES), st.lists(st.tuples(publications(), CASES), max_size=20))
def test_publications_for_long(scheme: Scheme, sent: list[tuple[Publication, Any]]) -> None:
    values = [drawn(*each) for each in sent]
    check(scheme, "publications", [None] * len(values), values)


@pytest.mark.parametrize("sent", [*PUBLISHED, *SUBSCRIBED], ids=lambda sent: sent.name)
def test_the_catalogue_one_by_one(sent: Sent) -> None:
    (decision,) = check(SCHEMES[0], sent.topic, [key_of(sent)], [sent.value])
    assert (decision is None) == (sent.kind is None), decision
    try:
        decode: Any = schemas.decode_publication if sent.topic == "publications" else schemas.decode_subscription
        accept: Any = accept_publication if sent.topic == "publications" else accept_subscription
        accept(
            decode(key_of(sent), sent.value), **({} if sent.topic == "publications" else {"arrived_at": ARRIVED * 1000})
        )
    except SchemaError as error:
        kind: str | None = error.kind
    else:
        kind = None
    assert kind == sent.kind


@pytest.mark.parametrize("topic", ["publications", "subscriptions"])
def test_the_catalogue_in_bulk(topic: str) -> None:
    sent = [each for each in bad_records.ALL if each.topic == topic]
    decisions = check(SCHEMES[0], topic, [key_of(each) for each in sent], [each.value for each in sent])
    assert [
        each.name for each, said in zip(sent, decisions, strict=True) if (said is None) != (each.kind is None)
    ] == []


# ------------------------------------------------------------------------------------------------------------------- sizes


MOST = 300  # what attributes, body and condition may have together in the next test


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from(["body", "text", "names", "condition", "structured"])),
        min_size=1,
        max_size=5,
    )
)
def test_sizes_at_the_limit(cases: list[tuple[int, str]]) -> None:
    """No record of a megabyte is too large by its attributes and body, unless it has a schema of its own: so the limit is lowered here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "MAX_ACCEPTED_BYTES", MOST + acceptance._SURROUNDING)
        values: list[bytes | None] = []
        fitting = []
        for more, of in cases:
            record = Publication("p", attributes={"ab": 1})
            free = MOST - acceptance._ENTRY - 2
            if of == "body":
                record.body = b"b" * (free + more)
            elif of == "text":
                record.attributes["ü"] = "t" * (free - acceptance._ENTRY - 2 + more)
            elif of == "names":
                record.attributes["n" * (free - acceptance._ENTRY - 32 + more)] = Box(0, 0, 1, 1)
            else:
                around = len(acceptance.published_condition("x = ''")[1])
                text = "c" * (free - around - 1 + more)  # the length of a longer text takes two bytes
                record.where = f"x = '{text}'" if of == "condition" else ((Predicate("x", "=", text),),)
            values.append(encode(record))
            fitting.append(more <= 0)
        decisions = check(SCHEMES[0], "publications", [None] * len(values), values)
        assert [decision is None for decision in decisions] == fitting


@settings(max_examples=60)
@given(st.lists(publications(), min_size=1, max_size=4))
def test_what_is_accepted_fits_the_rendezvous_topic(records: list[Publication]) -> None:
    """The size that is counted is never below that of the bytes."""
    for record in records:
        try:
            value = encode(record)
            form = accept_publication(record)
        except SchemaError:
            continue
        columns = schemas.decode_publications(
            [b"p"] if record.publication_id is None else [None], [value], 0, *[np.zeros(1, np.int64)] * 2
        )
        where = {} if form is None else {0: form}
        none = np.zeros(2, np.int64)
        (written,), _ = schemas.encode_rendezvous_publications(
            columns, np.zeros(1, np.int64), 1, none, np.empty(0, np.int32), where
        )
        _, raw = acceptance.published_condition(record.where)
        counted = sum(
            acceptance._ENTRY + len(n.encode()) + acceptance._text_bytes(v) for n, v in record.attributes.items()
        )
        assert len(written) <= counted + len(record.body or b"") + len(raw) + acceptance._SURROUNDING


# ----------------------------------------------------------------------------------------------- the routing in force


def test_the_history_follows_a_change_of_the_routing() -> None:
    view = View(
        {1: Directory(1, "dewey", 2, 1), 2: Directory(2, "dewey", 2, 2), 3: Directory(3, "pan", 2)},
        State(3),
        flips={
            (2, "publications", 0): 10,
            (3, "publications", 0): 20,
            (2, "publications", 1): 5,
            (2, "subscriptions", 0): 1,
        },
    )
    found = InForce.of(view)
    assert [found.rules(0, offset).best_depth for offset in (0, 9, 10, 19, 20, 99)] == [1, 1, 2, 2, None, None]
    assert [found.rules(1, offset).best_depth for offset in (4, 5)] == [1, 2]
    assert found.rules(2, 99).best_depth == 1
    assert found.borders(0, np.array([5, 9, 11, 19, 20, 21])) == [2, 4]
    assert found.borders(0, np.array([10, 11])) == []
    assert found.borders(0, np.array([1, 30])) == [1]
    assert found.borders(7, np.array([1, 30])) == []
    value = encode(Publication(topic="1", best=Best("x", "highest")))
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * 5, pa.binary()),
            "value": pa.array([value] * 5, pa.binary()),
            "partition": pa.array([0, 0, 0, 1, 1], pa.int32()),
            "offset": pa.array([9, 10, 20, 4, 5], pa.int64()),
            "arrived_at": pa.array([0] * 5, pa.int64()),
        }
    )
    rows = pa.Table.from_batches(decode_batch(batch, None, found))
    assert rows["readable"].to_pylist() == [True, False, False, True, False]
