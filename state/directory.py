"""A store's directory: whose it is, and who has it open.

    LOCK        held by the process that has the store open, with its pid in it
    db/         RocksDB
    db/STORE    a line of JSON: format and layout

A directory that is neither empty nor ours, or that is damaged, is refused and left as it is. Who can rebuild a store sets it aside:

    <name>.aside-20260504T110207Z    beside it; the last one is kept
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import time
from pathlib import Path
from typing import Final, NamedTuple

from pastforward.state.errors import DirectoryError, InUseError, UnusableError

FORMAT: Final = 3
"""1 had a row for each publication; in 2 nothing told which publications state a condition."""
_MARKER: Final = "STORE"
_LOCK: Final = "LOCK"
_DATABASE: Final = "db"
_UNFINISHED: Final = "db.unfinished"
"""A database in the making. It is renamed when it is complete, so `db` is never half made."""
_OURS: Final = {_LOCK, _DATABASE, _UNFINISHED}
_REMEDY: Final = "Restore it from a copy, or move the directory away and rebuild from the log; nothing was changed"

_FAULTS: Final = (
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
)
"""Of the machine: a store made anew in the same place would meet them, too."""

_ASIDE: Final = ".aside-"


class Aside(NamedTuple):
    """A store that was set aside: where it is, and how large."""

    path: Path
    nbytes: int


def set_aside(path: str | os.PathLike[str]) -> Aside:
    """Renames a store that nobody has open, so that a new one can be made in its place. The last one that was set aside there is kept,
    earlier ones are removed: they would fill the disk."""
    place = Path(path)
    for earlier in place.parent.glob(f"{glob.escape(place.name)}{_ASIDE}*"):
        shutil.rmtree(earlier)
    aside = place.with_name(f"{place.name}{_ASIDE}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    os.rename(place, aside)
    return Aside(aside, sum(file.stat().st_size for file in aside.rglob("*") if file.is_file()))


class Directory:
    """Holds the lock from `open` until `close`."""

    def __init__(self, path: str | os.PathLike[str], layout: str) -> None:
        self.path = Path(path)
        self._layout = layout
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self.path / _DATABASE

    def open(self) -> bool:
        """Takes the lock and checks what is there. True: there is a database; False: it has to be made."""
        existing = self._entries()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            return self._check(existing)
        except BaseException:
            self.close()
            raise

    def _entries(self) -> set[str]:
        """What is there, if a store may be there at all. Looks before anything is written."""
        if not self.path.exists():
            return set()
        if not self.path.is_dir():
            raise DirectoryError(f"{self.path} is a file; give a directory for the store")
        names = set(os.listdir(self.path))
        foreign = names - _OURS
        if foreign:
            raise DirectoryError(
                f"{self.path} is not a store: it holds {', '.join(sorted(foreign)[:3])}. "
                "Give an empty directory or one that open_store made; nothing was changed"
            )
        return names

    def _check(self, names: set[str]) -> bool:
        if _DATABASE not in names:
            return False
        try:
            marker = json.loads((self.database / _MARKER).read_text())
            form, layout = marker["format"], marker["layout"]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise self.damaged(f"its {_DATABASE}/{_MARKER} file cannot be read ({error})") from error
        if form != FORMAT:
            raise UnusableError(
                f"{self.path} has format {form}, and this version reads {FORMAT}; use the version that made it"
            )
        if layout != self._layout:
            raise UnusableError(
                f"{self.path} has layout {layout!r}; open it with layout={layout!r}, or give another directory"
            )
        if not (self.database / "CURRENT").is_file():
            raise self.damaged(f"{_DATABASE}/CURRENT is missing")
        return True

    def damaged(self, what: object) -> DirectoryError:
        """An `UnusableError`, unless it is the machine that fails and not the store."""
        said = str(what)
        if os.strerror(errno.ENOSPC) in said:
            return DirectoryError(
                f"{self.path} cannot be opened: {said}. Make room, and open it again; nothing is lost"
            )
        if any(os.strerror(fault) in said for fault in _FAULTS):
            return DirectoryError(
                f"{self.path} cannot be opened: {said}. Mend that, and open it again; nothing was changed"
            )
        return UnusableError(f"{self.path} is damaged: {said}. {_REMEDY}")

    def unfinished(self) -> Path:
        """An empty place to make the database in. What an interrupted making left there was never a store."""
        place = self.path / _UNFINISHED
        if place.exists():
            shutil.rmtree(place)
        return place

    def finish(self) -> None:
        """The database is complete and closed: from now on the directory is a store."""
        place = self.path / _UNFINISHED
        (place / _MARKER).write_text(json.dumps({"format": FORMAT, "layout": self._layout}) + "\n")
        os.rename(place, self.database)

    def _take_lock(self) -> int:
        path = self.path / _LOCK
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            pid = int(text) if text.isdigit() else None
            raise InUseError(
                f"{self.path} is in use by pid {text or 'unknown'}; stop that process, or give another directory", pid
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    def close(self) -> None:
        """Gives the lock back."""
        if self._lock is not None:
            with contextlib.suppress(OSError):  # the pid is a courtesy, the lock itself goes with the descriptor
                os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None
