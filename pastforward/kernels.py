"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels [--all]`."""

from __future__ import annotations

import sys
import time

from rich.console import Console

from pastforward.columns import warm


def main() -> None:
    """`--all`: those of the papers as well."""
    console = Console(stderr=True)
    started = time.monotonic()
    with console.status("compiling kernels: a few minutes the first time"):
        failed = warm.compile_all(papers="--all" in sys.argv[1:])
    if failed:
        sys.exit(f"the kernels of {', '.join(failed)} do not compile; the messages are above")
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
