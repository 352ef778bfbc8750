"""Terminals: interactive programs in a session's sandbox."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tenure.protocol.params import (
    ForSession as ForSession,  # noqa: PLC0414 - a name of this module too
    MaybeSession,
)

Cells = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class TerminalOpen(ForSession, kw_only=True):
    """Params of terminal.open."""

    command: str = ""
    """For the shell of the session's sandbox; empty: an interactive shell."""
    cols: Cells = 80
    rows: Cells = 24
    network: bool = False
    """Let it reach the network, also where commands of the session do not."""


class TerminalRow(msgspec.Struct, kw_only=True):
    """A terminal. Result of terminal.open."""

    terminal_id: str
    command: str
    pid: int
    cols: int
    rows: int
    running: bool
    returncode: int | None
    """How its program ended (negative: by that signal); null while it runs."""
    cursor: int
    """The place behind all of its output so far."""


class TerminalRows(msgspec.Struct):
    """Result of terminal.list."""

    terminals: list[TerminalRow]


class OneTerminal(ForSession, kw_only=True):
    """Params of terminal.close."""

    terminal_id: str


class TerminalWrite(OneTerminal, kw_only=True):
    """Params of terminal.write."""

    text: str
    """As typed: Enter is a carriage return, Ctrl-C is U+0003."""


class Written(msgspec.Struct):
    """Result of terminal.write."""

    bytes: int


class TerminalRead(OneTerminal, kw_only=True):
    """Params of terminal.read. Whoever reads has a cursor of their own."""

    cursor: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Read what came after this place; 0: all that is kept."""
    bytes_max: Annotated[int, msgspec.Meta(ge=4, le=262_144)] = 65_536
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Wait so long for output, if there is none yet."""


class TerminalPage(msgspec.Struct, kw_only=True):
    """Result of terminal.read."""

    text: str
    cursor: int
    """Go on from here."""
    dropped: int
    """Bytes after the asked cursor that are not kept any more."""
    more: bool
    """There is more to read at once."""
    running: bool
    returncode: int | None


class Resize(MaybeSession, kw_only=True):
    """Params of terminal.resize."""

    cols: int = 80
    rows: int = 24
    """Both are kept between 1 and 1,000."""
    terminal_id: str = ""
    """Which terminal of the session; empty: the client's own, which needs nothing here."""


class TerminalSignal(OneTerminal, kw_only=True):
    """Params of terminal.signal."""

    signal: str
    """INT, QUIT, TSTP (to the foreground job, as their keys send them), CONT, TERM, HUP, KILL,
    USR1, USR2 or WINCH (to everything that runs on it)."""


class TerminalDone(msgspec.Struct):
    """Result of terminal.signal and terminal.close: the terminal's id."""

    terminal_id: str


class TerminalOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of agent.terminal.output: what a terminal shows, gathered over a moment."""

    process_id: str
    """The terminal's id."""
    chunk: str
    cursor: int
    """The place behind it; terminal.read goes on from there."""
    dropped: int
    """Bytes before it that this event leaves out; terminal.read has the latest of them."""


class TerminalClose(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of terminal.close: the program on a terminal has exited."""

    process_id: str
    """The terminal's id."""
    returncode: int


TERMINAL_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "terminal.open": (TerminalOpen, TerminalRow, "Open a terminal in the session's sandbox."),
    "terminal.write": (TerminalWrite, Written, "Type into a terminal."),
    "terminal.read": (TerminalRead, TerminalPage, "A terminal's output after a cursor."),
    "terminal.resize": (Resize, dict[str, Any], "Tell the width, or a terminal another size."),
    "terminal.signal": (TerminalSignal, TerminalDone, "Send a signal to what runs on a terminal."),
    "terminal.close": (
        OneTerminal,
        TerminalDone,
        "End all that runs on a terminal, and forget it.",
    ),
    "terminal.list": (ForSession, TerminalRows, "The session's terminals."),
}
"""name -> (params, result, about)"""
