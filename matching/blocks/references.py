"""The references that the kernels of the block index take."""

from __future__ import annotations

from pastforward.columns.addressed import reference
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import Blocks
from pastforward.matching.index.checking import batch_at, known_at

__all__ = ["batch_at", "blocks_at", "known_at", "scratch_at"]

blocks_at = reference(Blocks)
scratch_at = reference(Scratch)
