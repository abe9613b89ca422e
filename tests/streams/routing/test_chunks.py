"""A chunk in columns goes where its records go one by one."""

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.normal_form import NEVER, NormalForm
from pastforward.matching.conditions.types import path_text
from pastforward.matching.conditions.values import Path
from pastforward.streams.routing import SCHEMES, Catalog, Publication, Scheme, Subscription, make_scheme
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from tests.streams.routing.records import CATALOG, DIVISIONS, FITTING, literal, publications, subscriptions

ENDS = ((">", "<"), (">", "<="), (">=", "<"), (">=", "<="))


@cache
def all_schemes(partitions: int, depth: int = 1) -> list[Scheme]:
    """With a catalog, and without."""
    schemes = [make_scheme(name, partitions, depth=depth, catalog=CATALOG) for name in SCHEMES if name != "constraints"]
    schemes += [make_scheme("constraints", len(catalog.partitions), catalog=catalog) for catalog in DIVISIONS]
    return schemes + [make_scheme(name, partitions, depth=depth) for name in SCHEMES]


def check_stored(scheme: Scheme, records: list[Subscription]) -> None:
    placement = scheme.route_subscriptions(Subscriptions.of(records))
    assert len(placement.start) == len(records) + 1
    assert placement.partition.dtype == np.int32
    found = [placement.row(row) for row in range(len(records))]
    assert found == [scheme.subscription(record) for record in records], scheme.name


def storable(publication: Publication) -> Publication:
    """No record can carry an integer beyond 64 bits."""
    kept = {name: value for name, value in publication.attributes.items() if value != 2**70}
    return Publication(publication.publication_id, publication.topic, kept, publication.condition)


@settings(max_examples=30, deadline=None)
@given(st.lists(publications().map(storable), max_size=10), st.sampled_from([1, 3, 64]), st.integers(1, 3))
def test_a_chunk_goes_where_its_records_go(records, partitions, depth):
    chunk = Publications.of(records)
    for scheme in all_schemes(partitions, depth):
        placement = scheme.route_publications(chunk)
        assert len(placement.start) == len(records) + 1
        assert [placement.row(row) for row in range(len(records))] == [scheme.publication(r) for r in records], (
            scheme.name
        )


@settings(max_examples=200, deadline=None)
@given(st.lists(subscriptions(), max_size=10), st.sampled_from([1, 3, 64]), st.integers(1, 3))
def test_a_chunk_is_stored_where_its_subscriptions_are(records, partitions, depth):
    for scheme in all_schemes(partitions, depth):
        check_stored(scheme, records)


def form(text: str) -> NormalForm:
    return Condition.parse(text).disjuncts


@pytest.mark.parametrize("name", [name for name in FITTING if name not in ("open", "extra", "spot")])
def test_every_bound_is_stored_rightly(name):
    pool = [literal(value) for value in FITTING[name]]
    texts = [f"{name} {operator} {value}" for value in pool for operator in ("=", "!=", "<", "<=", ">", ">=")]
    texts += [
        f"{name} {above} {low} AND {name} {below} {high}" for low in pool for high in pool for above, below in ENDS
    ]
    records = [Subscription(text, condition=form(text)) for text in texts]
    for scheme in all_schemes(64):
        check_stored(scheme, records)


@pytest.mark.parametrize(
    "condition",
    [
        NEVER,
        form("TRUE"),
        form("previous.size < 3"),
        form("previous.size < 3 AND size > 2 AND kind = 'a'"),
        form("previou = 1 AND previous = 2"),
        form("size NOT IN (1, 2, 3.5, 8, 9) AND size != 4"),
        form("size > 2 AND size < 8 AND size NOT IN (3, 4, 5)"),
        form("code NOT IN (1, 2.5, 9) AND level > 0.5 AND level < 1.5"),
        form("kind IN ('', 'a', 'ab', 'é')"),
        form("road >= 'b' AND road < 'bc' AND NOT road LIKE '%x%' AND road != 'bb'"),
        form("place IN (PATH '', PATH '1.2', PATH '10') AND within(place, PATH '1')"),
        form("within(place, PATH '1.2')"),
        form("overlaps(spot, BOX(0, 0, 3, 3)) AND NOT overlaps(spot, POINT(1, 2)) AND spot != CIRCLE(1, 2, 3) AND size = 1"),
        form("open = TRUE OR open = FALSE"),
        # more values than an axis has cells
        form(f"road IN ({', '.join(repr(f'b{n}') for n in range(200))})"),
        form(f"road NOT IN ({', '.join(repr(f'b{n}') for n in range(200))}) AND size NOT IN ({', '.join(map(str, range(200)))})"),
        form(" OR ".join(f"(size = {n} AND kind = '{n}')" for n in range(64))),
        form(f"size > {2**53 + 1} AND code = {2**53 + 1} AND level < 1e300"),
        form(f"{'n' * 200} = 1 AND kind = 'a'"),
    ],
)  # fmt: skip
def test_what_is_rare_is_stored_rightly_as_well(condition):
    records = [
        Subscription(f"{name}-{row}", "1.2", condition=condition, semantics=semantics)
        for semantics in SEMANTICS
        for row, name in enumerate(("s", "é", "a longer id"))
    ]
    for scheme in all_schemes(7):
        check_stored(scheme, records)


@pytest.mark.parametrize("low", [0, 7, -50, 2**52, 2**60])
@pytest.mark.parametrize("span", [1, 3, 100, 4_097])
def test_equal_intervals_are_the_same_computed_and_searched(low, span):
    """Beyond 2^53 neighbouring integers are one double, and equal intervals are no longer equal."""
    entry = {"name": "x", "type": "integer", "kind": "range", "domain": [low, low + span], "intervals": 9}
    catalog = Catalog.from_json({"attribute": [entry]})
    values = [low + offset for offset in (*range(-2, 12), span // 2, span - 1, span, span + 1, 3 * span)]
    values += [low + span * fraction / 97 for fraction in range(97)]
    records = [Publication(str(row), attributes={"x": value}) for row, value in enumerate(values)]
    for name in ("iim", "pav"):
        scheme = make_scheme(name, 1_009, catalog=catalog)
        placement = scheme.route_publications(Publications.of(records))
        assert [placement.row(row) for row in range(len(records))] == [scheme.publication(r) for r in records]
        bounds = [f"{operator} {value!r}" for value in values for operator in (">", ">=", "<", "<=", "=")]
        check_stored(scheme, [Subscription("s", condition=form(f"x {bound}")) for bound in bounds])


paths = st.lists(st.sampled_from([0, 1, 9, 10, 11, 90, 2**63 - 1]), max_size=3).map(tuple)


@settings(max_examples=100, deadline=None)
@given(st.lists(paths, min_size=2, max_size=2, unique=True), st.lists(paths, min_size=1, max_size=4))
@example([(10, 1), (11,)], [(9, 11)])
def test_paths_are_compared_by_their_components(cuts, said):
    """10.1 comes after 9.11, though not by its text."""
    low, high, *wanted = (literal(Path(path_text(path))) for path in (*sorted(cuts), *said))
    where = (f"place < {low}", f"place >= {low} AND place < {high}", f"place >= {high}")
    texts = [f"place {operator} {path}" for path in wanted for operator in ("=", "<", "<=", ">", ">=", "!=")]
    texts += [f"within(place, {path})" for path in wanted]
    scheme = make_scheme("constraints", 3, catalog=Catalog(partitions=where))
    check_stored(scheme, [Subscription("s", condition=form(text)) for text in texts])


def test_an_open_end_that_is_no_double_is_not_trusted_in_chunks_either():
    intervals = [[0, 2**53], [2**53, 2**60]]
    entry = {"name": "x", "type": "integer", "kind": "range", "domain": [0, 2**60], "intervals": intervals}
    scheme = make_scheme("iim", 1_009, catalog=Catalog.from_json({"attribute": [entry]}))
    check_stored(scheme, [Subscription("s", condition=form(f"x > 5 AND x < {2**53 + more}")) for more in (-1, 0, 1, 2)])


@pytest.mark.parametrize("name", SCHEMES)
def test_columns_may_be_read_only(name):
    """Arrow hands out such arrays, and a kernel for them would be compiled once more."""
    scheme = make_scheme(name, 4, catalog=DIVISIONS[2] if name == "constraints" else CATALOG)
    chunk = Publications.of([Publication("p", "1", {"kind": "a", "size": 3})])
    expected = scheme.route_publications(chunk).row(0)
    for column in (*chunk.ids.for_kernel(), *chunk.topics.for_kernel(), chunk.attributes.bits, chunk.attributes.heap):
        column.flags.writeable = False
    assert scheme.route_publications(chunk).row(0) == expected
    stored = Subscriptions.of([Subscription("s", "1", condition=form("kind = 'a'"))])
    expected = scheme.route_subscriptions(stored).row(0)
    for column in (*stored.ids.for_kernel(), *stored.topics.for_kernel(), stored.semantics):
        column.flags.writeable = False
    assert scheme.route_subscriptions(stored).row(0) == expected


def test_rows_can_be_replaced():
    placement = Placement.of([(1,), (2, 3), (0,)]).replaced({0: (4, 5, 6), 2: (7,)})
    assert [placement.row(row) for row in range(3)] == [(4, 5, 6), (2, 3), (7,)]
    assert placement.partition.dtype == np.int32


def test_texts_keep_their_bytes():
    texts = Texts.of([b"", "é".encode(), b"abc"])
    assert texts.strings() == ["", "é", "abc"]
