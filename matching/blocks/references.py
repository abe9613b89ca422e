"""The references that the kernels of the block index take."""

from __future__ import annotations

from pastforward.matching.blocks.codes import Scratch
from pastforward.matching.blocks.view import Blocks
from pastforward.matching.checking import batch_at, known_at
from pastforward.matching.reference import reference

__all__ = ["batch_at", "blocks_at", "known_at", "scratch_at"]

blocks_at = reference(Blocks)
scratch_at = reference(Scratch)
