"""Case 70: a terminal that prints without end is kept, told and read within limits."""

from __future__ import annotations

import asyncio

import pytest

from support.boxes import Ground
from tenure.processes.terminal import Screen
from tenure.tools import terminals as t


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.root.close()


async def test_memory_events_and_reads_are_bounded_and_what_is_missing_is_told(ground):
    told = []
    box = ground.local()

    async def sandbox():
        return box

    terminals = t.Terminals(
        ground.session, sandbox, ground.root.clock, lambda kind, payload: told.append(payload)
    )
    terminal = await terminals.open("yes 0123456789abcdef | head -c 3000000", Screen())
    async with asyncio.timeout(30):
        await terminal.over.wait()
    assert terminal.end >= 3_000_000
    outputs = [event for event in told if "chunk" in event]
    assert all(len(event["chunk"].encode()) <= t.TELL_BYTES_MAX for event in outputs)
    shown = sum(len(event["chunk"].encode()) for event in outputs)
    assert shown + sum(event["dropped"] for event in outputs) == terminal.end
    page = terminal.page(0, 10**9)
    assert len(page.data) == t.SCROLLBACK_BYTES
    assert page.dropped == terminal.end - t.SCROLLBACK_BYTES and page.cursor == terminal.end


async def test_the_loop_is_free_meanwhile(ground):
    box = ground.local()

    async def sandbox():
        return box

    terminals = t.Terminals(ground.session, sandbox, ground.root.clock, lambda *_: None)
    terminal = await terminals.open("yes", Screen())
    await terminal.wait_output(0, 10)
    turns = 0
    async with asyncio.timeout(30):
        while terminal.end < 1_000_000:
            await asyncio.sleep(0)
            turns += 1
    assert turns > 100
    await terminals.close(terminal)
