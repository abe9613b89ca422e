"""The algorithms behind `Index(algorithm=…)`: each finds candidates, the index verifies them.

`auto` is the product's own. Others, like those of the papers, are registered by name (`columns.plugins`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pastforward.columns import plugins
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.registry import Registry

# Where each lives; loaded when it is asked for, since compiled kernels come with it.
_HOMES: Final = {
    "auto": ("pastforward.matching.blocks.auto", "Auto"),
    "linear": ("pastforward.matching.index.linear", "Linear"),
}


def names() -> tuple[str, ...]:
    """All that are installed, `auto` first."""
    return (*_HOMES, *plugins.installed(plugins.ALGORITHMS))


def create(name: str, registry: Registry, **options: Any) -> Algorithm:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        make = getattr(import_module(module), attribute)
    else:
        make = plugins.load("algorithm", plugins.ALGORITHMS, name, tuple(_HOMES))
    algorithm: Algorithm = make(registry, **options)
    return algorithm
