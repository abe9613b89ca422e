"""The batch layer: history kept, compacted and searched with PySpark."""

from __future__ import annotations

from pastforward.columns import extras

extras.need("spark", "pastforward.spark_batch")


def compile_kernels() -> None:
    """At set-up: neither a test nor a Spark worker waits for it then."""
    from pastforward.spark_batch import warm

    warm.compile_kernels()
