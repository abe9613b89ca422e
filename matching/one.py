"""One publication from Python, in one kernel: values in, slots out. Every microsecond of a single `match` counts here."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from matching.attributes import STRING
from matching.blocks.kernels import find
from matching.blocks.references import blocks_at
from matching.checking import batch_at, checked, known_at
from matching.columns import empty_batch, put_value
from matching.kernel import kernel
from matching.machine import load_i64
from matching.normal_form import PREVIOUS
from matching.publications import encoded
from matching.reference import pin
from matching.registry import Registry
from matching.scalars import Bool, Int

I32 = npt.NDArray[np.int32]

_ENTRIES: Final = 256  # attributes of one publication; what has more takes the ordinary way
_HEAP: Final = 1 << 14  # bytes of its strings


@kernel
def _match_one(
    blocks_address: Int, known_address: Int, batch_address: Int, entries: Int, count: Int, attributes: Int
) -> tuple[Bool, I32]:
    """`entries`: address of four numbers each: attribute, tag, bits, length. Returns whether all is sure, and the slots."""
    blocks = blocks_at(blocks_address)
    known = known_at(known_address)
    batch = batch_at(batch_address)
    for i in range(count):
        at = entries + 32 * i
        tag = load_i64(at + 8)
        bits = load_i64(at + 16)
        offset = bits if tag >= STRING else 0
        put_value(batch, i, load_i64(at), tag, bits, offset, load_i64(at + 24), batch.heap, known.strings)
    batch.start[1] = count
    rows, slots, n = find(blocks, known, batch, False, 1, attributes)
    _, slots, _, unsure = checked(known, batch, rows[:n], slots[:n], attributes)
    return unsure == 0, slots


class One(threading.local):
    """A batch of one row per thread, used again and again."""

    def __init__(self) -> None:
        self._batch = empty_batch(1, _ENTRIES, np.zeros(_HEAP, np.uint8))
        self._pinned = pin(self._batch)
        self._heap = memoryview(self._batch.heap)  # type: ignore[arg-type]

    def slots(
        self, registry: Registry, blocks_at: int, attributes: Mapping[str, object], published_at: int, expires_at: int
    ) -> I32 | None:
        """The slots that match at the root; None if this is not the way for such a publication."""
        numbers = registry.numbers
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
        batch = self._batch
        batch.carried[0] = carried
        batch.published_at[0] = published_at
        batch.expires_at[0] = expires_at
        entries = array("q", flat)
        sure, slots = _match_one(
            blocks_at, registry.known_at, self._pinned.address, entries.buffer_info()[0], count, len(registry.names)
        )
        return slots if sure else None
