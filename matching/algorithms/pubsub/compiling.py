"""How the kernels of this package are compiled: only those that Python calls are cached and get a way in from Python; the others go into
them. That halves the time to compile, since a forest is many arrays and each way in unpacks all of them. An inner kernel must not be
called from Python: there is no way in.

Numba notices a change in the file of a kernel, not in the files of what it calls. So kernels that were compiled before the newest source
they may call are thrown away here, before the first one is loaded.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from numba import njit

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

entry: Final[Any] = njit(cache=True, nogil=True)
inner: Final[Any] = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
