"""Compiles every Numba kernel once, at set-up: `python -m pastforward.kernels`. Several processes at the same time; what calls the
others' kernels comes after them."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

FOLDERS: Final = ("matching", "state", "schemas", "streams", "spark_batch", "benchmarks")
# each has `compile_kernels`; the one that takes longest first. The second step calls the kernels of the first
STEPS: Final = (
    ("matching.warm", "matching.algorithms.warm", "state", "schemas", "benchmarks.warm"),
    ("streams", "spark_batch"),
)
ROOT: Final = Path(__file__).resolve().parent.parent
COMPILE: Final = "import importlib, sys; importlib.import_module(sys.argv[1]).compile_kernels()"


def drop_stale() -> None:
    """Numba sees when a kernel's own file has changed, not when one that it calls has: then the old code may crash."""
    reads = {source: _imports(source) for name in FOLDERS for source in (ROOT / name).rglob("*.py")}
    for source in reads:
        newest = max(file.stat().st_mtime for file in _closure(source, reads))
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ic]"):
            if compiled.stat().st_mtime < newest:
                compiled.unlink()


def _imports(source: Path) -> set[Path]:
    """The files of ours that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*source.relative_to(ROOT).parts[: -node.level]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    stems = [ROOT.joinpath(*name.split(".")) for name in names]
    return {file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()}


def _closure(source: Path, reads: dict[Path, set[Path]]) -> set[Path]:
    found, ahead = {source}, [source]
    while ahead:
        fresh = reads.get(ahead.pop(), set()) - found
        found |= fresh
        ahead += fresh
    return found


def main() -> None:
    console = Console(stderr=True)
    drop_stale()
    started = time.monotonic()
    with console.status("compiling kernels: a few minutes the first time"):
        for step in STEPS:
            running = {name: subprocess.Popen([sys.executable, "-c", COMPILE, name]) for name in step}
            failed = [name for name, process in running.items() if process.wait()]
            if failed:
                sys.exit(f"the kernels of {', '.join(failed)} do not compile; the messages are above")
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
