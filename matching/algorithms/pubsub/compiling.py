"""How the kernels of this package are compiled: only those that Python calls are cached and get a way in from Python; the others go into
them. That halves the time to compile, since a forest is many arrays and each way in unpacks all of them."""

from __future__ import annotations

from typing import Any, Final

from numba import njit

entry: Final[Any] = njit(cache=True, nogil=True)
inner: Final[Any] = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
