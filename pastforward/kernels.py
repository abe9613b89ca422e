"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels`. One process for each folder, at the same time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

FOLDERS: Final = ("matching", "state", "schemas")
ROOT: Final = Path(__file__).resolve().parent.parent
COMPILE: Final = "import importlib, sys; importlib.import_module(sys.argv[1]).compile_kernels()"


def drop_stale() -> None:
    """Numba sees when a kernel's own file has changed, not when one that it calls has: then the old code may crash."""
    for name in FOLDERS:
        newest = max(source.stat().st_mtime for source in (ROOT / name).rglob("*.py"))
        for compiled in (ROOT / name).rglob("*.nb[ic]"):
            if compiled.stat().st_mtime < newest:
                compiled.unlink()


def main() -> None:
    console = Console(stderr=True)
    drop_stale()
    started = time.monotonic()
    with console.status("compiling kernels: a few minutes the first time"):
        running = {name: subprocess.Popen([sys.executable, "-c", COMPILE, name]) for name in FOLDERS}
        failed = [name for name, process in running.items() if process.wait()]
    if failed:
        sys.exit(f"the kernels of {', '.join(failed)} do not compile; the messages are above")
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
