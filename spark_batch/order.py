"""Dewey paths as text whose order is the order of the paths, for columns that keep the least and the greatest value of a file.

Each component is a letter that tells how many digits follow (`a` is one), then the digits: `1.10` is `a1b10`, after `1.9`, which is
`a1a9`. The root is the empty text. What is below a path begins with its text, and no other path does, so a subtree is one range.
Bytes would be shorter, but Delta keeps no least and greatest value of a binary column, and does not cluster by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts

AFTER: Final = "~"  # above every letter that follows a path's text

_DOT: Final = 46
_A: Final = 96  # the letter before `a`


def order_text(topic: str) -> str:
    return "".join(chr(_A + len(part)) + part for part in topic.split(".")) if topic else ""


def ancestors(topic: str) -> list[str]:
    """The order texts of everything above a topic, the root first."""
    parts = topic.split(".") if topic else []
    return [order_text(".".join(parts[:depth])) for depth in range(len(parts))]


def order_texts(topics: Texts) -> Texts:
    """The order texts of a column of valid topics; what has no topic gets the root."""
    length = np.where(topics.length > 0, topics.length + 1, 0).astype(np.int32)
    at = np.zeros(len(length), np.int64)
    if len(length) > 1:
        np.cumsum(length[:-1], out=at[1:])
    heap = np.empty(int(length.sum()), np.uint8)
    _write(topics.heap, topics.at, topics.length, heap, at)
    return Texts(heap, at, length)


@kernel
def _write(source: Any, at: Any, length: Any, heap: npt.NDArray[np.uint8], to: npt.NDArray[np.int64]) -> None:
    for row in range(len(at)):
        if length[row] <= 0:
            continue
        mark = to[row]  # where the letter of the component goes
        out = mark + 1
        for i in range(at[row], at[row] + length[row]):
            if source[i] == _DOT:
                heap[mark] = _A + out - mark - 1
                mark = out
            else:
                heap[out] = source[i]
            out += 1
        heap[mark] = _A + out - mark - 1
