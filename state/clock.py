"""A store's log time, its windows, and what they have given up: numbers that the kernels read from the index of subscriptions."""

from __future__ import annotations

from typing import Any

from pastforward.state import operations
from pastforward.state.errors import OperationError
from pastforward.state.kernels import records
from pastforward.state.kernels.records import Array
from pastforward.state.memory import Index


class Clock:
    def __init__(self, index: Index, hot_window: int | None, lateness: int, earlier_limit: int | None) -> None:
        self._index = index
        scalars = index.scalars
        scalars[records.HOT_WINDOW] = -1 if hot_window is None else hot_window
        scalars[records.LATENESS] = lateness
        scalars[records.EARLIER_LIMIT] = records.LATEST if earlier_limit is None else earlier_limit
        scalars[records.INTEGER_IDS] = -1

    @property
    def scalars(self) -> Array:
        return self._index.scalars

    @property
    def log_time(self) -> int | None:
        time = int(self.scalars[records.LOG_TIME])
        return None if time == records.EARLIEST else time

    @property
    def complete_from(self) -> int:
        scalars = self.scalars
        time = int(scalars[records.COMPLETE_FROM])
        if scalars[records.HOT_WINDOW] < 0:
            return time
        return max(time, _back(int(scalars[records.LOG_TIME]), int(scalars[records.HOT_WINDOW])))

    def state(self) -> dict[str, Any]:
        scalars = self.scalars
        log_time = int(scalars[records.LOG_TIME])
        return {
            "log_time": log_time,
            "sequence": int(scalars[records.SEQUENCE]),
            "ended_before": max(int(scalars[records.ENDED_BEFORE]), _back(log_time, int(scalars[records.LATENESS]))),
            "complete_from": self.complete_from,
            "integer_ids": int(scalars[records.INTEGER_IDS]),
            "lateness": int(scalars[records.LATENESS]),
            "hot_window": int(scalars[records.HOT_WINDOW]),
        }

    def resume(self, state: dict[str, Any]) -> int:
        """Returns how much longer the windows are than those under which the state was written."""
        scalars = self.scalars
        scalars[records.LOG_TIME] = state["log_time"]
        scalars[records.SEQUENCE] = state["sequence"]
        scalars[records.ENDED_BEFORE] = state["ended_before"]
        scalars[records.COMPLETE_FROM] = state["complete_from"]
        scalars[records.INTEGER_IDS] = state["integer_ids"]
        return self._longer(state["hot_window"], state["lateness"])

    def _longer(self, hot_window: int, lateness: int) -> int:
        scalars = self.scalars
        longer = max(0, int(scalars[records.LATENESS]) - lateness)
        if hot_window >= 0:
            if scalars[records.HOT_WINDOW] < 0:
                longer = records.LATEST
            longer = max(longer, int(scalars[records.HOT_WINDOW]) - hot_window)
        return longer

    def change_windows(self, hot_window: int, lateness: int) -> int:
        """Returns how much longer they are than before."""
        scalars = self.scalars
        before = int(scalars[records.HOT_WINDOW]), int(scalars[records.LATENESS])
        state = self.state()
        scalars[records.COMPLETE_FROM] = state["complete_from"]
        scalars[records.ENDED_BEFORE] = state["ended_before"]
        scalars[records.HOT_WINDOW], scalars[records.LATENESS] = hot_window, lateness
        return self._longer(*before)

    def tick(self, log_time: int) -> None:
        self.scalars[records.LOG_TIME] = max(int(self.scalars[records.LOG_TIME]), log_time)

    def drop_before(self, time: int) -> None:
        self.scalars[records.COMPLETE_FROM] = max(int(self.scalars[records.COMPLETE_FROM]), time)

    def check_ids(self, parsed: operations.Parsed, path: str) -> None:
        if not len(parsed):
            return
        scalars = self.scalars
        if scalars[records.INTEGER_IDS] == -1:
            scalars[records.INTEGER_IDS] = int(parsed.integer_ids)
        elif scalars[records.INTEGER_IDS] != int(parsed.integer_ids):
            held, given = ("string", "int64") if parsed.integer_ids else ("int64", "string")
            raise OperationError(f"{path} holds {held} ids, these are {given}; ids of a store are of one type")


def _back(time: int, span: int) -> int:
    return max(records.EARLIEST, time - span)
