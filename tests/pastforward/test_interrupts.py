"""Ctrl-C is no error, whatever the code in between makes of it."""

from __future__ import annotations

import os
import signal

import pytest

from pastforward.cli.interrupts import interruptible


def interrupted_library() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise RuntimeError("the connection was busy") from None


def test_what_a_library_makes_of_an_interrupt_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        interrupted_library()
    with pytest.raises(ZeroDivisionError), interruptible():
        raise ZeroDivisionError  # nothing is left of the one before


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), interruptible():
        raise ZeroDivisionError
