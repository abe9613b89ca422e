"""No record ends a worker: an exception that one record causes becomes that record's dead letter.

A chunk is processed as a whole. When that raises, nothing of the chunk is left (every step is atomic), and its halves are tried, down to
the single records that raise by themselves. Faults of disk, memory and broker are nobody's record: they end the process, which is
restarted and loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeVar

from aiokafka.errors import KafkaError

from pastforward.errors import UserError
from pastforward.schemas import SchemaError, errors, halves
from pastforward.schemas.errors import refusal
from pastforward.state import OperationError, StoreError
from pastforward.state.rocks import is_status

log = logging.getLogger("pastforward.worker")

T = TypeVar("T")
R = TypeVar("R")

WARNINGS: Final = 10  # with every record; after them at powers of two


def is_fault(error: BaseException) -> bool:
    """Is it the machine or the broker that fails, and not a record?"""
    if isinstance(error, StoreError):
        return not isinstance(error, OperationError)
    return isinstance(error, KafkaError | UserError) or is_status(error) or errors.is_fault(error)


def in_halves(do: Callable[[Sequence[T]], R], refuse: Callable[[T, Exception], R], items: Sequence[T]) -> list[R]:
    """`halves.in_halves`, with the faults of a worker."""
    return halves.in_halves(do, refuse, items, is_fault)


def after_failure(
    error: Exception, do: Callable[[Sequence[T]], R], refuse: Callable[[T, Exception], R], items: Sequence[T]
) -> list[R]:
    """`halves.after_failure`, with the faults of a worker."""
    return halves.after_failure(error, do, refuse, items, is_fault)


_warnings = count(1)


def warn(where: str, offset: int, error: Exception) -> None:
    """With the stack: an exception that nobody expected is a bug. A storm of them is said less and less often."""
    number = next(_warnings)
    if number <= WARNINGS or number & (number - 1) == 0:
        stack = None if isinstance(error, SchemaError) else error
        log.warning("refused record %d: %s offset %d: %s", number, where, offset, refusal(error).reason, exc_info=stack)
