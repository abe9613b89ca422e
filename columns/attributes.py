"""The attributes of a batch of publications, in columns: what every codec fills and every kernel reads.

Rows are publications. The attributes of row `i` are the entries `start[i]:start[i + 1]`, in any order, no name twice.
An entry has a name (a number in `names`), a tag that gives its type, and 64 bits:

| tag            | bits                                     | bytes in `heap` at `offset`, `length` long |
| BOOLEAN        | 0 or 1                                   |                                            |
| INTEGER        | the number                               |                                            |
| FLOAT          | the bits of the IEEE double              |                                            |
| TIMESTAMP      | microseconds since 1970, UTC             |                                            |
| STRING         | offset                                   | UTF-8                                      |
| POINT          | offset                                   | lon, lat: two little-endian doubles        |
| CIRCLE         | offset                                   | lon, lat, radius_m: three                  |
| BOX            | offset                                   | min_x, min_y, max_x, max_y: four           |
| PATH           | offset                                   | the dotted text, ASCII                     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

BOOLEAN: Final = 1
INTEGER: Final = 2
FLOAT: Final = 3
TIMESTAMP: Final = 4
STRING: Final = 5
POINT: Final = 6
CIRCLE: Final = 7
BOX: Final = 8
PATH: Final = 9


@dataclass(slots=True)
class Attributes:
    names: list[str]
    start: npt.NDArray[np.int64]
    name: npt.NDArray[np.int32]
    tag: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.int64]
    length: npt.NDArray[np.int32]
    heap: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.start) - 1
