"""The process that Spark forks its Python workers from, with everything that they need imported once.

Without it each worker imports Numba and loads the kernels anew: two seconds that every first task would wait. Spark starts it as
`python -m pastforward.spark_batch.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

from pyspark.daemon import manager

from pastforward.spark_batch import warm


def main() -> None:
    warm.compile_kernels()  # from the cache: a second
    manager()


if __name__ == "__main__":
    main()
