"""Which records are accepted, beyond what their bytes must be: one definition for the router, the history and the client.

A decoder checks each field by itself. This module checks what is left: names that are reserved, the condition, what the routing can
serve, and the size of the canonical record. Each function raises `SchemaError`, in the words of the dead letter, and nothing else but
faults of the machine.

`accept_publication` is the definition; `accept_publications` gives the same answers for the rows of a chunk, at a few numpy calls a chunk
for rows without a condition. What depends on the routing is passed as `Rules`, so that this module knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
import orjson

from pastforward.columns.attributes import STRING, Attributes
from pastforward.columns.times import NEVER
from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions.normal_form import ALWAYS, PREVIOUS, NormalForm
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value
from pastforward.schemas.codec import NO_VALUE, finite_json, to_json
from pastforward.schemas.columns import NO_BEST, PublicationColumns, SubscriptionColumns
from pastforward.schemas.condition_bytes import condition_bytes
from pastforward.schemas.declared import Types, check_form, check_values, wrong_rows
from pastforward.schemas.errors import SchemaError, refusal
from pastforward.schemas.limits import (
    MAX_ACCEPTED_BYTES,
    MAX_CANONICAL_BYTES,
    MAX_ID_BYTES,
    MAX_NAME_BYTES,
    MAX_NOTIFICATION_BYTES,
)
from pastforward.schemas.plain import check_window, plain_content
from pastforward.schemas.records import CanonicalPublication, Content, Predicate, Publication, Subscription, Where

P = ParamSpec("P")
R = TypeVar("R")

ALWAYS_BYTES: Final = condition_bytes(ALWAYS)
_PREVIOUS_BYTES: Final = PREVIOUS.encode()

_SURROUNDING: Final = (
    4096  # bytes at most of a canonical record without attributes, body and condition: ids, topic, times, flags
)
# Bytes in JSON of a text that may be the value of a best offer. The rest of such a notification is ids, a hundred earlier ones among them.
_ESCAPED: Final = 6  # bytes of a character in JSON, to one of UTF-8, at most
_IDS: Final = 110 * _ESCAPED * MAX_ID_BYTES
_LARGEST_JSON_TEXT: Final = MAX_CANONICAL_BYTES - _IDS - _SURROUNDING
# Bytes in JSON of the content that a notification may have to carry, of a best offer beside its value.
_LARGEST_CONTENT: Final = MAX_NOTIFICATION_BYTES - _IDS - _SURROUNDING
_LARGEST_OFFERED: Final = _LARGEST_CONTENT - _LARGEST_JSON_TEXT
# In JSON at most so many bytes for each that is counted here; as text a condition may repeat a name of 255 bytes for each pattern.
_IN_JSON: Final = 7
_AS_TEXT: Final = 600
_ENTRY: Final = 13  # bytes at most of an attribute without its name and text: two lengths or a number, and a branch


_NO_ENTITIES: Final = SchemaError("bad_value", "entities cannot be published yet: leave entity out, or false")


@dataclass(frozen=True, slots=True)
class Rules:
    """What the routing in force can serve. The defaults are what any routing may serve, for whoever does not know it.

    `best_depth`: how many components the topic of a publication with `best` needs; None: the scheme has no best offers. `types`: what the
    catalog declares.
    """

    scheme: str = "dewey"
    best_depth: int | None = 1
    self_join: bool = True
    types: Types = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, scheme: str, depth: int, types: Types | None = None) -> Rules:
        """Of an entry of the directory: only `dewey` keeps the records of a topic together."""
        return cls(scheme, depth if scheme == "dewey" else None, scheme == "dewey", types or {})

    def check_best(self, topic: str) -> None:
        if self.best_depth is None:
            raise SchemaError("bad_value", f"best needs dewey routing; the scheme here is {self.scheme}")
        if not topic or topic.count(".") + 1 < self.best_depth:
            raise SchemaError(
                "bad_value",
                f"best needs a topic of at least {self.best_depth} components (ROUTING_DEPTH); this is {topic!r}",
            )

    def check_self_join(self) -> None:
        if not self.self_join:
            raise SchemaError("bad_value", f"self_join needs dewey routing; the scheme here is {self.scheme}")


ANY_ROUTING: Final = Rules()


def _refusing(function: Callable[P, R]) -> Callable[P, R]:
    """What nobody has foreseen is the refusal of the record too."""

    @wraps(function)
    def refusing(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except Exception as error:
            raise refusal(error) from error

    return refusing


# ------------------------------------------------------------------------------------------------------------- publications


@_refusing
def accept_publication(record: Publication, rules: Rules = ANY_ROUTING) -> NormalForm | None:
    """The normal form of the condition that it publishes, if any."""
    if record.entity:
        raise _NO_ENTITIES
    for name in record.attributes:
        check_name(name)
    check_values(record.attributes, rules.types)
    if record.best is not None:
        _check_name_length(record.best.attribute)
        rules.check_best(record.topic)
    form, raw = published_condition(record.where, rules.types)
    size = sum(_ENTRY + len(name.encode()) + _text_bytes(value) for name, value in record.attributes.items())
    size += len(record.body or b"")
    _check_size(size + len(raw))
    _check_content(_content_bound(size, len(raw)), record.best is not None, lambda: content_of(record, form))
    if record.best is not None:
        _check_offer(record.best.attribute, record.attributes.get(record.best.attribute), form)
    return form


@dataclass(slots=True)
class Accepted:
    """By row: normal forms of the published conditions, and why rows are refused, those that could not be decoded among them."""

    forms: dict[int, NormalForm]
    refused: dict[int, SchemaError]


def accept_publications(columns: PublicationColumns, rules: Rules) -> Accepted:
    """`accept_publication` for each row of a chunk."""
    refused: dict[int, SchemaError] = dict(columns.errors)
    for row in (columns.entity | columns.withdrawn).nonzero()[0].tolist():
        refused[row] = NO_VALUE if columns.withdrawn[row] else _NO_ENTITIES
    _refuse_names(columns.attributes, refused)
    _refuse_values(columns.attributes, rules.types, refused)
    offering = (columns.ok & (columns.best != NO_BEST)).nonzero()[0].tolist()
    for row in offering:
        if row not in refused:
            try:
                _check_name_length((columns.best_attribute[row] or b"").decode())
                rules.check_best((columns.topic[row] or b"").decode())
            except SchemaError as error:
                refused[row] = error
    forms: dict[int, NormalForm] = {}
    large: dict[int, int] = {}
    for row, where in enumerate(columns.where):
        if where is None or row in refused:
            continue
        try:
            form, raw = published_condition(where, rules.types)
        except Exception as error:
            refused[row] = refusal(error)
        else:
            assert form is not None
            forms[row], large[row] = form, len(raw)
    _refuse_sizes(columns, forms, large, refused)
    for row in offering:
        if row not in refused:
            try:
                name = (columns.best_attribute[row] or b"").decode()
                _check_offer(name, _text_of(columns.attributes, row, name), forms.get(row))
            except SchemaError as error:
                refused[row] = error
    return Accepted(forms, refused)


def _refuse_names(attributes: Attributes, refused: dict[int, SchemaError]) -> None:
    wrong: dict[int, SchemaError] = {}
    for number, name in enumerate(attributes.names):
        try:
            check_name(name)
        except SchemaError as error:
            wrong[number] = error
    if wrong:
        entries = np.flatnonzero(np.isin(attributes.name, list(wrong)))
        rows = np.searchsorted(attributes.start, entries, side="right") - 1
        for row, number in zip(rows.tolist(), attributes.name[entries].tolist(), strict=True):
            refused.setdefault(row, wrong[number])


def _refuse_values(attributes: Attributes, types: Types, refused: dict[int, SchemaError]) -> None:
    from pastforward.schemas.entries import attributes_of

    for row in wrong_rows(attributes, types) if types else ():
        if row not in refused:
            try:
                check_values(attributes_of(attributes, row), types)
            except SchemaError as error:
                refused[row] = error


def _text_of(attributes: Attributes, row: int, name: str) -> str | None:
    """The value of an attribute, if it is a text that may be too large to be told."""
    if int(attributes.length.max(initial=0)) <= _LARGEST_JSON_TEXT // _ESCAPED:
        return None
    for entry in range(int(attributes.start[row]), int(attributes.start[row + 1])):
        if attributes.names[attributes.name[entry]] == name and attributes.tag[entry] == STRING:
            at = int(attributes.bits[entry])
            return attributes.heap[at : at + int(attributes.length[entry])].tobytes().decode()
    return None


def _refuse_sizes(
    columns: PublicationColumns,
    forms: dict[int, NormalForm],
    condition: dict[int, int],
    refused: dict[int, SchemaError],
) -> None:
    """`condition`: bytes of the conditions of rows that have one."""
    attributes = columns.attributes
    names = np.array([_ENTRY + len(name.encode()) for name in attributes.names], np.int64)
    most = int(names.max(initial=0)) * len(attributes.name) + len(attributes.heap)
    large, accepted = max(condition.values(), default=0), MAX_ACCEPTED_BYTES - _SURROUNDING
    if most + large <= accepted and _content_bound(most, large) <= _LARGEST_OFFERED:
        return  # not even all rows together are too large
    size = np.maximum(columns.body.length, 0).astype(np.int64)
    entry = np.zeros(len(attributes.name) + 1, np.int64)
    np.cumsum(names[attributes.name] + attributes.length if len(names) else 0, out=entry[1:])
    size += np.diff(entry[attributes.start])
    raw = np.zeros(len(size), np.int64)
    raw[list(condition)] = list(condition.values())
    bound = _content_bound(size, raw)
    for row in np.flatnonzero((size + raw > accepted) | (bound > _LARGEST_OFFERED)).tolist():
        try:
            _check_size(int(size[row] + raw[row]))
            offered = bool(columns.best[row] != NO_BEST)
            _check_content(int(bound[row]), offered, lambda row=row: _content_at(columns, row, forms.get(row)))  # type: ignore[misc]
        except SchemaError as error:
            refused.setdefault(row, error)


@_refusing
def published_condition(where: Where, types: Types | None = None) -> tuple[NormalForm | None, bytes]:
    """The normal form, and its bytes in Avro."""
    if where is None:
        return None, b""
    form = normal_form(where)
    if speaks_of_previous(form):
        raise SchemaError("bad_condition", "a publication cannot speak of previous.<attribute>")
    check_form(form, types or {})
    return form, condition_bytes(form)


# ------------------------------------------------------------------------------------------------------------ subscriptions


@_refusing
def accept_subscription(record: Subscription, rules: Rules = ANY_ROUTING, arrived_at: int | None = None) -> bytes:
    """The bytes of its condition's normal form. `arrived_at`: when its window begins, if it does not say; None: not known yet."""
    starts_at = arrived_at if record.starts_at is None else record.starts_at
    _check_kind(record.transitions)
    return _subscription(starts_at, record.ends_at, record.where, record.self_join, rules)


@_refusing
def accept_subscription_row(columns: SubscriptionColumns, row: int, rules: Rules) -> bytes:
    """`accept_subscription` for a row of a chunk that could be decoded."""
    starts_at, ends_at = int(columns.starts_at[row]), int(columns.ends_at[row])
    _check_kind(bool(columns.transitions[row]))
    return _subscription(starts_at, ends_at, columns.where[row], bool(columns.self_join[row]), rules)


def _check_kind(transitions: bool) -> None:
    if transitions:
        raise SchemaError("bad_value", "transitions cannot be asked for yet: leave it out, or false")


def _subscription(starts_at: int | None, ends_at: int | None, where: Where, self_join: bool, rules: Rules) -> bytes:
    check_window(starts_at, ends_at, "starts_at", "ends_at")
    raw = ALWAYS_BYTES
    if where is not None:
        form = normal_form(where)
        raw = condition_bytes(form)
        if not self_join and _PREVIOUS_BYTES in raw and speaks_of_previous(form):
            raise SchemaError("bad_condition", "previous.<attribute> needs self_join: true")
        check_form(form, rules.types)
    if self_join:
        rules.check_self_join()
    _check_size(len(raw))
    if where is not None and len(raw) > _LARGEST_JSON_TEXT // _ESCAPED:
        _check_json_size("the condition", _texts(form))
    return raw


# ---------------------------------------------------------------------------------------------------------------- the parts


@_refusing
def normal_form(where: Where) -> NormalForm:
    """The condition of a record as the matchers read it."""
    if where is None:
        return ALWAYS
    try:
        if isinstance(where, str):
            condition = Condition.parse(where)
        else:
            condition = Condition.from_predicates([[_operands(p) for p in disjunct] for disjunct in where])
    except ConditionError as error:
        raise SchemaError("bad_condition", str(error)) from None
    if condition.never:
        raise SchemaError("bad_condition", "the condition can never be true: its predicates contradict each other")
    return condition.disjuncts


def _operands(predicate: Predicate) -> tuple[object, ...]:
    value = predicate.values if predicate.operator in ("in", "not in") else predicate.value
    return (predicate.attribute, predicate.operator, value, predicate.high)


def speaks_of_previous(form: NormalForm) -> bool:
    return any(name.startswith(PREVIOUS) for disjunct in form for name, _ in disjunct)


def check_name(name: str) -> None:
    """Of an attribute that is published."""
    if name.startswith(PREVIOUS):
        raise SchemaError("bad_value", "names that begin with previous. are reserved: choose another")
    _check_name_length(name)


def _check_name_length(name: str) -> None:
    size = len(name) if name.isascii() else len(name.encode())
    if size > MAX_NAME_BYTES:
        raise SchemaError("bad_id", f"the name of an attribute has {size} bytes: write 1 to {MAX_NAME_BYTES}")


def _text_bytes(value: Value) -> int:
    """Bytes that a value has in the heap of a chunk's attributes."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Path):
        return len(value.text)
    return _SHAPE_BYTES.get(type(value), 0)


def _check_offer(attribute: str, value: Value | None, form: NormalForm | None) -> None:
    """Of a publication with `best`: what it may be told to be worth."""
    if isinstance(value, str):
        _check_json_size(f"attribute {attribute[:60]!r}", [value])
    if form is not None:
        _check_json_size("the condition", _texts(form, attribute))


def _texts(form: NormalForm, attribute: str | None = None) -> Iterator[str]:
    """The constants that may be a bid: those of an attribute, or of all."""
    for disjunct in form:
        for name, constraint in disjunct:
            if attribute is None or name == attribute:
                for constant in (constraint.low, constraint.high, *(constraint.included or ())):
                    if isinstance(constant, str):
                        yield constant


def _check_json_size(what: str, texts: Iterable[str]) -> None:
    """A bid goes into notifications, which may be JSON: there a control character has six bytes."""
    for text in texts:
        if len(text) > _LARGEST_JSON_TEXT // _ESCAPED:
            size = len(orjson.dumps(text))
            if size > _LARGEST_JSON_TEXT:
                raise SchemaError(
                    "too_large",
                    f"{what} has a text of {size} bytes in JSON, which a notification of the best offer may have to carry: at most "
                    f"{_LARGEST_JSON_TEXT} are taken; shorten it, or leave out control characters",
                )


def content_of(record: Publication | CanonicalPublication, form: NormalForm | None) -> Content:
    """What notifications carry; `form`: of the published condition."""
    where = None if form is None else str(Condition(form))
    return Content(record.attributes, where, record.body, record.publisher_id, record.expires_at)


def _content_at(columns: PublicationColumns, row: int, form: NormalForm | None) -> Content:
    from pastforward.schemas.entries import attributes_of

    publisher, expires_at = columns.publisher_id[row], int(columns.expires_at[row])
    where = None if form is None else str(Condition(form))
    return Content(
        attributes_of(columns.attributes, row),
        where,
        columns.body[row],
        None if publisher is None else publisher.decode(),
        None if expires_at == NEVER else expires_at,
    )


def _content_bound(size: Any, condition: Any) -> Any:
    """Bytes in JSON, at most: of attributes and body of `size`, and of a condition."""
    return _IN_JSON * size + _AS_TEXT * condition + _SURROUNDING


def _check_content(bound: int, offered: bool, content: Callable[[], Content]) -> None:
    """Of what a notification has to carry, in the larger of its formats. It is written only if it may be too large."""
    most = _LARGEST_OFFERED if offered else _LARGEST_CONTENT
    if bound > most:
        size = len(to_json(finite_json(plain_content(content()))))
        if size > most:
            raise SchemaError(
                "too_large",
                f"the content has {size} bytes in JSON, with its condition as text, which a notification may have to carry: at most "
                f"{most} are taken; shorten it, or leave out control characters",
            )


_SHAPE_BYTES: Final[dict[Any, int]] = {Point: 16, Circle: 24, Box: 32}


def _check_size(size: int) -> None:
    """`size`: of attributes, body and condition in canonical form, at most."""
    most = MAX_ACCEPTED_BYTES - _SURROUNDING
    if size > most:
        raise SchemaError("too_large", f"the record would have {size} bytes within: at most {most} are taken")
