"""A command that leaves ends its gateway, also if it is told to end while it leaves."""

from __future__ import annotations

import asyncio

import pytest

from tenure.cli.attach import Where, attach
from tenure.config import load
from tenure.home import Home, is_held

TURNS = 40
"""Of the loop that leaving takes, and more: a cancellation is tried after each number of them."""


@pytest.fixture
def where(tmp_path):
    home = Home(tmp_path / "home", tmp_path / "cache")
    home.prepare()
    return Where(home=home, base=load(home), loaded=load(home), environ={}, cwd=tmp_path)


async def used(where, left):
    async with attach(where) as attached:
        await attached.client.call("session.list")
        left.set()


async def test_a_cancellation_while_it_leaves_does_not_keep_the_gateway(where):
    for turns in range(TURNS):
        left = asyncio.Event()
        leaving = asyncio.create_task(used(where, left))
        await left.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
            raise asyncio.CancelledError  # it had left before
        assert not is_held(where.home), f"cancelled after {turns} turns"
