"""One publication from Python, in one kernel: values in, slots out. Every microsecond of a single `match` counts here."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import pin
from pastforward.columns.attributes import INTEGER, STRING
from pastforward.columns.kernel import kernel
from pastforward.columns.machine import load_i32, load_i64
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.kernels import find
from pastforward.matching.blocks.references import blocks_at
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.batch import empty_batch, put_value
from pastforward.matching.index.checking import batch_at, checked, known_at
from pastforward.matching.index.places import AXES
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.values import encoded

I32 = npt.NDArray[np.int32]

_ENTRIES: Final = 256  # attributes of one publication; what has more takes the ordinary way
_HEAP: Final = 1 << 14  # bytes of its strings
_SHAPES: Final = 64  # sets of names remembered
_INTEGERS: Final = {int}


@kernel
def _match_one(
    blocks_address: Int, known_address: Int, batch_address: Int, entries: Int, count: Int, numbers: Int, attributes: Int
) -> tuple[Bool, I32]:
    """`entries`: address of four numbers each: attribute, tag, bits, length. Or, if `numbers` is the address of attributes (-1: none that
    matters), of integers alone. Returns whether all is sure, and the slots."""
    blocks = blocks_at(blocks_address)
    known = known_at(known_address)
    batch = batch_at(batch_address)
    n = 0
    for i in range(count):
        at = entries + 32 * i
        length = np.int64(0)
        offset = np.int64(0)
        if numbers:
            attribute = np.int64(load_i32(numbers + 4 * i))
            tag = np.int64(INTEGER)
            bits = load_i64(entries + 8 * i)
        else:
            attribute = load_i64(at)
            tag = load_i64(at + 8)
            bits = load_i64(at + 16)
            if tag >= STRING:
                offset = bits
                length = load_i64(at + 24)
        if attribute >= 0:
            n = put_value(batch, n, attribute, (tag, bits, offset, length), batch.heap, known.strings, known.axes)
    batch.start[1] = n
    rows, slots, n = find(blocks, known, batch, False, 1, attributes)
    _, slots, _, unsure = checked(known, batch, rows[:n], slots[:n], attributes)
    return unsure == 0, slots


class One(threading.local):
    """A batch of one row per thread, used again and again."""

    def __init__(self) -> None:
        # by the names of a publication, and how many attributes had numbers then: theirs, and how many are carried
        self._numbers: dict[tuple[tuple[str, ...], int], tuple[I32, int, int]] = {}
        self._batch = empty_batch(1, (1 + AXES) * _ENTRIES, np.zeros(_HEAP, np.uint8))
        self._pinned = pin(self._batch)
        self._heap = memoryview(self._batch.heap)  # type: ignore[arg-type]

    def slots(
        self, registry: Registry, blocks_at: int, attributes: Mapping[str, object], published_at: int, expires_at: int
    ) -> I32 | None:
        """The slots that match at the root; None if this is not the way for such a publication."""
        numbers = registry.numbers
        if set(map(type, attributes.values())) == _INTEGERS and len(attributes) <= _ENTRIES:
            try:
                values = array("q", cast("list[int]", list(attributes.values())))
            except OverflowError:  # an integer beyond 64 bits, which the longer way knows
                pass
            else:
                _, address, carried = self._attributes(tuple(attributes), numbers)
                return self._found(registry, blocks_at, values, len(values), address, carried, published_at, expires_at)
        flat: list[int] = []
        count = carried = used = 0
        for name, value in attributes.items():
            if value is None:
                continue
            carried += not name.startswith(PREVIOUS)
            number = numbers.get(name)
            if number is None:
                continue
            if type(value) is int and -(2**63) <= value < 2**63:
                flat += (number, 2, value, 0)
            else:
                tag, bits, text = encoded(value)
                if text is not None:
                    end = used + len(text)
                    if end > _HEAP:
                        return None
                    self._heap[used:end] = text
                    flat += (number, tag, used, len(text))
                    used = end
                else:
                    flat += (number, tag, bits, 0)
            count += 1
        if count > _ENTRIES:
            return None
        return self._found(registry, blocks_at, array("q", flat), count, 0, carried, published_at, expires_at)

    def _attributes(self, names: tuple[str, ...], numbers: dict[str, int]) -> tuple[I32, int, int]:
        """Their numbers, the address of these, and how many are the publication's own."""
        key = names, len(numbers)
        found = self._numbers.get(key)
        if found is None:
            if len(self._numbers) >= _SHAPES:
                self._numbers.clear()
            given = np.array([numbers.get(name, -1) for name in names], np.int32)
            own = sum(not name.startswith(PREVIOUS) for name in names)
            found = self._numbers[key] = given, given.__array_interface__["data"][0], own
        return found

    def _found(
        self,
        registry: Registry,
        blocks_at: int,
        entries: array[int],
        count: int,
        numbers: int,
        carried: int,
        published_at: int,
        expires_at: int,
    ) -> I32 | None:
        batch = self._batch
        batch.carried[0] = carried
        batch.published_at[0] = published_at
        batch.expires_at[0] = expires_at
        sure, slots = _match_one(
            blocks_at,
            registry.known_at,
            self._pinned.address,
            entries.buffer_info()[0],
            count,
            numbers,
            len(registry.names),
        )
        return slots if sure else None
