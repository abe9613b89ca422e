"""Published conditions: from what came on the wire to the column, and back to the normal form.

The column holds SQL text, which anybody can read. A structured condition may be larger than a text may be; then the text is null
and `condition_avro` has the normal form, as the rendezvous record writes it.
"""

from __future__ import annotations

from functools import lru_cache

from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions.limits import MAX_TEXT_LENGTH
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas import CanonicalPublication, Rendezvous, SchemaError, decode_rendezvous, encode
from pastforward.schemas.acceptance import published_condition, speaks_of_previous
from pastforward.schemas.records import Where

_REMEMBERED = 4_096  # conditions that a worker keeps parsed; a publisher repeats its own


def written(where: Where, form: NormalForm) -> tuple[str | None, bytes | None]:
    """Text, or Avro, of a published condition that was accepted as `form`."""
    if isinstance(where, str):
        return where, None
    condition = Condition(form)
    text = str(condition)
    if len(text) <= MAX_TEXT_LENGTH and _survives(text, condition):
        return text, None
    return None, to_avro(form)


def to_avro(form: NormalForm) -> bytes:
    return encode(Rendezvous("none", 0, 0, 0, 0, (0,), CanonicalPublication("0", None, "", 0, where=form)))


def read(text: str | None, avro: bytes | None) -> NormalForm | None:
    """The normal form; None when nothing was published but constants. Raises `SchemaError` on what the router refuses."""
    if text is not None:
        return _parsed(text)
    if avro is None:
        return None
    record = decode_rendezvous(avro).record
    if not isinstance(record, CanonicalPublication) or record.where is None or speaks_of_previous(record.where):
        raise SchemaError("bad_condition", "condition_avro holds no condition that can be published")
    return record.where


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> NormalForm | None:
    return published_condition(text)[0]


def _survives(text: str, condition: Condition) -> bool:
    """A text has limits of its own: depth, number of predicates."""
    try:
        return Condition.parse(text) == condition
    except ConditionError:
        return False
