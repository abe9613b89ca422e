"""What is wrong with a record that cannot be taken."""

from __future__ import annotations

import errno
from typing import Final, Literal, TypeAlias

from pastforward.errors import PastforwardError

Kind: TypeAlias = Literal[
    "malformed",  # the bytes are no record
    "unknown_field",
    "wrong_type",
    "missing",
    "bad_id",
    "bad_path",
    "bad_value",
    "bad_window",
    "too_large",
    "bad_condition",
    "internal",  # a fault of ours that this record brought to light
]
_SHOWN: Final = 500  # characters of an exception's text


class SchemaError(PastforwardError, ValueError):
    """`kind` is for programs, `reason` for the person who sent the record: what was wrong, what to write instead."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type[SchemaError], tuple[Kind, str]]:
        return type(self), (self.kind, self.reason)


class RegistryUnavailable(RuntimeError):
    """The registry did not answer. Not the fault of a record: it must not become a dead letter."""


# What the C library says about a value, not about the machine: a date that it cannot express.
_ABOUT_VALUES: Final = (errno.EOVERFLOW, errno.EINVAL, errno.EDOM, errno.ERANGE)


def is_fault(error: BaseException) -> bool:
    """Is it the machine, or what it depends on, that fails? No record is to blame for that, so it is never the refusal of one."""
    if isinstance(error, OSError):
        return error.errno not in _ABOUT_VALUES
    return isinstance(error, MemoryError | RegistryUnavailable) or not isinstance(error, Exception)


def refusal(error: Exception) -> SchemaError:
    """The refusal of the record that caused an exception. Raises the exception again if it is a fault."""
    if isinstance(error, SchemaError):
        return error
    if is_fault(error):
        raise error
    said = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    said = said if len(said) <= _SHOWN else said[:_SHOWN] + "…"
    return SchemaError("internal", f"the record cannot be processed: {said}")
