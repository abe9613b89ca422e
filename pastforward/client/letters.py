"""Dead letters that are looked at, and sent again once what was wrong has been put right."""

from __future__ import annotations

from pastforward.errors import UserError
from pastforward.schemas import (
    DeadLetter,
    Registry,
    SchemaError,
    Withdrawal,
    decode_publication,
    decode_subscription,
)
from pastforward.schemas.acceptance import ANY_ROUTING, Rules, accept_publication, accept_subscription
from pastforward.schemas.limits import MAX_DEAD_LETTER_BYTES
from pastforward.topics import Topics


def check_sendable(letter: DeadLetter, names: Topics) -> None:
    """Raises `UserError` for a letter whose record cannot be sent again as it was."""
    if letter.topic not in (names.subscriptions, names.publications):
        raise UserError(
            f"it is of {letter.topic}, which only workers write: send the record again under a new id, as its author"
        )
    half = MAX_DEAD_LETTER_BYTES // 2
    if len(letter.value or b"") >= half or len(letter.key or b"") >= half:
        raise UserError("only the beginning of the record is kept, it was too large: its author has all of it")


def fault(letter: DeadLetter, names: Topics, registry: Registry | None, rules: Rules = ANY_ROUTING) -> str | None:
    """Why the record would be refused again, as far as that can be decided; None: it would be taken."""
    try:
        if letter.topic == names.subscriptions:
            read = decode_subscription(letter.key, letter.value, registry)
            if not isinstance(read, Withdrawal):
                accept_subscription(read, rules)
        else:
            accept_publication(decode_publication(letter.key, letter.value, registry), rules)
    except SchemaError as error:
        return error.reason
    return None
