"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels`."""

from __future__ import annotations

import importlib
import time

from rich.console import Console


def main() -> None:
    console = Console(stderr=True)
    for name in ("matching", "state", "schemas"):
        started = time.monotonic()
        with console.status(f"compiling the kernels of {name}"):
            importlib.import_module(name).compile_kernels()
        console.print(f"kernels of {name} compiled in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
