"""The catalog: which attributes records are routed by, of which kind, over which domain.

```toml
[[attribute]]                  # the order of the attributes is the order in which a subscription may choose among them
name = "kind"
type = "string"                # boolean, integer, float, string, timestamp or path
kind = "equality"              # subscriptions say = or IN

[[attribute]]
name = "price"
type = "integer"
kind = "range"                 # subscriptions say anything
domain = [0, 500]              # what lies outside belongs to the first or the last interval
intervals = 25                 # or [[0, 20], [20, 100], [100, 500]]: each without its upper end
precision = 1                  # the step of `pav`

[[partition]]                  # for the scheme `constraints`: partition 0, 1, ...
where = "price < 100"

[[statistics]]                 # what publications look like, for `Index(algorithm="static")`; nothing is routed by it
name = "kind"
present = 0.9                  # the share of publications that carry it
distinct = 20                  # how many values they give it
```
An `Attribute` holds its constants as the normal form writes them: timestamps are microseconds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from math import ceil, isfinite
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast, get_args

from pastforward.matching.conditions.normal_form import PREVIOUS, Constant, Family
from pastforward.matching.conditions.types import classify, value_of
from pastforward.streams.routing.scheme import RoutingError
from pastforward.streams.routing.toml_lines import Lines

Type: TypeAlias = Literal["boolean", "integer", "float", "string", "timestamp", "path"]
Kind: TypeAlias = Literal["equality", "range"]

FAMILIES: Final[Mapping[Type, Family]] = {
    "boolean": Family.BOOLEAN,
    "integer": Family.NUMBER,
    "float": Family.NUMBER,
    "string": Family.STRING,
    "timestamp": Family.TIMESTAMP,
    "path": Family.PATH,
}
# Types over which a range can be cut into equal steps.
MEASURED: Final = frozenset({"integer", "float", "timestamp"})

# The best interval number in Lo and Chiu's experiment D.
DEFAULT_INTERVALS: Final = 25
# Steps of `pav` when no precision is given and the type has no natural one: as fine as Lo and Chiu's domains.
DEFAULT_STEPS: Final = 1_000
# Each step or interval is an entry of a table of partitions, four bytes each.
MAX_STEPS: Final = 1_000_000


class CatalogError(RoutingError):
    """A catalog that cannot be used. The message names the line, if it came from a text, and what to write instead.

    `partition` is the number of the [[partition]] that it is about, if it is about one.
    """

    def __init__(self, message: str, partition: int | None = None) -> None:
        super().__init__(message)
        self.partition = partition


@dataclass(frozen=True, slots=True)
class Attribute:
    """`intervals` is a number of equal intervals, or the lower ends of given ones; None for equality attributes.

    `domain` and `precision` are None where they have no meaning.
    """

    name: str
    type: Type
    kind: Kind
    domain: tuple[Constant, Constant] | None = None
    intervals: int | tuple[Constant, ...] | None = None
    precision: float | None = None

    @property
    def family(self) -> Family:
        return FAMILIES[self.type]

    @property
    def span(self) -> float:
        """The length of a measured domain."""
        assert self.domain is not None
        low, high = self.domain
        return cast(float, high) - cast(float, low)

    @property
    def interval_width(self) -> float:
        """Of equal intervals; integers are cut at integers, as in Lo and Chiu."""
        assert isinstance(self.intervals, int)
        width = self.span / self.intervals
        return max(ceil(width), 1) if self.type == "integer" else width


@dataclass(frozen=True, slots=True)
class Seen:
    """What publications look like: the share of them that carry an attribute, and how many values they give it."""

    name: str
    present: float
    distinct: int


@dataclass(frozen=True, slots=True)
class Catalog:
    """An immutable value. `partitions` are the conditions, as text, that the partitions of `constraints` own.

    `statistics` decide nothing here: catalogs that differ in them alone are equal, and the directory does not carry them.
    """

    attributes: tuple[Attribute, ...] = ()
    partitions: tuple[str, ...] = ()
    statistics: tuple[Seen, ...] = field(default=(), compare=False)

    def index_statistics(self) -> dict[str, Seen]:
        """For `Index(algorithm="static", statistics=…)`."""
        return {seen.name: seen for seen in self.statistics}

    @classmethod
    def from_toml(cls, text: str) -> Catalog:
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise CatalogError(f"not TOML: {error}") from None
        return _Reader(Lines(text)).catalog(document)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Catalog:
        """From what `to_json` gave: for the directory."""
        return _Reader(None).catalog(document)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"attribute": [_attribute_json(attribute) for attribute in self.attributes]}
        if self.partitions:
            document["partition"] = [{"where": where} for where in self.partitions]
        return document

    def to_toml(self) -> str:
        document = self.to_json()
        document["statistics"] = [
            {"name": seen.name, "present": seen.present, "distinct": seen.distinct} for seen in self.statistics
        ]
        tables = [
            "\n".join(
                [f"[[{table}]]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())]
            )
            for table in ("attribute", "partition", "statistics")
            for entry in document.get(table, [])
        ]
        return "\n\n".join(tables) + "\n"


def _attribute_json(attribute: Attribute) -> dict[str, Any]:
    def written(constant: Constant) -> Any:
        value = value_of(attribute.family, constant)
        return value.isoformat() if isinstance(value, datetime) else value

    entry: dict[str, Any] = {"name": attribute.name, "type": attribute.type, "kind": attribute.kind}
    if attribute.domain is not None:
        entry["domain"] = [written(end) for end in attribute.domain]
    if isinstance(attribute.intervals, int):
        entry["intervals"] = attribute.intervals
    elif attribute.intervals is not None:
        assert attribute.domain is not None
        ends = [*attribute.intervals[1:], attribute.domain[1]]
        entry["intervals"] = [
            [written(low), written(high)] for low, high in zip(attribute.intervals, ends, strict=True)
        ]
    if attribute.precision is not None:
        entry["precision"] = attribute.precision
    return entry


class _Reader:
    """Checks a document, table by table; every complaint has its place."""

    def __init__(self, lines: Lines | None) -> None:
        self._lines = lines

    def catalog(self, document: Mapping[str, Any]) -> Catalog:
        self._known("", 0, document, ("attribute", "partition", "statistics"))
        attributes: list[Attribute] = []
        for index, entry in enumerate(self._tables(document, "attribute")):
            attribute = _AttributeReader(self, index, entry).attribute()
            if any(attribute.name == other.name for other in attributes):
                self.fail("attribute", index, "name", f"{attribute.name!r} is there twice; remove one of them")
            attributes.append(attribute)
        partitions = []
        for index, entry in enumerate(self._tables(document, "partition")):
            self._known("partition", index, entry, ("where",))
            if not isinstance(entry.get("where"), str):
                self.fail("partition", index, "where", 'write the condition it owns, such as where = "price < 100"')
            partitions.append(entry["where"])
        seen = [self._seen(index, entry) for index, entry in enumerate(self._tables(document, "statistics"))]
        return Catalog(tuple(attributes), tuple(partitions), tuple(seen))

    def _seen(self, index: int, entry: Mapping[str, Any]) -> Seen:
        self._known("statistics", index, entry, ("name", "present", "distinct"))
        name, present, distinct = (entry.get(key) for key in ("name", "present", "distinct"))
        if not isinstance(name, str) or not name:
            self.fail("statistics", index, "name", 'write the attribute, such as name = "price"')
        if isinstance(present, bool) or not isinstance(present, int | float) or not 0 < present <= 1:
            self.fail("statistics", index, "present", f"present is {present!r}; write a share above 0 and up to 1")
        if isinstance(distinct, bool) or not isinstance(distinct, int) or distinct < 1:
            self.fail(
                "statistics", index, "distinct", f"distinct is {distinct!r}; write a number of values, at least 1"
            )
        return Seen(name, float(present), distinct)

    def _tables(self, document: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
        entries = document.get(table, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.fail(table, 0, "", f"write [[{table}]], one for each")
        return cast(list[Mapping[str, Any]], entries)

    def _known(self, table: str, index: int, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in entry:
            if key not in known:
                near = get_close_matches(key, known, 1)
                advice = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"
                # at the top the unknown key is itself the name of a table
                place = (table, index, key) if table else (key, 0, "")
                self.fail(*place, f"unknown key {key!r}; {advice}")

    def fail(self, table: str, index: int, key: str, message: str) -> NoReturn:
        line = self._lines.of(table, index, key) if self._lines else None
        place = f"line {line}: " if line else f"{table} {index}: " if table else ""
        raise CatalogError(f"{place}{message}")


class _AttributeReader:
    def __init__(self, reader: _Reader, index: int, entry: Mapping[str, Any]) -> None:
        self._reader = reader
        self._index = index
        self._entry = entry

    def attribute(self) -> Attribute:
        self._reader._known(
            "attribute", self._index, self._entry, ("name", "type", "kind", "domain", "intervals", "precision")
        )
        name = self._entry.get("name")
        if not isinstance(name, str) or not name:
            self._fail("name", 'every attribute needs a name, such as name = "price"')
        if name.startswith(PREVIOUS):
            self._fail(
                "name", "nothing is routed by the previous publication; name an attribute of the publication itself"
            )
        type_: Type = self._one_of("type", get_args(Type))
        kind: Kind = self._one_of("kind", get_args(Kind))
        if kind == "equality":
            for key in ("domain", "intervals", "precision"):
                if key in self._entry:
                    self._fail(key, f'an equality attribute has no {key}; remove it, or write kind = "range"')
            return Attribute(name, type_, kind)
        if type_ in ("boolean", "path"):
            self._fail("kind", f'a {type_} cannot be a range attribute; write kind = "equality"')
        return self._range(name, type_)

    def _range(self, name: str, type_: Type) -> Attribute:
        constant = self._constants(type_)
        given = self._entry.get("intervals", DEFAULT_INTERVALS)
        if isinstance(given, list):
            lows, domain = self._given_intervals(given, constant)
            intervals: int | tuple[Constant, ...] = lows
        else:
            if type_ not in MEASURED:
                self._fail("intervals", f'a {type_} needs its intervals, such as intervals = [["a", "m"], ["m", "z"]]')
            if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= MAX_STEPS:
                self._fail(
                    "intervals",
                    f"intervals is {given!r}; write a number from 1 to {MAX_STEPS}, or a list of [low, high]",
                )
            domain = self._domain(constant)
            intervals = given
        return Attribute(name, type_, "range", domain, intervals, self._precision(type_, domain))

    def _given_intervals(
        self, given: list[Any], constant: Callable[[str, Any], Constant]
    ) -> tuple[tuple[Constant, ...], tuple[Constant, Constant]]:
        pairs: list[tuple[Any, Any]] = []
        for pair in given:
            if not isinstance(pair, list) or len(pair) != 2:
                self._fail("intervals", f"{pair!r} is not an interval; write [low, high]")
            low, high = (constant("intervals", end) for end in pair)
            if not cast(Any, low) < high:
                self._fail("intervals", f"{pair!r} is empty; write the lower end first")
            if pairs and low != pairs[-1][1]:
                word = "overlaps" if cast(Any, low) < pairs[-1][1] else "leaves a gap after"
                before = given[len(pairs) - 1]
                self._fail(
                    "intervals", f"{pair!r} {word} {before!r}; write each from where the one before ends: {before[1]!r}"
                )
            pairs.append((low, high))
        if not pairs:
            self._fail("intervals", "no intervals; write a number, such as 25, or a list of [low, high]")
        domain = (pairs[0][0], pairs[-1][1])
        if "domain" in self._entry and self._domain(constant) != domain:
            self._fail(
                "domain",
                f"the intervals cover another domain; write domain = {[given[0][0], given[-1][1]]!r} or leave it out",
            )
        return tuple(low for low, _ in pairs), domain

    def _domain(self, constant: Callable[[str, Any], Constant]) -> tuple[Constant, Constant]:
        given = self._entry.get("domain")
        if not isinstance(given, list) or len(given) != 2:
            self._fail("domain", "a range attribute needs a domain; write domain = [lowest, highest]")
        low, high = (constant("domain", end) for end in given)
        if not cast(Any, low) < high:
            self._fail("domain", f"the domain {given!r} is empty; write the lower end first and a higher one after it")
        return low, high

    def _precision(self, type_: Type, domain: tuple[Constant, Constant]) -> float | None:
        given = self._entry.get("precision")
        if type_ not in MEASURED:
            if given is not None:
                self._fail("precision", f"a {type_} has no precision; remove it")
            return None
        span = cast(float, domain[1]) - cast(float, domain[0])
        if given is None:
            natural = 1 if type_ == "integer" and span <= MAX_STEPS else span / DEFAULT_STEPS
            return ceil(natural) if type_ == "integer" else natural
        if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given) or given <= 0:
            self._fail("precision", f"precision is {given!r}; write a number above 0 (microseconds for a timestamp)")
        if span / given > MAX_STEPS:
            self._fail(
                "precision",
                f"{given!r} cuts the domain into more than {MAX_STEPS} steps; write {span / MAX_STEPS:g} or more",
            )
        return given

    def _constants(self, type_: Type) -> Callable[[str, Any], Constant]:
        def constant(key: str, written: Any) -> Constant:
            value = written
            if type_ == "timestamp" and isinstance(written, str):
                try:
                    value = datetime.fromisoformat(written)
                except ValueError:
                    value = written
            classified = classify(value)
            if (
                classified is None
                or classified[0] is not FAMILIES[type_]
                or (type_ == "integer" and not isinstance(classified[1], int))
            ):
                self._fail(key, f"{written!r} is not of type {type_}; {_EXAMPLES[type_]}")
            if isinstance(classified[1], float) and not isfinite(classified[1]):
                self._fail(key, f"{written!r} is no bound; write a finite number")
            return classified[1]

        return constant

    def _one_of(self, key: str, known: tuple[str, ...]) -> Any:
        given = self._entry.get(key)
        if given not in known:
            said = f"unknown {key} {given!r}" if key in self._entry else f"no {key}"
            near = get_close_matches(str(given), known, 1)
            self._fail(key, f"{said}; write {f'{near[0]!r}' if near else 'one of ' + ', '.join(known)}")
        return given

    def _fail(self, key: str, message: str) -> NoReturn:
        name = self._entry.get("name")
        subject = f"attribute {name!r}: " if isinstance(name, str) and name else ""
        self._reader.fail("attribute", self._index, key, subject + message)


_EXAMPLES: Final[Mapping[Type, str]] = {
    "boolean": "write true or false",
    "integer": "write a whole number",
    "float": "write a number",
    "string": "write a text in quotes",
    "timestamp": "write a time such as 2024-05-01T00:00:00Z",
    "path": 'write a path such as "1.4.2"',
}
