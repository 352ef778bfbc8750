"""A container for each session, through the command line of Docker or Podman.

A container outlives whoever made it, so its row is written first (`Ledger`), its labels say whose
it is, and `compare` looks both ways: what is there and held by nobody is removed, a row without a
container is ended. Nothing is ever found by a name.

The working directory is mounted at its own path, so the files are those of this machine. Commands
run as the user who runs the gateway, without capabilities, and without network unless it is let in.
A single command cannot be given the network: it belongs to the container.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tenure.errors import ProcessError, SandboxUnavailable, TenureError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.entry import LeaseState
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.processes.containment import LABEL
from tenure.processes.spawn import Process, Spawner
from tenure.processes.terminal import Terminal
from tenure.sandbox.base import Confinement, Order, Output
from tenure.sandbox.scripts import COUNT, END, MARK, SIGNAL, remote_script
from tenure.settings import DockerConfig

log = logging.getLogger("tenure.sandbox")
PROGRAMS = ("docker", "podman")
ASK_S = 30.0
"""How long the engine may take to answer what takes it milliseconds."""
REMOVE_S = 60.0
SAID_BYTES_MAX = 1024 * 1024
_WHERE_HELP_IS = re.compile(r"(See|Run) '.*--help'.*")
HOME_LABEL, PROFILE_LABEL, LEASE_LABEL = "tenure.home", "tenure.profile", "tenure.lease"


class Ledger(Protocol):
    """Where rows of containers are kept."""

    async def begin(self, lease: str, session_id: str, epoch: int) -> None:
        """A container is about to be made for the session's incarnation `epoch`; after the commit.

        Raises:
            StoreError: it is not stored, or the session is somebody else's; nothing may be made.
        """

    async def end(self, lease: str, reason: str) -> None:
        """It is gone.

        Raises:
            StoreError: its row still says otherwise; the next comparison tries again.
        """


class Found(NamedTuple):
    """A container of ours, as the engine lists it."""

    id: str
    lease: str
    running: bool


class Engine:
    """Docker or Podman, by its command line. Everything is bounded.

    Args:
        spawner: starts the command line.
        scope: owns what runs; it outlives the sessions, so that their ends can be brought about.
        home: whose containers are ours; a label of each.
        profile: likewise.
        config: which program and image.
    """

    def __init__(
        self, spawner: Spawner, scope: Scope, home: str, profile: str, config: DockerConfig
    ) -> None:
        self.spawner = spawner
        self._scope = scope
        self._home = home
        self._profile = profile
        self.config = config
        self.held: dict[str, bool] = {}
        """By their row: what is being made (False) or was made (True), and is somebody's here."""
        self.used = asyncio.Event()
        """Something was held since it was cleared."""

    @property
    def program(self) -> str:
        """Its command line.

        Raises:
            SandboxUnavailable: there is none.
        """
        wanted = (self.config.program,) if self.config.program else PROGRAMS
        found = next((path for name in wanted if (path := shutil.which(name))), None)
        if found is None:
            raise SandboxUnavailable(f"There is no {' or '.join(wanted)} here; install it.")
        return found

    async def ask(self, *argv: str, seconds: float = ASK_S) -> str:
        """Run a command of the engine to its end; what it prints.

        Raises:
            ProcessError: it fails, or takes too long; the sentence says what it said.
        """
        process = await self.spawner.spawn(
            self._scope, [self.program, *argv], stderr="merge", label=argv[0], kind="engine"
        )
        said = b""
        try:
            async with deadline(self._scope.clock, seconds):
                assert process.stdout is not None
                while piece := await process.stdout.read():
                    said = (said + piece)[-SAID_BYTES_MAX:]
                status = await process.wait()
        except TimeoutError:
            raise ProcessError(f"{argv[0]} of the engine took over {seconds:.0f} s.") from None
        finally:
            await process.stop()
        text = said.decode("utf-8", "replace")
        if status != 0:
            raise ProcessError(f"The engine refused {argv[0]}: {cause_in(text) or f'{status}.'}")
        return text

    async def check(self) -> None:
        """Make sure that it is there and answers; tens of milliseconds.

        Raises:
            SandboxUnavailable: it is not, or does not; the sentence says what it said.
        """
        program = self.program
        try:
            await self.listed()
        except ProcessError as exc:
            raise SandboxUnavailable(f"{program} cannot be used: {exc.message}") from exc

    async def make(self, lease: str, session_id: str, root: Path, *, network: bool) -> str:
        """Make and start a container; its id.

        Raises:
            ProcessError: it is not there, or may be there: `remove_lease` makes sure.
        """
        labels = {
            HOME_LABEL: self._home, PROFILE_LABEL: self._profile, LEASE_LABEL: lease,
            "tenure.session": session_id, "tenure.instance": self.spawner.instance,
        }  # fmt: skip
        argv = ["run", "--detach", "--init", "--cap-drop", "ALL"]
        argv += ["--security-opt", "no-new-privileges", "--user", f"{os.getuid()}:{os.getgid()}"]
        argv += [] if network else ["--network", "none"]
        argv += [word for name, text in labels.items() for word in ("--label", f"{name}={text}")]
        argv += ["--env", "HOME=/tmp", "--mount", f"type=bind,source={root},target={root}"]
        argv += ["--workdir", str(root), self.config.image, "sleep", "infinity"]
        said = await self.ask(*argv, seconds=self.config.start_s)
        return said.split()[-1]  # a pull says something before

    async def listed(self) -> list[Found]:
        """All containers of our home and profile."""
        form = '{{.ID}}\t{{.Label "' + LEASE_LABEL + '"}}\t{{.State}}'
        said = await self.ask(
            "ps", "--all", "--no-trunc", "--filter", f"label={HOME_LABEL}={self._home}",
            "--filter", f"label={PROFILE_LABEL}={self._profile}", "--format", form,
        )  # fmt: skip
        rows = [line.split("\t") for line in said.splitlines()]
        return [Found(row[0], row[1], row[2] == "running") for row in rows if len(row) == 3]

    async def is_running(self, container: str) -> bool:
        """Whether it is there and runs."""
        try:
            said = await self.ask("inspect", "--format", "{{.State.Running}}", container)
        except ProcessError:
            return False
        return said.split()[-1:] == ["true"]

    async def remove(self, container: str) -> None:
        """End all in it and remove it; one that is gone is removed.

        Raises:
            ProcessError: it is still there.
        """
        try:
            await self.ask("rm", "--force", "--volumes", container, seconds=REMOVE_S)
        except ProcessError:
            if any(found.id == container for found in await self.listed()):
                raise

    async def remove_lease(self, lease: str) -> None:
        """Remove whatever was made for a row."""
        for found in await self.listed():
            if found.lease == lease:
                await self.remove(found.id)


def cause_in(text: str) -> str:
    """What the engine's command line gives as the cause of its failure, as the end of a sentence.

    It is the last line, but for the one that says where help is.
    """
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not _WHERE_HELP_IS.fullmatch(line)]
    cause = told[-1][:300] if told else ""
    return cause if cause.endswith((".", "?")) or not cause else f"{cause}."


class Docker:
    """One session's container, made on first use and again when somebody has removed it.

    Args:
        engine: makes it.
        ledger: where its row is kept.
        root: the working directory, on this machine and in it.
        session: owns it.
        owner: the session and its incarnation.
        network: whether it reaches the network.
        why: why this sandbox, for people.
    """

    files = None
    hidden = ()

    def __init__(  # noqa: PLR0913 - what a container needs, each by name
        self,
        engine: Engine,
        ledger: Ledger,
        root: Path,
        session: Scope,
        *,
        owner: tuple[str, int],
        network: bool,
        why: str,
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._session = session
        self._session_id, self._epoch = owner
        self._network = network
        self._why = why
        self._lease: Lease[Container] | None = None
        self._number = 0
        self.root = root

    @property
    def confinement(self) -> Confinement:
        """The working directory is writable; the rest is the container's."""
        network = "with" if self._network else "without"
        image = self._engine.config.image
        about = f"in a container of {image} on this machine, {network} network ({self._why})"
        return Confinement("docker", confined=True, network=self._network, about=about)

    async def start(self, scope: Scope, order: Order) -> Inside:
        """See `Sandbox.start`."""
        if order.network and not self._network:
            raise SandboxUnavailable(
                "A container has the network or not; set sandbox.network, then open a session."
            )
        container = await self._container()
        self._number += 1
        label = f"{self._engine.spawner.instance}/{self._session_id}/{self._number}"
        process = await self._engine.spawner.spawn(
            scope,
            self._exec_argv(container.id, label, order),
            env=order.env,
            stdin=order.stdin,
            stderr=order.stderr,
            label=order.label or Path(order.argv[0]).name,
            kind=order.kind,
            owner=self._session_id,
            screen=order.screen,
        )
        process.wraps = True
        inside = Inside(process, self._engine, container.id, label)
        # Acquired after the process, so released before it: what is inside ends first.
        inside.adopted(scope.own("command inside", inside, Inside.end, grace_s=10.0, label=label))
        return inside

    def _exec_argv(self, container: str, label: str, order: Order) -> list[str]:
        argv = [self._engine.program, "exec", "--interactive", "--workdir", str(self.root)]
        argv += ["--env", f"{LABEL}={label}"]
        argv += [word for name in order.env for word in ("--env", name)]  # its own has their values
        argv += ["--tty"] if order.screen is not None else []
        return [*argv, container, *order.argv]

    async def _container(self) -> Container:
        lease = self._lease
        if lease is not None and lease.state is LeaseState.HELD:
            container = lease.value
            if await self._engine.is_running(container.id):
                return container
            container.reason = "somebody else removed or stopped it"
            await lease.release()
        if self._lease is lease and (lease is None or lease.ending):
            self._lease = lease = self._session.reserve(
                "container", self._make, self._end, grace_s=REMOVE_S, label=self._session_id
            )
        mine = self._lease
        assert mine is not None
        await mine.ready()
        return mine.value

    async def _make(self) -> Container:
        key, engine = f"ctr_{secrets.token_hex(8)}", self._engine
        engine.held[key] = False
        engine.used.set()
        try:
            await self._ledger.begin(key, self._session_id, self._epoch)
            made = await engine.make(key, self._session_id, self.root, network=self._network)
        except TenureError as exc:
            del engine.held[key]  # from here on a comparison removes what this leaves
            await self._undo(key, exc.message)
            raise SandboxUnavailable(exc.message) from exc
        engine.held[key] = True
        return Container(key, made)

    async def _undo(self, key: str, why: str) -> None:
        """Make sure that nothing is left of a container that could not be made."""
        try:
            await self._engine.remove_lease(key)
            await self._ledger.end(key, f"it could not be made: {why}")
        except TenureError as exc:
            log.warning("Container %s may be left; it is looked for again: %s", key, exc)

    async def _end(self, container: Container) -> None:
        self._engine.held.pop(container.lease, None)
        await self._engine.remove(container.id)
        await self._ledger.end(container.lease, container.reason)


class Container:
    """A made container."""

    __slots__ = ("id", "lease", "reason")

    def __init__(self, lease: str, container: str) -> None:
        self.lease = lease
        self.id = container
        self.reason = "its session ended"


class Inside:
    """A command in a container, seen through the command line that runs it; a `Running`."""

    def __init__(self, process: Process, engine: Engine, container: str, label: str) -> None:
        self._process = process
        self._engine = engine
        self._container = container
        self._label = label
        self._lease: Lease[Inside] | None = None

    @property
    def pid(self) -> int:
        """Of the command line."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """See `Running`."""
        return self._process.returncode

    @property
    def verdict(self) -> str:
        """See `Running`."""
        return self._process.verdict

    @property
    def open_files(self) -> int:
        """See `Running`: the engine's limits are its own."""
        return 0

    @property
    def stdout(self) -> Output | None:
        """See `Running`."""
        return self._process.stdout

    @property
    def stderr(self) -> Output | None:
        """See `Running`."""
        return self._process.stderr

    @property
    def terminal(self) -> Terminal | None:
        """The command line's, which passes on its size; keys are typed on it."""
        return self._process.terminal

    async def wait(self) -> int:
        """See `Running`."""
        return await self._process.wait()

    async def write(self, data: bytes) -> None:
        """See `Running`."""
        await self._process.write(data)

    async def signal_all(self, signum: int) -> None:
        """See `Running`."""
        await self._say(SIGNAL, signal=signal.Signals(signum).name.removeprefix("SIG"))

    async def count_left(self) -> int:
        """See `Running`."""
        try:
            return int((await self._say(COUNT)).partition(MARK)[2])
        except ProcessError:
            return 0  # the container is gone, and all in it

    async def stop(self) -> None:
        """See `Running`."""
        assert self._lease is not None
        await self._lease.release()
        await self._process.stop()

    def adopted(self, lease: Lease[Inside]) -> None:
        """A scope owns it from here on."""
        self._lease = lease

    async def end(self) -> None:
        """The release: end all of it in the container; the command line ends after it.

        Raises:
            ProcessError: something is left there, in a container that is still there.
        """
        try:
            await self._say(END)
        except ProcessError:
            if await self._engine.is_running(self._container):
                raise

    async def _say(self, text: str, **variables: str) -> str:
        script = remote_script(text, root="none", label=self._label, **variables)
        return await self._engine.ask("exec", self._container, "sh", "-c", script)


class Compared(NamedTuple):
    """What a comparison has healed."""

    removed: tuple[str, ...]
    """Containers that nobody here holds."""
    ended: tuple[str, ...]
    """Rows without a container, or without anybody who holds it."""


async def compare(
    engine: Engine, ledger: Ledger, rows: Callable[[], Awaitable[list[str]]]
) -> Compared:
    """Compare the containers of a home and profile with their rows, and heal, both ways.

    What nobody here holds is removed, whoever made it: whoever holds the home is alone in it. A row
    that is held while its container was made and is not there any more is ended; its session makes
    another on its next use.

    Args:
        engine: lists and removes them.
        ledger: ends rows.
        rows: the rows that say that a container may be there, by their id.

    Raises:
        ProcessError, StoreError: the engine or the store failed; the next time tries again.
    """
    made = {lease for lease, is_made in engine.held.items() if is_made}  # before the list is
    known = await rows()
    listed = await engine.listed()
    removed = [found for found in listed if found.lease not in engine.held]
    for found in removed:
        await engine.remove(found.id)
    there = {found.lease for found in listed}
    gone = [lease for lease in known if lease not in engine.held]
    lost = [lease for lease in known if lease in made and lease not in there]
    for lease in gone:
        await ledger.end(lease, "nobody holds it any more")
    for lease in lost:
        await ledger.end(lease, "it was not there any more")
    return Compared(tuple(found.id for found in removed), (*gone, *lost))
