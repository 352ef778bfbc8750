"""The terminal tool: what a model types, sees and ends."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import NotFound, ToolError
from tenure.tools import terminals
from tenure.tools.terminal import TerminalTool, plain
from tenure.tools.terminals import FAMILY

TOOL = TerminalTool(2_000)


def text(result):
    return result.text.partition("\n")[2]


async def until_said(desk, said, wanted):
    """What is said up to the words that are wanted, however long the program takes."""
    shown = text(said)
    async with asyncio.timeout(30):
        while wanted not in shown:
            shown += text(await desk.call(TOOL, action="read", id="t1"))
    return shown


async def test_a_conversation_with_a_program(desk):
    opened = await desk.call(TOOL, action="open", command="/usr/bin/env python3 -q")
    assert opened.text.startswith("[t1: running]")
    await until_said(desk, opened, ">>>")
    said = await desk.call(TOOL, action="write", id="t1", text="6 * 7\n")
    assert "\x1b" not in await until_said(desk, said, "42")
    assert "t1  running" in (await desk.call(TOOL, action="list")).text
    said = await desk.call(TOOL, action="write", id="t1", text="exit(5)\n", wait_s=10)
    while "exited" not in said.text:
        said = await desk.call(TOOL, action="read", id="t1")
    assert "[t1: exited with code 5]" in said.text
    assert (await desk.call(TOOL, action="close", id="t1")).summary == "t1: closed"
    assert (await desk.call(TOOL, action="list")).text == "(none)"
    await asyncio.sleep(0)
    await desk.end_turn()
    assert desk.leases() == []


async def test_it_outlives_the_turn_and_not_the_session(desk):
    await desk.call(TOOL, action="open", command="sleep 1000", wait_s=0)
    await desk.end_turn()
    assert [kind for kind, _ in desk.leases() if kind == "terminal"] == ["terminal"]
    await desk.session.close()
    assert desk.leases() == []


async def test_new_output_is_read_once_and_waited_for(desk):
    command = "echo one; read; echo two; read"
    opened = await desk.call(TOOL, action="open", command=command, wait_s=5)
    await until_said(desk, opened, "one")
    assert "one" not in (await desk.call(TOOL, action="read", id="t1", wait_s=0)).text
    said = await desk.call(TOOL, action="write", id="t1", text="\n")
    assert "one" not in await until_said(desk, said, "two")


async def test_a_flood_is_kept_within_limits_and_interrupted(desk):
    await desk.call(TOOL, action="open", command="yes", wait_s=0.2)
    async with asyncio.timeout(30):
        while (
            "left out"
            not in (said := await desk.call(TOOL, action="read", id="t1", wait_s=0.5)).text
        ):
            assert len(said.text) < 2_300
    assert len(said.text) < 2_300
    terminal = desk.state[FAMILY].find("t1")
    assert len(terminal._ring.since(0)[0]) <= terminals.SCROLLBACK_BYTES
    await desk.call(TOOL, action="signal", id="t1", signal="SIGINT")
    async with asyncio.timeout(30):
        await terminal.over.wait()
    assert terminal.returncode in {-2, 130}


async def test_what_was_dropped_is_told(desk, monkeypatch):
    monkeypatch.setattr(terminals, "SCROLLBACK_BYTES", 100)
    wait = "until [ -e go ]; do sleep 0.01; done"  # nothing is read before all is written
    said = f"{wait}; head -c 500 /dev/zero | tr '\\0' x"
    await desk.call(TOOL, action="open", command=said, wait_s=0)
    (desk.cwd / "go").touch()
    async with asyncio.timeout(30):
        await desk.state[FAMILY].find("t1").over.wait()
    assert "[… 400 bytes were not kept …]" in (await desk.call(TOOL, action="read", id="t1")).text


async def test_the_end_of_the_program_ends_what_it_left(desk):
    await desk.call(TOOL, action="open", command="sleep 1001 & echo $! > pid; exit 0", wait_s=0)
    async with asyncio.timeout(30):
        await desk.state[FAMILY].find("t1").over.wait()
    from tenure.processes.procfs import read_stat

    stat = read_stat(int((desk.cwd / "pid").read_text()))
    assert stat is None or stat.gone


async def test_it_has_the_size_that_it_was_given(desk):
    said = await desk.call(
        TOOL, action="open", command="stty size; read; stty size", cols=99, rows=7
    )
    assert "7 99" in said.text
    await desk.call(TOOL, action="resize", id="t1", cols=50, rows=9)
    assert "9 50" in (await desk.call(TOOL, action="write", id="t1", text="\n")).text


async def test_refusals(desk):
    with pytest.raises(NotFound, match="no terminal 't9'"):
        await desk.call(TOOL, action="read", id="t9")
    with pytest.raises(ToolError, match="wrong"):
        await desk.call(TOOL, action="read", id="t9", wait_s=1_000)
    await desk.call(TOOL, action="open", command="sleep 1000", wait_s=0)
    with pytest.raises(ToolError, match="no signal"):
        await desk.call(TOOL, action="signal", id="t1", signal="FOO")


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ("\x1b[1;31mred\x1b[0m\r\n", "red\n"),
        ("10%\r50%\r100%\r\n", "100%\n"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(B\x1b=\x1b[?2004hok\x07", "ok"),
        ("a\tb\r", "a\tb"),
    ],
)
def test_what_a_person_would_read(raw, read):
    assert plain(raw) == read
