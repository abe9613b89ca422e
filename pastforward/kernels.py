"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels`. One process for each folder, at the same time."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from rich.console import Console

FOLDERS: Final = ("matching", "state", "schemas")
COMPILE: Final = "import importlib, sys; importlib.import_module(sys.argv[1]).compile_kernels()"


def main() -> None:
    console = Console(stderr=True)
    started = time.monotonic()
    with console.status("compiling kernels: a few minutes the first time"):
        running = {name: subprocess.Popen([sys.executable, "-c", COMPILE, name]) for name in FOLDERS}
        failed = [name for name, process in running.items() if process.wait()]
    if failed:
        sys.exit(f"the kernels of {', '.join(failed)} do not compile; the messages are above")
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
