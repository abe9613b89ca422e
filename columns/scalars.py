"""Numbers in kernels. Numba gives each its width; a type checker, which knows Python's and NumPy's apart, is told nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

Int: TypeAlias = Any
Float: TypeAlias = Any
Bool: TypeAlias = Any
