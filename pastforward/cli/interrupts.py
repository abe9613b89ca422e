"""Ctrl-C in the middle of somebody else's code."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Whatever a library makes of an interrupt leaves here as `KeyboardInterrupt`: Spark's connection makes one of many errors of it.

    Spark has a handler of its own, so the signal is seen where the interpreter notes each one that comes.
    """
    noted, note = os.pipe2(os.O_NONBLOCK)
    before = signal.set_wakeup_fd(note, warn_on_full_buffer=False)
    try:
        yield
    except Exception as error:
        if signal.SIGINT in _read(noted):
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.set_wakeup_fd(before)
        os.close(note)
        os.close(noted)


def _read(noted: int) -> bytes:
    try:
        return os.read(noted, 4096)
    except BlockingIOError:
        return b""
