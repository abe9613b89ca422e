"""When what was removed is cleared away: what nobody uses must not take more than a part of what is held."""

from __future__ import annotations

from typing import Final

from pastforward.matching.blocks.auto import Auto
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.registry import Registry

_LITTLE: Final = 256 * 1024  # bytes that are not worth the work
_FEW_NAMES: Final = 32
_NAME_BYTES: Final = 9_000  # of an attribute: its splits, and a sample of its values
_SOME: Final = 256  # removed slots after which one looks; sooner where what they leave may be a good part of many names
_EMPTY: Final = 8_400_000  # bytes of an empty index, most of them never touched


class Waste:
    """Counts what writes leave behind, and says when all should be laid out anew."""

    def __init__(self) -> None:
        self._dropped = 0  # slots, since it was last looked what they leave behind
        self._names_then = 0  # attributes when it was last looked whether subscriptions still name them
        self._unnamed = 0  # attributes that nobody may name any more, at most

    def dropped(self, slots: int) -> None:
        self._dropped += slots

    def is_much(self, registry: Registry, auto: Auto, relaxed: Algorithm) -> bool:
        """Asked after each write, so it looks only now and then."""
        names = len(registry.names)
        if names > self._names_then + self._names_then // 2 + _FEW_NAMES:
            self._names_then = used = registry.attributes_used()
            if names > used + used // 4 + _FEW_NAMES // 2:
                return True
            self._names_then = names
            return False
        if self._dropped <= min(_SOME, max(_FEW_NAMES, names // 8)) and 4 * registry.free_words <= _LITTLE:
            return False
        self._unnamed = min(names, self._unnamed + self._dropped * registry.longest)
        self._dropped = 0
        wasted = registry.wasted + auto.wasted + relaxed.wasted
        held = registry.nbytes + auto.nbytes + relaxed.nbytes - _EMPTY
        if _is_much(wasted + _NAME_BYTES * self._unnamed, held) and not _is_much(wasted, held):
            self._unnamed = names - registry.attributes_used()
        return _is_much(wasted + _NAME_BYTES * self._unnamed, held)

    def cleared(self, registry: Registry) -> None:
        """All has been laid out anew."""
        self._names_then, self._unnamed = len(registry.names), 0


def _is_much(wasted: int, held: int) -> bool:
    """So much that laying out the rest anew is worth it."""
    return wasted > _LITTLE and 4 * wasted > held
