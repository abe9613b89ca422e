"""How the kernels of this package are compiled.

Numba notices a change in the file of a kernel, not in the files of what it calls. So kernels that were compiled before the newest source
they may call are thrown away here, before the first one is loaded.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from matching.kernel import inner, kernel

__all__ = ["entry", "inner"]

_FOLDER: Final = Path(__file__).parent
# modules of `matching` whose kernels go into those of this package
_CALLED: Final = ("attributes", "columns", "keys", "machine", "records", "strings")


def _drop_stale() -> None:
    sources = [*_FOLDER.glob("*.py"), *(_FOLDER.parents[1] / f"{name}.py" for name in _CALLED)]
    newest = max(source.stat().st_mtime_ns for source in sources)
    for compiled in (_FOLDER / "__pycache__").glob("*.nb[ci]"):
        with suppress(FileNotFoundError):  # another process may be at it as well
            if compiled.stat().st_mtime_ns < newest:
                compiled.unlink()


_drop_stale()

entry: Final[Any] = kernel
