"""How far a rendezvous partition has come: everything about it that is neither a subscription nor a publication."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from pastforward.schemas import SchemaError
from pastforward.schemas.codec import parse_json
from pastforward.schemas.fields import flag, integer, small, text
from pastforward.streams.matcher.cold import FOREVER, NOT_YET, Cold

FORMAT: Final = 2  # of the state that it stands for; in the first one publications were known by their id alone


@dataclass(slots=True)
class Progress:
    """`seen`: the highest offset of each origin, by topic and partition. `complete_from`: the point from which the state is complete,
    if a log that was too short made it begin later."""

    log_time: int = NOT_YET
    seen: dict[tuple[str, int], int] = field(default_factory=dict)
    complete_from: int = NOT_YET
    cold: Cold = field(default_factory=Cold)
    silent: bool = (
        False  # only what came under an earlier version of the routing was seen: auctions are still that version's
    )

    hot_window: int = 0  # that it was reached with; 0: not known
    # The matcher's refusals (`duplicates` has their offsets): all are below `refused_until`, and those below `refused_from` may have
    # been forgotten. So a state that stands there knows whether to ask for them, and whether anybody still knows.
    refused_from: int = 0
    refused_until: int = 0
    searching: bool = False  # searches of the past go on: the changelog has their notes

    def change_window(self, hot_window: int) -> int:
        """What a shorter window has dropped is not held: the state is complete from where that window began, which is returned. What a
        longer window has held is not looked at any more: the history may have to tell of anything."""
        if self.hot_window > hot_window:
            self.cold = Cold(FOREVER, FOREVER)
        if self.hot_window and self.hot_window < hot_window:
            self.complete_from = max(self.complete_from, self.log_time - self.hot_window)
        self.hot_window = hot_window
        return self.complete_from

    def copy(self) -> Progress:
        return replace(self, seen=dict(self.seen), cold=self.cold.copy())

    def cut(self) -> dict[int, int]:
        """The highest offset seen of each publications partition."""
        return {partition: offset for (topic, partition), offset in self.seen.items() if topic == "publications"}


def encode_progress(progress: Progress, offset: int) -> bytes:
    return orjson.dumps(
        {
            "offset": offset,
            "log_time": progress.log_time,
            "seen": [[topic, partition, at] for (topic, partition), at in progress.seen.items()],
            "complete_from": progress.complete_from,
            "gone": [progress.cold.published, progress.cold.expires],
            "silent": progress.silent,
            "refused_from": progress.refused_from,
            "refused_until": progress.refused_until,
            "hot_window": progress.hot_window,
            "searching": progress.searching,
            "format": FORMAT,
        }
    )


def is_current(value: bytes | None) -> bool:
    """Does it stand for a state that this version can go on with?"""
    if value is None:
        return False
    try:
        return bool(parse_json(value)["format"] == FORMAT)
    except (SchemaError, KeyError, TypeError):
        return False


def decode_progress(value: bytes) -> tuple[Progress, int]:
    """The progress, and the offset that it was reached at. Raises `SchemaError` on bytes that are none."""
    try:
        fields = parse_json(value)
        seen = {
            (text(topic, "seen"), small(partition, "seen")): integer(at, "seen")
            for topic, partition, at in fields["seen"]
        }
        published, expires = fields["gone"]
        cold = Cold(integer(published, "gone"), integer(expires, "gone"))
        log_time, complete_from = (
            integer(fields["log_time"], "log_time"),
            integer(fields["complete_from"], "complete_from"),
        )
        refused = [integer(fields.get(name, 0), name) for name in ("refused_from", "refused_until")]
        silent = flag(fields.get("silent", False), "silent")
        hot_window = integer(fields.get("hot_window", 0), "hot_window")
        searching = flag(fields.get("searching", False), "searching")
        progress = Progress(log_time, seen, complete_from, cold, silent, hot_window, refused[0], refused[1])
        progress.searching = searching
        return progress, integer(fields["offset"], "offset")
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError("malformed", f"this is no progress of a partition: {error!r}") from None
