"""How kernels are compiled: `@kernel` for what Python calls (`@bare` if it allocates nothing), `@inner` and `@inlined` for what only
kernels call.

Numba makes a version of a function for each set of argument types, and a constant is a type of its own: `f(x, 0)` and `f(x, 1)` would
be two versions of `f` and of everything that it calls. Here constants are plain numbers; LLVM still sees them where it inlines. What only
kernels call is not cached and gets no entry for Python, which for a tuple of arrays is longer than the function; to call it from Python is
an error. Together this halves the time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types

from pastforward.columns import cache

Function = TypeVar("Function", bound=Callable[..., Any])

if cache.in_clone():
    cache.drop_stale()


def _compiled(**options: Any) -> Any:
    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        resolve = dispatcher.get_call_template

        def without_constants(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
            plain = {name: types.unliteral(given) for name, given in named.items()}
            return resolve(tuple(types.unliteral(given) for given in arguments), plain)

        dispatcher.get_call_template = without_constants
        return dispatcher

    return decorate


kernel: Any = _compiled(cache=True, nogil=True)
# A few lines, put where they are called.
inlined: Any = _compiled(cache=True, nogil=True, inline="always")


def bare(function: Function) -> Function:
    """Allocates nothing and keeps nothing, so arrays need not be counted on the way through it: that took a third of the store's time.
    Scratch space comes with the arguments."""
    return cast(Function, _compiled(cache=True, nogil=True, _nrt=False)(function))


inner: Any = _compiled(no_cpython_wrapper=True, no_cfunc_wrapper=True)
