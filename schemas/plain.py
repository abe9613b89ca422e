"""Between plain data (what JSON and Avro hold) and records: the one place where fields are checked.

JSON and Avro give the same plain data but for three things, all taken here: a time may be text (RFC 3339), bytes may be
base64 text, and an unknown field is an error in JSON, while Avro's resolution leaves out what the reader does not know.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, NoReturn, TypeVar

from matching.normal_form import (
    Constant,
    Constraint,
    Family,
    NormalForm,
    Pattern,
    PatternKind,
    Relation,
    Shape,
    Test,
)
from matching.values import Box, Circle, Path, Point, Value
from schemas.avro_plain import Plain
from schemas.dewey_text import check_path, path_components, path_text
from schemas.errors import SchemaError
from schemas.limits import MAX_ID_BYTES
from schemas.records import (
    OPERATORS,
    BackfillRequest,
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    DeadLetter,
    Disjuncts,
    Notification,
    Predicate,
    Publication,
    Record,
    Rendezvous,
    Subscription,
    Version,
    Where,
    Withdrawal,
)
from schemas.times import check_micros, datetime_of, micros_of, micros_of_text

T = TypeVar("T")
Check = Callable[[Any, str], T]

_LONG: Final = range(-(1 << 63), 1 << 63)
_INT: Final = range(-(1 << 31), 1 << 31)
_MISSING: Final = object()
_SYMBOL_OF: Final = {operator: symbol for symbol, operator in OPERATORS.items()}
_NO_VALUE: Final = frozenset(("is null", "is not null"))
_MANY_VALUES: Final = frozenset(("in", "not in"))
_TWO_VALUES: Final = frozenset(("between", "not between"))
_FAMILY_OF: Final = {("absent" if family is Family.NULL else family.name.lower()): family for family in Family}
_FAMILY_NAME: Final = {family: name for name, family in _FAMILY_OF.items()}


# -------------------------------------------------------------------------------- single fields


def _wrong(what: str, wanted: str, value: Any) -> NoReturn:
    shown = repr(value)
    raise SchemaError("wrong_type", f"{what} must be {wanted}, not {shown if len(shown) <= 60 else shown[:60] + '…'}")


def text(value: Any, what: str) -> str:
    if type(value) is not str:
        _wrong(what, "a string", value)
    return value


def identifier(value: Any, what: str) -> str:
    return check_id(text(value, what), what)


def check_id(value: str, what: str) -> str:
    size = len(value) if value.isascii() else len(value.encode())
    if not 1 <= size <= MAX_ID_BYTES:
        raise SchemaError("bad_id", f"{what} has {size} bytes: write 1 to {MAX_ID_BYTES}")
    if "\0" in value:
        raise SchemaError("bad_id", f"{what} has a zero byte, which separates ids in keys: leave it out")
    return value


def flag(value: Any, what: str) -> bool:
    if type(value) is not bool:
        _wrong(what, "true or false", value)
    return value


def integer(value: Any, what: str) -> int:
    if type(value) is not int:
        _wrong(what, "an integer", value)
    if value not in _LONG:
        raise SchemaError("bad_value", f"{what} is {value}, which does not fit 64 bits")
    return value


def small(value: Any, what: str) -> int:
    if integer(value, what) not in _INT:
        raise SchemaError("bad_value", f"{what} is {value}, which does not fit 32 bits")
    return int(value)


def moment(value: Any, what: str) -> int:
    if type(value) is int:
        return check_micros(value, what)
    if type(value) is str:
        return micros_of_text(value, what)
    _wrong(what, "an RFC 3339 time or integer microseconds since 1970", value)


def raw(value: Any, what: str) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        _wrong(what, "a base64 string", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaError("bad_value", f"{what} is no base64 text") from None


def topic(value: Any, what: str) -> str:
    return check_path(text(value, what))


def optional(check: Check[T]) -> Check[T | None]:
    return lambda value, what: None if value is None else check(value, what)


def many(check: Check[T]) -> Check[tuple[T, ...]]:
    def checked(value: Any, what: str) -> tuple[T, ...]:
        if type(value) is not list:
            _wrong(what, "a list", value)
        return tuple(check(each, f"{what}[{index}]") for index, each in enumerate(value))

    return checked


def one_of(*symbols: str) -> Check[Any]:
    def checked(value: Any, what: str) -> str:
        if type(value) is not str:
            _wrong(what, f"one of {', '.join(symbols)}", value)
        if value not in symbols:
            raise SchemaError("bad_value", f"{what} is {value[:60]!r}: write one of {', '.join(symbols)}")
        return value

    return checked


def _fields(value: Any, what: str, known: dict[str, Check[Any]], strict: bool, /, **defaults: Any) -> list[Any]:
    """The checked fields of a record, in the order of `known`; what is left out has its default or is missing."""
    if type(value) is not dict:
        _wrong(what, f"an object with {', '.join(known)}", value)
    if strict and not value.keys() <= known.keys():
        unknown_field(next(name for name in value if name not in known), what, known)
    found = []
    for name, check in known.items():
        each = value.get(name, _MISSING)
        if each is not _MISSING:
            found.append(check(each, name if what == "the record" else f"{what}.{name}"))
        elif name in defaults:
            found.append(defaults[name])
        else:
            raise SchemaError("missing", f"{what} has no {name}, which is needed")
    return found


def unknown_field(name: str, what: str, known: Iterable[str]) -> NoReturn:
    names = list(known)
    nearest = get_close_matches(name, names, n=1, cutoff=0.0)[0] if names else ""
    raise SchemaError(
        "unknown_field", f"{what} has the unknown field {name[:60]!r}; the nearest known one is {nearest!r}"
    )


# -------------------------------------------------------------------------------- values


def coordinate(value: Any, what: str) -> float:
    if type(value) is not float and type(value) is not int:
        _wrong(what, "a number", value)
    number = float(value)
    if not math.isfinite(number):
        raise SchemaError("bad_value", f"{what} is {number}: write a finite number")
    return number


def _within(low: float, high: float) -> Check[float]:
    def checked(value: Any, what: str) -> float:
        number = coordinate(value, what)
        if not low <= number <= high:
            raise SchemaError("bad_value", f"{what} is {number}: write {low:g} to {high:g} degrees")
        return number

    return checked


def _radius(value: Any, what: str) -> float:
    number = coordinate(value, what)
    if number < 0:
        raise SchemaError("bad_value", f"{what} is {number}: a radius is not negative")
    return number


_LON: Final = _within(-180.0, 180.0)
_LAT: Final = _within(-90.0, 90.0)


def _box(value: Any, what: str) -> Box:
    box = Box(*_fields(value, what, dict.fromkeys(("min_x", "min_y", "max_x", "max_y"), coordinate), True))
    if box.min_x > box.max_x or box.min_y > box.max_y:
        raise SchemaError(
            "bad_value", f"{what} is a box whose min is above its max: write min_x <= max_x, min_y <= max_y"
        )
    return box


_OBJECTS: Final[dict[frozenset[str], Callable[[Any, str], Value]]] = {
    frozenset(("lon", "lat")): lambda value, what: Point(
        _LON(value["lon"], what + ".lon"), _LAT(value["lat"], what + ".lat")
    ),
    frozenset(("lon", "lat", "radius_m")): lambda value, what: Circle(
        _LON(value["lon"], what + ".lon"),
        _LAT(value["lat"], what + ".lat"),
        _radius(value["radius_m"], what + ".radius_m"),
    ),
    frozenset(("min_x", "min_y", "max_x", "max_y")): _box,
    frozenset(("timestamp",)): lambda value, what: datetime_of(moment(value["timestamp"], what)),
    frozenset(("path",)): lambda value, what: Path(topic(value["path"], what)),
}


def attribute_value(value: Any, what: str) -> Value:
    kind = type(value)
    if kind is str or kind is float or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return integer(value, what)
    if kind is dict:
        build = _OBJECTS.get(frozenset(value))
        if build is not None:
            return build(value, what)
    _wrong(what, "true, false, a number, a string, or an object of lon and lat; lon, lat and radius_m; min_x, min_y, max_x "
        "and max_y; timestamp; or path", value)  # fmt: skip


def plain_value(value: Value | None) -> Plain:
    if isinstance(value, datetime):
        return {"timestamp": micros_of(value)}
    if isinstance(value, Point):
        return {"lon": float(value.lon), "lat": float(value.lat)}
    if isinstance(value, Circle):
        return {"lon": float(value.lon), "lat": float(value.lat), "radius_m": float(value.radius_m)}
    if isinstance(value, Box):
        return {each: float(getattr(value, each)) for each in ("min_x", "min_y", "max_x", "max_y")}
    if isinstance(value, Path):
        return {"path": value.text}
    return value


def attribute_name(value: Any, what: str) -> str:
    return identifier(value, what)


def attributes(value: Any, what: str) -> dict[str, Value]:
    if type(value) is not dict:
        _wrong(what, "an object of attributes by name", value)
    return {
        attribute_name(name, "the name of an attribute"): attribute_value(each, f"attribute {name[:60]!r}")
        for name, each in value.items()
    }


# -------------------------------------------------------------------------------- conditions


def _operator(value: Any, what: str) -> str:
    operator = OPERATORS.get(text(value, what), value)
    if operator not in _SYMBOL_OF:
        raise SchemaError("bad_condition", f"{what} is {operator[:40]!r}: write one of {', '.join(_SYMBOL_OF)}")
    return str(operator)


_PREDICATE: Final[dict[str, Check[Any]]] = {
    "attribute": attribute_name,
    "operator": _operator,
    "value": optional(attribute_value),
    "high": optional(attribute_value),
    "values": many(attribute_value),
}


def _predicate(value: Any, what: str) -> Predicate:
    found = Predicate(*_fields(value, what, _PREDICATE, True, value=None, high=None, values=()))
    operator = found.operator
    wanted = (operator not in _NO_VALUE | _MANY_VALUES, operator in _TWO_VALUES)
    if (found.value is not None, found.high is not None) != wanted or (found.values and operator not in _MANY_VALUES):
        needs = (
            "values"
            if operator in _MANY_VALUES
            else "value and high"
            if wanted[1]
            else "value"
            if wanted[0]
            else "none"
        )
        raise SchemaError(
            "bad_condition", f"{what} has the operator {operator!r}: of value, high and values it needs {needs}"
        )
    return found


_DISJUNCTS: Final = many(many(_predicate))


def where(value: Any, what: str) -> Where:
    if value is None or type(value) is str:
        return value
    if type(value) is dict:
        found: Disjuncts = _fields(value, what, {"disjuncts": _DISJUNCTS}, True)[0]
        return found
    _wrong(what, "SQL text", value)


def plain_where(value: Where) -> Plain:
    if value is None or isinstance(value, str):
        return value
    return {"disjuncts": [[_plain_predicate(each) for each in disjunct] for disjunct in value]}


def _plain_predicate(predicate: Predicate) -> Plain:
    return {
        "attribute": predicate.attribute,
        "operator": _SYMBOL_OF.get(predicate.operator, predicate.operator),
        "value": plain_value(predicate.value),
        "high": plain_value(predicate.high),
        "values": [plain_value(each) for each in predicate.values],
    }


def _constant_reader(family: Family) -> Check[Constant]:
    def constant(value: Any, what: str) -> Constant:
        found = attribute_value(value, what)
        if family is Family.TIMESTAMP and isinstance(found, datetime):
            return micros_of(found)
        if family is Family.PATH and isinstance(found, Path):
            return path_components(found.text)
        if isinstance(found, datetime | Path):
            _wrong(what, f"a constant of the family {family.name.lower()}", value)
        return found

    return constant


_CONSTANTS: Final = {family: _constant_reader(family) for family in Family}


def _plain_constant(value: Constant | None, family: Family) -> Plain:
    if value is None:
        return None
    if isinstance(value, tuple):
        return {"path": path_text(value)}
    if family is Family.TIMESTAMP:
        return {"timestamp": value}
    return plain_value(value)


def _shape(value: Any, what: str) -> Shape:
    found = attribute_value(value, what)
    if not isinstance(found, Point | Circle | Box):
        _wrong(what, "a point, circle or box", value)
    return found


_PATTERN_FIELDS: Final[dict[str, Check[Any]]] = {
    "kind": one_of(*(kind.name.lower() for kind in PatternKind)),
    "text": text,
    "negated": flag,
}
_TEST_FIELDS: Final[dict[str, Check[Any]]] = {
    "relation": one_of(*(relation.name.lower() for relation in Relation)),
    "shape": _shape,
    "negated": flag,
}


def _pattern(value: Any, what: str) -> Pattern:
    kind, pattern, negated = _fields(value, what, _PATTERN_FIELDS, False)
    return Pattern(PatternKind[kind.upper()], pattern, negated)


def _test(value: Any, what: str) -> Test:
    relation, shape, negated = _fields(value, what, _TEST_FIELDS, False)
    return Test(Relation[relation.upper()], shape, negated)


def _constraint(value: Any, what: str) -> tuple[str, Constraint]:
    if type(value) is not dict or value.get("family") not in _FAMILY_OF:
        _wrong(what, "a constraint of a known family", value)
    family = _FAMILY_OF[value["family"]]
    constant = _CONSTANTS[family]
    known: dict[str, Check[Any]] = {
        "attribute": text,
        "low": optional(constant),
        "low_closed": flag,
        "high": optional(constant),
        "high_closed": flag,
        "included": optional(many(constant)),
        "excluded": many(constant),
        "patterns": many(_pattern),
        "tests": many(_test),
    }
    name, *limits = _fields(
        value, what, known, False, low=None, low_closed=True, high=None, high_closed=True, included=None, excluded=(),
        patterns=(), tests=(),
    )  # fmt: skip
    return name, Constraint(family, *limits)


def normal_form(value: Any, what: str) -> NormalForm:
    return many(many(_constraint))(value, what)


def plain_normal_form(form: NormalForm) -> Plain:
    return [[_plain_constraint(name, constraint) for name, constraint in disjunct] for disjunct in form]


def _plain_constraint(name: str, constraint: Constraint) -> Plain:
    family = constraint.family
    included = constraint.included
    return {
        "attribute": name,
        "family": _FAMILY_NAME[family],
        "low": _plain_constant(constraint.low, family),
        "low_closed": constraint.low_closed,
        "high": _plain_constant(constraint.high, family),
        "high_closed": constraint.high_closed,
        "included": None if included is None else [_plain_constant(each, family) for each in included],
        "excluded": [_plain_constant(each, family) for each in constraint.excluded],
        "patterns": [
            {"kind": each.kind.name.lower(), "text": each.text, "negated": each.negated} for each in constraint.patterns
        ],
        "tests": [
            {"relation": each.relation.name.lower(), "shape": plain_value(each.shape), "negated": each.negated}
            for each in constraint.tests
        ],
    }


# -------------------------------------------------------------------------------- records

_SCOPE: Final = one_of("overlap", "subtree")
_TIME: Final = one_of("published", "valid")
_SEMANTICS: Final = one_of("classical", "symmetric", "intersect")

_SUBSCRIPTION: Final[dict[str, Check[Any]]] = {
    "subscription_id": optional(identifier),
    "subscriber_id": identifier,
    "topic": topic,
    "scope": _SCOPE,
    "starts_at": optional(moment),
    "ends_at": optional(moment),
    "time": _TIME,
    "where": where,
    "semantics": _SEMANTICS,
    "self_join": flag,
}


def subscription(value: Plain, key: str | None, strict: bool) -> Subscription:
    found = _fields(
        value, "the record", _SUBSCRIPTION, strict, subscription_id=None, topic="", scope="overlap", starts_at=None,
        ends_at=None, time="published", where=None, semantics="classical", self_join=False,
    )  # fmt: skip
    found[0] = same_id(found[0], key, "subscription_id")
    if found[0] is None:
        raise SchemaError("missing", "the subscription has no id: set the Kafka key, or subscription_id")
    record = Subscription(*found)
    check_window(record.starts_at, record.ends_at, "starts_at", "ends_at")
    return record


def same_id(value: str | None, key: str | None, what: str) -> str | None:
    if value is not None and key is not None and value != key:
        raise SchemaError(
            "bad_id", f"{what} is {value[:60]!r} but the key is {key[:60]!r}: leave one out, or make them equal"
        )
    return key if value is None else value


def check_window(starts_at: int | None, ends_at: int | None, start: str, end: str) -> None:
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise SchemaError("bad_window", f"the window ends before it begins: {end} is {ends_at}, {start} is {starts_at}")


_BEST: Final[dict[str, Check[Any]]] = {"attribute": attribute_name, "prefer": one_of("highest", "lowest")}


def _best(strict: bool) -> Check[Best]:
    return lambda value, what: Best(*_fields(value, what, _BEST, strict))


def _publication_fields(strict: bool) -> dict[str, Check[Any]]:
    return {
        "publication_id": optional(identifier),
        "publisher_id": optional(identifier),
        "topic": topic,
        "published_at": optional(moment),
        "expires_at": optional(moment),
        "attributes": attributes,
        "where": where,
        "best": optional(_best(strict)),
        "self_join": flag,
        "body": optional(raw),
    }


_PUBLICATION: Final = {strict: _publication_fields(strict) for strict in (False, True)}


def publication(value: Plain, key: str | None, strict: bool) -> Publication:
    found = _fields(
        value, "the record", _PUBLICATION[strict], strict, publication_id=None, publisher_id=None, topic="",
        published_at=None, expires_at=None, attributes={}, where=None, best=None, self_join=False, body=None,
    )  # fmt: skip
    found[0] = same_id(found[0], key, "publication_id")
    record = Publication(*found)
    check_window(record.published_at, record.expires_at, "published_at", "expires_at")
    return record


_NOTIFICATION: Final[dict[str, Check[Any]]] = {
    "notification_id": text,
    "subscription_id": text,
    "subscription_version": text,
    "publication_id": text,
    "recipient_id": text,
    "role": one_of("subscriber", "publisher"),
    "topic": topic,
    "published_at": moment,
    "matched_at": moment,
    "phase": one_of("past", "live", "backfill", "best"),
    "earlier_ids": many(text),
    "value": optional(attribute_value),
}


def notification(value: Plain, strict: bool) -> Notification:
    return Notification(*_fields(value, "the record", _NOTIFICATION, strict, earlier_ids=(), value=None))


_DEAD_LETTER: Final[dict[str, Check[Any]]] = {
    "topic": text,
    "partition": small,
    "offset": integer,
    "arrived_at": integer,
    "kind": text,
    "reason": text,
    "key": optional(raw),
    "value": optional(raw),
}


def dead_letter(value: Plain, strict: bool) -> DeadLetter:
    return DeadLetter(*_fields(value, "the record", _DEAD_LETTER, strict, key=None, value=None))


def version(value: Any, what: str) -> Version:
    partition, offset, arrived_at = _fields(
        value, what, {"partition": small, "offset": integer, "arrived_at": integer}, False
    )
    return Version(arrived_at, partition, offset)


_CANONICAL_SUBSCRIPTION: Final[dict[str, Check[Any]]] = {
    "subscription_id": identifier,
    "subscriber_id": identifier,
    "version": version,
    "topic": topic,
    "scope": _SCOPE,
    "starts_at": moment,
    "ends_at": optional(moment),
    "time": _TIME,
    "where": normal_form,
    "semantics": _SEMANTICS,
    "self_join": flag,
}
_WITHDRAWAL: Final[dict[str, Check[Any]]] = {"subscription_id": identifier, "version": version}
_CANONICAL_PUBLICATION: Final[dict[str, Check[Any]]] = {
    "publication_id": identifier,
    "publisher_id": optional(identifier),
    "topic": topic,
    "published_at": moment,
    "expires_at": optional(moment),
    "best": optional(_best(False)),
    "self_join": flag,
    "attributes": attributes,
    "where": optional(normal_form),
    "body": optional(raw),
}


def canonical(value: Any, what: str) -> CanonicalSubscription | Withdrawal | CanonicalPublication:
    """Which of the three it is, is told by its fields."""
    if type(value) is dict and "publication_id" in value:
        return CanonicalPublication(
            *_fields(
                value,
                what,
                _CANONICAL_PUBLICATION,
                False,
                publisher_id=None,
                expires_at=None,
                best=None,
                where=None,
                body=None,
            )
        )
    if type(value) is dict and "subscriber_id" in value:
        return CanonicalSubscription(*_fields(value, what, _CANONICAL_SUBSCRIPTION, False, ends_at=None))
    return Withdrawal(*_fields(value, what, _WITHDRAWAL, False))


_RENDEZVOUS: Final[dict[str, Check[Any]]] = {
    "origin": one_of("subscriptions", "publications", "none"),
    "partition": small,
    "offset": integer,
    "arrived_at": integer,
    "routing_version": small,
    "partitions": many(small),
    "record": optional(canonical),
}


def rendezvous(value: Plain, strict: bool) -> Rendezvous:
    return Rendezvous(*_fields(value, "the record", _RENDEZVOUS, strict, record=None))


def _cut(value: Any, what: str) -> tuple[int, int]:
    partition, offset = _fields(value, what, {"partition": small, "offset": integer}, False)
    return partition, offset


def _canonical_subscription(value: Any, what: str) -> CanonicalSubscription:
    found = canonical(value, what)
    if not isinstance(found, CanonicalSubscription):
        _wrong(what, "a canonical subscription", value)
    return found


_BACKFILL_REQUEST: Final[dict[str, Check[Any]]] = {
    "subscription": _canonical_subscription,
    "rendezvous_partition": small,
    "horizon": integer,
    "log_time": integer,
    "routing_version": small,
    "cut": many(_cut),
}


def backfill_request(value: Plain, strict: bool) -> BackfillRequest:
    found = _fields(value, "the record", _BACKFILL_REQUEST, strict)
    found[-1] = dict(found[-1])
    return BackfillRequest(*found)


_BEST_OFFER: Final[dict[str, Check[Any]]] = {
    "publication_id": text,
    "topic": topic,
    "subscription_id": optional(text),
    "subscription_version": optional(text),
    "subscriber_id": optional(text),
    "value": optional(attribute_value),
    "changed_at": moment,
    "offset": integer,
    "final": flag,
}


def best_offer(value: Plain, strict: bool) -> BestOffer:
    return BestOffer(
        *_fields(
            value,
            "the record",
            _BEST_OFFER,
            strict,
            subscription_id=None,
            subscription_version=None,
            subscriber_id=None,
            value=None,
            final=False,
        )
    )


# -------------------------------------------------------------------------------- records to plain


def plain_record(record: Record) -> dict[str, Plain]:
    """All fields, in the order of the schema."""
    plain = _slots(record)
    if isinstance(record, Subscription):
        plain["where"] = plain_where(record.where)
    elif isinstance(record, Publication):
        plain["attributes"] = {name: plain_value(value) for name, value in record.attributes.items()}
        plain["where"] = plain_where(record.where)
        plain["best"] = None if record.best is None else _slots(record.best)
    elif isinstance(record, Notification):
        plain["earlier_ids"] = list(record.earlier_ids)
        plain["value"] = plain_value(record.value)
    elif isinstance(record, BestOffer):
        plain["value"] = plain_value(record.value)
    elif isinstance(record, Rendezvous):
        plain["partitions"] = list(record.partitions)
        plain["record"] = None if record.record is None else plain_canonical(record.record)
    elif isinstance(record, BackfillRequest):
        plain["subscription"] = plain_canonical(record.subscription)
        plain["cut"] = [{"partition": partition, "offset": offset} for partition, offset in record.cut.items()]
    return plain


def plain_canonical(record: CanonicalSubscription | Withdrawal | CanonicalPublication) -> dict[str, Plain]:
    plain = _slots(record)
    if isinstance(record, CanonicalPublication):
        plain["attributes"] = {name: plain_value(value) for name, value in record.attributes.items()}
        plain["where"] = None if record.where is None else plain_normal_form(record.where)
        plain["best"] = None if record.best is None else _slots(record.best)
    else:
        if record.version is None:
            raise SchemaError("missing", "the withdrawal has no version: the router sets it")
        plain["version"] = {each: getattr(record.version, each) for each in ("partition", "offset", "arrived_at")}
        if isinstance(record, CanonicalSubscription):
            plain["where"] = plain_normal_form(record.where)
    return plain


def _slots(record: Any) -> dict[str, Plain]:
    return {name: getattr(record, name) for name in record.__slots__}
