"""The guard against stale kernels: Numba sees when a kernel's own file has changed, not when a file that it calls into has.

Then the old code would run, and may crash. So compiled kernels that are older than any source that their file imports, directly or not, are
deleted before the first is loaded. What each source imports is kept beside this file, so that a start parses only what has changed.
In a wheel sources do not change, and nothing is looked at.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGE: Final = "pastforward"
PACKAGES: Final = ("columns", "matching", "state", "schemas", "streams", "spark_batch", "papers", "benchmarks")
_HERE: Final = Path(__file__).resolve().parent
_KNOWN: Final = _HERE / "__pycache__" / "imports.json"


def folders() -> dict[str, Path]:
    """Of each of our packages that is installed, by its name; in a clone they lie side by side."""
    specs = {name: find_spec(f"{PACKAGE}.{name}") for name in PACKAGES}
    return {
        name: Path(spec.submodule_search_locations[0]).resolve()
        for name, spec in specs.items()
        if spec is not None and spec.submodule_search_locations
    }


def in_clone() -> bool:
    return (_HERE.parent / "pyproject.toml").is_file()


def drop_stale(places: dict[str, Path] | None = None) -> list[Path]:
    """Returns what was deleted. A folder that cannot be written is left as it is: Numba caches elsewhere then."""
    places = folders() if places is None else places
    changed = {source: source.stat().st_mtime_ns for folder in places.values() for source in folder.rglob("*.py")}
    reads = _read_imports(changed, places)
    dropped = []
    for source in changed:
        compiled = list((source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ic]"))
        if not compiled:
            continue
        newest = max(changed[file] for file in _closure(source, reads))
        for file in compiled:
            with suppress(OSError):  # another process was faster, or the folder is read-only
                if file.stat().st_mtime_ns < newest:
                    file.unlink()
                    dropped.append(file)
    return dropped


def _read_imports(changed: dict[Path, int], places: dict[str, Path]) -> dict[Path, set[Path]]:
    known: dict[str, tuple[int, list[str]]] = {}
    with suppress(OSError, ValueError):
        known = json.loads(_KNOWN.read_text("utf-8"))
    fresh = {
        str(source): known[str(source)]
        if known.get(str(source), (None,))[0] == stamp
        else (stamp, sorted(map(str, _imports(source, places))))
        for source, stamp in changed.items()
    }
    if fresh != known:
        with suppress(OSError):
            _KNOWN.parent.mkdir(exist_ok=True)
            _KNOWN.write_text(json.dumps(fresh), "utf-8")
    return {Path(source): {Path(name) for name in names} & changed.keys() for source, (_, names) in fresh.items()}


def _imports(source: Path, places: dict[str, Path]) -> set[Path]:
    """The files of ours that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = set()
    for name in names:
        top, *rest = name.split(".")
        if top == PACKAGE and rest and rest[0] in places:
            stem = places[rest[0]].joinpath(*rest[1:])
            found |= {file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()}
    return found


def _closure(source: Path, reads: dict[Path, set[Path]]) -> set[Path]:
    found, ahead = {source}, [source]
    while ahead:
        fresh = reads.get(ahead.pop(), set()) - found
        found |= fresh
        ahead += fresh
    return found
