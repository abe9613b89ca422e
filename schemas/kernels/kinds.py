"""Names for the arguments of kernels. Numba infers their types from the calls, which a checker cannot see: so they are Any."""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any  # of numpy, contiguous and writable
Number: TypeAlias = Any  # an integer or float of 64 bits; a place in an array, unless said otherwise
Result: TypeAlias = Any  # a number, or a tuple of them
