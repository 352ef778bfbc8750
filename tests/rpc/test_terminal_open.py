"""terminal.open: an interactive program in the session's sandbox, which ends with the session."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import Overloaded, ReadOnly, ToolError
from tenure.processes.procfs import read_stat
from tenure.tools import terminals


async def test_it_runs_is_seen_and_ends_with_the_session(rig):
    session = await rig.session()
    opened = await rig.call(
        "terminal.open", session_id=session, command="echo hi; cat", cols=90, rows=30
    )
    assert opened["running"] and (opened["cols"], opened["rows"]) == (90, 30)
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    while "hi\r\n" not in (await rig.call("terminal.read", **one, wait_s=60))["text"]:
        pass
    rig.gateway.ports.clock.advance(0.1)  # what comes within a moment is told at once
    event = await rig.client.until("agent.terminal.output", session)
    assert event.payload["process_id"] == opened["terminal_id"]
    assert "hi\r\n" in event.payload["chunk"] and event.payload["cursor"] >= 4
    assert any(line.startswith("terminal") for line in rig.gateway.census(session))
    await rig.call("session.close", session_id=session)
    stat = read_stat(opened["pid"])
    assert stat is None or stat.gone


async def test_without_a_command_it_is_a_shell(rig):
    session = await rig.session()
    opened = await rig.call("terminal.open", session_id=session)
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    await rig.call("terminal.write", **one, text="echo $((20+3)); exit 3\r")
    closed = await rig.client.until("terminal.close", session)
    assert closed.payload == {"process_id": opened["terminal_id"], "returncode": 3}
    assert "23" in (await rig.call("terminal.read", **one))["text"]


async def test_it_survives_its_client_and_the_session_stays_loaded(rig):
    session = await rig.session()
    await rig.call("terminal.open", session_id=session, command="sleep 1000")
    assert rig.live(session).has_background
    await rig.call("session.detach", session_id=session)
    other, _ = await rig.gateway.client()
    await other.call("session.resume", session_id=session)
    (row,) = (await other.call("terminal.list", session_id=session))["terminals"]
    assert row["running"] and row["command"] == "sleep 1000"


async def test_there_are_so_many_at_the_most(rig, monkeypatch):
    monkeypatch.setattr(terminals, "TERMINALS_MAX", 2)
    session = await rig.session()
    calls = [
        rig.call("terminal.open", session_id=session, command=f"sleep 100{n}") for n in range(4)
    ]
    done = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in done if isinstance(one, Overloaded)]
    assert len(refused) == 2 and "close one first" in refused[0].message


async def test_those_whose_program_has_exited_are_forgotten_in_the_end(rig, monkeypatch):
    monkeypatch.setattr(terminals, "KEPT_MAX", 2)
    session = await rig.session()
    for _ in range(4):
        await rig.call("terminal.open", session_id=session, command="true")
        await rig.client.until("terminal.close", session)
    rows = (await rig.call("terminal.list", session_id=session))["terminals"]
    assert [row["terminal_id"] for row in rows] == ["t3", "t4"]


async def test_a_viewer_opens_none(rig):
    session = await rig.session()
    viewer, _ = await rig.gateway.client()
    await viewer.call("session.attach", session_id=session, role="viewer")
    with pytest.raises(ReadOnly):
        await viewer.call("terminal.open", session_id=session)


async def test_guards(rig):
    session = await rig.session()
    for command in ("a\0b", "x" * 40_000):
        with pytest.raises(ToolError, match="characters"):
            await rig.call("terminal.open", session_id=session, command=command)
    await rig.refuses_strangers("terminal.open")
    await rig.refuses_wrong_types("terminal.open", session_id=session)
