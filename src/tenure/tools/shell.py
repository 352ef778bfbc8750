"""Running a shell command in the working directory.

A command is not confined by this: it may do what the user may do. Approvals stand before it,
sandboxes around it where there are any.

The call ends with the command itself, not with its pipe: a job that the command leaves behind
(``server &``) is ended, and the result says so. The background tool is the place for such jobs.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from tenure.conversation import ToolSpec
from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.processes.environment import PASSED
from tenure.processes.spawn import NO_ENV, Process
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool, schema_of
from tenure.tools.output import Capture

TIMEOUT_S_MAX = 3_600.0
_ABOUT_SECRETS = (
    " secrets: variables (API_KEY; SUDO_PASSWORD for sudo -S) that the person fills in unseen."
)
_TAKEN = ("LD_", "DYLD_", "BASH", "TENURE", "GIT_", "PYTHON", "NODE_", "PERL", "RUBY", "IFS", "ENV")
_SHOWN_CHARS = 300


SECRETS_MAX = 4
_NAME = r"^[A-Z][A-Z0-9_]{0,63}$"


class ShellArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `shell`."""

    command: str
    timeout_s: float = 0.0
    """0 means: the configured time."""


class SecretShellArgs(ShellArgs, frozen=True, omit_defaults=True):
    """Arguments of `shell` where the person can be asked for secrets."""

    secrets: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=_NAME)], ...],
        msgspec.Meta(max_length=SECRETS_MAX),
    ] = ()
    """Variables that the person is asked for; the command gets them, nobody else does."""


class Shell(TypedTool[ShellArgs]):
    """One command, waited for.

    Args:
        bytes_max: output that goes to the model, in bytes.
        timeout_s: unless the call says otherwise, in seconds.
        secrets: whether a call may name secrets that the person is asked for.
    """

    name: ClassVar[str] = "shell"
    description = (
        "Run a bash command in the working directory, without input. Processes that it leaves "
        "running are ended."
    )
    effect: ClassVar[Effect] = Effect.EXECUTE
    args: type[ShellArgs] = ShellArgs

    def __init__(self, bytes_max: int, timeout_s: float, *, secrets: bool = False) -> None:
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s
        if secrets:
            self.args = SecretShellArgs

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""
        about = _ABOUT_SECRETS if self.args is SecretShellArgs else ""
        return ToolSpec(self.name, self.description + about, schema_of(self.args))

    async def run(self, args: ShellArgs, ctx: ToolContext) -> ToolResult:
        """Run it; cancellation and the timeout end its whole tree."""
        timeout_s = min(args.timeout_s or self._timeout_s, TIMEOUT_S_MAX)
        names = args.secrets if isinstance(args, SecretShellArgs) else ()
        secrets = await _ask_secrets(names, args.command, ctx)
        capture = Capture(self._bytes_max, ctx.spill_dir, ctx.output, tuple(secrets.values()))
        process = await start_shell(args.command, ctx, env=secrets)
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


async def _ask_secrets(names: tuple[str, ...], command: str, ctx: ToolContext) -> dict[str, str]:
    """What the person types for each name. They are this call's alone.

    Raises:
        ToolError: one was not given, or a name means something to programs.
    """
    given: dict[str, str] = {}
    for name in names:
        if name in PASSED or name.startswith(_TAKEN):
            raise ToolError(f"{name} means something to programs; choose another name.")
        typed = await ctx.person.secret(name, f"{name} for: {command[:_SHOWN_CHARS]}")
        if typed is None:
            raise ToolError(f"The command was not run: nobody gave {name}.")
        if "\0" in typed:
            raise ToolError(f"The command was not run: {name} has a NUL character.")
        given[name] = typed
    return given


async def start_shell(
    command: str,
    ctx: ToolContext,
    *,
    background: bool = False,
    env: Mapping[str, str] = NO_ENV,
) -> Process:
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
        env=env,
        stdin="pipe" if background else "null",
        stderr="merge",
        label=words[0].partition("=")[0][:40],  # labels reach logs, arguments and values must not
        kind="background" if background else "process",
        owner=ctx.session_id,
    )


def _shell_path() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
