"""What the commands share: their options, and how they run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.errors import BadValue, ConfigError
from tenure.paths import is_folder

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tenure.cli.attach import Where

KINDS = ("auto", "local", "bubblewrap", "docker", "ssh")
"""Sandboxes; a test compares them with the configuration's."""
Connect = Annotated[str, typer.Option("--connect", metavar="URL", help="use this gateway")]
Model = Annotated[str, typer.Option("--model", metavar="PROVIDER:NAME", help="which model")]
Cwd = Annotated[Path | None, typer.Option("--cwd", help="working directory (default: here)")]
Session = Annotated[
    str, typer.Option("--session", help="continue this one: an id, its end, a title, or last")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="allow what would be asked")]
Plan = Annotated[bool, typer.Option("--plan", help="change nothing until a plan is approved")]
Json = Annotated[bool, typer.Option("--json", help="as JSON")]
Sandbox = Annotated[str, typer.Option("--sandbox", metavar="KIND", help=", ".join(KINDS))]
Attach = Annotated[
    list[str] | None,
    typer.Option("--attach", "-a", metavar="FILE", help="goes with the prompt (repeatable)"),
]
Profile = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="which profile (tenure profile list)")
]


def go(work: Coroutine[object, object, int]) -> int:
    """Run on uvloop."""
    import asyncio

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_told(work))


async def _until_told(work: Coroutine[object, object, int]) -> int:
    """Do `work`. SIGTERM, and a terminal that hangs up, end it in order; a second one at once."""
    import asyncio
    import signal

    from tenure.cli.signals import take_signals

    task, told = asyncio.current_task(), list[int]()
    terminals = [fd for fd in (0, 1, 2) if os.isatty(fd)]
    assert task is not None

    def leave(signum: signal.Signals) -> None:
        if told:
            os._exit(128 + signum)  # the guard cleans up
        told.append(signum)
        if signum == signal.SIGHUP:
            _let_go_of(terminals)
        task.cancel()

    take_signals((signal.SIGTERM, signal.SIGHUP), leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + told[0]


def _let_go_of(terminals: list[int]) -> None:
    """They have hung up: whatever is said or asked for at the end must not fail for that."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in terminals:
        os.dup2(null, fd)
    os.close(null)


def check_goes_on(session: str, cwd: Path | None, sandbox: str) -> None:
    """See to it that nothing is asked of a session that goes on which only a new one can have.

    Raises:
        BadValue: it is.
    """
    if session and (cwd is not None or sandbox):
        flags = " and ".join(["--cwd"] * (cwd is not None) + ["--sandbox"] * bool(sandbox))
        raise BadValue(
            f"--session goes on where that session works, so {flags} cannot count; leave it out, "
            "or begin a new session."
        )


def where_of(
    ctx: typer.Context,
    connect: str = "",
    cwd: Path | None = None,
    model: str = "",
    profile: str = "",
    sandbox: str = "",
) -> Where:
    """Where a command works; what is odd about the configuration is said on stderr.

    Raises:
        ConfigError, NotFound: the environment, the configuration or the profile is wrong.
        BadValue: there is no such sandbox.
    """
    from tenure.cli.attach import find_where

    if sandbox and sandbox not in KINDS:
        raise BadValue(f"There is no sandbox {sandbox[:40]!r}; use one of {', '.join(KINDS)}.")
    where = find_where(
        connect=connect, cwd=cwd, model=model, profile=profile, sandbox=sandbox, guarded=ctx.obj
    )
    for warning in where.loaded.warnings:
        sys.stderr.write(f"tenure: {warning}\n")
    if not is_folder(where.cwd):
        raise ConfigError(f"--cwd {where.cwd} is no folder.")
    try:
        str(where.cwd).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"The folder {where.cwd} has a name that is not UTF-8 here; rename it, or set "
            "LC_ALL=C.UTF-8."
        ) from None
    return where


def where_to_look(ctx: typer.Context, connect: str = "", profile: str = "") -> Where:
    """As `where_of`, for commands that run nothing: a wrong configuration is said, and they go on.

    Raises:
        ConfigError, NotFound: the environment or the profile is wrong.
    """
    try:
        return where_of(ctx, connect, profile=profile)
    except ConfigError as exc:
        from tenure.cli.lenient import where_anyway

        where = where_anyway(exc, connect=connect, profile=profile, guarded=ctx.obj)
        sys.stderr.write(f"tenure: {where.broken}\n")
        return where
