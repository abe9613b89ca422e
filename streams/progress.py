"""How far a rendezvous partition has come: everything about it that is neither a subscription nor a publication."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from streams.gone import NEVER, Gone


@dataclass(slots=True)
class Progress:
    """`seen`: the highest offset of each origin, by topic and partition. `complete_from`: the point from which the state is complete,
    if a log that was too short made it begin later."""

    log_time: int = NEVER
    seen: dict[tuple[str, int], int] = field(default_factory=dict)
    complete_from: int = NEVER
    gone: Gone = field(default_factory=Gone)
    silent: bool = (
        False  # only what came under an earlier version of the routing was seen: auctions are still that version's
    )

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
            "gone": [progress.gone.published, progress.gone.expires],
            "silent": progress.silent,
        }
    )


def decode_progress(value: bytes) -> tuple[Progress, int]:
    """The progress, and the offset that it was reached at."""
    fields = orjson.loads(value)
    seen = {(topic, partition): at for topic, partition, at in fields["seen"]}
    progress = Progress(
        fields["log_time"], seen, fields["complete_from"], Gone(*fields["gone"]), fields.get("silent", False)
    )
    return progress, fields["offset"]
