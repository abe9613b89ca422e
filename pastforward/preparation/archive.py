"""Starts a broker once, and keeps the classes that it has loaded: `python -m pastforward.preparation.archive`, a step of the set-up."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from pastforward import broker
from pastforward.settings import Settings, load


def make(settings: Settings) -> None:
    """Beside the jars of Kafka. A start takes half the time with it."""
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
        kept = broker.archive(settings)
        kept.unlink(missing_ok=True)
        options = (f"-XX:ArchiveClassesAtExit={kept}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        broker.start(replace(settings, data_dir=Path(directory)), options=options).stop()
        kept.touch()  # no JVM that can: without it a start takes longer, and that is all


if __name__ == "__main__":
    make(load(environment={}))
