"""Warm-up: who has kernels has a `compile_kernels` that sends a small load through every way in, so that Numba keeps what it compiles and
neither a test nor a worker's start waits. Several processes at the same time; what calls the others' kernels comes after them."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from pastforward.columns.cache import PACKAGE, drop_stale

# The one that takes longest first. The second step calls the kernels of the first.
PRODUCT: Final = (("matching.warm", "state", "schemas"), ("streams", "spark_batch"))
EXTRA: Final = ("papers.warm",)  # the algorithms and baselines of the papers, which only tests and benchmarks need
_COMPILE: Final = "import importlib, sys; importlib.import_module(sys.argv[1]).compile_kernels()"


def compile_all(*, papers: bool = False) -> list[str]:
    """Those that did not compile; what they say is on standard error."""
    first, second = PRODUCT
    drop_stale()
    for step in ((*first, *EXTRA) if papers else first, second):
        running = {name: subprocess.Popen([sys.executable, "-P", "-c", _COMPILE, f"{PACKAGE}.{name}"]) for name in step}
        failed = [name for name, process in running.items() if process.wait()]
        if failed:
            return failed
    return []
