"""The `tenure` command. `serve`, `run` and `chat` fork their guard before any heavy import.

`serve` is parsed without Typer: it saves a third of its start. Everything else goes through Typer,
whose commands import what they need when they run, so that ``--help`` stays fast.
"""

from __future__ import annotations

import io
import os
import sys

_GUARDED = frozenset({"serve", "run", "chat"})


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    _mend_stdio()
    args = sys.argv[1:]
    refusal = _platform_refusal()
    if refusal:
        sys.stderr.write(refusal + "\n")
        raise SystemExit(2)
    if _answered(args):
        raise SystemExit(0)
    command = next((a for a in args if not a.startswith("-")), "chat" if not args else "")
    guarded = None
    helping = bool({"--help", "-h"} & set(args))
    if command in _GUARDED and not helping:
        from tenure.processes.guard import start_guard

        guarded = start_guard()
    if args[:1] == ["serve"]:
        from tenure.cli.serve import serve

        raise SystemExit(serve(args[1:], guarded))
    if command in _GUARDED or helping:
        import gc

        gc.disable()  # until input is taken: nothing of the start-up is garbage
    from tenure.cli.commands import run_cli

    raise SystemExit(run_cli(args or ["chat"], guarded))


def _answered(args: list[str]) -> bool:
    """Print what needs no command: the version, the page of help; whether that was asked for."""
    try:
        if args[:1] == ["--version"]:
            from tenure import __version__

            sys.stdout.write(f"tenure {__version__}\n")
        elif args == ["--help"]:
            from tenure.cli.page import show

            if not show():
                return False
        else:
            return False
        sys.stdout.flush()
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered fails no second time
        if not isinstance(exc, BrokenPipeError):
            sys.stderr.write(f"tenure: {exc.strerror}.\n")
        raise SystemExit(1) from None
    return True


def _mend_stdio() -> None:
    """A closed stream becomes the null device, and text that a stream cannot encode is escaped."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _platform_refusal() -> str:
    """A sentence where Tenure does not run at all."""
    if sys.platform == "win32":
        return "Tenure does not run on Windows itself; run it inside WSL2, where it runs in full."
    return ""
