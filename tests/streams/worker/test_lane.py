"""A lane ends when it is told to, whatever happens in the same moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pastforward.streams.worker import lane as lane_module
from pastforward.streams.worker.lane import Lane


class Numbered(int):
    value = b"123"


def numbered(*numbers: int) -> list[Any]:
    return [Numbered(number) for number in numbers]


async def _nothing() -> None: ...


async def _unexpected(error: BaseException) -> None:
    raise AssertionError(error)


@pytest.mark.parametrize("turns", range(6))
def test_a_lane_that_is_stopped_while_records_come_ends(turns: int) -> None:
    async def run() -> None:
        async def handle(_: list[Any]) -> None: ...

        lane = Lane(handle, _nothing, _unexpected)
        await asyncio.sleep(0.01)  # it waits for records
        await lane.put(numbered(1))
        for _ in range(turns):  # of the event loop, from the records' coming to their being handled
            await asyncio.sleep(0)
        await asyncio.wait_for(lane.stop(), 5)

    asyncio.run(run())


def test_a_lane_lets_what_runs_end_and_drops_what_waits() -> None:
    async def run() -> list[list[int]]:
        handled: list[list[int]] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handle(records: list[int]) -> None:
            begun.set()
            await go_on.wait()
            handled.append(records)

        lane = Lane(handle, _nothing, _unexpected)
        await lane.put(numbered(1, 2))
        await begun.wait()
        await lane.put(numbered(3))
        stopping = asyncio.create_task(lane.stop())
        await asyncio.sleep(0)
        go_on.set()
        await stopping
        return handled

    assert asyncio.run(run()) == [[1, 2]]


def test_what_a_lane_cannot_do_ends_the_worker() -> None:
    async def run() -> BaseException:
        failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def handle(_: list[int]) -> None:
            raise ValueError("bad")

        async def tell(error: BaseException) -> None:
            failed.set_result(error)

        lane = Lane(handle, _nothing, tell)
        await lane.put(numbered(1))
        error = await failed
        await lane.stop()
        return error

    assert str(asyncio.run(run())) == "bad"


def test_a_lane_that_nothing_comes_to_is_silent_and_a_busy_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "SILENCE", 0.02)

    async def run() -> list[str]:
        seen: list[str] = []
        silences = asyncio.Event()

        async def handle(_: list[int]) -> None:
            seen.append("begin")
            await asyncio.sleep(0.1)  # longer than a silence
            seen.append("end")

        async def silent() -> None:
            seen.append("silent")
            silences.set()

        lane = Lane(handle, silent, _unexpected)
        await lane.put(numbered(1))
        await silences.wait()
        await lane.stop()
        return seen

    assert asyncio.run(run()) == ["begin", "end", "silent"]


def test_a_lane_is_full_by_bytes_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "LIMIT_BYTES", 7)

    async def run() -> list[bool]:
        held: list[bool] = []
        go_on = asyncio.Event()

        async def handle(_: list[Any]) -> None:
            await go_on.wait()

        lane = Lane(handle, _nothing, _unexpected, held.append)
        await lane.put(numbered(1, 2))
        assert held == []
        await lane.put(numbered(3))
        assert held == [True]
        await asyncio.sleep(0.01)  # it takes them, and there is room
        assert held == [True, False]
        go_on.set()
        await lane.stop()
        return held

    assert asyncio.run(run()) == [True, False]
