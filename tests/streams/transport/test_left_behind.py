"""Errors that nobody waits for: those of Kafka's are silent, all others are told."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest
from aiokafka.errors import KafkaError

from pastforward.streams.transport import left_behind


@pytest.mark.parametrize(("error", "told"), [(KafkaError("gone"), False), (ValueError("a fault"), True)])
@pytest.mark.parametrize("what", ["task", "future"])
def test_what_nobody_waits_for(error: Exception, told: bool, what: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise error

    async def run() -> None:
        loop = asyncio.get_running_loop()
        left_behind.pass_over(loop)
        if what == "task":
            waiting: asyncio.Future[None] = asyncio.create_task(fail())
            await asyncio.sleep(0.01)
        else:
            waiting = loop.create_future()
            waiting.set_exception(error)
        del waiting
        gc.collect()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
        gc.collect()
    assert ("never retrieved" in caplog.text) == told
