"""Loads of one kind of condition each, and publications to match them with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Circles:
    """All over the globe, as dense everywhere."""

    lon: F64
    lat: F64
    radius_m: float

    @property
    def predicates(self) -> pa.Table:
        count = len(self.lon)
        numbers = np.stack([self.lon, self.lat, np.full(count, self.radius_m)], axis=1).astype("<f8")
        packed = pa.Array.from_buffers(pa.binary(24), count, [None, pa.py_buffer(numbers.tobytes())])
        return pa.table(
            {
                "subscription_id": np.arange(count),
                "attribute": one_word("position", count),
                "operator": one_word("within", count),
                "value_binary": packed,
            }
        )


def one_word(word: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([word]))


def on_the_globe(count: int, seed: int) -> tuple[F64, F64]:
    """Longitudes and latitudes, as dense everywhere."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))


def circles(count: int, radius_m: float) -> Circles:
    return Circles(*on_the_globe(count, 1), radius_m)


def points(count: int = 4000) -> pa.Table:
    lon, lat = on_the_globe(count, 2)
    return pa.table({"position": pa.StructArray.from_arrays([pa.array(lon), pa.array(lat)], ["lon", "lat"])})


LETTERS = np.array(list("etaoinshrdlcumwfgypbvkjxqz"))
_FREQUENCIES = 1.0 / (np.arange(26) + 4.0)


def words(count: int, seed: int = 3) -> list[str]:
    """Different ones of five to ten letters, some letters more frequent than others."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = rng.choice(LETTERS, (count, 10), p=_FREQUENCIES / _FREQUENCIES.sum())
        for letters, length in zip(drawn, rng.integers(5, 11, count).tolist(), strict=True):
            found["".join(letters[:length])] = None
    return list(found)[:count]


def texts(vocabulary: list[str], length: int, count: int = 2000) -> list[str]:
    """Of words, cut off at a length."""
    rng = np.random.default_rng(4)
    per_text = length // 5
    drawn = rng.integers(0, len(vocabulary), (count, per_text))
    return [" ".join(vocabulary[i] for i in row)[:length] for row in drawn.tolist()]


def text_predicates(operator: str, patterns: list[str]) -> pa.Table:
    return pa.table(
        {
            "subscription_id": np.arange(len(patterns)),
            "attribute": one_word("title", len(patterns)),
            "operator": one_word(operator, len(patterns)),
            "value_string": patterns,
        }
    )


def lists(count: int, members: int, domain: int) -> npt.NDArray[np.int64]:
    """A row of values for each."""
    return np.random.default_rng(5).integers(0, domain, (count, members))
