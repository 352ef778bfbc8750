"""A step that a cancellation must not cut in two."""

from __future__ import annotations

import asyncio

import pytest

from tenure.lifecycle.uninterrupted import uninterrupted
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


async def step(gate, done):
    await gate.park()
    done.append("whole")
    return 7


async def test_the_result_is_that_of_the_step(clock):
    gate = Gate()
    gate.release()
    assert await uninterrupted(clock, 1.0, step(gate, [])) == 7
    assert clock.pending == 0


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancellation_waits_for_the_step_and_is_passed_on(clock, cancels):
    gate, done = Gate(), []
    task = asyncio.ensure_future(uninterrupted(clock, 1.0, step(gate, done)))
    await gate.wait_parked()
    for _ in range(cancels):
        task.cancel("user")
        await settle()
    assert not task.done()
    gate.release()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert (done, caught.value.args) == (["whole"], ("user",))


async def test_a_step_that_takes_too_long_is_cut_off(clock):
    gate, done = Gate(), []
    task = asyncio.ensure_future(uninterrupted(clock, 1.0, step(gate, done)))
    await gate.wait_parked()
    clock.advance(1.0)
    await settle()
    assert task.done()
    with pytest.raises(TimeoutError):
        await task
    assert done == []


async def test_what_the_step_raises_is_raised(clock):
    async def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await uninterrupted(clock, 1.0, fails())
