"""The version of the routing that is being built lets the one in force go first."""

from __future__ import annotations

import asyncio

import pytest

from pastforward.streams.worker import throttle as module
from pastforward.streams.worker.throttle import Courtesy


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.001)
    monkeypatch.setattr(module, "LONGEST", 0.02)


def test_it_rests_while_the_other_is_late() -> None:
    delays = [module.LATE + 1, module.LATE + 1, 0.0]

    async def run() -> None:
        async with Courtesy(lambda: True, lambda: delays.pop(0)):
            assert not delays

    asyncio.run(run())


def test_it_goes_on_after_a_while_and_at_once_when_it_is_no_guest_any_more() -> None:
    looks: list[bool] = []

    def late() -> float:
        looks.append(True)
        return module.LATE + 1

    async def run() -> None:
        async with Courtesy(lambda: True, late):
            assert len(looks) == 20
        looks.clear()
        async with Courtesy(lambda: not looks, late):
            assert len(looks) == 1

    asyncio.run(run())


def test_one_chunk_at_a_time() -> None:
    seen: list[str] = []

    async def compute(courtesy: Courtesy, name: str) -> None:
        async with courtesy:
            seen.append(f"{name} begins")
            await asyncio.sleep(0.005)
            seen.append(f"{name} ends")

    async def run() -> None:
        courtesy = Courtesy(lambda: True, lambda: 0.0)
        await asyncio.gather(compute(courtesy, "a"), compute(courtesy, "b"))

    asyncio.run(run())
    assert seen == ["a begins", "a ends", "b begins", "b ends"]
