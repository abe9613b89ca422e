"""Types of single values in kernels: there Python's numbers and NumPy's are the same, which a type checker cannot know."""

from __future__ import annotations

from typing import Any, TypeAlias

Int: TypeAlias = Any
Real: TypeAlias = Any
Truth: TypeAlias = Any
