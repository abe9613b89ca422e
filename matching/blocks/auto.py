"""The default: blocks behind boxes, reached by the access predicate that is cheapest for each subscription.

What is cheapest is learnt: from the subscriptions, which values and which pairs of attributes they ask for; from the publications, which
attributes they carry. Adaptation is done in small pieces inside writes: chunks split when they are full and are drawn anew when they have
lost much; attributes whose values have drifted are coded anew, leaf by leaf; slots of tables that have become dear move.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import pin
from pastforward.matching.blocks import kernels
from pastforward.matching.blocks import view as v
from pastforward.matching.blocks.scratch import ROOM, scratch
from pastforward.matching.blocks.tiling import MOST
from pastforward.matching.blocks.view import Blocks, capacity, empty_blocks, grown
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.registry import OF_AXIS, Registry

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

_SAMPLE: Final = 1 << 15  # slots of a write that are learnt from: enough for shares of a thousandth
_SPARSE: Final = 4  # once so many are known, one in four of a batch says what is needed
_BATCH: Final = 64  # fewer than this are all learnt from: one in four would be none
_LARGE: Final = 2000  # slots of a write that are worth a plan, when they at least double the index
_NOTED: Final = 16  # publications of a batch that are learnt from
_FIRST_CHECK: Final = (
    64  # slots after which codes are held against the values for the first time; then each time twice as many
)


_NO_SIZES: Final = np.zeros(0, np.int64)
_ACCESS: Final = {
    v.EQUAL_TWO: "values of",
    v.EQUAL_ONE: "value of",
    v.PAIR: "ranges of",
    v.SINGLE: "range of",
    v.TOPIC: "topic",
    v.ALWAYS: "none: every publication",
    v.LISTED: "list of values of",
    v.ENDING: "end of",
    v.HOLDING: "text within",
}


class Auto(Algorithm):
    name: ClassVar[str] = "auto"
    takes_conditions: ClassVar[bool] = True

    def __init__(self, registry: Registry, relaxed: bool = False) -> None:
        """`relaxed`: for slots that publications without their attributes may satisfy."""
        super().__init__(registry)
        self._relaxed = relaxed
        self._set(empty_blocks())
        self._longest = 8
        self._scratch = pin(scratch(self._longest))
        self._until_check = _FIRST_CHECK
        self._recoding = False

    def _set(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._pinned = pin(blocks)
        self._at = self._pinned.address

    def insert(self, slots: I32) -> None:
        self._fit()
        sparse = len(slots) >= _BATCH and int(self._blocks.state[v.LIVE]) >= _SAMPLE
        stride = max(_SPARSE if sparse else 1, len(slots) // _SAMPLE)
        kernels.sample_slots(self._at, self.registry.known_at, slots, stride, self._scratch.address)
        large = len(slots) >= _LARGE and len(slots) >= int(self._blocks.state[v.LIVE])
        if large:
            kernels.plan_pairs(self._at, self.registry.known_at, slots, self._scratch.address)
        self._bind_new()
        self._check_codes(len(slots))
        written = len(slots)
        if self.registry.has_keyed and not self._relaxed:
            slots = self._post(slots)
        self._place(slots, large)
        self._maintain(written)

    def _post(self, slots: I32) -> I32:
        """Those that stand under keys go there; returns the others."""
        rest = np.empty(len(slots), np.int32)
        done = left = 0
        while True:
            done, left, short = kernels.post_slots(
                self._at, self.registry.known_at, slots, done, rest, left, self._scratch.address
            )
            if done == len(slots):
                return rest[:left]
            self._grow_postings(short)

    def _grow_postings(self, need: int) -> None:
        """Whatever is short for so many more."""
        state = self._blocks.state
        for pool, live in (("posting", v.LIVE_POSTINGS), ("key", v.LIVE_KEYS)):
            have = capacity(self._blocks, pool)
            if int(state[live]) + need + 2 > have:
                self._set(grown(self._blocks, pool, max(int(state[live]) + need + 2, have + have // 2)))
        if 2 * (int(state[v.KEY_CELLS]) + need + 1) > len(self._blocks.key_cells):
            cells = 16
            while cells < 3 * (int(state[v.LIVE_KEYS]) + need + 1):
                cells *= 2
            self._set(self._blocks._replace(key_cells=np.zeros(cells, np.int32)))
            kernels.rebuild_key_cells(self._at)

    def _place(self, slots: I32, large: bool) -> None:
        if not len(slots):
            return
        groups = np.empty(len(slots), np.int32)
        lanes, codes = np.empty(9 * len(slots), np.uint8), np.empty(4 * len(slots), np.uint8)
        done = 0
        while True:
            done = int(
                kernels.assign(
                    self._at, self.registry.known_at, slots, done, not self._relaxed, self._scratch.address, groups,
                    lanes, codes,
                )
            )  # fmt: skip
            if done == len(slots):
                break
            self._grow()
        order = np.argsort(groups, kind="stable")
        room = self._scratch
        sizes = np.bincount(groups) if large or len(slots) > ROOM else _NO_SIZES
        if sizes.max(initial=0) > ROOM:
            room = pin(scratch(self._longest, int(sizes.max())))
        if large:
            chunks = -(-sizes[sizes > v.INLINE_SLOTS] // MOST)
            self._reserve("leaf", int(self._blocks.state[v.LEAVES]) + 32 * int(chunks.sum()) + 200)
            self._reserve("node", int(self._blocks.state[v.NODES]) + int((chunks + (chunks + 31) // 32).sum()) + 100)
        done = 0
        while True:
            done = int(
                kernels.build(self._at, self.registry.known_at, slots, order, groups, lanes, codes, done, room.address)
            )
            if done == len(slots):
                break
            self._grow()
            following = groups[order[done:]]
            if not int(self._blocks.group_count[following[0]]):
                self._make_room_for(int((following == following[0]).sum()))

    def remove(self, slots: I32) -> None:
        kernels.remove(self._at, self.registry.known_at, slots)
        self._maintain(len(slots))

    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        pinned = pin(batch)
        rows, slots, n = kernels.candidates(
            self._at,
            self.registry.known_at,
            pinned.address,
            self._relaxed,
            0 if self._relaxed else max(1, batch.rows // _NOTED),
            len(self.registry.names),
        )
        return rows[:n], slots[:n]

    def matches(self, batch: int, rows: int) -> tuple[I32, I32, U8, int]:
        """The short way, for a batch at an address: verified already; rows, slots and answers by row, and how many are unsure."""
        found: tuple[I32, I32, U8, int] = kernels.matches(
            self._at,
            self.registry.known_at,
            batch,
            max(1, rows // _NOTED),
            len(self.registry.names),
        )
        return found

    @property
    def blocks_address(self) -> int:
        """For a kernel that does everything at once; not for relaxed ones."""
        return self._at

    def appraise(self, slot: int) -> tuple[str, float]:
        """For a slot that is registered but not inserted: its access predicate in words, and nanoseconds a publication."""
        self._fit()
        kind, a, b, cost = kernels.appraise(
            self._at, self.registry.known_at, slot, not self._relaxed, self._scratch.address
        )
        names = [self.registry.names[attribute].lstrip(OF_AXIS) for attribute in (a, b) if attribute >= 0]
        return " ".join([_ACCESS[kind], " and ".join(names)]).strip(), cost

    def counters(self) -> dict[str, int | float]:
        state = self._blocks.state
        names = {
            "slots": v.LIVE, "groups": v.LIVE_GROUPS, "leaves": v.LIVE_LEAVES, "nodes": v.LIVE_NODES, "splits": v.SPLIT_COUNT,
            "tilings": v.TILE_COUNT, "moves": v.MOVE_COUNT, "recodings": v.RECODE_COUNT, "epoch": v.EPOCH,
            "posted": v.POSTED, "keys": v.LIVE_KEYS,
        }  # fmt: skip
        found: dict[str, int | float] = {name: int(state[at]) for name, at in names.items()}
        found["tables"] = int((self._blocks.table_count[1 : int(state[v.TABLES])] > 0).sum())
        return found

    @property
    def nbytes(self) -> int:
        """Of all arrays, what is spare included."""
        return sum(array.nbytes for array in self._blocks)

    @property
    def wasted(self) -> int:
        """Bytes of leaves, nodes and groups that were given back, and wait to be used again."""
        state = self._blocks.state
        spare = {
            "leaf": int(state[v.LEAVES] - state[v.LIVE_LEAVES]),
            "node": int(state[v.NODES] - state[v.LIVE_NODES]),
            "group": int(state[v.GROUPS] - state[v.LIVE_GROUPS]),
            "posting": int(state[v.POSTINGS] - state[v.LIVE_POSTINGS]),
            "key": int(state[v.KEYS] - state[v.LIVE_KEYS]),
        }
        return sum(
            units * sum(per_unit * getattr(self._blocks, name).itemsize for name, per_unit in v.POOLS[pool].items())
            for pool, units in spare.items()
        )

    def _fit(self) -> None:
        """Arrays by attribute, slot and topic reach as far as the registry's."""
        registry = self.registry
        needs = (
            ("attribute", len(registry.names)),
            ("slot", registry.slot_limit),
            ("topic", len(registry.known.topics.parent)),
        )
        for pool, need in needs:
            have = capacity(self._blocks, pool)
            if need > have:
                self._reserve(pool, max(need + need // 8, have + have // 2))
        self._blocks.state[v.NAMES] = len(registry.names)
        if registry.longest > self._longest:
            self._longest = 2 * registry.longest
            self._scratch = pin(scratch(self._longest))

    def _reserve(self, pool: str, need: int) -> None:
        if need > capacity(self._blocks, pool):
            self._set(grown(self._blocks, pool, need))

    def _make_room_for(self, members: int) -> None:
        """For a group that is laid out at once: as much as `has_room_for` asks for."""
        chunks = -(-members // MOST)
        state = self._blocks.state
        for pool, counter, more in (
            ("leaf", v.LEAVES, 32 * chunks + 81),
            ("node", v.NODES, chunks + -(-chunks // 32) + 9),
        ):
            have = capacity(self._blocks, pool)
            need = int(state[counter]) + more
            if need > have:
                self._set(grown(self._blocks, pool, max(need, have + have // 2)))

    def _grow(self) -> None:
        """Whatever is short for one more slot, and nothing else: see `has_room`."""
        state = self._blocks.state
        for pool, counter, spare in (
            ("leaf", v.LEAVES, 80),
            ("node", v.NODES, 8),
            ("group", v.GROUPS, 4),
            ("table", v.TABLES, 4),
        ):
            have = capacity(self._blocks, pool)
            if int(state[counter]) + spare >= have:
                self._set(grown(self._blocks, pool, have + max(have // 2, 2 * spare)))
        cells, tables = len(self._blocks.group_cells), len(self._blocks.table_cells)
        if 2 * (int(state[v.GROUP_CELLS]) + 4) >= cells:
            # released cells go with it, so it may even get smaller
            cells = 64
            while cells < 3 * (int(state[v.LIVE_GROUPS]) + 8):
                cells *= 2
        elif 2 * (int(state[v.TABLES]) + 4) < tables:
            return
        while 2 * (int(state[v.TABLES]) + 4) >= tables:
            tables *= 2
        self._set(self._blocks._replace(group_cells=np.zeros(cells, np.int32), table_cells=np.zeros(tables, np.int32)))
        kernels.rebuild_cells(self._at)

    def _bind_new(self) -> None:
        for attribute in kernels.unbound(self._at, len(self.registry.names)).tolist():
            self._bind(attribute)

    def _bind(self, attribute: int) -> None:
        have = capacity(self._blocks, "split")
        if int(self._blocks.state[v.SPLIT_ROWS]) + 2 >= have:
            self._set(grown(self._blocks, "split", have + max(have // 2, 4)))
        kernels.bind(self._at, attribute)

    def _check_codes(self, added: int) -> None:
        """Now and then: do the codes still fit what subscriptions ask for?"""
        self._until_check -= added
        if self._until_check > 0 or self._recoding:
            return
        self._until_check = max(_FIRST_CHECK, int(self._blocks.state[v.LIVE]) // 2)
        for attribute in kernels.drifted(self._at, len(self.registry.names)).tolist():
            self._bind(attribute)
            self._recoding = True
        if self._recoding:
            self._blocks.state[v.SWEEP] = 1

    def _maintain(self, written: int) -> None:
        """As much work as there was writing, so that it keeps pace and no write takes long for it."""
        while True:
            ended = bool(
                kernels.sweep(
                    self._at, self.registry.known_at, 2 * written + 64, not self._relaxed, self._scratch.address
                )
            )
            if ended or kernels.has_room(self._at):
                break
            self._grow()
        if ended and self._recoding:
            kernels.unbind_old(self._at)
            self._recoding = False
