"""A lane per owned partition: joins what has come in while the last chunk was being sent, bounded by records and by bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from pastforward.streams.transport.consumer import nbytes_of

LIMIT: Final = 20_000  # records that wait in a lane; then its partition is not fetched, and those of other lanes are
LIMIT_BYTES: Final = 16 << 20  # of their values, in the same way
SILENCE: Final = 1.0  # seconds after which a silent partition is told that time goes on


class Lane:
    """`handle` is called with all that is waiting, one call at a time; `silent` when nothing has come for a second.

    `hold` is called with True when no more should be fetched for this lane, and with False when there is room again. Nobody waits for a
    lane: what was on its way when it became full is taken as well, and that is bounded by the fetches.

    `further` is called when nothing is waiting, again as long as it says that it has done something.

    An exception of one of them ends the lane and goes to `failed`, which ends the worker.
    """

    def __init__(
        self,
        handle: Callable[[list[Any]], Awaitable[None]],
        silent: Callable[[], Awaitable[None]],
        failed: Callable[[BaseException], Awaitable[None]],
        hold: Callable[[bool], None] = lambda _: None,
        further: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._handle, self._silent, self._failed, self._hold, self._further = handle, silent, failed, hold, further
        self._waiting: list[Any] = []
        self._nbytes = 0  # of what waits
        self._stopped = False
        self._come = asyncio.Event()
        self._held = False
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()  # when there was something to do
        self._busy = False
        self._timer = self._loop.call_later(SILENCE, self._look)
        self._task = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def put(self, records: Sequence[Any]) -> None:
        self._waiting += records
        self._nbytes += nbytes_of(records)
        self._come.set()
        if (len(self._waiting) >= LIMIT or self._nbytes >= LIMIT_BYTES) and not self._held:
            self._held = True
            self._hold(True)

    async def stop(self) -> None:
        """Drops what waits: it is not committed, and the next owner reads it. Lets what runs end. Told by a flag: a cancellation could
        cut off what runs."""
        self._stopped = True
        self._waiting = []
        self._come.set()
        await asyncio.gather(self._task, return_exceptions=True)

    def _look(self) -> None:
        """One timer for all records: a time-out for each wait would cost more than the rest of a lane."""
        quiet = 0.0 if self._busy else self._loop.time() - self._last
        if quiet >= SILENCE:
            self._come.set()  # with nothing that has come
            quiet = 0.0
        self._timer = self._loop.call_later(SILENCE - quiet, self._look)

    async def _run(self) -> None:
        try:
            while True:
                if self._further is not None and not self._come.is_set():
                    self._busy = True
                    more = await self._further()
                    self._busy = False
                    if more:
                        self._last = self._loop.time()
                        continue
                await self._come.wait()
                if self._stopped:
                    return
                records, self._waiting, self._nbytes = self._waiting, [], 0
                self._come.clear()
                if self._held:
                    self._held = False
                    self._hold(False)
                self._busy = True
                await (self._handle(records) if records else self._silent())
                self._busy, self._last = False, self._loop.time()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await self._failed(error)
        finally:
            self._timer.cancel()
