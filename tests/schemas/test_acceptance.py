"""Router, history and `schemas.acceptance` decide alike, whatever the record and whatever the routing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward import schemas
from pastforward.columns.times import MAX_TIME
from pastforward.matching import Index
from pastforward.matching.conditions import predicates as asking
from pastforward.matching.conditions.values import Box, Path
from pastforward.schemas import (
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    Predicate,
    Publication,
    Rendezvous,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    acceptance,
    encode,
)
from pastforward.schemas.acceptance import Rules, accept_publication, accept_subscription
from pastforward.schemas.codec import Format, finite_json, to_json
from pastforward.schemas.limits import MAX_ID_BYTES
from pastforward.schemas.plain import plain_content
from pastforward.schemas.records import Disjuncts, Where
from pastforward.spark_batch.decode import decode_batch
from pastforward.spark_batch.in_force import InForce
from pastforward.streams.matcher.records import add_to
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import SCHEMES as ROUTINGS
from pastforward.streams.routing import Directory, Scheme, make_scheme
from pastforward.streams.routing.catalog import Attribute, Catalog
from pastforward.streams.routing.change import State, View
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.topics import Topics
from tests import bad_records
from tests.bad_records import PUBLISHED, SUBSCRIBED, Sent, key_of
from tests.matching import strategies as language
from tests.schemas import strategies
from tests.schemas.fuzz import mutated

TOPICS = Topics("")
ARRIVED = 1_700_000_000_000  # milliseconds
DECLARED = {"x": "integer", "y": "float", "p": "path", "t": "timestamp", "kind": "string", "previous": "boolean"}
CATALOG = Catalog(tuple(Attribute(name, kind, "equality") for name, kind in DECLARED.items()))  # type: ignore[arg-type]
SCHEMES = [make_scheme("dewey", 4, depth) for depth in (1, 2, 3)] + [make_scheme("pan", 4)]
SCHEMES += [make_scheme(name, 4, 1, CATALOG) for name in ("dewey", "hybrid")]
Decision = str | None  # the words of the refusal; None: accepted

names = strategies.ids | st.sampled_from(
    ["x", "y", "previous.x", "previous.", "previous", "n" * 255, "n" * 256, "ü" * 127, "ü" * 128]
)
DEEPEST, LARGEST = ".".join(["1"] * 64), ".".join([str(2**63 - 1)] * 64)
FIRST, LAST = "TIMESTAMP '0001-01-01T00:00:00Z'", "TIMESTAMP '9999-12-31T23:59:59.999999Z'"
EDGES = [
    *(f"p {operator} PATH '{path}'" for operator in ("=", "!=", "<", "<=", ">", ">=") for path in (DEEPEST, LARGEST)),
    *(
        f"{relation}(p, PATH '{path}')"
        for relation in ("within", "contains", "overlaps")
        for path in (DEEPEST, LARGEST)
    ),
    *(f"NOT {relation}(p, PATH '{path}')" for relation in ("within", "overlaps") for path in (DEEPEST, LARGEST)),
    f"p >= PATH '{DEEPEST}' AND p != PATH '{DEEPEST}'",
    f"p NOT BETWEEN PATH '{DEEPEST}' AND PATH '{LARGEST}'",
    f"p = PATH '{DEEPEST}.1'",
    f"p > PATH '{DEEPEST}.0'",
    *(f"t {operator} {time}" for operator in ("=", "!=", "<", "<=", ">", ">=") for time in (FIRST, LAST)),
    f"t NOT BETWEEN {FIRST} AND TIMESTAMP '2026-01-01'",
    *("x > 9223372036854775807", "x < -9223372036854775808", "x > 9223372036854775806.5", "x != -INFINITY"),
    *("x > INFINITY", "x >= INFINITY", "x > 1.7976931348623157e308", "x < -1.7976931348623157e308", "x > 5e-324"),
    *("p = POINT(180, 90)", "p = POINT(-180, -90)", "p = POINT(200, 0)", "p != POINT(0, 90.5)", "p = POINT(1e308, 0)"),
    *("x WITHIN POINT(1, 1e3)", "x CONTAINS POINT(180, -90)", "NOT x OVERLAPS POINT(-181, 0)"),
    *(
        "within(p, CIRCLE(180, -90, 1e300))",
        "within(p, CIRCLE(1, 200, 3))",
        "overlaps(p, BOX(-1e308, -1e308, 1e308, 1e308))",
    ),
    *(f'"{name}" = 1' for name in ("n" * 255, "n" * 256, "ü" * 127, "ü" * 128, "a\0b", "\0", "~x", " ", "\U0010ffff")),
    *(f'previous."{"n" * size}" = 1' for size in (246, 247)),
    *("x > ''", "x < ''", "x <= ''", "x > '\U0010ffff'", "x LIKE '\U0010ffff%'", "x = 'a\0b'", "x LIKE '\0%'"),
]


def sent_as(asked: Sequence[Sequence[asking.Predicate]]) -> Disjuncts:
    """The structured form as records have it."""
    return tuple(
        tuple(
            Predicate(name, operator, values=value)
            if isinstance(value, tuple)
            else Predicate(name, operator, value, high)  # type: ignore[arg-type]
            for name, operator, value, high in disjunct
        )
        for disjunct in asked
    )


asked = language.texts() | language.structured().map(sent_as) | st.sampled_from(EDGES)
wheres = (
    strategies.wheres
    | asked
    | st.sampled_from(
        [
            "x = 1",
            "x > 1 AND x < 1",
            "previous.x > 1",
            "x = 1 OR previous.x IS NULL",
            "kind LIKE 'a%' AND NOT road IN ('b', 'c')",
            "x >",
            "(" * 30 + "x = 1" + ")" * 30,
        ]
    )
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


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("size", [0, 256, 512, 513])
def test_a_name_is_told_the_limit_of_names(size: int, format: str) -> None:
    """Whichever way it is read, and whatever it names."""
    said = f"has {size} bytes: write 1 to 255"
    for record in (
        Publication("p", topic="1", attributes={"n" * 100: 1}),
        Publication("p", topic="1", best=Best("n" * 100, "highest")),
    ):
        value = encode(record, "json").replace(b"n" * 100, b"n" * size)
        if format == "avro":
            raw = encode(record)
            long = bytes((size * 2,)) if size < 64 else bytes((size * 2 & 0x7F | 0x80, size * 2 >> 7))
            value = raw.replace(b"\xc8\x01" + b"n" * 100, long + b"n" * size)
        (decision,) = check(SCHEMES[0], "publications", [b"p"], [value])
        assert decision is not None
        assert said in decision


@pytest.mark.parametrize("topic", ["publications", "subscriptions"])
def test_the_catalogue_in_bulk(topic: str) -> None:
    sent = [each for each in bad_records.ALL if each.topic == topic]
    decisions = check(SCHEMES[0], topic, [key_of(each) for each in sent], [each.value for each in sent])
    assert [
        each.name for each, said in zip(sent, decisions, strict=True) if (said is None) != (each.kind is None)
    ] == []


# ------------------------------------------------------------------------------------------------------------- and the matcher


def check_readable(where: Where) -> None:
    """Whoever accepts a condition promises that the matcher reads it, of a subscription and of a publication."""
    try:
        form = acceptance.normal_form(where)
    except SchemaError:
        return
    said = None if acceptance.speaks_of_previous(form) else form
    sent = [
        CanonicalSubscription("s", "anna", Version(0, 0, 0), "1", "overlap", 0, None, "published", form),
        CanonicalPublication("p", None, "1", 0, where=said),
    ]
    records = [Rendezvous("subscriptions", 0, 0, 0, 1, (0,), record) for record in sent]
    columns = schemas.decode_rendezvous_chunk([encode(record) for record in records])
    assert columns.errors == []
    assert columns.where[:] == [form, said]
    index = Index()
    add_to(index, columns, np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert len(index) == 1


@settings(max_examples=300)
@given(asked)
def test_what_is_accepted_can_be_matched(where: Where) -> None:
    check_readable(where)


@pytest.mark.parametrize("where", EDGES, ids=lambda where: where[:40])
def test_at_its_edge_a_condition_is_refused_or_can_be_matched(where: str) -> None:
    check_readable(where)
    key, value = b"k", encode(Publication(where=where, topic="1"))
    check(SCHEMES[0], "publications", [key], [value])
    check(SCHEMES[0], "subscriptions", [key], [encode(Subscription("k", "anna", where=where))])


def test_a_bound_may_be_as_deep_as_a_path() -> None:
    """It has a component more in normal form, which is read back."""
    for operator, found in ((">", [False, False, True]), ("<=", [True, True, False])):
        form = acceptance.normal_form(f"p {operator} PATH '{DEEPEST}'")
        record = CanonicalSubscription("s", "anna", Version(0, 0, 0), "", "overlap", 0, None, "published", form)
        columns = schemas.decode_rendezvous_chunk([encode(Rendezvous("subscriptions", 0, 0, 0, 1, (0,), record))])
        index = Index()
        add_to(index, columns, np.zeros(1, np.int64), np.zeros(1, np.int64))
        paths = [Path("1"), Path(DEEPEST), Path(DEEPEST[:-1] + "2")]
        assert [bool(index.match({"p": path}, published_at=1)) for path in paths] == found


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
@given(st.lists(publications(), min_size=1, max_size=4), st.integers(50, 700), st.integers(0, 100))
def test_what_is_accepted_fits_a_notification(records: list[Publication], most: int, less: int) -> None:
    """As above with a lower limit; and what is not written to be measured is never too large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "_LARGEST_CONTENT", most)
        patch.setattr(acceptance, "_LARGEST_OFFERED", most - less)
        values = [lenient(record, "avro") for record in records]
        decisions = check(SCHEMES[0], "publications", [None] * len(values), values)
        for value, decision in zip(values, decisions, strict=True):
            try:
                sent = schemas.decode_publication(None, value)
                form = acceptance.published_condition(sent.where)[0]
            except SchemaError:
                continue
            content = acceptance.content_of(sent, form)
            size = len(to_json(finite_json(plain_content(content))))
            if decision is None:
                assert size <= (most if sent.best is None else most - less)
            elif "the content has" in decision:
                assert size > (most if sent.best is None else most - less)


@settings(max_examples=100)
@given(publications())
def test_no_content_is_larger_than_its_bound(record: Publication) -> None:
    try:
        sent = schemas.decode_publication(None, encode(record))
        form, raw = acceptance.published_condition(sent.where)
    except SchemaError:
        return
    counted = sum(acceptance._ENTRY + len(n.encode()) + acceptance._text_bytes(v) for n, v in sent.attributes.items())
    bound = acceptance._content_bound(counted + len(sent.body or b""), len(raw))
    content = plain_content(acceptance.content_of(sent, form))
    assert len(to_json(finite_json(content))) <= bound


@pytest.mark.parametrize(
    ("character", "size", "plain_fits", "best_fits"),
    [
        ("\x01", 988_000, False, False),
        ("\x01", 900_000, True, False),
        ("\x01", 9, True, True),
        ("n", 988_000, True, True),
    ],
)
def test_content_that_is_much_larger_as_text_is_refused(
    character: str, size: int, plain_fits: bool, best_fits: bool
) -> None:
    """The normal form of a condition has a name once for many patterns, its text before each of them, in every alternative."""
    patterns = " AND ".join(f"\"{character * 255}\" NOT LIKE '{number:x}%'" for number in range(203))
    where = f"{patterns} AND ({' OR '.join(f'x{number} = 1' for number in range(20))})"
    bests = (None, Best("x", "highest"))
    values = [encode(Publication("p", None, "1", None, None, {"t": character * size}, where, best)) for best in bests]
    decisions = check(SCHEMES[0], "publications", [b"p", b"p"], values)
    assert [decision is None for decision in decisions] == [plain_fits, best_fits]
    assert all(decision is None or "the content has" in decision for decision in decisions)


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


@pytest.mark.parametrize("character", ["\x01", '"', "a", "é", "\U0001f600"])
@pytest.mark.parametrize("format", ["avro", "json"])
def test_what_a_best_offer_leads_to_fits_its_topic(character: str, format: Format) -> None:
    """The largest text that is accepted, in the largest notification of it."""
    size = len(orjson.dumps(character)) - 2
    text = character * ((acceptance._LARGEST_JSON_TEXT - 2) // size)
    acceptance._check_json_size("x", [text])
    with pytest.raises(SchemaError, match="bytes in JSON"):
        acceptance._check_json_size("x", [text + character])
    longest = "\x01" * MAX_ID_BYTES
    topic, moment = LARGEST, MAX_TIME
    encode(
        Notification(
            *(
                "0" * 32,
                longest,
                "2147483647-9223372036854775807",
                longest,
                longest,
                "publisher",
                topic,
                moment,
                moment,
                "best",
            ),
            earlier_ids=(longest,) * 100,
            value=text,
        ),
        format,
    )
    encode(
        BestOffer(longest, topic, longest, "2147483647-9223372036854775807", longest, text, moment, 2**63 - 1), format
    )


# ----------------------------------------------------------------------------------------------- the routing in force


@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("depth", [1, 3])
def test_the_client_knows_the_rules_of_every_scheme(name: str, depth: int) -> None:
    """From name and depth alone, as the directory has them."""
    assert Rules.of(name, depth) == make_scheme(name, 4, depth).accepts


@pytest.mark.parametrize("scheme", SCHEMES[-2:], ids=lambda scheme: scheme.name)
def test_types_that_the_catalog_declares(scheme: Scheme) -> None:
    """The same in a publication, in its condition, and in a subscription's; an integer is a number, but a number no integer."""
    published: dict[str, str | None] = {
        '{"x": 3, "y": 3, "kind": "a", "other": true}': None,
        '{"y": 2.5, "t": {"timestamp": 5}, "p": {"path": "1.2"}, "previous": false}': None,
        '{"x": 2.5}': "attribute 'x' is an integer by the catalog, not a float",
        '{"other": 1, "x": "3"}': "attribute 'x' is an integer by the catalog, not a string",
        '{"y": true}': "attribute 'y' is a float by the catalog, not a boolean",
        '{"p": "1.2"}': "attribute 'p' is a path by the catalog, not a string",
        '{"kind": {"lon": 1, "lat": 2}}': "attribute 'kind' is a string by the catalog, not a point",
    }
    values: list[bytes | None] = [b'{"attributes": %s}' % attributes.encode() for attributes in published]
    assert check(scheme, "publications", [None] * len(values), values) == list(published.values())
    asked: dict[str, str | None] = {
        "x > 2.5 AND kind LIKE 'a%' AND t IS NOT NULL": None,
        "x IS NULL OR other = 'a'": None,
        "x = '3'": "attribute 'x' is an integer by the catalog, but the condition compares it with a string",
        "y > 1 AND NOT kind = TRUE": "attribute 'kind' is a string by the catalog, but the condition compares it with a boolean",
    }
    for kind, more in (("publications", b""), ("subscriptions", b'"subscriber_id": "anna", ')):
        values = [b'{%s"where": "%s"}' % (more, text.encode()) for text in asked]
        assert check(scheme, kind, [b"n"] * len(values), values) == list(asked.values())


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
