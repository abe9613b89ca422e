"""Where rows live on disk, so that what has expired goes without being looked at.

Rows are written to column families by how long they will still be needed: up to 1 s, 4 s, 16 s, ... of log time, and for
ever. A family is closed for new rows when it has been open for as long as its class lasts, and dropped as a whole, files and
all, when log time has passed the last moment at which any of its rows may matter. No scan, no tombstone, no clock.
Rows live at most as long again as they are needed. A class has two or three families at a time; few loads have many classes.

`dual` has one series of families for both kinds, `two` one for each kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pastforward.columns.times import SECOND
from pastforward.state.filters import Filter
from pastforward.state.kernels.disk_rows import FOREVER

SHORTEST: Final = SECOND
"""Microseconds of the first class: making a family costs 5 ms, so not more often than once a second of log time."""
FEWEST: Final = 16_384
"""Rows before a family is closed: a slow log does not make families that hold next to nothing."""

SERIES: dict[str, tuple[str, str]] = {
    "dual": ("both", "both"),
    "two": ("subscriptions", "publications"),
}
"""By layout: the series of subscriptions and of publications. A layout that is registered adds its own."""


@dataclass(slots=True)
class Family:
    """A column family and what is known of its rows."""

    name: str
    series: str
    life: int  # class
    opened_at: int  # log time
    until: int  # the last log time at which a row may matter
    rows: int
    kinds: int  # bit 0: it holds subscriptions, bit 1: publications
    slot: int  # the number that items carry
    rdict: Any = None
    handle: Any = None
    dropped_at_sweep: int = -1
    filter: Filter = field(default_factory=Filter)  # beyond the budget: ids, and topics of publications

    def record(self) -> list[Any]:
        return [self.name, self.series, self.life, self.opened_at, self.until, self.rows, self.kinds]

    def holds(self, kind: int) -> bool:
        """The two kinds often live for different times: half of the look-ups in `dual` need not be made."""
        return bool(self.kinds >> kind & 1)

    def full(self, log_time: int) -> bool:
        if self.life == FOREVER:
            return False
        return self.rows >= FEWEST and log_time - self.opened_at >= SHORTEST * 4**self.life

    def passed(self, log_time: int) -> bool:
        return log_time > self.until and self.rows >= FEWEST
