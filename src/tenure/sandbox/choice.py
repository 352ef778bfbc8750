"""Which sandbox a session gets: the one it asked for, else the best that this machine has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tenure.errors import SandboxUnavailable
from tenure.glance import Glance
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.sandbox.base import Sandbox
from tenure.sandbox.bubblewrap import Bubblewrap, Layout, probe, why_no_box
from tenure.sandbox.docker import Docker, Engine, Ledger
from tenure.sandbox.local import Local
from tenure.sandbox.ssh import KEYS, Place, Ssh
from tenure.settings import SandboxConfig, SshConfig

ENV_SANDBOX = "TENURE_SANDBOX"


class Asked(NamedTuple):
    """What a session says of its sandbox.

    Attributes:
        session_id: whose it is.
        root: its working directory on this machine.
        epoch: its incarnation.
        kind: what it asked for when it was created; empty: what the configuration says.
    """

    session_id: str
    root: Path
    epoch: int = 0
    kind: str = ""


class Sandboxes(Protocol):
    """Makes sandboxes."""

    async def make(self, asked: Asked, session: Scope) -> Sandbox:
        """The sandbox of a session. What it will need, it acquires in `session`.

        Raises:
            SandboxUnavailable: the one that was asked for cannot be had here.
        """


class LocalOnly:
    """No sandboxes: what a gateway has that was given none."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def make(self, asked: Asked, session: Scope) -> Sandbox:
        """Unconfined."""
        del session
        return Local(self._spawner, asked.root, asked.session_id)


class Machine(NamedTuple):
    """What sandboxes must know of the machine.

    Attributes:
        user_home: the user's home.
        gateway_home: never visible in a box.
        boxes: where the folders of boxes are made; a folder of this gateway's own.
        outputs: where the whole outputs of sessions are, by their ids.
        agent: the socket of an agent that holds keys for SSH; empty: none.
        auto: what ``auto`` means by the environment (TENURE_SANDBOX); empty: the best there is.
    """

    user_home: Path
    gateway_home: Path
    boxes: Path
    outputs: Path
    auto: str = ""
    agent: str = ""


class _Folder(NamedTuple):
    """What boxes with one working directory have in common."""

    root: Path
    refusal: str
    """Why it cannot be boxed; empty if it can be."""
    read: tuple[Path, ...]
    write: tuple[Path, ...]


class Chooser:
    """Makes the sandbox that a session asks for.

    Args:
        scope: owns the one probe.
        spawner: starts children.
        machine: what is hidden and where.
        config: the configuration in force.
        containers: what makes them, and where their rows are kept; None: there are none.
    """

    def __init__(
        self,
        scope: Scope,
        spawner: Spawner,
        machine: Machine,
        config: Callable[[], SandboxConfig],
        containers: tuple[Engine, Ledger] | None = None,
    ) -> None:
        self._scope = scope
        self._spawner = spawner
        self._machine = machine
        self._config = config
        self._containers = containers
        self._probe: asyncio.Task[str] | None = None
        self._folders: Glance[dict[str, _Folder]] = Glance(dict)
        """By working directory, as they are in this turn of the loop."""

    async def make(self, asked: Asked, session: Scope) -> Sandbox:
        """See `Sandboxes.make`."""
        config = self._config()
        kind, why = asked.kind or config.kind, "the session" if asked.kind else "configured"
        if kind == "auto" and not asked.kind and self._machine.auto:
            kind, why = self._machine.auto, ENV_SANDBOX
        if kind == "auto":
            return await self._best(asked, session, config)
        if kind == "local":
            return Local(self._spawner, asked.root, asked.session_id, why)
        if kind == "bubblewrap":
            return await self._box(asked, session, config, why)
        if kind == "docker" and self._containers is not None:
            return await self._container(asked, session, config, why)
        if kind == "ssh":
            return Ssh(self._place(asked, config.ssh), session, why)
        raise SandboxUnavailable(
            f"There is no sandbox {kind!r}; use auto, local, bubblewrap, docker or ssh."
        )

    async def _best(self, asked: Asked, session: Scope, config: SandboxConfig) -> Sandbox:
        try:
            return await self._box(asked, session, config, "auto")
        except SandboxUnavailable as exc:
            return Local(self._spawner, asked.root, asked.session_id, exc.message)

    async def _box(self, asked: Asked, session: Scope, config: SandboxConfig, why: str) -> Sandbox:
        folders, spelled = self._folders(), str(asked.root)
        folder = folders.get(spelled)
        if folder is None:
            folder = folders[spelled] = self._folder(asked.root, config)
        if refusal := folder.refusal or await self._no_bubblewrap():
            raise SandboxUnavailable(f"bubblewrap cannot be used here: {refusal}")
        layout = Layout(
            root=folder.root,
            user_home=self._machine.user_home,
            gateway_home=self._machine.gateway_home,
            private=self._machine.boxes / asked.session_id,
            network=config.network,
            read=folder.read,
            write=folder.write,
            outputs=self._machine.outputs / asked.session_id,
        )
        return Bubblewrap(self._spawner, layout, asked.session_id, session, why)

    async def _container(
        self, asked: Asked, session: Scope, config: SandboxConfig, why: str
    ) -> Sandbox:
        assert self._containers is not None
        engine, ledger = self._containers
        root = asked.root.resolve()
        if refusal := why_no_box(root, self._machine.gateway_home):
            raise SandboxUnavailable(f"docker cannot be used here: {refusal}.")
        for home in (self._machine.gateway_home, self._machine.user_home.resolve()):
            if home.is_relative_to(root):
                raise SandboxUnavailable(
                    f"docker cannot be used here: {root} holds {home} with its keys; work in a "
                    "folder below it."
                )
        engine.config = config.docker
        await engine.check()  # told now, not with the first command
        return Docker(
            engine, ledger, root, session, owner=(asked.session_id, asked.epoch),
            network=config.network, why=why,
        )  # fmt: skip

    def _place(self, asked: Asked, ssh: SshConfig) -> Place:
        home = self._machine.user_home / ".ssh"
        if ssh.missing:
            raise SandboxUnavailable(ssh.missing)
        keys = _paths((ssh.key,), self._machine.user_home) if ssh.key else ()
        known = ssh.known_hosts or str(home / "known_hosts")
        return Place(
            host=ssh.host,
            port=ssh.port,
            user=ssh.user,
            directory=ssh.directory,
            keys=keys or tuple(path for name in KEYS if (path := home / name).exists()),
            known_hosts=_paths((known,), self._machine.user_home),
            fingerprint=ssh.fingerprint,
            agent="" if ssh.key else self._machine.agent,
            label=self._spawner.instance,
            session_id=asked.session_id,
        )

    def _folder(self, asked: Path, config: SandboxConfig) -> _Folder:
        home = self._machine.user_home
        root = asked.resolve()  # what is hidden is known by its place
        return _Folder(
            root,
            why_no_box(root, self._machine.gateway_home),
            _paths(config.read, home),
            _paths(config.write, home),
        )

    async def _no_bubblewrap(self) -> str:
        """Why there is none; tried once, whoever asks first."""
        if self._probe is None or self._probe.cancelled():
            self._probe = self._scope.spawn(
                probe(self._spawner, self._scope), name="sandbox probe"
            ).value
        return self._probe.result() if self._probe.done() else await asyncio.shield(self._probe)


def _paths(texts: tuple[str, ...], user_home: Path) -> tuple[Path, ...]:
    return tuple(user_home / text[2:] if text.startswith("~/") else Path(text) for text in texts)
