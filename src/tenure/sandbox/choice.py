"""Which sandbox a session gets: the one it asked for, else the best that this machine has."""

from __future__ import annotations

import asyncio
import os
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
BOXABLE_MAX = 64
"""Working directories that are remembered."""


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


class _Boxable(NamedTuple):
    """A working directory, as far as boxes are concerned."""

    config: SandboxConfig
    layout: Layout
    refusal: str
    """Why it cannot be boxed; empty if it can be."""


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
        self._places: Glance[dict[str, str]] = Glance(dict)
        """Where each working directory really is, in this turn of the loop."""
        self._boxable: dict[str, _Boxable] = {}
        """By their real places."""

    async def make(self, asked: Asked, session: Scope) -> Sandbox:
        """See `Sandboxes.make`."""
        config = self._config()
        kind = asked.kind or config.kind
        why = "chosen for this session" if asked.kind else "configured"
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
        found = self._look_at(str(asked.root), config)
        if refusal := found.refusal or await self._no_bubblewrap():
            raise SandboxUnavailable(f"bubblewrap cannot be used here: {refusal}")
        return Bubblewrap(self._spawner, found.layout, asked.session_id, session, why)

    def _look_at(self, folder: str, config: SandboxConfig) -> _Boxable:
        """Whether and how a folder can be boxed; what is hidden is known by its place."""
        places = self._places()
        place = places.get(folder)
        if place is None:
            place = places[folder] = os.path.realpath(folder)
        found = self._boxable.get(place)
        if found is None or found.config is not config:
            found = self._lay_out(place, config)
        return found

    def _lay_out(self, place: str, config: SandboxConfig) -> _Boxable:
        machine = self._machine
        layout = Layout(
            root=Path(place),
            user_home=machine.user_home,
            gateway_home=machine.gateway_home,
            boxes=machine.boxes,
            network=config.network,
            read=_paths(config.read, machine.user_home),
            write=_paths(config.write, machine.user_home),
            outputs=machine.outputs,
        )
        if len(self._boxable) >= BOXABLE_MAX:
            self._boxable.clear()
        refusal = why_no_box(layout.root, machine.gateway_home)
        found = self._boxable[place] = _Boxable(config, layout, refusal)
        return found

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

    async def _no_bubblewrap(self) -> str:
        """Why there is none; tried once, whoever asks first."""
        if self._probe is None or self._probe.cancelled():
            self._probe = self._scope.spawn(
                probe(self._spawner, self._scope), name="sandbox probe"
            ).value
        return self._probe.result() if self._probe.done() else await asyncio.shield(self._probe)


def _paths(texts: tuple[str, ...], user_home: Path) -> tuple[Path, ...]:
    return tuple(user_home / text[2:] if text.startswith("~/") else Path(text) for text in texts)
