"""A process that runs jobs until it is killed: `python -m tests.spark_batch.victim FLAGS`, jobs by name on standard input.

It says `ready` when its Spark is up, so that a kill hits a job and not the start of a JVM, and `done` after each job.
"""

from __future__ import annotations

import json
import sys

from pastforward.settings import load
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.session import make_session
from tests.spark_batch.conftest import QUICK


def main() -> None:
    settings = load(json.loads(sys.argv[1]), environment={})
    spark = make_session(settings, 2, **QUICK)
    jobs = {
        "ingest": lambda: ingest(spark, settings, quiet=True),
        "compact": lambda: compact(spark, settings, vacuum_hours=None, quiet=True),
        "backfill": lambda: backfill(spark, settings, quiet=True),
    }
    print("ready", flush=True)
    for line in sys.stdin:
        jobs[line.strip()]()
        print("done", flush=True)


if __name__ == "__main__":
    main()
