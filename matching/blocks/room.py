"""Whether the pools have room for what comes next: kernels cannot lengthen arrays that Python holds."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.tiling import (
    MOST,
)
from pastforward.matching.blocks.view import (
    GROUP_CELLS,
    GROUPS,
    LEAVES,
    NODES,
    TABLES,
    Blocks,
)


@inner
def has_room(blocks: Blocks) -> Bool:
    """For one more slot, whatever it sets off: a chunk that splits takes two nodes, two roots and 64 leaves before it gives any back."""
    state = blocks.state
    return (
        state[LEAVES] + 80 < len(blocks.leaf_count)
        and state[NODES] + 8 < len(blocks.children)
        and state[GROUPS] + 4 < len(blocks.group_form)
        and state[TABLES] + 4 < len(blocks.table_kind)
        and 2 * (state[GROUP_CELLS] + 4) < len(blocks.group_cells)
        and 2 * (state[TABLES] + 4) < len(blocks.table_cells)
    )


@inner
def has_room_for(blocks: Blocks, members: Int) -> Bool:
    """For a new group of so many."""
    state = blocks.state
    chunks = (members + MOST - 1) // MOST
    nodes = chunks + (chunks + 31) // 32
    return state[LEAVES] + 32 * chunks + 80 < len(blocks.leaf_count) and state[NODES] + nodes + 8 < len(blocks.children)
