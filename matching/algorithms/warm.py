"""Compiles the kernels of the papers' algorithms; see `matching.warm`."""

from __future__ import annotations

from matching.algorithms import NAMES
from matching.algorithms.compiling import compile_clustering
from matching.algorithms.pubsub.warm import compile_pubsub
from matching.index import Index
from matching.warm import exercise


def compile_kernels() -> None:
    """A small load through every algorithm but the default."""
    for algorithm in NAMES:
        if algorithm != "auto":
            exercise(Index(algorithm=algorithm))
    # what a small load does not reach: the choice of tables, and moves between them
    compile_clustering()
    compile_pubsub()
