"""Who runs as the worker of a data directory, and where it shows itself: `DATA_DIR/worker/running.json`."""

from __future__ import annotations

import json
import os
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


def web_of(settings: Settings, pid: int) -> str | None:
    """Where that process shows its pages; None: it does not yet."""
    try:
        found = json.loads(_note(settings).read_text())
        return str(found["web"]) if found["pid"] == pid else None
    except (OSError, ValueError, KeyError):
        return None


def forget(settings: Settings) -> None:
    _note(settings).unlink(missing_ok=True)
