"""The seam to a place where a session's commands run: this machine, a box on it, another machine.

A sandbox belongs to one session and is made for one working directory. What it starts has the same
face everywhere and is owned by the scope that is named; what it needs itself (a container, a
connection) it acquires in the session's scope, on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import NO_ENV
from tenure.processes.terminal import Screen

Kind = Literal["local", "bubblewrap", "docker", "ssh"]
FILE_BYTES_MAX = 8 * 1024 * 1024
"""The most that is read or written at once of a file that is not on this machine."""


class Confinement(NamedTuple):
    """What a sandbox is called and what it confines; shown wherever the session is."""

    kind: Kind
    confined: bool
    """Commands change nothing but the working directory, and what goes with the session."""
    network: bool
    """Commands reach the network unasked."""
    about: str
    """Where commands run, in a few words, and why there."""


UNCONFINED = Confinement("local", confined=False, network=True, about="on this machine, unconfined")


class Order(NamedTuple):
    """A command to be started.

    Attributes:
        argv: the program and its arguments; no shell.
        env: variables to set over the few that it gets.
        stdin: nothing, or a pipe for `Running.write`.
        stderr: into stdout, into a pipe of its own (dropped where there can be none), or dropped.
        screen: start it on a terminal of this size, instead of on pipes.
        network: let it reach the network, also where commands do not.
        label: for people.
        kind: for the census.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = NO_ENV
    stdin: Literal["null", "pipe"] = "null"
    stderr: Literal["merge", "pipe", "null"] = "merge"
    screen: Screen | None = None
    network: bool = False
    label: str = ""
    kind: str = "process"


class Output(Protocol):
    """What a command writes. One reader at a time."""

    async def read(self, n: int = ..., /) -> bytes:
        """Up to `n` bytes as soon as there are any; b"" at the end. Cancelling loses nothing."""


class Screened(Protocol):
    """The terminal of a command that was started on one."""

    def resize(self, screen: Screen) -> bool:
        """Give it another size; False once it is closed."""

    def press(self, signum: int) -> bool:
        """Send what a key would send to the foreground job; whether that can be had."""


class Running(Protocol):
    """A started command with all that it starts. Owned by the scope given to `Sandbox.start`."""

    @property
    def pid(self) -> int:
        """Of what runs here for it."""

    @property
    def returncode(self) -> int | None:
        """Its exit status once it has exited (negative: by that signal), else None."""

    @property
    def verdict(self) -> str:
        """Why it was ended by a limit, in a few words; empty if it was not."""

    @property
    def open_files(self) -> int:
        """How many files each of its processes may have open; 0: we have set no limit."""

    @property
    def stdout(self) -> Output | None:
        """What it writes."""

    @property
    def stderr(self) -> Output | None:
        """What it writes as errors, where that was asked for and can be had."""

    @property
    def terminal(self) -> Screened | None:
        """Its terminal, if it has one."""

    async def wait(self) -> int:
        """Wait until the command itself has exited. Cancelling stops the waiting only."""

    async def write(self, data: bytes) -> None:
        """Write to its input, waiting while it is full.

        Raises:
            ProcessError: it has none, or it is closed.
        """

    async def signal_all(self, signum: int) -> None:
        """Send a signal to everything that runs of it."""

    async def count_left(self) -> int:
        """How many processes of it run now."""

    async def stop(self) -> None:
        """End all of it, by bounded steps. Idempotent. Cancelling stops the waiting only."""


Ruling = Literal["", "ask", "deny"]


def unruled(path: str) -> Ruling:
    """No rule speaks of any path."""
    del path
    return ""


class Bounds(NamedTuple):
    """What of a working directory a call may touch.

    Attributes:
        hidden: what is kept out of sight.
        judge: what rules say of a path below the working directory, links resolved, which the call
            did not name itself; does not block.
    """

    hidden: tuple[Path, ...] = ()
    judge: Callable[[str], Ruling] = unruled

    def check(self, root: Path, path: str, found: str) -> None:
        """Judge where `path` has led to: `found`, below `root`, links resolved.

        Raises:
            ToolError: it is hidden or in something that is, or rules want it asked or denied.
        """
        if self._hides(root / found):
            raise ToolError(f"{path[:200]!r} is kept out of sight in this sandbox.")
        ruling = self.judge(found)
        if ruling == "deny":
            raise ToolError(f"Denied: {path[:200]!r} leads to {found[:200]!r}; a rule denies that.")
        if ruling:
            raise ToolError(
                f"{path[:200]!r} leads to {found[:200]!r}, which is asked about; name that itself."
            )

    def shows(self, root: Path, found: str) -> bool:
        """Whether the name of `found` may be told: it is neither hidden nor denied."""
        return not self._hides(root / found) and self.judge(found) != "deny"

    def _hides(self, place: Path) -> bool:
        return any(place == one or one in place.parents for one in self.hidden)


ANY = Bounds()
"""Nothing is hidden, and no rule speaks."""


class Entry(NamedTuple):
    """One entry of a folder."""

    name: str
    kind: Literal["file", "folder", "link"]


class Files(Protocol):
    """The files of a working directory that is not on this machine.

    Paths are relative to it, or absolute and below it. What leads out of it, by its spelling or
    through links, or out of `bounds`, is a `ToolError`, and so is whatever cannot be done.
    """

    async def find(self, path: str, bounds: Bounds) -> str:
        """Where it leads to: a path relative to the working directory, links resolved."""

    async def read(self, path: str, bounds: Bounds) -> bytes:
        """All of a file, of `FILE_BYTES_MAX` at the most."""

    async def write(self, path: str, content: bytes, bounds: Bounds) -> bool:
        """Create or replace a file, at once or not at all; whether it is new."""

    async def entries(self, path: str, bounds: Bounds) -> list[Entry]:
        """What a folder holds, in no order."""


class Sandbox(Protocol):
    """Where one session's commands run.

    Attributes:
        confinement: what it is called and what it confines.
        root: the working directory, as commands see it.
        files: how its files are reached; None: `root` is a folder of this machine.
        hidden: what of `root` is kept out of sight; file tools do not lead there either.
    """

    @property
    def hidden(self) -> tuple[Path, ...]:
        """See the class."""

    @property
    def confinement(self) -> Confinement:
        """See the class."""

    @property
    def root(self) -> Path:
        """See the class."""

    @property
    def files(self) -> Files | None:
        """See the class."""

    async def start(self, scope: Scope, order: Order) -> Running:
        """Start a command in the working directory; returned as soon as it runs.

        Cancelling the caller, or a close of `scope` meanwhile, ends it again.

        Raises:
            ProcessError: it could not be started; the sentence says why.
            ScopeClosed: `scope` admits nothing.
        """
