"""How one child is started and held: in a session of its own, on pipes or a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tenure.processes.terminal import Screen, acquiring, open_pair

_STDERR = {"merge": subprocess.STDOUT, "pipe": subprocess.PIPE, "null": subprocess.DEVNULL}


@dataclass(slots=True)
class Start:
    """A child that is to be started; a call does it, and blocks until it runs.

    Attributes:
        argv: the program and its arguments.
        cwd: its working directory; None for ours.
        env: all of its environment.
        stdin: /dev/null, or a pipe.
        stderr: into stdout, into a pipe of its own, or dropped.
        screen: the size of its terminal; None: it is on pipes.
        opened: our end of its terminal, once that is open. Ownership: the caller's.
    """

    argv: Sequence[str]
    cwd: Path | None
    env: Mapping[str, str]
    stdin: Literal["null", "pipe"]
    stderr: Literal["merge", "pipe", "null"]
    screen: Screen | None
    opened: list[int] = field(default_factory=list)

    def __call__(self) -> subprocess.Popen[bytes]:
        """Start it.

        Raises:
            OSError, ValueError: it cannot be started.
        """
        if self.screen is not None:
            return self._on_terminal(self.screen)
        return subprocess.Popen(
            list(self.argv),
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.PIPE if self.stdin == "pipe" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=_STDERR[self.stderr],
            bufsize=0,
            close_fds=True,
            start_new_session=True,
        )

    def _on_terminal(self, screen: Screen) -> subprocess.Popen[bytes]:
        ours, theirs = open_pair(screen)
        self.opened.append(ours)
        try:
            return subprocess.Popen(
                acquiring(theirs, self.argv),
                cwd=self.cwd,
                env=self.env,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                close_fds=True,
                start_new_session=True,
            )
        finally:
            os.close(theirs)


def our_ends(
    popen: subprocess.Popen[bytes], terminal_fd: int | None
) -> tuple[int | None, int | None, int | None]:
    """Descriptors for its output, its errors and its input; the caller's.

    Raises:
        OSError: none is left; those that were had are given back.
    """
    ends: list[int | None] = []
    try:
        for file in (popen.stdout, popen.stderr, popen.stdin):
            ends.append(None if file is None else _detach(file))  # noqa: PERF401 - kept if one fails
        if terminal_fd is not None:
            ends[0] = os.dup(terminal_fd)
            ends[2] = os.dup(terminal_fd)
    except OSError:
        for fd in ends:
            if fd is not None:
                os.close(fd)
        raise
    return ends[0], ends[1], ends[2]


def _detach(file: object) -> int:
    """Take the descriptor out of a raw file object, which then owns nothing."""
    fd = os.dup(file.fileno())  # type: ignore[attr-defined]  # dup keeps close-on-exec
    with contextlib.suppress(OSError):
        file.close()  # type: ignore[attr-defined]
    return fd
