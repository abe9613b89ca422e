"""What is wrong with a record that cannot be taken."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
]


class SchemaError(ValueError):
    """`kind` is for programs, `reason` for the person who sent the record: what was wrong, what to write instead."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type[SchemaError], tuple[Kind, str]]:
        return type(self), (self.kind, self.reason)
