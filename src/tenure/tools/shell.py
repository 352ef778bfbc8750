"""Running a shell command in the working directory, in the session's sandbox.

Where that confines nothing, a command may do what the user may do: approvals stand before it.

The call ends with the command itself, not with its pipe: a job that the command leaves behind
(``server &``) is ended, and the result says so. The background tool is the place for such jobs.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from tenure.conversation import ToolSpec
from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.processes.environment import PASSED
from tenure.processes.spawn import NO_ENV
from tenure.sandbox.base import Order, Running
from tenure.tools.base import OFFLINE, Effect, Tool, ToolContext, ToolResult, TypedTool, schema_of
from tenure.tools.output import Capture

TIMEOUT_S_MAX = 3_600.0
_ABOUT_SECRETS = (
    " secrets: variables (API_KEY; SUDO_PASSWORD for sudo -S) that the person fills in unseen."
)
_TAKEN = ("LD_", "DYLD_", "BASH", "TENURE", "GIT_", "PYTHON", "NODE_", "PERL", "RUBY", "IFS", "ENV")
_SHOWN_CHARS = 300
_TOO_MANY = os.strerror(errno.EMFILE)


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


class OfflineShellArgs(ShellArgs, frozen=True, omit_defaults=True):
    """Arguments of `shell` where commands have no network."""

    network: bool = False


class OfflineSecretShellArgs(SecretShellArgs, frozen=True, omit_defaults=True):
    """The same where the person can be asked for secrets."""

    network: bool = False


_OFFLINE: dict[type[ShellArgs], type[ShellArgs]] = {
    ShellArgs: OfflineShellArgs,
    SecretShellArgs: OfflineSecretShellArgs,
}


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
        about = _ABOUT_SECRETS if issubclass(self.args, SecretShellArgs) else ""
        about += OFFLINE if self.args in _OFFLINE.values() else ""
        return ToolSpec(self.name, self.description + about, schema_of(self.args))

    def offline(self) -> Tool:
        """See `AsksForNetwork`."""
        made = copy.copy(self)
        made.args = _OFFLINE.get(self.args, self.args)
        return made

    async def run(self, args: ShellArgs, ctx: ToolContext) -> ToolResult:
        """Run it; cancellation and the timeout end its whole tree."""
        timeout_s = min(args.timeout_s or self._timeout_s, TIMEOUT_S_MAX)
        names = args.secrets if isinstance(args, SecretShellArgs) else ()
        secrets = await _ask_secrets(names, args.command, ctx)
        capture = Capture(self._bytes_max, ctx.spill_dir, ctx.output, tuple(secrets.values()))
        network = bool(getattr(args, "network", False))
        process = await start_shell(args.command, ctx, env=secrets, network=network)
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


async def _wait_end(process: Running, ctx: ToolContext, timeout_s: float) -> int | None:
    """Wait for the command; how many processes it left behind, or None if its time ran out."""
    try:
        async with deadline(ctx.clock, timeout_s):
            await process.wait()
    except TimeoutError:
        return None
    return await process.count_left()


def _told(process: Running, capture: Capture, left: int | None, timeout_s: float) -> ToolResult:
    status = process.returncode
    notes: list[str] = []
    if left is None:
        notes.append(f"ended after {timeout_s:g} s; give a longer timeout_s or use background")
    elif status is not None and status < 0:
        notes.append(f"ended by {signal_name(-status)}: {process.verdict}".removesuffix(": "))
    elif status:
        notes.append(f"exit code {status}: {process.verdict}".removesuffix(": "))
    if left:
        notes.append(f"{left} process{'es' * (left > 1)} that it left running ended")
    text = capture.text()
    if status and process.open_files and _TOO_MANY in text:
        limit = process.open_files
        notes.append(f"a process may have {limit} files open (limits.session_open_files)")
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
    network: bool = False,
) -> Running:
    """Start `command` in a shell, in the turn's scope, or the session's with an input pipe.

    Raises:
        ToolError: it cannot be a command. ProcessError: no shell could be started.
    """
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character.")
    words = command.split()
    if not words:
        raise ToolError("The command is empty.")
    order = Order(
        (shell_path(ctx), "-c", command),
        env=env,
        stdin="pipe" if background else "null",
        label=words[0].partition("=")[0][:40],  # labels reach logs, arguments and values must not
        kind="background" if background else "process",
        network=network,
    )
    return await ctx.sandbox.start(ctx.session if background else ctx.scope, order)


def shell_path(ctx: ToolContext) -> str:
    """The shell of the place where commands run."""
    if ctx.sandbox.files is not None:
        return "/bin/sh"  # nobody knows what is there
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
