"""The ids of an index: integers, or strings by their number, never both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.matching.conditions.types import is_encodable
from pastforward.matching.index.arrow import int64_column
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.strings import gather, joined
from pastforward.matching.index.subscription import TWO_63, Identity, plain

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Ids:
    """Translates the caller's ids into the registry's numbers and back. The first id decides whether ids are strings."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.are_texts: bool | None = None  # None: no id has been seen yet

    def check_kinds(self, ids: Iterable[Identity]) -> None:
        """Raises if integers and strings would be mixed."""
        kinds = set(map(type, ids))
        if not kinds:
            return
        text = self.are_texts if self.are_texts is not None else str in kinds
        wrong = next((kind for kind in kinds if issubclass(kind, str) != text), None)
        if wrong is not None:
            kinds_of_ids = ("strings", "integers") if text else ("integers", "strings")
            example = next(i for i in ids if type(i) is wrong)
            raise TypeError(
                f"the ids of this index are {kinds_of_ids[0]}, {example!r} is not; keep {kinds_of_ids[1]} in another index"
            )
        self.are_texts = text

    def head(self, identity: Identity) -> int:
        """The head slot of a subscription, -1 for what is not there."""
        return int(self.heads([identity])[0])

    def heads(self, ids: Sequence[Identity] | I64) -> I32:
        """The head slots of subscriptions, -1 for what is not there."""
        if isinstance(ids, np.ndarray) and not self.are_texts:
            return self._registry.find(ids.astype(np.int64))
        known = [plain(identity) for identity in ids]
        heads = np.full(len(known), -1, np.int32)
        if self.are_texts is None:
            return heads
        numbers: I64 = np.full(len(known), -1, np.int64)
        if self.are_texts:
            ours = [i for i, identity in enumerate(known) if isinstance(identity, str) and is_encodable(identity)]
            numbers[ours] = self._registry.id_strings.find([known[i].encode() for i in ours])  # type: ignore[union-attr]
            ours = [i for i in ours if numbers[i] >= 0]
        else:
            ours = [i for i, identity in enumerate(known) if isinstance(identity, int) and -TWO_63 <= identity < TWO_63]
            numbers[ours] = np.array([known[i] for i in ours], np.int64)
        heads[ours] = self._registry.find(numbers[ours])
        return heads

    def taken(self, ids: list[Identity]) -> I64:
        """The numbers under which the registry keeps new ids; a string is held once."""
        if self.are_texts:
            return self._registry.id_strings.intern(*joined([str(i).encode() for i in ids])).astype(np.int64)
        return np.array(ids, np.int64)

    def names(self, numbers: I64) -> list[Identity]:
        """The caller's ids by the registry's numbers."""
        if self.are_texts:
            return [self._registry.id_strings.text(number).decode() for number in numbers.tolist()]
        names: list[Identity] = numbers.tolist()
        return names

    def names_of_slots(self, slots: I32) -> list[Identity]:
        return self.names(self._registry.slots.ids[slots])

    def column(self, slots: I32) -> pa.Array:
        """The ids of slots as an Arrow column."""
        numbers = self._registry.slots.ids.take(slots)
        if not self.are_texts:
            return int64_column(numbers)
        offsets, heap = gather(self._registry.id_strings.view, numbers)
        return pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(heap))
