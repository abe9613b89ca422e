"""Which extra of the distribution brings which library. Without extras it is the client alone: no Numba, RocksDB, Faust or Spark."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

# By extra, what comes with it and is imported by us.
LIBRARIES: Final = {
    "registry": ("authlib", "cachetools"),
    "worker": ("numba", "llvmlite", "pyarrow", "rocksdict", "faust", "mode", "aiokafka", "uvloop", "prometheus_client"),
    "spark": ("pyspark", "delta", "deltalake", "pandas", "matplotlib"),
    "serve": ("starlette", "uvicorn", "httptools", "websockets", "jinja2", "python_multipart", "jwt"),
    "bench": ("pastforward.benchmarks",),
    "papers": ("pastforward.papers",),
}
# Extras that bring others along.
_IN: Final = {
    "worker": ("registry", "worker"),
    "spark": ("registry", "worker", "spark"),
    "bench": ("registry", "worker", "bench"),
}


class MissingExtra(ImportError):
    """Says what to install."""


def need(extra: str, what: str) -> None:
    """`what`: who needs it, as the subject of a sentence."""
    for each in _IN.get(extra, (extra,)):
        for library in LIBRARIES[each]:
            if library not in sys.modules and find_spec(library) is None:
                raise MissingExtra(_said(what, library, extra), name=library)


def explained(error: ModuleNotFoundError, what: str) -> str | None:
    """None: of no library that an extra brings."""
    library = (error.name or "").partition(".")[0]
    for extra, libraries in LIBRARIES.items():
        if library in libraries:
            return _said(what, library, extra)
    return None


def _said(what: str, library: str, extra: str) -> str:
    return f"{what} needs {library}, which is not installed: pip install 'pastforward[{extra}]'"
