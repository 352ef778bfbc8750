"""A chat whose gateway has gone leaves the home to the next one, before it takes it itself."""

from __future__ import annotations

import asyncio

import pytest

from tenure.cli.chat import ANOTHER_S, ENDING_S, PAUSE_S, wait_for_another
from tenure.config import Home
from tenure.home import GatewayNote, HomeLock, remove_note, write_note
from tenure.testing.clock import settle

NOTE = GatewayNote("first", 1, 0, 0, "", "ws://127.0.0.1:1/api/ws", "", 0.0)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home", tmp_path / "cache")


async def pass_time(clock, seconds):
    for _ in range(round(seconds / PAUSE_S)):
        await settle(3)
        clock.advance(PAUSE_S)
    await settle(3)


async def test_the_old_one_that_is_ending_is_not_the_next_one(home, clock):
    ending = HomeLock.acquire(home)
    waiting = asyncio.create_task(wait_for_another(home, clock))
    await pass_time(clock, 20.0)  # a graceful stop takes its time
    assert not waiting.done()
    ending.release()
    await pass_time(clock, ANOTHER_S - 1)
    assert not waiting.done(), "the time to start again counts from the end of the old one"
    following = HomeLock.acquire(home)
    await pass_time(clock, 2.0)
    assert not waiting.done(), "the next one has the home and does not listen yet"
    write_note(home, NOTE)
    await pass_time(clock, PAUSE_S)
    assert waiting.done()
    following.release()


async def test_where_none_comes_the_home_is_taken_a_few_seconds_after(home, clock):
    HomeLock.acquire(home).release()
    write_note(home, NOTE)  # left by one that was killed
    waiting = asyncio.create_task(wait_for_another(home, clock))
    await pass_time(clock, ANOTHER_S - PAUSE_S)
    assert not waiting.done()
    await pass_time(clock, 2 * PAUSE_S)
    assert waiting.done()
    remove_note(home, NOTE.instance)


async def test_one_that_never_lets_go_is_not_waited_for_for_ever(home, clock):
    held = HomeLock.acquire(home)
    waiting = asyncio.create_task(wait_for_another(home, clock))
    await pass_time(clock, ENDING_S + 1)
    assert waiting.done()
    held.release()
