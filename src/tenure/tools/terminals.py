"""A session's terminals: interactive programs, each on a terminal of its own.

They run in the session's sandbox and end with the session, whoever is connected. Each keeps its
latest output, addressed by its place in all of it, so that everyone who reads has a cursor of their
own and is told what was dropped. When its program has exited, what it has left running is ended;
the output stays readable until the terminal is closed.
"""

from __future__ import annotations

import asyncio
import codecs
import signal
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tenure.clock import Clock, TimerHandle
from tenure.errors import NotFound, Overloaded, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.processes.terminal import FROM_KEYS, Screen
from tenure.sandbox.base import Order, Output, Running, Sandbox
from tenure.tools.background import FULL_PIECE, PAUSE_S, WRITE_S, Ring
from tenure.tools.shell import signal_name

if TYPE_CHECKING:
    from tenure.tools.base import ToolContext

FAMILY = "terminals"
TERMINALS_MAX = 8
"""Terminals of one session, those whose program has exited not counted."""
KEPT_MAX = 16
"""All terminals of one session; the oldest whose program has exited is forgotten first."""
SCROLLBACK_BYTES = 256 * 1024
"""The latest output that a terminal keeps."""
TELL_S = 0.03
"""How long output is gathered before clients are told."""
TELL_BYTES_MAX = 16 * 1024
"""The most that one event tells; the latest counts, and how much was left out is said."""
LEFT_S = 0.25
"""How long the last output may take to arrive after the program's end."""
WAIT_S_MAX = 60.0
COMMAND_CHARS_MAX = 32_768
INPUT_BYTES_MAX = 64 * 1024
SIGNALS: Mapping[str, int] = MappingProxyType(
    {
        name: getattr(signal, f"SIG{name}")
        for name in ("INT", "QUIT", "TSTP", "CONT", "TERM", "HUP", "KILL", "USR1", "USR2", "WINCH")
    }
)
"""What may be sent. The first three reach the foreground job, as keys do; the others everything."""

Publish = Callable[[str, dict[str, Any]], object]
"""Tells clients something at once; never blocks."""


class Page(NamedTuple):
    """A part of a terminal's output."""

    data: bytes
    cursor: int
    """The place behind it, from which to go on."""
    dropped: int
    """Bytes after the asked cursor that are not kept any more."""
    more: bool
    """There is more behind it now."""

    @property
    def text(self) -> str:
        """As text."""
        return self.data.decode("utf-8", "replace")


class Terminal:
    """One terminal. Its process and its tasks are the session's.

    Attributes:
        id: its name in the session.
        command: what runs on it; empty: a shell.
        screen: its size.
        cursor: how far the model has read.
    """

    def __init__(
        self, terminal_id: str, command: str, screen: Screen, running: Running, terminals: Terminals
    ) -> None:
        self.id = terminal_id
        self.command = command
        self.screen = screen
        self.cursor = 0
        self._running = running
        self._clock = terminals.clock
        self._publish = terminals.publish
        self._ring = Ring(SCROLLBACK_BYTES)
        self._news = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._told = 0
        self._timer: TimerHandle | None = None
        self.over = asyncio.Event()
        """Its program has exited, and all that it printed is here."""

    @property
    def running(self) -> bool:
        """Whether its program runs."""
        return not self.over.is_set()

    @property
    def returncode(self) -> int | None:
        """How its program ended, if it has."""
        return self._running.returncode if self.over.is_set() else None

    @property
    def end(self) -> int:
        """The place behind all output so far."""
        return self._ring.total

    @property
    def status(self) -> str:
        """A few words."""
        code = self.returncode
        if code is None:
            return "running"
        return f"ended by {signal_name(-code)}" if code < 0 else f"exited with code {code}"

    def shown(self) -> dict[str, Any]:
        """As a row."""
        return {
            "terminal_id": self.id,
            "command": self.command,
            "pid": self._running.pid,
            "cols": self.screen.columns,
            "rows": self.screen.rows,
            "running": self.running,
            "returncode": self.returncode,
            "cursor": self.end,
        }

    # --- using ----------------------------------------------------------------------------------

    def page(self, cursor: int, bytes_max: int) -> Page:
        """What came after `cursor`, of `bytes_max` at the most; never half a character.

        Args:
            cursor: a place in the output; one behind all of it means: nothing yet.
            bytes_max: at least 4.
        """
        data, dropped = self._ring.since(min(cursor, self.end))
        start = max(0, min(cursor, self.end)) + dropped
        whole = data[:bytes_max]
        if len(whole) < len(data) or self.running:
            whole = whole[: len(whole) - _cut_short(whole)]
        cursor = start + len(whole)
        return Page(whole, cursor, dropped, more=len(whole) < len(data))

    async def wait_output(self, cursor: int, seconds: float) -> None:
        """Wait until there is output behind `cursor`, or the program has exited; bounded."""
        try:
            async with deadline(self._clock, min(seconds, WAIT_S_MAX)):
                while self.end <= cursor and self.running:
                    await self._news.wait()
        except TimeoutError:
            return

    async def write(self, data: bytes) -> None:
        """Type `data`.

        Raises:
            ToolError: it is too much, or is not read in time; a part may have arrived.
            ProcessError: the program has exited.
        """
        if len(data) > INPUT_BYTES_MAX:
            raise ToolError(f"At most {INPUT_BYTES_MAX} bytes can be typed at once.")
        try:
            async with deadline(self._clock, WRITE_S):
                await self._running.write(data)
        except TimeoutError:
            raise ToolError(
                f"{self.id} has not read its input for {WRITE_S:.0f} s; a part of the text may "
                "have reached it."
            ) from None

    def resize(self, screen: Screen) -> None:
        """Give it another size; nothing happens once its program has exited."""
        terminal = self._running.terminal
        if self.running and terminal is not None and terminal.resize(screen):
            self.screen = screen

    async def signal(self, name: str) -> None:
        """Send a signal: to the foreground job what keys send, else to everything that runs on it.

        Raises:
            ToolError: no such signal.
        """
        if name not in SIGNALS:
            raise ToolError(f"{name[:20]!r} is no signal; use one of {', '.join(SIGNALS)}.")
        signum = SIGNALS[name]
        terminal = self._running.terminal
        pressed = signum in FROM_KEYS and terminal is not None and terminal.press(signum)
        if self.running and not pressed:
            await self._running.signal_all(signum)

    # --- following ------------------------------------------------------------------------------

    async def follow(self, output: Output) -> None:
        """Keep the latest output and tell clients of it, until its end."""
        try:
            while piece := await output.read():
                self._ring.add(piece)
                self._wake()
                if self._timer is None:
                    self._timer = self._clock.call_later(TELL_S, self._tell)
                await self._clock.sleep(PAUSE_S if len(piece) >= FULL_PIECE else 0)
        finally:
            self._tell()

    async def watch(self, following: asyncio.Task[None]) -> None:
        """Notice the end of the program; end what it has left, and tell."""
        returncode = await self._running.wait()
        await self._running.stop()  # the output ends with the last that held the terminal
        try:
            async with deadline(self._clock, LEFT_S):
                await asyncio.wait({following})
        except TimeoutError:
            following.cancel()
        self.over.set()
        self._wake()
        self._publish("terminal.close", {"process_id": self.id, "returncode": returncode})

    async def close(self) -> None:
        """End everything that runs on it; returns when its last output is here."""
        await self._running.stop()
        await self.over.wait()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        data, _ = self._ring.since(self._told)
        lost = self.end - self._told - min(len(data), TELL_BYTES_MAX)
        if lost:
            self._decoder.reset()
        self._told = self.end
        chunk = self._decoder.decode(data[-TELL_BYTES_MAX:])
        if chunk or lost:
            told = {"process_id": self.id, "chunk": chunk, "cursor": self.end, "dropped": lost}
            self._publish("agent.terminal.output", told)


def _cut_short(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 2 if byte >> 5 == 6 else 3 if byte >> 4 == 14 else 4 if byte >> 3 == 30 else 1
        return back if size > back else 0
    return 0


class Terminals:
    """A session's terminals.

    Args:
        session: owns what runs on them.
        sandbox: where that runs; awaited for each.
        clock: time.
        publish: tells clients of output and ends.
    """

    def __init__(
        self,
        session: Scope,
        sandbox: Callable[[], Awaitable[Sandbox]],
        clock: Clock,
        publish: Publish,
    ) -> None:
        self.clock = clock
        self.publish = publish
        self._session = session
        self._sandbox = sandbox
        self._terminals: dict[str, Terminal] = {}
        self._starting = 0
        self._count = 0

    @staticmethod
    def of(ctx: ToolContext) -> Terminals:
        """The session's."""

        async def sandbox() -> Sandbox:
            return ctx.sandbox

        found = ctx.state.get(FAMILY)
        if found is None:
            found = ctx.state[FAMILY] = Terminals(ctx.session, sandbox, ctx.clock, _unheard)
        assert isinstance(found, Terminals)
        return found

    def all(self) -> list[Terminal]:
        """Oldest first."""
        return list(self._terminals.values())

    def find(self, terminal_id: str) -> Terminal:
        """The terminal of that id.

        Raises:
            NotFound: there is none.
        """
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            known = ", ".join(self._terminals) or "none"
            raise NotFound(f"There is no terminal {terminal_id[:40]!r}; there are: {known}.")
        return terminal

    async def open(self, command: str, screen: Screen, *, network: bool = False) -> Terminal:
        """Start `command`, or a shell, on a new terminal; it ends with the session.

        Args:
            command: for the shell; empty: the shell itself.
            screen: the size.
            network: let it reach the network, also where commands do not.

        Raises:
            Overloaded: the limit is reached.
            ToolError: it cannot be a command. ProcessError: it could not be started.
        """
        if "\0" in command or len(command) > COMMAND_CHARS_MAX:
            raise ToolError(
                f"A command has at most {COMMAND_CHARS_MAX} characters, none of them NUL."
            )
        self._make_room()
        self._starting += 1
        try:
            sandbox = await self._sandbox()
            running = await sandbox.start(self._session, _order(sandbox, command, screen, network))
        finally:
            self._starting -= 1
        self._count += 1
        terminal = Terminal(f"t{self._count}", command, screen, running, self)
        self._terminals[terminal.id] = terminal
        assert running.stdout is not None
        following = self._session.spawn(
            terminal.follow(running.stdout), name=f"output of {terminal.id}"
        )
        self._session.spawn(terminal.watch(following.value), name=f"end of {terminal.id}")
        return terminal

    async def close(self, terminal: Terminal) -> None:
        """End everything that runs on it, and forget it."""
        self._terminals.pop(terminal.id, None)
        await terminal.close()

    def _make_room(self) -> None:
        run = sum(terminal.running for terminal in self.all()) + self._starting
        if run >= TERMINALS_MAX:
            raise Overloaded(f"{TERMINALS_MAX} terminals run already; close one first.")
        over = [terminal for terminal in self.all() if not terminal.running]
        for terminal in over[: max(0, len(self._terminals) - KEPT_MAX + 1)]:
            del self._terminals[terminal.id]


def _order(sandbox: Sandbox, command: str, screen: Screen, network: bool) -> Order:
    """Interactive also with a command: it then has the terminal's keys for itself.

    Without that, an interrupt typed on the terminal would reach whatever stands between.
    """
    shell = ("/bin/sh",) if sandbox.files is not None else ("/bin/bash", "--norc")
    argv = (*shell, "-ic", command) if command else (*shell, "-i")
    words = command.split()
    return Order(
        argv,
        env={"TERM": "xterm-256color"},
        screen=screen,
        network=network,
        label=words[0].partition("=")[0][:40] if words else "shell",
        kind="terminal",
    )


def _unheard(_event: str, _payload: dict[str, Any]) -> None:
    """Nobody is told."""


def terminals_running(state: Mapping[str, Any]) -> bool:
    """Whether a terminal of this tool state has a program running."""
    found = state.get(FAMILY)
    return isinstance(found, Terminals) and any(terminal.running for terminal in found.all())
