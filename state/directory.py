"""A store's directory: whose it is, and who has it open.

    LOCK        held by the process that has the store open, with its pid in it
    db/         RocksDB
    db/STORE    a line of JSON: format and layout

A directory that is neither empty nor ours, or that is damaged, is refused and left as it is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Final

from state.errors import DirectoryError, InUseError

FORMAT: Final = 1
_MARKER: Final = "STORE"
_LOCK: Final = "LOCK"
_DATABASE: Final = "db"
_UNFINISHED: Final = "db.unfinished"
"""A database in the making. It is renamed when it is complete, so `db` is never half made."""
_OURS: Final = {_LOCK, _DATABASE, _UNFINISHED}
_REMEDY: Final = "Restore it from a copy, or move the directory away and rebuild from the log; nothing was changed"


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
            raise DirectoryError(
                f"{self.path} has format {form}, and this version reads {FORMAT}; use the version that made it"
            )
        if layout != self._layout:
            raise DirectoryError(
                f"{self.path} has layout {layout!r}; open it with layout={layout!r}, or give another directory"
            )
        if not (self.database / "CURRENT").is_file():
            raise self.damaged(f"{_DATABASE}/CURRENT is missing")
        return True

    def damaged(self, what: object) -> DirectoryError:
        if os.strerror(errno.ENOSPC) in str(what):
            return DirectoryError(
                f"{self.path} cannot be opened: {what}. Make room, and open it again; nothing is lost"
            )
        return DirectoryError(f"{self.path} is damaged: {what}. {_REMEDY}")

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
