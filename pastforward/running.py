"""Who runs in a data directory: its worker, and where that shows itself (`worker/running.json`), and whoever looks after worker and broker
(`owner.json`): `up`, `broker`."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from pastforward.settings import Settings


def _note(settings: Settings) -> Path:
    return settings.data_dir / "worker" / "running.json"


def announce(settings: Settings, web: str) -> None:
    """This process does. `web`: where its pages are."""
    note = _note(settings)
    part = note.with_suffix(".part")
    part.write_text(json.dumps({"pid": os.getpid(), "web": web}))
    part.replace(note)


def worker_of(settings: Settings) -> int | None:
    """The process of the worker that runs in that data directory."""
    return _pid(_note(settings))


def own(settings: Settings, command: str) -> None:
    """This process looks after what runs in that data directory."""
    with suppress(FileExistsError):  # it may be a file: then the next line says so
        settings.make_data_dir()
    _owner(settings).write_text(json.dumps({"pid": os.getpid(), "command": command}))


def disown(settings: Settings) -> None:
    if _pid(_owner(settings)) == os.getpid():
        _owner(settings).unlink(missing_ok=True)


def owner_of(settings: Settings) -> tuple[str, int] | None:
    """The command that looks after it, and its process. None: nobody does, or nobody does any more."""
    pid = _pid(_owner(settings))
    if pid is None or pid == os.getpid():
        return None
    return str(json.loads(_owner(settings).read_text())["command"]), pid


def processes(settings: Settings) -> dict[str, int]:
    """What is to be ended, in this order: who looks after the others ends them."""
    owner, worker = owner_of(settings), worker_of(settings)
    found = {} if owner is None else {f"`pastforward {owner[0]}`": owner[1]}
    return found if worker is None else {**found, "a worker": worker}


def is_ours(pid: int) -> bool:
    """Is this a process of ours, and not a zombie or another one that got its number?"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return state != "Z" and b"pastforward" in command


def _owner(settings: Settings) -> Path:
    return settings.data_dir / "owner.json"


def _pid(note: Path) -> int | None:
    try:
        pid = int(json.loads(note.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if is_ours(pid) else None


def web_of(settings: Settings, pid: int) -> str | None:
    """Where that process shows its pages; None: it does not yet."""
    try:
        found = json.loads(_note(settings).read_text())
        return str(found["web"]) if found["pid"] == pid else None
    except (OSError, ValueError, KeyError):
        return None


def forget(settings: Settings) -> None:
    _note(settings).unlink(missing_ok=True)
