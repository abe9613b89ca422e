"""Signals that end a command which has started other processes: each of them is stopped on the way out."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(Exception):
    """SIGTERM or Ctrl-C."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Turns SIGTERM, SIGINT and the end of the terminal into an exception, so that everything started is stopped on the way out."""
    ends = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        ends.append(signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> None:
        # once is enough: a second signal must not interrupt the stopping
        for each in ends:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    before = [signal.signal(s, stop) for s in ends]
    try:
        yield
    except Stopped:
        pass
    finally:
        for number, handler in zip(ends, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Signals wait until the function that this yields is called. A process that is started meanwhile is known before the signal that would
    end this command; else nobody would stop it."""
    caught: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {end: signal.getsignal(end) for end in ENDS if callable(signal.getsignal(end))}
    for end in before:
        signal.signal(end, lambda number, _: caught.append(number))

    def go_on() -> None:
        while before:
            signal.signal(*before.popitem())
        while caught:
            os.kill(os.getpid(), caught.pop())

    try:
        yield go_on
    finally:
        go_on()
