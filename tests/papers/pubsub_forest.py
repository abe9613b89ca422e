"""What must hold of PUBSUB's forest at any time, read from its columns by plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pastforward.matching import Index
from pastforward.matching.index.records import constraints
from pastforward.papers.pubsub import PubSub
from pastforward.papers.pubsub import forest as f

Range = tuple[int, int]


def forest_of(index: Index) -> f.Forest:
    algorithm: Any = index._members.algorithm
    assert isinstance(algorithm, PubSub)
    return algorithm._forest


def asked(index: Index, slot: int) -> dict[int, tuple[int, int, int]]:
    """Per attribute that must be there: order keys, and the hash of an equality."""
    registry = index._members.registry
    room = registry.longest
    attribute, kind = np.zeros(room, np.int32), np.zeros(room, np.uint8)
    low, high, value = (np.zeros(room, np.uint64) for _ in range(3))
    known = registry.known
    n = constraints(known.records, known.strings, slot, attribute, kind, low, high, value)
    return {
        int(attribute[i]): (int(low[i]), int(high[i]), int(value[i]) if kind[i] == 1 else 0)
        for i in range(n)
        if kind[i] != 0
    }


class Reader:
    """One look at a forest."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.forest = forest_of(index)
        self.structures = {
            (int(key >> 20) - 1, int(key) & 0xFFFFF): int(value) for key, value in self.forest.table if key > 0
        }
        self.seen_buckets: set[int] = set()
        self.slots: list[int] = []

    def check(self) -> None:
        """Everything, from the header down."""
        self._bucket(f.HEADER, set())
        self._bucket(f.ALWAYS, set())
        assert len(self.slots) == len(set(self.slots))
        held = int(self.forest.state[f.STRUCTURES_HELD])
        assert held == len(self.structures)
        self._nothing_leaks()

    def members(self, bucket: int) -> list[int]:
        row = self.forest.buckets[bucket]
        part = self.forest.slot[row[f.OFFSET] : row[f.OFFSET] + row[f.COUNT]]
        live = [int(slot) for slot in part if slot >= 0]
        assert len(live) == row[f.COUNT] - row[f.DEAD]
        return live

    def below(self, bucket: int) -> Iterator[int]:
        """Slots of a bucket and of all structures under it."""
        yield from self.members(bucket)
        for (parent, _), structure in self.structures.items():
            if parent == bucket:
                for held in self.buckets_of(structure):
                    yield from self.below(held)

    def buckets_of(self, structure: int) -> list[int]:
        owners = self.forest.places[: self.forest.state[f.BUCKET_POOL], f.OWNER]
        return [int(b) for b in np.flatnonzero(owners == structure) if b in self.live_buckets]

    @property
    def live_buckets(self) -> set[int]:
        pool, state = self.forest.buckets, self.forest.state
        return set(range(int(state[f.BUCKET_POOL]))) - set(_free(pool, int(state[f.BUCKET_POOL + 1])))

    def _bucket(self, bucket: int, way: set[int]) -> None:
        forest = self.forest
        self.seen_buckets.add(bucket)
        members = self.members(bucket)
        self.slots += members
        for slot in members:
            assert forest.home[slot] == bucket
            assert way <= self.asked(slot).keys()
        self._groups(bucket, way)
        mine = {attribute: z for (parent, attribute), z in self.structures.items() if parent == bucket}
        assert forest.buckets[bucket, f.STRUCTURES] == len(mine)
        if bucket in (f.HEADER, f.ALWAYS):
            assert bucket == f.ALWAYS or not members
            assert bucket == f.HEADER or not mine
        else:
            assert members or mine, "an empty bucket stayed"
        for attribute, structure in mine.items():
            assert attribute not in way
            assert tuple(forest.structures[structure, [f.ATTRIBUTE, f.PARENT_BUCKET]]) == (attribute, bucket)
            self._structure(structure, way | {attribute})

    def asked(self, slot: int) -> dict[int, tuple[int, int, int]]:
        return asked(self.index, slot)

    def _groups(self, bucket: int, way: set[int]) -> None:
        forest, row = self.forest, self.forest.buckets[bucket]
        offset, first = int(row[f.OFFSET]), 0
        attributes = []
        for g in range(int(row[f.GROUPS]), int(row[f.GROUPS] + row[f.GROUP_COUNT])):
            attribute, end = (int(cell) for cell in forest.groups[g])
            attributes.append(attribute)
            assert first < end
            assert sorted(forest.start[offset + first : offset + end]) == list(
                forest.start[offset + first : offset + end]
            )
            for at in range(offset + first, offset + end):
                if forest.slot[at] >= 0 and attribute >= 0:
                    assert attribute not in way
                    assert self.asked(int(forest.slot[at]))[attribute][:2] == (forest.start[at], forest.end[at])
            first = end
        assert attributes == sorted(set(attributes))
        assert first == row[f.ORDERED] <= row[f.COUNT] <= row[f.ROOM] or not row[f.COUNT]
        if not forest.state[f.KEEPS_ORDER]:
            assert row[f.ORDERED] == 0
        elif bucket != f.ALWAYS:
            assert row[f.COUNT] - row[f.ORDERED] <= f.UNORDERED

    def _structure(self, structure: int, way: set[int]) -> None:
        row = self.forest.structures[structure]
        buckets = self.buckets_of(structure)
        assert len(buckets) == row[f.BUCKETS_HELD] > 0
        kind = row[f.KIND]
        if kind == f.INTERVAL:
            reached = self._interval(int(row[f.ROOT]), f.NONE, int(row[f.ATTRIBUTE]), 0, 2**64 - 1)
        elif kind in (f.SUFFIX, f.AHO_CORASICK):
            reached = [b for root in (f.ROOT, f.INNER_ROOT) for b in self._trie(int(row[root]), f.NONE)]
            if kind == f.AHO_CORASICK:
                self._links(int(row[f.ROOT]))
        else:
            reached = self._tree(structure)
        if row[f.WIDE] != f.NONE:
            reached.append(int(row[f.WIDE]))
        assert sorted(reached) == buckets
        for bucket in buckets:
            if self.forest.buckets[bucket, f.STRUCTURES]:
                assert self._is_settled(structure, bucket)
            self._bucket(bucket, way)

    def _is_settled(self, structure: int, bucket: int) -> bool:
        node = self.forest.places[bucket, f.NODE]
        kind = self.forest.structures[structure, f.KIND]
        if node == f.NONE:
            return True
        if kind == f.INTERVAL:
            return bool(self.forest.intervals[node, f.CUT])
        if kind in (f.SUFFIX, f.AHO_CORASICK):
            return bool(self.forest.tries[node, f.BURST])
        return bool(self.forest.places[bucket, f.UNIFORM])

    # red-black trees

    def _tree(self, structure: int) -> list[int]:
        row = self.forest.structures[structure]
        root = int(row[f.ROOT])
        if root == f.NONE:
            return []
        assert self.forest.tree[root, f.PARENT] == f.NONE
        assert not self.forest.tree[root, f.RED]
        buckets: list[int] = []
        held: list[int] = []
        leaves: list[int] = []
        self._subtree(structure, root, (-1, -1), (2**64, 0), buckets, held, leaves)
        if row[f.KIND] == f.RBPST:
            assert sorted(held) == sorted(leaves), "every leaf is held once"
        return buckets

    def _subtree(
        self,
        structure: int,
        node: int,
        first: Range,
        end: Range,
        buckets: list[int],
        held: list[int],
        leaves: list[int],
    ) -> int:
        """Checks keys from `first` up to before `end`; returns the number of black nodes on the way down."""
        tree, keys = self.forest.tree, self.forest.tree_keys
        heap = self.forest.structures[structure, f.KIND] == f.RBPST
        top = int(tree[node, f.TOP])
        if heap and top != f.NONE:
            held.append(top)
        key = (int(keys[node, f.KEY_LOW]), int(keys[node, f.KEY_HIGH]))
        if tree[node, f.BUCKET] != f.NONE:
            leaves.append(node)
            buckets.append(int(tree[node, f.BUCKET]))
            assert not tree[node, f.RED]
            assert first <= key < end
            assert top in (f.NONE, node)
            self._leaf(structure, node, first, end)
            return 1
        assert first < key < end
        depths = []
        mine = len(leaves)
        for side, lower, upper in ((f.LEFT, first, key), (f.RIGHT, key, end)):
            child = int(tree[node, side])
            assert tree[child, f.PARENT] == node
            assert not (tree[node, f.RED] and tree[child, f.RED]), "a red node has a red child"
            below = int(tree[child, f.TOP])
            if heap and below != f.NONE:
                assert top != f.NONE
                assert keys[top, f.GREATEST] >= keys[below, f.GREATEST], "priorities grow on the way down"
            depths.append(self._subtree(structure, child, lower, upper, buckets, held, leaves))
        assert depths[0] == depths[1], "one way down has more black nodes"
        assert not heap or top == f.NONE or top in leaves[mine:], "a leaf is held beside its way"
        return depths[0] + (not tree[node, f.RED])

    def _leaf(self, structure: int, leaf: int, first: Range, end: Range) -> None:
        row, keys = self.forest.structures[structure], self.forest.tree_keys
        bucket = int(self.forest.tree[leaf, f.BUCKET])
        assert self.forest.places[bucket, f.NODE] == leaf
        for slot in self.below(bucket):
            low, high, value = self.asked(slot)[int(row[f.ATTRIBUTE])]
            key = (value, 0) if row[f.KIND] == f.RED_BLACK else (low, high)
            assert first <= key < end
            if row[f.KIND] == f.RBPST:
                assert keys[leaf, f.LEAST] <= low
                assert keys[leaf, f.GREATEST] >= high
            if self.forest.places[bucket, f.UNIFORM]:
                assert key == (keys[leaf, f.KEY_LOW], keys[leaf, f.KEY_HIGH])

    # interval trees

    def _interval(self, node: int, parent: int, attribute: int, after: int, before: int) -> list[int]:
        """Ranges lie from `after` to `before`, both in."""
        if node == f.NONE:
            return []
        nodes, keys = self.forest.intervals, self.forest.interval_keys
        assert nodes[node, f.PARENT] == parent
        bucket = int(nodes[node, f.BUCKET])
        centre = int(keys[node, f.CENTRE])
        found = []
        if bucket != f.NONE:
            found.append(bucket)
            assert self.forest.places[bucket, f.NODE] == node
            for slot in self.below(bucket):
                low, high, _ = self.asked(slot)[attribute]
                assert after <= low
                assert high <= before
                assert not nodes[node, f.CUT] or low <= centre <= high
        if not nodes[node, f.CUT]:
            assert nodes[node, f.LEFT] == nodes[node, f.RIGHT] == f.NONE
            return found
        left = self._interval(int(nodes[node, f.LEFT]), node, attribute, after, centre - 1)
        return found + left + self._interval(int(nodes[node, f.RIGHT]), node, attribute, centre + 1, before)

    # tries

    def _trie(self, node: int, parent: int) -> list[int]:
        if node == f.NONE:
            return []
        tries = self.forest.tries
        assert tries[node, f.PARENT] == parent
        assert tries[node, f.DEPTH] == (0 if parent == f.NONE else tries[parent, f.DEPTH] + 1)
        found = [] if tries[node, f.BUCKET] == f.NONE else [int(tries[node, f.BUCKET])]
        children = list(self._children(node))
        assert tries[node, f.BURST] or not children
        assert len({int(tries[child, f.BYTE]) for child in children}) == len(children)
        assert found or children
        for child in children:
            found += self._trie(child, node)
        return found

    def _children(self, node: int) -> Iterator[int]:
        child = int(self.forest.tries[node, f.CHILD])
        while child != f.NONE:
            yield child
            child = int(self.forest.tries[child, f.SIBLING])

    def _links(self, root: int) -> None:
        """Failure links lead to the longest proper suffix that is in the trie, outputs to the nearest bucket."""
        if root == f.NONE:
            return
        texts = {b"": root}
        waiting = [(b"", root)]
        while waiting:
            text, node = waiting.pop()
            for child in self._children(node):
                longer = text + bytes([int(self.forest.tries[child, f.BYTE])])
                texts[longer] = child
                waiting.append((longer, child))
        for text, node in texts.items():
            ends = [text[cut:] for cut in range(len(text) + 1) if text[cut:] in texts]
            if text:
                assert self.forest.tries[node, f.FAIL] == texts[ends[1]]
            with_bucket = [texts[end] for end in ends if self.forest.tries[texts[end], f.BUCKET] != f.NONE]
            assert self.forest.tries[node, f.OUTPUT] == (with_bucket[0] if with_bucket else f.NONE)

    def _nothing_leaks(self) -> None:
        state = self.forest.state
        assert self.live_buckets == self.seen_buckets
        rows = (
            (self.forest.structures, f.STRUCTURE_POOL, len(self.structures)),
            (self.forest.tree, f.TREE_POOL, None),
            (self.forest.intervals, f.INTERVAL_POOL, None),
            (self.forest.tries, f.TRIE_POOL, None),
        )
        for pool, which, count in rows:
            used = int(state[which]) - len(list(_free(pool, int(state[which + 1]))))
            if count is None and not self.structures:
                count = 0
            assert count is None or used == count


def _free(pool: Any, first: int) -> Iterator[int]:
    while first:
        yield first - 1
        first = int(pool[first - 1, 0])
