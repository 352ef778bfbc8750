"""How one child is started: in a session of its own, on pipes or on a terminal of its own."""

from __future__ import annotations

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
