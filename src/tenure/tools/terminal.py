"""The terminal tool: how a model uses the session's terminals."""

from __future__ import annotations

import copy
import re
from typing import Annotated, ClassVar, Literal

import msgspec

from tenure.conversation import ToolSpec
from tenure.processes.terminal import CELLS_MAX, Screen
from tenure.tools.base import OFFLINE, Effect, Tool, ToolContext, ToolResult, TypedTool, schema_of
from tenure.tools.clip import clip
from tenure.tools.terminals import WAIT_S_MAX, Terminal, Terminals

FIRST_OUTPUT_S = 1.0
"""How long a call waits for something to be printed, unless it says otherwise."""
QUIET_S = 0.15
"""Output that has paused for so long is taken to be all, for now."""
SETTLE_S = 3.0
"""How long a call waits for such a pause."""
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]|[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]"
)
_OVERTYPED = re.compile(r"[^\n]*\r(?!\n|$)")

Cells = Annotated[int, msgspec.Meta(ge=1, le=CELLS_MAX)]


class TerminalArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `terminal`."""

    action: Literal["open", "write", "read", "resize", "signal", "close", "list"]
    id: str = ""
    command: str = ""
    text: str = ""
    signal: str = ""
    cols: Cells = 80
    rows: Cells = 24
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=WAIT_S_MAX)] = FIRST_OUTPUT_S


class OfflineTerminalArgs(TerminalArgs, frozen=True, omit_defaults=True):
    """Arguments of `terminal` where commands have no network."""

    network: bool = False


class TerminalTool(TypedTool[TerminalArgs]):
    """Open, type into, read, resize, signal and close terminals.

    Args:
        bytes_max: output that goes to the model at once, in bytes.
    """

    name: ClassVar[str] = "terminal"
    description = (
        "Interactive programs (REPLs, editors) on a terminal: open (command), write (id, text; "
        "\\n is Enter, \\u0003 Ctrl-C), read new output (id), signal (id, signal), close, list."
    )
    effect: ClassVar[Effect] = Effect.EXECUTE
    args: type[TerminalArgs] = TerminalArgs

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""
        about = OFFLINE if self.args is OfflineTerminalArgs else ""
        return ToolSpec(self.name, self.description + about, schema_of(self.args))

    def offline(self) -> Tool:
        """See `AsksForNetwork`."""
        made = copy.copy(self)
        made.args = OfflineTerminalArgs
        return made

    async def run(self, args: TerminalArgs, ctx: ToolContext) -> ToolResult:
        """Do one action; cancellation stops the waiting for output, not the program."""
        terminals = Terminals.of(ctx)
        if args.action == "list":
            lines = [
                f"{t.id}  {t.status}  {clip(t.command or 'shell', 200)}" for t in terminals.all()
            ]
            return ToolResult("\n".join(lines) or "(none)", summary=f"{len(lines)} terminals")
        if args.action == "open":
            network = bool(getattr(args, "network", False))
            screen = Screen(args.cols, args.rows)
            terminal = await terminals.open(args.command, screen, network=network)
        else:
            terminal = terminals.find(args.id)
        await self._act(args, terminal, terminals)
        if args.action != "close":
            await _settled(terminal, args.wait_s, ctx)
        return self._told(args, terminal)

    async def _act(self, args: TerminalArgs, terminal: Terminal, terminals: Terminals) -> None:
        if args.action == "write":
            typed = args.text.replace("\r\n", "\n").replace("\n", "\r")  # what the key sends
            await terminal.write(typed.encode("utf-8", "replace"))
        elif args.action == "resize":
            terminal.resize(Screen(args.cols, args.rows))
        elif args.action == "signal":
            await terminal.signal(args.signal.upper().removeprefix("SIG"))
        elif args.action == "close":
            await terminals.close(terminal)

    def _told(self, args: TerminalArgs, terminal: Terminal) -> ToolResult:
        page = terminal.page(terminal.cursor, terminal.end + 1)
        terminal.cursor = page.cursor
        lost = f"[… {page.dropped} bytes were not kept …]\n" if page.dropped else ""
        text = clip(lost + plain(page.text), self._bytes_max)
        said = f"{terminal.id}: {'closed' if args.action == 'close' else terminal.status}"
        return ToolResult(f"[{said}]\n{text}".rstrip(), summary=said)


async def _settled(terminal: Terminal, wait_s: float, ctx: ToolContext) -> None:
    """Wait for output, then for a pause in it; both bounded."""
    await terminal.wait_output(terminal.cursor, wait_s)
    give_up = ctx.clock.monotonic() + min(wait_s, SETTLE_S)
    while terminal.running and ctx.clock.monotonic() < give_up:
        before = terminal.end
        await terminal.wait_output(before, QUIET_S)
        if terminal.end == before:
            return


def plain(text: str) -> str:
    """What a person would read of a terminal's output: no colours, no overtyped lines."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
    return _OVERTYPED.sub("", text).replace("\r", "")
