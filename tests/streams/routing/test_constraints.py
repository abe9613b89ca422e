"""`constraints`: where a record goes is a match against the conditions of the partitions."""

import pytest
from hypothesis import given, settings

from pastforward.matching import Index
from pastforward.matching.conditions.condition import Condition
from pastforward.streams.routing import Publication, RoutingError, make_scheme
from pastforward.streams.routing.catalog import Catalog, CatalogError
from tests.streams.routing.records import DIVISIONS, attributes


def index_of(catalog: Catalog) -> Index:
    index = Index()
    for number, text in enumerate(catalog.partitions):
        index.add(number, Condition.parse(text))
    return index


INDEXES = [(make_scheme("constraints", len(c.partitions), catalog=c), index_of(c)) for c in DIVISIONS]


@settings(max_examples=60, deadline=None)
@given(attributes())
def test_the_grid_finds_what_the_index_of_conditions_finds(values):
    """And what satisfies none of them goes everywhere."""
    values = {name: value for name, value in values.items() if value != 2**70}
    for scheme, index in INDEXES:
        owners = tuple(sorted(index.match(values)))
        assert scheme.publication(Publication("p", attributes=values)) == (owners or scheme.everywhere)


@pytest.mark.parametrize(
    ("types", "partitions", "message"),
    [
        ("float", ("x < 2", "x >= 1"), "partitions 0 and 1 both own x = 1"),
        ("float", ("x < 2", "x > 2"), "no partition owns x = 2;"),
        ("float", ("x <= 2", "x >= 3"), "no partition owns x > 2 AND x < 3;"),
        ("float", ("x < 2", "x >= 2 AND y < 5"), "no partition owns x = 2 AND y = 5"),
        ("float", ("x < 2", "x >= 2", "x IS NULL", "y = 1"), "both own"),
        ("float", ("x < 2", "s LIKE '%a'"), "pattern or a shape"),
        ("float", ("x < 2", "x >= "), "the condition of \\[\\[partition\\]\\] 1"),
        ("float", ("TRUE", "TRUE"), "name no attribute"),
        ("float", ("previous.x < 2", "previous.x >= 2"), "previous.x cannot divide"),
        ("string", ("x = 'a'", "x != 'a' AND y < 1"), "no partition owns"),
    ],
)
def test_conditions_must_be_disjoint_and_complete(types, partitions, message):
    catalog = Catalog.from_toml(f'[[attribute]]\nname = "x"\ntype = "{types}"\nkind = "equality"\n')
    with pytest.raises(RoutingError, match=message):
        make_scheme("constraints", len(partitions), catalog=Catalog(catalog.attributes, partitions))


def test_nothing_lies_between_neighbouring_integers():
    catalog = Catalog.from_toml('[[attribute]]\nname = "x"\ntype = "integer"\nkind = "equality"\n')
    make_scheme("constraints", 2, catalog=Catalog(catalog.attributes, ("x <= 2", "x >= 3")))


def test_one_condition_for_each_partition():
    with pytest.raises(CatalogError, match=r"2 .* conditions, the topics have 3 partitions"):
        make_scheme("constraints", 3, catalog=Catalog(partitions=("x < 2", "x >= 2")))


def test_too_many_cells():
    lists = [f"{name} IN ({', '.join(map(str, range(0, 400, 2)))})" for name in "abcd"]
    with pytest.raises(CatalogError, match="at most 1000000 cells"):
        make_scheme("constraints", 4, catalog=Catalog(partitions=tuple(lists)))
