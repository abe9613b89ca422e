"""Random records that often match: few attributes, few values, every type and every operator."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.normal_form import ALWAYS, Family, NormalForm
from pastforward.matching.conditions.values import Box, Path, Point
from pastforward.streams.routing import Publication, Subscription
from pastforward.streams.routing.catalog import Catalog

CATALOG = Catalog.from_toml("""
[[attribute]]
name = "kind"
type = "string"
kind = "equality"

[[attribute]]
name = "size"
type = "integer"
kind = "range"
domain = [0, 8]
intervals = 4

[[attribute]]
name = "code"
type = "integer"
kind = "equality"

[[attribute]]
name = "road"
type = "string"
kind = "range"
intervals = [["a", "b"], ["b", "bc"], ["bc", "z"]]

[[attribute]]
name = "at"
type = "timestamp"
kind = "range"
domain = [2024-01-01T00:00:00Z, 2024-01-09T00:00:00Z]
intervals = 4

[[attribute]]
name = "level"
type = "float"
kind = "range"
intervals = [[-1.5, 0.5], [0.5, 1.5], [1.5, 9.0]]

[[attribute]]
name = "open"
type = "boolean"
kind = "equality"

[[attribute]]
name = "place"
type = "path"
kind = "equality"
""")

# Conditions that the partitions of `constraints` own.
DIVISIONS = [
    Catalog(partitions=partitions)
    for partitions in (
        ("size < 2", "size = 2 OR size > 8", "size > 2 AND size <= 8"),
        ("size < 2 OR size IS NULL", "size >= 2"),
        ("kind < 'b'", "kind >= 'b' AND open = TRUE", "kind >= 'b' AND open = FALSE", "kind IS NULL AND open IS NULL"),
        ("at < TIMESTAMP '2024-01-03 00:00:00'", "at >= TIMESTAMP '2024-01-03 00:00:00'"),
        ("place < PATH '1.2'", "place = PATH '1.2'", "place > PATH '1.2'"),
        ("code IN (1, 2.5, 9)", "NOT code IN (1, 2.5, 9) AND level < 0.5", "NOT code IN (1, 2.5, 9) AND level >= 0.5"),
        ("code = 1 OR code = 'a'", "code != 1 OR code != 'a'", "code IS NULL"),
        (
            "size < 2",
            "size >= 2 AND road < 'b' AND open = TRUE",
            "size >= 2 AND road < 'b' AND open = FALSE",
            "size >= 2 AND road >= 'b' AND (size > 4 OR open = TRUE)",
            "size >= 2 AND size <= 4 AND road >= 'b' AND open = FALSE",
        ),
        ("TRUE",),
    )
]

WORDS = ["", "a", "ab", "abc", "b", "bc", "z", "é"]
NUMBERS = [-1, 0, 1, 2, 3, 4, 6, 8, 9, 2**53, 2**53 + 1, 0.5, 1.5, 2.0, -0.0, 1e300]
TIMES = [datetime(2023 + year, 1, day, tzinfo=UTC) for year in (0, 1) for day in (1, 3, 5, 9)]
PATHS = ["", "1", "1.2", "1.2.3", "2", "10"]
NAMES = ["kind", "size", "code", "road", "at", "level", "open", "place", "extra", "spot"]


def literal(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, Path):
        return f"PATH '{value.text}'"
    return repr(value)


# The values that fit each attribute; the last two are in no catalog.
FITTING: dict[str, list[object]] = {
    "kind": WORDS,
    "size": NUMBERS,
    "code": NUMBERS,
    "road": WORDS,
    "at": TIMES,
    "level": NUMBERS,
    "open": [True, False],
    "place": [Path(text) for text in PATHS],
    "extra": [1, 2, 3, "a"],
    "spot": [Point(1.0, 2.0), Box(0.0, 0.0, 2.0, 2.0)],
}
ODD = [float("nan"), float("inf"), 2**70, True, "a", 1, TIMES[0], Path("1"), Point(0.0, 0.0)]


def predicates() -> st.SearchStrategy[str]:
    return st.sampled_from(NAMES).flatmap(predicates_on)


@st.composite
def predicates_on(draw: st.DrawFn, name: str) -> str:
    odd = draw(st.integers(0, 9)) == 0
    if name == "spot":
        return draw(st.sampled_from(["overlaps(spot, BOX(0, 0, 3, 3))", "spot IS NOT NULL", "spot IS NULL"]))
    pool = [1, "a"] if odd else FITTING[name]
    constant = literal(draw(st.sampled_from(pool)))
    other = literal(draw(st.sampled_from(pool)))
    ordered = pool[0] not in (True, False) and not isinstance(pool[0], bool)
    forms = [f"{name} = {constant}", f"{name} IN ({constant}, {other})", f"{name} IS NULL", f"{name} IS NOT NULL"]
    forms += [f"{name} != {constant}"]
    if ordered or name == "size":
        forms += [f"{name} {operator} {constant}" for operator in ("<", "<=", ">", ">=")]
        forms += [f"{name} BETWEEN {constant} AND {other}"] * 2
    if name in ("kind", "road"):
        forms += [f"{name} LIKE '{pattern}'" for pattern in ("a%", "%c", "%b%", "_")] + [f"NOT {name} LIKE 'ab%'"]
    return draw(st.sampled_from(forms))


@st.composite
def conditions(draw: st.DrawFn) -> NormalForm:
    disjuncts = draw(st.lists(st.lists(predicates(), min_size=1, max_size=3), max_size=2))
    if not disjuncts:
        return ALWAYS
    return Condition.parse(" OR ".join(f"({' AND '.join(disjunct)})" for disjunct in disjuncts)).disjuncts


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, object]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    return {name: draw(st.sampled_from(ODD if draw(st.integers(0, 12)) == 0 else FITTING[name])) for name in names}


ids = st.sampled_from([f"id-{number}" for number in range(40)])
topics = st.sampled_from(["", "1", "2", "1.2", "1.3", "2.7.1", "5.1.1"])
several_topics = st.sampled_from(["1,2", "1.2,1.3", "1.2,2.7.1,5", "2.7.1,5.1.1,6,7,8,9.1"])


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    return Subscription(
        draw(ids),
        draw(topics | several_topics),
        draw(st.sampled_from(["overlap", "subtree"])),
        draw(conditions()),
        draw(st.sampled_from(SEMANTICS)),
    )


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    return Publication(draw(ids), draw(topics), draw(attributes()), draw(st.none() | conditions()))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Subscription, Publication]:
    """A publication made for the subscription: nearly all of these match."""
    subscription = draw(subscriptions())
    if not subscription.condition:
        return subscription, draw(publications())
    values = draw(attributes()) if subscription.semantics != "symmetric" else {}
    said = {}
    for name, constraint in draw(st.sampled_from(subscription.condition)):
        values.pop(name, None)
        fitting = [value for value in (*FITTING[name], *ODD) if satisfies(constraint, value)]
        named = subscription.semantics == "classical" or draw(st.booleans())
        if constraint.family is Family.NULL or not named:
            continue
        if fitting and draw(st.integers(0, 3)):
            values[name] = draw(st.sampled_from(fitting))
        else:
            said[name] = constraint
    where = None if not said else (tuple(sorted(said.items())),)
    return subscription, Publication(draw(ids), draw(topics), values, where)
