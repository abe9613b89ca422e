"""The references that the kernels of the block index take."""

from __future__ import annotations

from matching.blocks.codes import Scratch
from matching.blocks.view import Blocks
from matching.checking import batch_at, known_at
from matching.reference import reference

__all__ = ["batch_at", "blocks_at", "known_at", "scratch_at"]

blocks_at = reference(Blocks)
scratch_at = reference(Scratch)
