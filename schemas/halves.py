"""Work on many items that one of them may spoil: it is tried in halves, until the items that cause it are alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pastforward.schemas import errors

T = TypeVar("T")
R = TypeVar("R")

IsFault = Callable[[BaseException], bool]


def in_halves(
    do: Callable[[Sequence[T]], R],
    refuse: Callable[[T, Exception], R],
    items: Sequence[T],
    is_fault: IsFault = errors.is_fault,
) -> list[R]:
    """What `do` returns for the items, in order: once for all of them, unless it raises. `do` must leave nothing behind then.

    A fault is nobody's: it is raised again. So is whatever `do` raises for no items at all.
    """
    try:
        return [do(items)]
    except Exception as error:
        if is_fault(error) or not items:
            raise
        return after_failure(error, do, refuse, items, is_fault)


def after_failure(
    error: Exception,
    do: Callable[[Sequence[T]], R],
    refuse: Callable[[T, Exception], R],
    items: Sequence[T],
    is_fault: IsFault = errors.is_fault,
) -> list[R]:
    """Goes on where `do` has raised for all of the items together, of which there is at least one."""
    if len(items) == 1:
        return [refuse(items[0], error)]
    middle = len(items) // 2
    return in_halves(do, refuse, items[:middle], is_fault) + in_halves(do, refuse, items[middle:], is_fault)
