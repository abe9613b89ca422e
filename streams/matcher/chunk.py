"""One chunk on its way through an engine: `run` is the table of contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pastforward.schemas import (
    RendezvousColumns,
)
from pastforward.schemas.columns import (
    NO_BEST,
    PUBLICATION,
)
from pastforward.streams.matcher.backfill import request_backfill
from pastforward.streams.matcher.bidding import run_auctions
from pastforward.streams.matcher.coming_and_going import apply_subscriptions
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.live import match_live
from pastforward.streams.matcher.past import Parts, Told, match_past
from pastforward.streams.matcher.searches import Asked, PastSearch, make_search
from pastforward.streams.matcher.storing import store_rows, take_publications
from pastforward.streams.stages.packed import Packed

if TYPE_CHECKING:
    from pastforward.streams.matcher.engine import Engine

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Chunk:
    """Its rows, and what has become of them so far. The steps are functions of their own, each in a module of its name."""

    def __init__(
        self,
        engine: Engine,
        columns: RendezvousColumns,
        values: list[bytes],
        fresh: Flags,
        log_time: Rows,
        effects: Effects,
    ) -> None:
        self.engine, self.columns, self.values, self.effects = engine, columns, values, effects
        self.fresh, self.log_time = fresh, log_time
        self.came = fresh.copy()  # what has no effect is taken out of `fresh`, but lets time go on
        # publications and nothing else, as most chunks are: no row has to be picked
        self.plain = bool(((columns.kind == PUBLICATION) & fresh).all())
        self.added: dict[int, int] = {}  # handle → its row
        self.removed: dict[int, int] = {}
        self.handles: dict[int, int] = {}  # row → its handle
        self.resumed: dict[int, dict[int, int]] = {}  # row → when the pause began in which the version before was
        self.unused: list[int] = []  # handles of versions that never came into force
        self.duplicates: Rows = np.empty(0, np.int64)  # rows of publications that the store has dropped
        self.loud_from = 0
        self.amended: tuple[Rows, Packed] | None = None  # rows whose payload was stored once more, and how
        self.replaced = False  # some of them by a later one of this chunk, under the same id
        self.packed = Packed.of([])  # the values, once they are stored
        self.overlapping: dict[int, list[bytes]] = {}  # row of a self-joining subscription: records that it overlaps
        self.offsets: Sequence[int] = ()
        self.later: PastSearch | None = None  # what its subscriptions have not found yet

    def withhold(self, refused: Flags) -> None:
        """These rows have no effect; they let time go on."""
        if refused.any():
            self.fresh &= ~refused
            self.plain = False

    def run(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets
        apply_subscriptions(self)
        silent = self.is_silent()
        found = store_rows(self, "none" if silent else "both" if self.engine.index is None else "past")
        publications = take_publications(self, found)
        if not silent:
            if len(publications.rows):
                match_live(self, publications, found)
            match_past(self, found)
        run_auctions(self, publications, found, offsets)
        request_backfill(self, publications.rows)
        self._finish()

    def is_silent(self) -> bool:
        """Nothing has come under this version of the routing yet: every pair is the earlier version's to report, and need not be found."""
        return self.engine.progress.silent and not (self.columns.best[self.fresh] != NO_BEST).any()

    def remember(self) -> None:
        found = store_rows(self, "replay")
        publications = take_publications(self, found)
        request_backfill(self, publications.rows)

    def adopt(self) -> None:
        store_rows(self, "none")

    def remove(self, handle: int, row: int) -> None:
        self.removed[handle] = row
        name = self.engine.subscribers.name[handle]
        self.engine.subscribers.retire(name)
        self.effects.live[name] = None

    def as_amended(self) -> dict[bytes, bytes]:
        """What subscriptions of this chunk have found is what was stored before: own record → what is stored now."""
        if self.amended is None:
            return {}
        rows, packed = self.amended
        return dict(zip((self.values[row] for row in rows.tolist()), packed.list(), strict=True))

    def leave(
        self, parts: Parts, stored: Rows, rows: list[int], amended: Mapping[bytes, bytes], told: Sequence[Told]
    ) -> None:
        """The search goes on behind the chunk, for subscriptions of these rows. `told`: what they were notified of already."""
        engine = self.engine
        local = np.full(len(self.columns), -1, np.int64)
        local[rows] = np.arange(len(rows))
        horizon = np.array([engine.horizon(int(log_time)) for log_time in self.log_time[rows]], np.int64)
        asked = Asked(
            [self.values[row] for row in rows],
            [self.offsets[row] for row in rows],
            self.log_time[rows],
            horizon,
            {int(local[row]): found for row, found in self.overlapping.items() if local[row] >= 0},
            {int(local[row]): cut for row, cut in self.resumed.items() if local[row] >= 0},
        )
        holds = engine.number, engine.version, engine.index is not None
        self.later = make_search(*holds, parts, local[stored], asked, amended, engine.resuming)
        if engine.resuming is None:
            mine = [some._replace(row=local[some.row]) for some in told]
            self.effects.live.update(self.later.opened(mine))

    @property
    def all_rows(self) -> Rows:
        return np.arange(len(self.columns))

    def _finish(self) -> None:
        engine = self.engine
        now = int(self.log_time[-1])
        if self.added:
            engine.endings.watch([handle for handle in self.added if handle not in self.removed])
        for handle in engine.endings.pop(lambda ends_at: engine.over(ends_at, now)):
            self.remove(handle, len(self.values))
        engine.cut = engine.progress.cut()
