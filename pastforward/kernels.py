"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels [--all]`. Several processes at the same time; what calls the
others' kernels comes after them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from rich.console import Console

from pastforward.columns import cache

# each has `compile_kernels`; the one that takes longest first. The second step calls the kernels of the first
PRODUCT: Final = (("matching.warm", "state", "schemas"), ("streams", "spark_batch"))
EXTRA: Final = ("papers.warm",)
COMPILE: Final = "import importlib, sys; importlib.import_module(sys.argv[1]).compile_kernels()"


def main() -> None:
    """`--all`: those of the papers as well, which only tests and benchmarks need."""
    first, second = PRODUCT
    console = Console(stderr=True)
    cache.drop_stale()
    started = time.monotonic()
    with console.status("compiling kernels: a few minutes the first time"):
        for step in ((*first, *EXTRA) if "--all" in sys.argv[1:] else first, second):
            running = {
                name: subprocess.Popen([sys.executable, "-P", "-c", COMPILE, f"pastforward.{name}"]) for name in step
            }
            failed = [name for name, process in running.items() if process.wait()]
            if failed:
                sys.exit(f"the kernels of {', '.join(failed)} do not compile; the messages are above")
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
