"""A chunk in columns goes where its records go one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.routing import SCHEMES, Catalog, Publication, make_scheme
from streams.routing.columns import Placement, Publications, Texts
from tests.streams.routing.records import CATALOG, DIVISIONS, publications


def storable(publication: Publication) -> Publication:
    """No record can carry an integer beyond 64 bits."""
    kept = {name: value for name, value in publication.attributes.items() if value != 2**70}
    return Publication(publication.publication_id, publication.topic, kept, publication.condition)


@settings(max_examples=30, deadline=None)
@given(st.lists(publications().map(storable), max_size=10), st.sampled_from([1, 3, 64]), st.integers(1, 3))
def test_a_chunk_goes_where_its_records_go(records, partitions, depth):
    chunk = Publications.of(records)
    schemes = [make_scheme(name, partitions, depth=depth, catalog=CATALOG) for name in SCHEMES if name != "constraints"]
    schemes += [make_scheme("constraints", len(catalog.partitions), catalog=catalog) for catalog in DIVISIONS]
    for scheme in schemes:
        placement = scheme.route_publications(chunk)
        assert len(placement.start) == len(records) + 1
        assert [placement.row(row) for row in range(len(records))] == [scheme.publication(r) for r in records], (
            scheme.name
        )


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


@pytest.mark.parametrize("name", SCHEMES)
def test_columns_may_be_read_only(name):
    """Arrow hands out such arrays, and a kernel for them would be compiled once more."""
    scheme = make_scheme(name, 4, catalog=DIVISIONS[2] if name == "constraints" else CATALOG)
    chunk = Publications.of([Publication("p", "1", {"kind": "a", "size": 3})])
    expected = scheme.route_publications(chunk).row(0)
    for column in (*chunk.ids, *chunk.topics, chunk.attributes.bits, chunk.attributes.heap):
        column.flags.writeable = False
    assert scheme.route_publications(chunk).row(0) == expected


def test_rows_can_be_replaced():
    placement = Placement.of([(1,), (2, 3), (0,)]).replaced({0: (4, 5, 6), 2: (7,)})
    assert [placement.row(row) for row in range(3)] == [(4, 5, 6), (2, 3), (7,)]
    assert placement.partition.dtype == np.int32


def test_texts_keep_their_bytes():
    texts = Texts.of(["", "é", "abc"])
    assert [texts.text(row) for row in range(3)] == ["", "é", "abc"]
