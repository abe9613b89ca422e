"""Numba's cache of a kernel is tied to the kernel's own file, not to the files it calls into.

Kernels here call each other across files, so a cached kernel could outlive a change of what it calls. Before any is
loaded, cached kernels that are older than the newest source of this folder are removed; they are compiled again when used.
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def remove_stale(folder: Path) -> int:
    """Returns how many files were removed. A folder that cannot be written is left as it is: Numba caches elsewhere then."""
    newest = max(source.stat().st_mtime for source in folder.glob("*.py"))
    removed = 0
    for cached in (folder / "__pycache__").glob("*.nb[ic]"):
        with contextlib.suppress(OSError):  # another process was faster, or the folder is read-only
            if cached.stat().st_mtime < newest:
                cached.unlink()
                removed += 1
    return removed
