"""A command that is ended while it starts something leaves nothing behind."""

from __future__ import annotations

import os
import signal

import pytest

from pastforward.cli.signals import deferred, stoppable


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["while it starts", "afterwards"])
def test_what_is_started_is_known_before_a_signal_ends_the_command(number: signal.Signals, moment: str) -> None:
    before = [
        signal.getsignal(each) for each in signal.Signals if each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ]
    steps = []
    with stoppable(), deferred() as go_on:
        if moment == "while it starts":
            os.kill(os.getpid(), number)
        steps.append("started")
        try:
            go_on()
            if moment == "afterwards":
                os.kill(os.getpid(), number)
            for _ in range(1000):
                pass  # the signal comes between two steps of the program
            steps.append("went on")
        finally:
            steps.append("stopped")
    assert steps == ["started", "stopped"]
    after = [
        signal.getsignal(each) for each in signal.Signals if each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ]
    assert after == before


def test_a_signal_is_not_lost_if_nothing_could_be_started() -> None:
    with stoppable(), deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        raise FileNotFoundError("serve")
