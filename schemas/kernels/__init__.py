"""Numba kernels that read and write whole chunks of records, without the interpreter's lock.

Numba notices a change in the file of a kernel, not in the files of what it calls. So kernels that were compiled before the newest
source of this folder are thrown away here, when the folder is first imported.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def _drop_stale() -> None:
    folder = Path(__file__).parent
    newest = max(source.stat().st_mtime_ns for source in folder.glob("*.py"))
    for compiled in (folder / "__pycache__").glob("*.nb[ci]"):
        with suppress(FileNotFoundError):  # another process may be at it as well
            if compiled.stat().st_mtime_ns < newest:
                compiled.unlink()


_drop_stale()
