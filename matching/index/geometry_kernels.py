"""The geometry of conditions, made known to Numba: a module whose kernels call it imports this one first."""

from __future__ import annotations

from numba.extending import register_jitable

from pastforward.matching.conditions import geometry

for _function in geometry.IN_KERNELS:
    register_jitable(_function)
