"""The references that the kernels of the block index take."""

from __future__ import annotations

from matching.blocks.codes import Scratch
from matching.blocks.view import Blocks
from matching.columns import Batch
from matching.reference import reference
from matching.verification import Known

blocks_at = reference(Blocks)
scratch_at = reference(Scratch)
known_at = reference(Known)
batch_at = reference(Batch)
