"""The board of sub-agents: who may begin, what is kept, what is heard."""

from __future__ import annotations

import asyncio

import pytest

from tenure.sessions import subagents
from tenure.sessions.subagents import STEERED_MAX, TAIL_LINES, Board, SubAgent
from tenure.testing.clock import settle
from tenure.tools.base import Task


def agent(board=None, parent=None):
    one = SubAgent(Task("goal"), parent, 0, 1)
    if board is not None:
        board.add(one)
    return one


async def held(board, one, places):
    """It has its place, or waits for one; it keeps it until it is cancelled."""

    async def hold():
        async with board.place(one, places):
            one.state = "running"
            await asyncio.Event().wait()

    task = asyncio.ensure_future(hold())
    await settle()
    return task


async def left(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_each_depth_has_places_of_its_own_and_a_new_limit_counts_for_those_that_come():
    board = Board()
    above = agent(board)
    others = [agent(board, above), agent(board, above), agent(board), agent(board)]
    tasks = [await held(board, above, 1)]
    for one, places in zip(others, (1, 1, 1, 2), strict=True):
        tasks.append(await held(board, one, places))
    assert [one.state for one in (above, *others)] == [
        "running", "running", "waiting", "waiting", "running",
    ]  # fmt: skip
    await left(tasks.pop(0))
    await settle()
    assert others[2].state == "running"
    await left(*tasks)


async def test_one_that_is_cancelled_while_it_waits_takes_no_place():
    board = Board()
    first, second, third = (agent(board) for _ in range(3))
    tasks = [await held(board, one, 1) for one in (first, second, third)]
    await left(tasks[1])
    await left(tasks[0])
    await settle()
    assert third.state == "running"
    await left(tasks[2])


def test_those_that_are_over_are_forgotten_and_those_that_live_are_not(monkeypatch):
    monkeypatch.setattr(subagents, "KEPT_MAX", 3)
    board = Board()
    alive = agent(board)
    over = [agent(board) for _ in range(5)]
    for one in over:
        one.state = "completed"
    last = agent(board)
    assert list(board.all.values()) == [alive, *over[-3:], last]
    assert board.live == [alive, last]
    assert [one.number for one in board.all.values()] == [1, 4, 5, 6, 7]
    assert board.numbered(2) is None
    assert board.numbered(7) is last


def test_what_one_says_is_kept_within_bounds():
    one = agent()
    one.say("x" * 10_000 + "\n" + "line\n" * 1_000)
    assert one.lines == 1_001
    assert len(one.tail) == TAIL_LINES
    one.say("y" * 10_000)
    assert len(one.tail[-1]) == subagents.LINE_CHARS


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_so_much_is_told_to_one_that_lives_and_nothing_to_one_that_is_over(state):
    board, one = Board(), agent()
    one.state = state
    assert [board.steer(one, str(n)) for n in range(STEERED_MAX + 1)] == [
        *[True] * STEERED_MAX, False,
    ]  # fmt: skip
    one.steered.clear()
    one.state = "completed"
    assert not board.steer(one, "more")
    assert not one.steered


async def test_the_first_reason_for_an_end_stands_and_one_that_is_over_has_none():
    one = agent()
    assert not one.cancel("user", "it has not begun")
    assert one.why == ""
    one.task = asyncio.ensure_future(asyncio.Event().wait())
    assert one.cancel("timeout", "its time is over")
    assert one.cancel("user", "the person was quicker")
    assert one.why == "its time is over"
    await asyncio.wait([one.task])
    one.state = "interrupted"
    assert not one.cancel("user", "too late")
    running = one.task = asyncio.ensure_future(asyncio.Event().wait())
    assert not one.cancel("user", "too late")
    await settle()
    assert not running.done()
    await left(running)
