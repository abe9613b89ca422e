"""Which groups a publication reaches: by the values and the presence of its attributes, and by its topic."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.lists import AHEAD, STEP, lengthened
from pastforward.matching.blocks.pools import find_group, find_table, group_key
from pastforward.matching.blocks.view import (
    ALWAYS,
    EQUAL_TWO,
    PAIR,
    SINGLE,
    TABLES,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import OTHER, PUBLISHED, equality_hash
from pastforward.matching.index.topics import TopicView

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]


@inner
def _is_value(batch: Batch, entry: Int) -> Bool:
    """Not a published range, in a row that has some."""
    return batch.tag[entry] != OTHER and batch.tag[entry] != PUBLISHED


@inner
def _hash_of(batch: Batch, entry: Int) -> Int:
    return equality_hash(np.int64(batch.tag[entry]), batch.bits[entry])


@inner
def _meets(batch: Batch, entry: Int, key: Int) -> Bool:
    return batch.low[entry] <= key <= batch.high[entry]


@inner
def _reach_by_values(
    blocks: Blocks,
    batch: Batch,
    begin: Int,
    end: Int,
    where: I32,
    hashes: U64,
    everyone: Int,
    rows: I32,
    groups: I32,
    n: Int,
    probe_rows: I32,
    probes: U64,
    asked: Int,
) -> tuple[Int, Int]:
    """Pairs of row and group that the presence of attributes leads to, and keys of groups that values lead to: of some rows that publish
    no ranges. There is room. Returns how many there are of each."""
    for row in range(begin, end):
        first = batch.start[row]
        last = batch.start[row + 1]
        if everyone:
            rows[n] = row
            groups[n] = everyone
            n += 1
        for e in range(first, last):
            where[batch.attribute[e]] = e
            hashes[e] = equality_hash(np.int64(batch.tag[e]), batch.bits[e])
        for e in range(first, last):
            if batch.attribute[e] >= len(blocks.first_table):
                continue
            table = np.int64(blocks.first_table[batch.attribute[e]])
            while table:
                kind = blocks.table_kind[table]
                second = np.int64(-1)
                if kind == EQUAL_TWO or kind == PAIR:
                    second = np.int64(where[blocks.table_b[table]])
                    if second < 0:
                        table = np.int64(blocks.table_next[table])
                        continue
                if kind == PAIR or kind == SINGLE:
                    rows[n] = row
                    groups[n] = blocks.table_group[table]
                    n += 1
                else:
                    probe_rows[asked] = row
                    probes[asked] = group_key(table, hashes[e], hashes[second] if second >= 0 else np.uint64(0))
                    asked += 1
                table = np.int64(blocks.table_next[table])
        for e in range(first, last):
            where[batch.attribute[e]] = -1
    return n, asked


@inner
def _reach_by_ranges(
    blocks: Blocks, batch: Batch, row: Int, where: I32, everyone: Int, rows: I32, groups: I32, n: Int
) -> tuple[I32, I32, Int]:
    """Pairs of row and group of a row that publishes ranges: of a table all groups whose values lie in them."""
    tables = blocks.state[TABLES]
    if n + tables + 1 > len(rows):
        rows = lengthened(rows, n + tables + 1)
        groups = lengthened(groups, n + tables + 1)
    if everyone:
        rows[n] = row
        groups[n] = everyone
        n += 1
    for e in range(batch.start[row], batch.start[row + 1]):
        where[batch.attribute[e]] = e
    for e in range(batch.start[row], batch.start[row + 1]):
        if batch.attribute[e] >= len(blocks.first_table):
            continue
        table = np.int64(blocks.first_table[batch.attribute[e]])
        while table:
            kind = blocks.table_kind[table]
            second = np.int64(-1)
            if kind == EQUAL_TWO or kind == PAIR:
                second = np.int64(where[blocks.table_b[table]])
                if second < 0:
                    table = np.int64(blocks.table_next[table])
                    continue
            group = np.int64(0)
            other = np.int64(0)
            if kind == PAIR or kind == SINGLE:
                group = np.int64(blocks.table_group[table])
            elif _is_value(batch, e) and (second < 0 or _is_value(batch, second)):
                hash_b = _hash_of(batch, second) if second >= 0 else np.uint64(0)
                group = find_group(blocks, group_key(table, _hash_of(batch, e), hash_b))
            else:
                other = np.int64(blocks.table_group[table])
            if n + tables + 1 > len(rows):
                rows = lengthened(rows, 0)
                groups = lengthened(groups, 0)
            if group:
                rows[n] = row
                groups[n] = group
                n += 1
            while other:
                if _meets(batch, e, blocks.group_low[2 * other]) and (
                    second < 0 or _meets(batch, second, blocks.group_low[2 * other + 1])
                ):
                    if n + tables + 1 > len(rows):
                        rows = lengthened(rows, 0)
                        groups = lengthened(groups, 0)
                    rows[n] = row
                    groups[n] = other
                    n += 1
                other = np.int64(blocks.group_next[other])
            table = np.int64(blocks.table_next[table])
    for e in range(batch.start[row], batch.start[row + 1]):
        where[batch.attribute[e]] = -1
    return rows, groups, n


@inner
def _look_up(blocks: Blocks, probe_rows: I32, probes: U64, asked: Int, rows: I32, groups: I32, n: Int) -> Int:
    """Groups by their keys, all at once, so that each look-up is asked for before it is made. There is room."""
    mask = np.uint64(len(blocks.group_cells) - 1)
    for i in range(asked):
        if i + 2 * AHEAD < asked:
            prefetch(blocks.group_cells, np.int64(probes[i + 2 * AHEAD] & mask))
        if i + AHEAD < asked:
            entry = np.int64(blocks.group_cells[np.int64(probes[i + AHEAD] & mask)])
            if entry > 0:
                prefetch(blocks.group_key, entry)
                prefetch(blocks.group_form, entry)
                prefetch(blocks.group_ref, entry)
        group = find_group(blocks, probes[i])
        if group:
            rows[n] = probe_rows[i]
            groups[n] = group
            n += 1
    return n


@inner
def reach_by_attributes(
    blocks: Blocks, batch: Batch, relaxed: Bool, attributes: Int, rows: I32, groups: I32
) -> tuple[I32, I32, Int]:
    """Pairs of row and group: the tables that a row's attributes lead to, and in them the groups that fit its values."""
    tables = blocks.state[TABLES]
    total = len(batch.carried)
    n = 0
    if relaxed:
        for row in range(total):
            if n + tables > len(rows):
                rows = lengthened(rows, n + tables)
                groups = lengthened(groups, n + tables)
            for table in range(1, tables):
                if blocks.table_count[table]:
                    rows[n] = row
                    groups[n] = blocks.table_group[table]
                    n += 1
        return rows, groups, n
    where = np.full(attributes + 1, -1, np.int32)
    hashes = np.empty(len(batch.attribute), np.uint64)
    always = find_table(blocks, ALWAYS, -1, -1)
    everyone = np.int64(blocks.table_group[always]) if always else np.int64(0)
    for row in range(total):
        if batch.vague[row]:
            rows, groups, n = _reach_by_ranges(blocks, batch, row, where, everyone, rows, groups, n)
    step = min(total, STEP)
    probe_rows = np.empty(step * tables, np.int32)
    probes = np.empty(step * tables, np.uint64)
    row = 0
    while row < total:
        end = row
        while end < total and end - row < step and not batch.vague[end]:
            end += 1
        need = n + step * (tables + 1)
        if need > len(rows):
            rows = lengthened(rows, need)
            groups = lengthened(groups, need)
        n, asked = _reach_by_values(
            blocks, batch, row, end, where, hashes, everyone, rows, groups, n, probe_rows, probes, 0
        )
        n = _look_up(blocks, probe_rows, probes, asked, rows, groups, n)
        row = end
        while row < total and batch.vague[row]:
            row += 1
    return rows, groups, n


@inner
def reach_by_topics(
    blocks: Blocks, topics: TopicView, batch: Batch, rows: I32, groups: I32, n: Int
) -> tuple[I32, I32, Int]:
    """Groups of the topics above, at and below a row's own."""
    for row in range(len(batch.carried)):
        node = np.int64(batch.topic[row])
        top = node
        # ancestors and the topic itself, then everything below it, depth first, without branches that hold nothing
        above = True
        while True:
            group = np.int64(blocks.topic_group[node])
            if group:
                if n == len(rows):
                    rows = lengthened(rows, 0)
                    groups = lengthened(groups, 0)
                rows[n] = row
                groups[n] = group
                n += 1
            if above:
                if node:
                    node = np.int64(topics.parent[node])
                    continue
                above = False
                node = top
                if not batch.exact[row]:
                    break
            following = np.int64(topics.first_child[node]) if blocks.topic_below[node] else np.int64(-1)
            while following < 0 and node != top:
                following = np.int64(topics.next_sibling[node])
                if following < 0:
                    node = np.int64(topics.parent[node])
            if following < 0:
                break
            node = following
    return rows, groups, n
