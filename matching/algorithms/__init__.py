"""The algorithms behind `Index(algorithm=…)`: each finds candidates, the index verifies them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from matching.algorithms.base import Algorithm
from matching.registry import Registry

# Where each lives; loaded when it is asked for, since compiled kernels come with it.
_HOMES: Final = {
    "auto": ("matching.algorithms.auto", "Auto"),
    "linear": ("matching.algorithms.linear", "Linear"),
    "counting": ("matching.algorithms.counting", "Counting"),
    "propagation": ("matching.algorithms.propagation", "Propagation"),
    "prefetch": ("matching.algorithms.propagation", "Prefetch"),
    "static": ("matching.algorithms.static", "Static"),
    "dynamic": ("matching.algorithms.dynamic", "Dynamic"),
    "pubsub": ("matching.algorithms.pubsub", "PubSub"),
}

NAMES: Final = tuple(_HOMES)


def create(name: str, registry: Registry, **options: Any) -> Algorithm:
    home = _HOMES.get(name)
    if home is None:
        raise ValueError(f"no algorithm {name!r}; there are {', '.join(NAMES)}")
    algorithm: Algorithm = getattr(import_module(home[0]), home[1])(registry, **options)
    return algorithm
