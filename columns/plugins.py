"""Parts that users choose by name and that are distributed beside the product: the algorithms and baselines of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

HOME: Final = "pastforward.papers"
EXTRA: Final = "papers"

Parts = Mapping[str, str]  # name → module below `HOME`, and class

ALGORITHMS: Final[Parts] = {
    "counting": "fabret.counting:Counting",
    "propagation": "fabret.propagation:Propagation",
    "prefetch": "fabret.propagation:Prefetch",
    "static": "fabret.static:Static",
    "dynamic": "fabret.dynamic:Dynamic",
    "pubsub": "pubsub:PubSub",
}
LAYOUTS: Final[Parts] = {"repeated": "repeated:Repeated"}


def installed(parts: Parts) -> tuple[str, ...]:
    """The names that `load` finds."""
    return tuple(parts) if find_spec(HOME) else ()


def load(what: str, parts: Parts, name: str, known: tuple[str, ...]) -> Any:
    """The class of that name. Raises `ValueError` if there is none; `known`: names that the caller has itself."""
    if name not in parts:
        raise ValueError(f"no {what} {name!r}; there are {', '.join((*known, *installed(parts)))}")
    if name not in installed(parts):
        raise ValueError(f"{what} {name!r} is not installed; it comes with: pip install 'pastforward[{EXTRA}]'")
    module, _, attribute = parts[name].partition(":")
    return getattr(import_module(f"{HOME}.{module}"), attribute)
