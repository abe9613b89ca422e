"""The catalog: read, checked, written; a complaint has its line and says what to write instead."""

import pytest

from pastforward.matching import Condition, Index
from pastforward.streams.routing import SCHEMES, Catalog, CatalogError, Directory, RoutingError, Seen, read_catalog
from tests.streams.routing.records import CATALOG, DIVISIONS

PRICE = '[[attribute]]\nname = "price"\ntype = "integer"\nkind = "range"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[attribute]]\nname = "x"\ntype = "integer"\nkind = "interval"\n',
            "line 4: .*unknown kind 'interval'; write one of",
        ),
        ('[[attribute]]\nname = "x"\ntype = "integer"\nkind = "equalty"\n', "line 4: .*'equalty'; write 'equality'"),
        (
            '[[attribute]]\nname = "x"\ntype = "int"\nkind = "range"\n',
            "line 3: .*unknown type 'int'; write 'integer'",
        ),
        ('[[attribute]]\nname = "x"\nkind = "range"\n', "line 1: .*no type; write one of boolean"),
        ('[[attribute]]\ntype = "integer"\nkind = "range"\n', "line 1: every attribute needs a name"),
        (PRICE, "line 1: .*needs a domain; write domain = "),
        (PRICE + "domain = [5, 5]\n", r"line 5: .*domain \[5, 5\] is empty"),
        (PRICE + "domain = [9, 5]\n", "line 5: .*is empty; write the lower end first"),
        (PRICE + "domain = [0, 'x']\n", "line 5: .*'x' is not of type integer; write a whole number"),
        (PRICE + "domain = [0, 1.5]\n", "line 5: .*1.5 is not of type integer"),
        (PRICE + "domain = [0, 9]\nintervals = 0\n", "line 6: .*write a number from 1"),
        (PRICE + "intervals = [[0, 5], [4, 9]]\n", r"line 5: .*\[4, 9\] overlaps \[0, 5\]; write each from .*: 5"),
        (PRICE + "intervals = [[0, 5], [6, 9]]\n", r"line 5: .*leaves a gap after \[0, 5\]"),
        (PRICE + "intervals = [[5, 0]]\n", "line 5: .*is empty"),
        (PRICE + "intervals = [[5]]\n", "line 5: .*is not an interval"),
        (PRICE + "intervals = []\n", "line 5: .*no intervals"),
        (PRICE + "domain = [0, 8]\nintervals = [[0, 9]]\n", r"line 5: .*write domain = \[0, 9\]"),
        (PRICE + "domain = [0, 9]\nprecision = 0\n", "line 6: .*above 0"),
        (PRICE + "domain = [0, 9]\nprecision = 1e-9\n", "line 6: .*more than 1000000 steps"),
        (PRICE + "domain = [0, 9]\ninterval = 4\n", "line 6: unknown key 'interval'; did you mean 'intervals'"),
        ('[[attribute]]\nname = "x"\ntype = "string"\nkind = "range"\n', "line 1: .*needs its intervals"),
        ('[[attribute]]\nname = "x"\ntype = "path"\nkind = "range"\n', 'line 4: .*write kind = "equality"'),
        (
            '[[attribute]]\nname = "x"\ntype = "string"\nkind = "equality"\nprecision = 1\n',
            "line 5: .*has no precision",
        ),
        ('[[attribute]]\nname = "previous.x"\ntype = "string"\nkind = "equality"\n', "line 2: .*previous"),
        (PRICE + "domain = [0, 9]\n" + PRICE + "domain = [0, 9]\n", "line 7: 'price' is there twice"),
        ("[[partition]]\nwher = 'x'\n", "line 2: unknown key 'wher'; did you mean 'where'"),
        ("[[partition]]\n", "line 1: write the condition it owns"),
        ("[[statistics]]\npresent = 1\ndistinct = 1\n", "line 1: write the attribute"),
        ('[[statistics]]\nname = "x"\npresent = 2\n', "line 3: present is 2; write a share"),
        ('[[statistics]]\nname = "x"\npresent = 1\ndistinct = 0\n', "line 4: distinct is 0; write a number"),
        ("[[attributes]]\n", "line 1: unknown key 'attributes'; did you mean 'attribute'"),
        ("attribute = 3\n", r"line 1: write \[\[attribute\]\]"),
        ("[[attribute]\n", "not TOML: .*line 1"),
    ],
)
def test_refused_with_the_line_and_what_to_write(text, message):
    with pytest.raises(CatalogError, match=message):
        Catalog.from_toml(text)


@pytest.mark.parametrize("catalog", [CATALOG, *DIVISIONS, Catalog()])
def test_what_is_written_reads_back(catalog):
    assert Catalog.from_toml(catalog.to_toml()) == catalog
    assert Catalog.from_json(catalog.to_json()) == catalog


def test_statistics_go_to_the_index_and_not_into_the_directory():
    catalog = Catalog(CATALOG.attributes, statistics=(Seen("kind", 0.5, 3),))
    read = Catalog.from_toml(catalog.to_toml())
    assert read.statistics == catalog.statistics
    assert read.index_statistics() == {"kind": Seen("kind", 0.5, 3)}
    assert catalog == CATALOG
    assert catalog.to_json() == CATALOG.to_json()
    index = Index(algorithm="static", statistics=read.index_statistics())
    index.add("s", Condition.parse("kind = 'jam'"))
    assert index.match({"kind": "jam"}) == ["s"]


def test_a_json_form_without_lines_names_the_table():
    with pytest.raises(CatalogError, match="attribute 0: attribute 'x': unknown type"):
        Catalog.from_json({"attribute": [{"name": "x", "type": "text", "kind": "equality"}]})


@pytest.mark.parametrize(
    ("wheres", "message"),
    [
        (["x < 2", "x >= 1"], "line 4: partitions 0 and 1 both own"),
        (["x < 2", "x >>= 2"], "line 4: the condition of"),
        (["x < 2", "x > 2"], "line 2: no partition owns x = 2"),
        (["x < 2"], "1 .* conditions, the topics have 2"),
    ],
)
def test_a_division_that_does_not_fit_the_topics(wheres, message):
    text = "".join(f'[[partition]]\nwhere = "{where}"\n' for where in wheres)
    with pytest.raises(CatalogError, match=message):
        read_catalog(text, "constraints", 2)


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "constraints"])
def test_the_directory_survives_its_bytes(scheme):
    entry = Directory(7, scheme, 16, 2, CATALOG)
    assert Directory.from_bytes(entry.to_bytes()) == entry
    assert entry.make().name == scheme


def test_bytes_of_something_else():
    for data in (b"{}", b"\x00\x01", b"[1]", b'{"version": 1}'):
        with pytest.raises(RoutingError, match="not an entry of the directory"):
            Directory.from_bytes(data)
