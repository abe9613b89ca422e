"""Decides: which subscriptions does a publication satisfy? Knows nothing of Kafka or disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pastforward.columns import extras
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.errors import ConditionError
from pastforward.matching.conditions.values import Box, Circle, Path, Point

if TYPE_CHECKING:
    from pastforward.matching.index.index import Index
    from pastforward.matching.warm import compile_kernels

__all__ = ["Box", "Circle", "Condition", "ConditionError", "Index", "Path", "Point", "compile_kernels"]

# Kernels take a second to import: who only writes conditions does not wait for them.
_LAZY = {"Index": "pastforward.matching.index.index", "compile_kernels": "pastforward.matching.warm"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        extras.need("worker", f"pastforward.matching.{name}")
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
