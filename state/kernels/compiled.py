"""How kernels are compiled: cached on disk, without the interpreter's lock, without reference counts.

A kernel allocates nothing and keeps nothing, so arrays need not be counted on the way through it; counting them took a third
of the time. Scratch space comes with the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    return cast(Function, njit(cache=True, nogil=True, _nrt=False)(function))
