"""Starting children, and owning them until their whole tree has ended.

Every child leads a session and a process group of its own, has an environment built for it with a
label that says whose it is, and no descriptor of ours but its own three. It is watched through a
pidfd and reaped at once when it exits. Its lease lives until somebody stops it or the scope closes,
since what it has started may outlive it; the release ends the whole tree, by bounded steps.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tenure.clock import Clock
from tenure.errors import ProcessError
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.brand import number_of, numbered
from tenure.processes.containment import KILL_S, RESCAN_S, Find, Step, end_all
from tenure.processes.environment import DEFAULT_PATH, SCREEN, build_environment
from tenure.processes.launcher import Launcher, undo
from tenure.processes.pipes import ByteReader, ByteWriter
from tenure.processes.procfs import (
    Identity,
    Stat,
    boot_id,
    is_namespace_init,
    read_stat,
    send_signal,
)
from tenure.processes.quotas import ADMIT_AFTER_S, Arriving, Quota, Quotas
from tenure.processes.roll import Roll, Root
from tenure.processes.start import Start, our_ends
from tenure.processes.terminal import Screen, Terminal

NO_ENV: Mapping[str, str] = MappingProxyType({})
INTERRUPT_SHARE = 0.25
"""The part of the grace that goes to the interrupt; the rest goes to SIGTERM."""


class Process:
    """A child and its tree. Made by `Spawner.spawn`; owned by the scope given there.

    Attributes:
        pid: of the child itself, which is also its group and session.
        identity: what names it for ever.
        label: for people.
        returncode: its exit status once it has exited (negative: by that signal), else None. Of the
            child itself; what it has started may run on.
        stdout: what it writes, or None.
        stderr: likewise, unless merged into stdout or dropped.
        wraps: the child itself only stands for what runs in a sandbox: neither is it counted, nor
            does it hear the signals meant for that.
        verdict: why it was ended by a limit, in a few words; empty if it was not.
        quota: the limits of its session, if it has one.
        terminal: what it is attached to instead of pipes, if it is; `stdout` is what it shows.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        root: Root,
        spawner: Spawner,
        terminal_fd: int | None = None,
    ) -> None:
        self.pid = popen.pid
        self.identity = Identity(root.pid, root.start_time, boot_id())
        self.label = ""
        stdout, stderr, stdin = our_ends(popen, terminal_fd)
        self.stdout = None if stdout is None else ByteReader(stdout)
        self.stderr = None if stderr is None else ByteReader(stderr)
        self._stdin = None if stdin is None else ByteWriter(stdin)
        self.wraps = False
        self.verdict = ""
        self.quota: Quota | None = None
        self.terminal = None if terminal_fd is None else Terminal(terminal_fd)
        self._popen = popen
        self._root = root
        self._spawner = spawner
        self._pidfd: int | None = None
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lease: Lease[Process] | None = None
        self._grace_s = 0.0
        self._empty = False
        """Somebody has looked, and nothing of the tree runs any more."""

    def __repr__(self) -> str:
        return f"<Process {self.pid} {self.label!r} returncode={self.returncode}>"

    @property
    def returncode(self) -> int | None:
        """See the class."""
        return self._popen.returncode

    @property
    def open_files(self) -> int:
        """How many files each of its processes may have open; 0: we have set no limit."""
        return self.quota.ceiling.open_files if self.quota else 0

    async def wait(self) -> int:
        """Wait until the child itself has exited; its status. Cancelling stops the waiting only.

        This waits on the process, never on its pipes, which a grandchild may keep open.
        """
        await asyncio.shield(self._exited)
        returncode = self._popen.returncode
        assert returncode is not None
        return int(returncode)

    async def write(self, data: bytes) -> None:
        """Write to the child's input, waiting while its pipe is full.

        Raises:
            ProcessError: it has no input pipe, or the input is closed.
        """
        if self._stdin is None:
            raise ProcessError(f"{self._what()} was started without an input pipe.")
        await self._stdin.write(data)

    def close_stdin(self) -> None:
        """End of input. Idempotent; nothing happens without an input pipe."""
        if self._stdin is not None:
            self._stdin.close()

    def signal_tree(self, signum: int) -> None:
        """Send a signal to everything that runs of the tree. Reads /proc: a few milliseconds."""
        for stat in self.members():
            send_signal(stat, signum)

    @property
    def root(self) -> Root:
        """What its tree is found by."""
        return self._root

    def members(self) -> list[Stat]:
        """All that runs of the tree, each after its parent. Reads /proc: a few milliseconds."""
        return self._spawner.roll.members(self._root)

    async def signal_all(self, signum: int) -> None:
        """Send a signal to all that works in the tree. Reads /proc in a thread."""
        for stat in await call_in_thread(self._working):
            send_signal(stat, signum)

    async def count_left(self) -> int:
        """How many processes of the tree run now, the child included. Reads /proc in a thread.

        What only stands for a sandbox is none of it.
        """
        return len(await call_in_thread(self._working))

    def _working(self) -> list[Stat]:
        """The tree without the first processes of namespaces, and without a child that `wraps`."""
        members = self.members()
        if not members and self.returncode is not None:
            self._empty = True  # nobody is left who could fork
        return [
            stat
            for stat in members
            if not (self.wraps and stat.pid == self.pid) and not is_namespace_init(stat.pid)
        ]

    async def stop(self) -> None:
        """End the tree: end of input, interrupt, TERM, KILL, each with its bound. Idempotent.

        Returns when nothing of it runs any more, and the scope has forgotten it. Cancelling stops
        the waiting, not the ending.
        """
        assert self._lease is not None
        await self._lease.release()

    # --- for Spawner ------------------------------------------------------------------------------

    def watch(self, pidfd: int | None) -> None:
        """Notice the exit: through `pidfd`, which this process now owns, else in a thread."""
        self._pidfd = pidfd
        if pidfd is not None:
            asyncio.get_running_loop().add_reader(pidfd, self._reap)
        else:
            call_in_thread(self._popen.wait).add_done_callback(lambda _: self._reap())

    def adopted(self, lease: Lease[Process], grace_s: float) -> None:
        """The scope owns it from here on."""
        self._lease = lease
        self._grace_s = grace_s
        lease.pid = self.pid if self.returncode is None else None

    def _reap(self) -> None:
        """It has exited: take its status, so no zombie is left, and free the pidfd."""
        if self._popen.poll() is None:
            return
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._spawner.gone(self)
        if self.quota is not None and not self.verdict:
            self.verdict = self.quota.exited(self._popen.returncode)
        if self._lease is not None:
            self._lease.pid = None  # another may have that pid from now on
        for reader in (self.stdout, self.stderr):
            # A terminal hands on what was written a moment later, and then says that it is over.
            if reader is not None and self.terminal is None:
                reader.finish()
        if not self._exited.done():
            self._exited.set_result(None)

    async def end(self, grace_s: float) -> None:
        """The release: end the tree, reap, free the pipes. For the lease.

        Raises:
            ProcessError: something survived SIGKILL.
        """
        self.close_stdin()
        # What a terminal's end sends: an interactive shell ignores the others.
        first = signal.SIGINT if self.terminal is None else signal.SIGHUP
        steps: list[Step] = [
            (first, grace_s * INTERRUPT_SHARE),
            (signal.SIGTERM, grace_s * (1 - INTERRUPT_SHARE)),
        ]
        left = [] if self._empty else await self._spawner.end_all(self.members, steps)
        if not left:
            await self.wait()
        for reader in (self.stdout, self.stderr):
            if reader is not None:
                reader.close()
        if self.terminal is not None:
            self.terminal.close()
        if left:
            pids = ", ".join(str(stat.pid) for stat in left)
            raise ProcessError(f"{self._what()} survived SIGKILL: pid {pids} still run.")

    def kill(self) -> None:
        """SIGKILL for the whole tree, without waiting. For the lease."""
        self.signal_tree(signal.SIGKILL)

    def _what(self) -> str:
        return f"Process {self.pid} {self.label}".strip()


class Tree:
    """A child and all that descends from it, for whoever counts what runs.

    Attributes:
        number: see `brand.numbered`.
        mark: the label of the child.
        owner: a session's id, or the name of the scope that owns the child.
        process: the child; None until it runs.
        quota: the limits of the session; None: it is no session's.
    """

    __slots__ = ("mark", "number", "owner", "process", "quota")

    def __init__(self, number: int, mark: str, owner: str) -> None:
        self.number = number
        self.mark = mark
        self.owner = owner
        self.process: Process | None = None
        self.quota: Quota | None = None


class Spawner:
    """Starts children. Owns nothing but the thread that starts them, while there are any.

    Args:
        instance: the random id of this gateway's run; the first part of every child's label.
        environ: our environment, to pick a few names from.
        clock: time.
    """

    def __init__(self, *, instance: str, environ: Mapping[str, str], clock: Clock) -> None:
        self.instance = instance
        self._environ = environ
        self._clock = clock
        self._numbers = itertools.count(1)
        self.mark = secrets.token_hex(4)
        """Two spawners of one instance name never take each other's children for their own."""
        self.roll = Roll(self.mark)
        """What runs of each tree."""
        self.trees: dict[int, Tree] = {}
        """What may run, by number: from before a child is started until nothing of it is left."""
        self.begun: Callable[[], object] = bool
        """Called when a child is about to be started."""
        self.quotas: Quotas | None = None
        """The limits of sessions; None: there are none."""
        self._launcher = Launcher()
        self._alive: set[int] = set()
        self.starting: set[int] = set()
        """Numbers of trees whose child is on its way: its pid is not known here yet."""

    @property
    def path(self) -> str:
        """Where programs are looked for."""
        return self._environ.get("PATH") or DEFAULT_PATH

    def screen_environment(self) -> dict[str, str]:
        """Variables for a program that speaks to the person's screen, such as the clipboard's."""
        return {name: self._environ[name] for name in SCREEN if name in self._environ}

    def knows(self, pid: int) -> bool:
        """Whether `pid` is a living child of ours, to be reaped by its `Process` alone."""
        return pid in self._alive

    async def spawn(  # noqa: PLR0913 - what a child needs, each by name
        self,
        scope: Scope,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] = NO_ENV,
        stdin: Literal["null", "pipe"] = "null",
        stderr: Literal["merge", "pipe", "null"] = "pipe",
        label: str = "",
        kind: str = "process",
        grace_s: float = 2.0,
        owner: str = "",
        screen: Screen | None = None,
    ) -> Process:
        """Start `argv` and return it as soon as it runs, owned by `scope`.

        Cancelling the caller, or a close of `scope` meanwhile, ends the child again.

        Args:
            scope: ends the whole tree when it closes.
            argv: the program and its arguments; no shell.
            cwd: its working directory; None for ours.
            env: variables to set over the few that are picked from ours.
            stdin: /dev/null, or a pipe for `Process.write`.
            stderr: into stdout, into a pipe of its own, or dropped.
            label: for people; the program's name unless given.
            kind: for the census.
            grace_s: seconds for interrupt and TERM together, before KILL.
            owner: the second part of the label in its environment (a session's id, say).
            screen: start it on a terminal of its own of this size, instead of on pipes.

        Raises:
            ProcessError: it could not be started; the sentence says why.
            ScopeClosed: `scope` admits nothing.
        """
        count = next(self._numbers)
        mark = f"{self.instance}/{owner or scope.name}/{self.mark}-{count}"
        number = number_of(self.mark, count)
        tree = Tree(number, mark, owner or scope.name)
        full_env = build_environment(self._environ, mark, env)
        start = Start(argv, cwd, full_env, stdin, stderr, screen)

        async def end(process: Process) -> None:
            await process.end(grace_s)
            await self._let_go(tree)  # if something survived, it stays

        lease = await scope.build(
            kind,
            lambda: self._launch(start, tree, scope),
            end,
            kill=Process.kill,
            grace_s=grace_s + KILL_S + 1.0,
            label=label or Path(argv[0]).name,
        )
        process = lease.value
        process.label = lease.label
        process.adopted(lease, grace_s)
        return process

    async def _launch(self, start: Start, tree: Tree, scope: Scope) -> Process:
        """Start a child whose tree is held before it runs.

        Raises:
            ProcessError: it could not be started.
        """

        def start_numbered() -> subprocess.Popen[bytes]:
            with numbered(tree.number):
                popen = start()
            if tree.quota is not None:
                tree.quota.bind(popen.pid)
            return popen

        self._hold(tree, scope)
        self.starting.add(tree.number)
        try:
            popen, pidfd = await self._launcher.launch(start_numbered)
            tree.process = await self._began(popen, pidfd, tree, *start.opened)
        except (OSError, ValueError) as exc:
            await self._let_go(tree)
            for fd in start.opened:
                os.close(fd)
            raise ProcessError(_why_not(start.argv, start.cwd, exc)) from exc
        finally:
            self.starting.discard(tree.number)
        return tree.process

    def _hold(self, tree: Tree, scope: Scope) -> None:
        self.trees[tree.number] = tree
        if self.quotas is not None:
            tree.quota = self.quotas.of(scope, tree.owner)
            if tree.quota is not None:
                tree.quota.users += 1
        self.begun()

    def _admit(self, tree: Tree) -> None:
        """It has lived for a moment: it goes into its session's group, in a thread."""
        if tree.number in self.trees and tree.process is not None and tree.quota is not None:
            tree.quota.begin_admit(Arriving(tree.process.pid, tree.process.members))

    async def _let_go(self, tree: Tree) -> None:
        del self.trees[tree.number]
        if tree.process is not None:
            self.roll.forget(tree.process.root)
        if tree.quota is not None:
            await tree.quota.left()

    async def _began(
        self,
        popen: subprocess.Popen[bytes],
        pidfd: int | None,
        tree: Tree,
        terminal_fd: int | None = None,
    ) -> Process:
        """Hold what was started.

        Raises:
            OSError: there are no descriptors to hold it by, so it was ended.
        """
        try:
            root = Root(popen.pid, _start_time(popen.pid), tree.mark, tree.number)
            process = Process(popen, root, self, terminal_fd)
        except OSError:
            await call_in_thread(undo, (popen, pidfd))
            self._launcher.child_gone()
            raise
        self._alive.add(popen.pid)
        self.roll.lead(root)
        process.quota = tree.quota
        if tree.quota is not None:
            self._clock.call_later(ADMIT_AFTER_S, partial(self._admit, tree))
        process.watch(pidfd)
        return process

    async def end_all(self, members: Find, steps: Sequence[Step]) -> list[Stat]:
        """End a tree in a thread, once there is one to be had; what is left. For `Process`."""
        while True:
            try:
                return await call_in_thread(end_all, members, steps)
            except RuntimeError:  # the system starts no thread now; what ends gives one back
                await self._clock.sleep(RESCAN_S)

    def gone(self, process: Process) -> None:
        """`process` has been reaped. For `Process`."""
        self._alive.discard(process.pid)
        self._launcher.child_gone()


def _start_time(pid: int) -> int:
    """When a child began that nobody reaps meanwhile: it is `starting`.

    Raises:
        OSError: it cannot be looked at.
    """
    stat = read_stat(pid)
    if stat is None:  # there is such a process, so a descriptor is what is missing
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return stat.start_time


def _why_not(argv: Sequence[str], cwd: Path | None, exc: Exception) -> str:
    if cwd is not None and not cwd.is_dir():
        return f"{argv[0]} cannot start: the working directory {cwd} does not exist."
    if isinstance(exc, FileNotFoundError):
        return f"{argv[0]} cannot start: there is no such program on the PATH."
    if isinstance(exc, PermissionError):
        return f"{argv[0]} cannot start: it may not be executed."
    return f"{argv[0]} cannot start: {exc}."
