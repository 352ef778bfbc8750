"""Running a shell command in the working directory.

A command is not confined by this: it may do what the user may do. Approvals stand before it,
sandboxes around it where there are any.

The call ends with the command itself, not with its pipe: a job that the command leaves behind
(``server &``) is ended, and the result says so. The background tool is the place for such jobs.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import ClassVar

import msgspec

from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.processes.spawn import Process
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.output import Capture

TIMEOUT_S_MAX = 3_600.0


class ShellArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `shell`."""

    command: str
    timeout_s: float = 0.0
    """0 means: the configured time."""


class Shell(TypedTool[ShellArgs]):
    """One command, waited for.

    Args:
        bytes_max: output that goes to the model, in bytes.
        timeout_s: unless the call says otherwise, in seconds.
    """

    name: ClassVar[str] = "shell"
    description = (
        "Run a bash command in the working directory, without input. Processes that it leaves "
        "running are ended."
    )
    effect: ClassVar[Effect] = Effect.EXECUTE
    args = ShellArgs

    def __init__(self, bytes_max: int, timeout_s: float) -> None:
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s

    async def run(self, args: ShellArgs, ctx: ToolContext) -> ToolResult:
        """Run it; cancellation and the timeout end its whole tree."""
        timeout_s = min(args.timeout_s or self._timeout_s, TIMEOUT_S_MAX)
        capture = Capture(self._bytes_max, ctx.spill_dir, ctx.output)
        process = await start_shell(args.command, ctx)
        assert process.stdout is not None
        reading = ctx.scope.spawn(
            capture.drain(process.stdout, ctx.scope), name=f"output of {ctx.call_id}"
        )
        drained = reading.value
        try:
            left = await _wait_end(process, ctx, timeout_s)
        except asyncio.CancelledError:
            reading.release_nowait()
            raise
        finally:
            await process.stop()  # goes on by itself if this call is cancelled again
        await asyncio.wait({drained})  # nothing writes any more: what is in the pipe, then the end
        await capture.flush(ctx.scope)
        return _told(process, capture, left, timeout_s)


async def _wait_end(process: Process, ctx: ToolContext, timeout_s: float) -> int | None:
    """Wait for the command; how many processes it left behind, or None if its time ran out."""
    try:
        async with deadline(ctx.clock, timeout_s):
            await process.wait()
    except TimeoutError:
        return None
    return await process.count_left()


def _told(process: Process, capture: Capture, left: int | None, timeout_s: float) -> ToolResult:
    status = process.returncode
    notes: list[str] = []
    if left is None:
        notes.append(f"ended after {timeout_s:g} s; give a longer timeout_s or use background")
    elif status is not None and status < 0:
        notes.append(f"ended by {signal_name(-status)}")
    elif status:
        notes.append(f"exit code {status}")
    if left:
        notes.append(f"{left} process{'es' * (left > 1)} that it left running ended")
    text = capture.text()
    said = "; ".join(notes)
    if notes:
        text = f"{text.rstrip()}\n[{said}]".lstrip()
    failed = left is None or status != 0
    return ToolResult(text or "(no output)", is_error=failed, summary=said or "done")


def signal_name(signum: int) -> str:
    """Such as "SIGKILL"."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


async def start_shell(command: str, ctx: ToolContext, *, background: bool = False) -> Process:
    """Start `command` in a shell: in the turn's scope, or the session's with an input pipe.

    Raises:
        ToolError: it cannot be a command. ProcessError: no shell could be started.
    """
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character.")
    words = command.split()
    if not words:
        raise ToolError("The command is empty.")
    return await ctx.spawner.spawn(
        ctx.session if background else ctx.scope,
        [_shell_path(), "-c", command],
        cwd=ctx.cwd,
        stdin="pipe" if background else "null",
        stderr="merge",
        label=words[0].partition("=")[0][:40],  # labels reach logs, arguments and values must not
        kind="background" if background else "process",
        owner=ctx.session_id,
    )


def _shell_path() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
