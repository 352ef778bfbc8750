"""terminal.*: interactive programs in a session's sandbox."""

from __future__ import annotations

from typing import Any

from tenure.processes.terminal import Screen
from tenure.protocol import terminals as t
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call


async def terminal_open(params: t.TerminalOpen, call: Call) -> t.TerminalRow:
    """Open one; it belongs to the session, whoever opened it."""
    terminals = changing(call, params.session_id).work.terminals
    screen = Screen(params.cols, params.rows)
    terminal = await terminals.open(params.command, screen, network=params.network)
    return t.TerminalRow(**terminal.shown())


async def terminal_write(params: t.TerminalWrite, call: Call) -> t.Written:
    """Type into one."""
    terminal = changing(call, params.session_id).work.terminals.find(params.terminal_id)
    data = params.text.encode("utf-8", "replace")
    await terminal.write(data)
    return t.Written(len(data))


async def terminal_read(params: t.TerminalRead, call: Call) -> t.TerminalPage:
    """Read from a cursor; waits for output if that is wanted."""
    session = call.gateway.sessions.get(params.session_id)
    terminal = session.work.terminals.find(params.terminal_id)
    await terminal.wait_output(params.cursor, params.wait_s)
    page = terminal.page(params.cursor, params.bytes_max)
    return t.TerminalPage(
        text=page.text, cursor=page.cursor, dropped=page.dropped, more=page.more,
        running=terminal.running, returncode=terminal.returncode,
    )  # fmt: skip


async def terminal_resize(params: t.Resize, call: Call) -> dict[str, Any]:
    """Give a terminal another size; a client that names none only tells its own width."""
    if params.terminal_id:
        terminals = changing(call, params.session_id).work.terminals
        terminals.find(params.terminal_id).resize(Screen(params.cols, params.rows))
    return {"cols": params.cols}


async def terminal_signal(params: t.TerminalSignal, call: Call) -> t.TerminalDone:
    """Send a signal."""
    terminal = changing(call, params.session_id).work.terminals.find(params.terminal_id)
    await terminal.signal(params.signal)
    return t.TerminalDone(terminal.id)


async def terminal_close(params: t.OneTerminal, call: Call) -> t.TerminalDone:
    """End one."""
    terminals = changing(call, params.session_id).work.terminals
    await terminals.close(terminals.find(params.terminal_id))
    return t.TerminalDone(params.terminal_id)


async def terminal_list(params: t.ForSession, call: Call) -> t.TerminalRows:
    """The session's terminals, oldest first."""
    terminals = call.gateway.sessions.get(params.session_id).work.terminals
    return t.TerminalRows([t.TerminalRow(**one.shown()) for one in terminals.all()])
