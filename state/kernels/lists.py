"""The items of one topic and kind, latest first: a skip list.

Most lists are short, or grow at their head, and then this is a linked list. One item in eight has a tower of links over
the others, so that a long list in which times come in any order is still searched in logarithmic time.
Order: time, then sequence, both descending; no two items of a list are equal in both.
"""

from __future__ import annotations

from pastforward.columns.hashing import mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import LEVELS, NONE, TOWER_FREE, TOWER_FREE_COUNT, TOWER_TOP, Memory


@bare
def height(sequence: int) -> int:
    """0 for seven items in eight; decided by the sequence, so that a replay builds the same lists."""
    bits = mix_positive(sequence)
    level = 0
    while level < LEVELS and bits & 7 == 0:
        level += 1
        bits >>= 3
    return level


@bare
def comes_before(memory: Memory, item: int, time: int, sequence: int) -> bool:
    held = memory.items[item].time
    return bool(held > time or (held == time and memory.items[item].sequence > sequence))


@bare
def _new_tower(memory: Memory) -> int:
    scalars = memory.scalars
    tower = scalars[TOWER_FREE]
    if tower != NONE:
        scalars[TOWER_FREE] = memory.towers[tower, 0]
        scalars[TOWER_FREE_COUNT] -= 1
    else:
        tower = scalars[TOWER_TOP]
        scalars[TOWER_TOP] += 1
    for level in range(LEVELS):
        memory.towers[tower, level] = NONE
    return int(tower)


@bare
def _free_tower(memory: Memory, tower: int) -> None:
    memory.towers[tower, 0] = memory.scalars[TOWER_FREE]
    memory.scalars[TOWER_FREE] = tower
    memory.scalars[TOWER_FREE_COUNT] += 1


@bare
def search(memory: Memory, place: int, time: int, sequence: int) -> int:
    """The first item that does not come before (time, sequence).

    `memory.before[level]` becomes the last one at that level that does, NONE for the head.
    """
    before = memory.before
    current = NONE
    tower = memory.lists[place].tower
    if tower == NONE:
        for level in range(1, LEVELS + 1):
            before[level] = NONE
    else:
        for level in range(LEVELS, 0, -1):
            following = memory.towers[tower, level - 1]
            while following != NONE and comes_before(memory, following, time, sequence):
                current = following
                tower = memory.items[current].tower
                following = memory.towers[tower, level - 1]
            before[level] = current
    following = memory.lists[place].head if current == NONE else memory.items[current].next
    while following != NONE and comes_before(memory, following, time, sequence):
        current = following
        following = memory.items[current].next
    before[0] = current
    return int(following)


@bare
def link(memory: Memory, place: int, item: int) -> None:
    """Puts the item where its time and sequence belong."""
    before = memory.before
    items = memory.items
    lists = memory.lists
    head = lists[place].head
    levels = height(items[item].sequence)
    items[item].tower = NONE
    if head == NONE or not comes_before(memory, head, items[item].time, items[item].sequence):
        items[item].next = head
        lists[place].head = item
        for level in range(LEVELS + 1):
            before[level] = NONE
    else:
        items[item].next = search(memory, place, items[item].time, items[item].sequence)
        items[before[0]].next = item
    if levels == 0:
        return
    if lists[place].tower == NONE:
        lists[place].tower = _new_tower(memory)
    own = _new_tower(memory)
    items[item].tower = own
    for level in range(1, levels + 1):
        tower = lists[place].tower if before[level] == NONE else items[before[level]].tower
        memory.towers[own, level - 1] = memory.towers[tower, level - 1]
        memory.towers[tower, level - 1] = item


@bare
def unlink(memory: Memory, place: int, item: int) -> None:
    before = memory.before
    items = memory.items
    lists = memory.lists
    search(memory, place, items[item].time, items[item].sequence)
    following = items[item].next
    if before[0] == NONE:
        lists[place].head = following
    else:
        items[before[0]].next = following
    own = items[item].tower
    if own != NONE:
        for level in range(1, LEVELS + 1):
            tower = lists[place].tower if before[level] == NONE else items[before[level]].tower
            if memory.towers[tower, level - 1] != item:
                break
            memory.towers[tower, level - 1] = memory.towers[own, level - 1]
        _free_tower(memory, own)
        items[item].tower = NONE
    if lists[place].head == NONE and lists[place].tower != NONE:
        _free_tower(memory, lists[place].tower)
        lists[place].tower = NONE
