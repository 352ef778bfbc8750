"""Many together or one alone, and nobody waits for ever."""

from __future__ import annotations

import asyncio

from tenure.checkpoints.turnstile import Turnstile
from tenure.testing.clock import settle


async def test_one_alone_waits_for_all_and_newcomers_wait_for_it():
    gate, log = Turnstile(), []
    ends = {name: asyncio.Event() for name in ("a", "b", "alone", "late")}

    async def work(name: str, *, alone: bool = False) -> None:
        async with gate.alone() if alone else gate.together():
            log.append(name)
            await ends[name].wait()
        log.append(f"{name} out")

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work("a")), loop.create_task(work("b"))]
    await settle()
    assert log == ["a", "b"]
    tasks.append(loop.create_task(work("alone", alone=True)))
    await settle()
    tasks.append(loop.create_task(work("late")))
    await settle()
    assert log == ["a", "b"], "whoever comes later does not overtake"
    ends["a"].set()
    await settle()
    assert log == ["a", "b", "a out"]
    ends["b"].set()
    await settle()
    assert log[3:] == ["b out", "alone"] or log[3:] == ["alone", "b out"]
    ends["alone"].set()
    ends["late"].set()
    await asyncio.wait(tasks)
    assert log.index("alone out") < log.index("late out")


async def test_who_gives_up_waiting_leaves_nothing_behind():
    gate = Turnstile()
    loop = asyncio.get_running_loop()

    async def alone() -> None:
        async with gate.alone():
            return

    async with gate.together():
        waiting = loop.create_task(alone())
        await settle()
        waiting.cancel()
        await asyncio.wait({waiting})
    async with gate.together():  # would wait for ever if the wish were still there
        pass
    async with gate.alone():
        pass
