"""Case 75: a browser that has gone is found out at the next use, which gets another, once."""

import asyncio

from support.browsing import Rig
from tenure.testing.clock import settle


async def test_the_next_use_makes_another_once(root, tmp_path):
    rig = Rig(root, tmp_path)
    for name in ("a", "b"):
        await rig.act(name=name)
    for crash in range(3):
        rig.started[-1].kill()
        await settle()
        again = [asyncio.ensure_future(rig.act(name=name)) for name in ("a", "b", "c")]
        await asyncio.wait(again)
        assert all("\nA\n" in task.result() for task in again)
        assert (len(rig.started), rig.running) == (crash + 2, 1)


async def test_a_newcomer_in_that_moment_gets_the_next_one(root, tmp_path):
    rig = Rig(root, tmp_path)
    await rig.act(name="a")
    rig.started[0].kill()
    assert "\nA\n" in await rig.act(name="b")
    assert (len(rig.started), rig.running) == (2, 1)


async def test_it_is_released_though_nobody_comes(root, tmp_path):
    rig = Rig(root, tmp_path)
    await rig.act()
    rig.started[0].kill()
    await settle()
    assert (rig.running, rig.held("browsers")) == (0, [])


async def test_one_that_could_not_be_started_is_tried_again(root, tmp_path):
    rig = Rig(root, tmp_path)
    rig.failure = OSError("no memory")
    task = asyncio.ensure_future(rig.act())
    await asyncio.wait({task})
    assert isinstance(task.exception(), OSError)
    rig.failure = None
    assert "\nA\n" in await rig.act()
