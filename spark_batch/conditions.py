"""Published conditions: from what came on the wire to the column, and back to the normal form.

The column holds SQL text, which anybody can read. A structured condition may be larger than a text may be; then the text is null
and `condition_avro` has the normal form, as the rendezvous record writes it.
"""

from __future__ import annotations

from functools import lru_cache

from matching import Condition, ConditionError
from matching.limits import MAX_TEXT_LENGTH
from matching.normal_form import NormalForm
from schemas import CanonicalPublication, Predicate, Rendezvous, SchemaError, decode_rendezvous, encode
from schemas.records import Where

_REMEMBERED = 4_096  # conditions that a worker keeps parsed; a publisher repeats its own


def written(where: Where) -> tuple[str | None, bytes | None]:
    """Text, or Avro, of a published condition. Raises `SchemaError` on one that the router refuses."""
    try:
        if isinstance(where, str):
            return _checked(where), None
        condition = Condition.from_predicates([[_operands(p) for p in disjunct] for disjunct in where or ()])
        _possible(condition)
        text = str(condition)
        if len(text) <= MAX_TEXT_LENGTH and _survives(text, condition):
            return text, None
    except ConditionError as error:
        raise SchemaError("bad_condition", str(error)) from None
    record = CanonicalPublication("0", None, "", 0, where=condition.disjuncts)
    return None, encode(Rendezvous("none", 0, 0, 0, 0, (0,), record))


def read(text: str | None, avro: bytes | None) -> NormalForm | None:
    """The normal form; None when nothing was published but constants."""
    if text is not None:
        return _parsed(text)
    if avro is None:
        return None
    record = decode_rendezvous(avro).record
    assert isinstance(record, CanonicalPublication)
    return record.where


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> NormalForm:
    return Condition.parse(text).disjuncts


def _checked(text: str) -> str:
    _possible(Condition(_parsed(text)))
    return text


def _possible(condition: Condition) -> None:
    if condition.never:
        raise SchemaError("bad_condition", "the condition can never be true: its predicates contradict each other")


def _survives(text: str, condition: Condition) -> bool:
    """A text has limits of its own: depth, number of predicates."""
    try:
        return Condition.parse(text) == condition
    except ConditionError:
        return False


def _operands(predicate: Predicate) -> tuple[object, ...]:
    value = predicate.values if predicate.operator in ("in", "not in") else predicate.value
    return (predicate.attribute, predicate.operator, value, predicate.high)
