"""Conditions of rendezvous records in columns, without a Python object for each: see `matching.index.flat`."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.texts import Texts, as_kernel
from pastforward.matching.index.flat import Flat
from pastforward.schemas.chunk_reader import SEED
from pastforward.schemas.forms import Forms
from pastforward.schemas.kernels import read_conditions as kernel

_SMALLEST_PART: Final = (
    11  # bytes of a constraint: the name's length and a letter, family, bounds, and what there is not
)
_NAMES: Final = 4096  # of attributes in a chunk; what has more goes the plain way


def flat_conditions(forms: Forms, rows: npt.NDArray[np.int64]) -> tuple[Flat, npt.NDArray[np.bool_]]:
    """Of some rows, and which of them were read. The others have no disjunct in the columns, and are to be asked of `forms`."""
    length = as_kernel(forms.length[rows], np.int32)
    for i in np.flatnonzero(np.isin(rows, list(forms.known))).tolist() if forms.known else ():
        length[i] = -1
    size = int(np.maximum(length, 0).sum(dtype=np.int64))
    parts = size // _SMALLEST_PART + 1
    first, start = np.zeros(len(rows) + 1, np.int64), np.zeros(size + 1, np.int64)
    name, kind, flags = np.empty(parts, np.int32), np.empty(parts, np.uint8), np.empty(parts, np.uint8)
    low, high = np.empty(parts, np.int64), np.empty(parts, np.int64)
    # a constraint has two bounds or one value, and one of several values is not read
    text_at, text_length = np.empty(4 * parts, np.int64), np.empty(4 * parts, np.int32)
    table, name_at, name_length = (
        np.full(2 * _NAMES, -1, np.int32),
        np.empty(_NAMES, np.int64),
        np.empty(_NAMES, np.int64),
    )
    fill = np.zeros(4, np.int64)
    read = np.zeros(len(rows), np.bool_)
    heap = as_kernel(forms.heap, np.uint8)
    kernel.read_conditions(
        heap, as_kernel(forms.at[rows], np.int64), length, (first, start),
        (name, kind, flags, low, high, text_at, text_length), (table, SEED, name_at, name_length), fill, read,
    )  # fmt: skip
    used, disjuncts, texts, names = fill.tolist()
    return (
        Flat(
            first,
            start[: disjuncts + 1],
            name[:used],
            kind[:used],
            flags[:used],
            low[:used],
            high[:used],
            [
                heap[at : at + size].tobytes().decode()
                for at, size in zip(name_at[:names].tolist(), name_length[:names].tolist(), strict=True)
            ],
            Texts(heap, text_at[:texts], text_length[:texts]),
        ),
        read,
    )
