"""Starts a broker once, and keeps the classes that it has loaded: `python -m pastforward.archive`, a step of the set-up."""

from __future__ import annotations

import tempfile

from pastforward import broker
from pastforward.settings import load


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
        settings = load({"data_dir": directory}, environment={})
        kept = broker.archive(settings)
        kept.unlink(missing_ok=True)
        options = (f"-XX:ArchiveClassesAtExit={kept}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        broker.start(settings, options=options).stop()
        kept.touch()  # no JVM that can: without it a start takes longer, and that is all


if __name__ == "__main__":
    main()
