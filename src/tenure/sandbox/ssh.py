"""Another machine, reached by SSH: what a session says of it. The connection is `ssh_link`.

The server's key is checked, against a pinned fingerprint or known_hosts; nothing else is accepted.
No agent is forwarded. A command's variables travel on its input, so that no list of processes shows
them; it runs in a session of its own with a label, and its end there is brought about and awaited.
Commands are not confined: they may do there what the user there may do.
"""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from tenure.errors import SandboxUnavailable
from tenure.lifecycle.entry import LeaseState
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.sandbox.base import Bounds, Confinement, Entry, Order, Running
from tenure.sandbox.scripts import HELLO

if TYPE_CHECKING:
    from tenure.sandbox.ssh_files import Tree
    from tenure.sandbox.ssh_link import Link

KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""Tried in this order where none is named."""
CLOSE_S = 5.0


class Place(NamedTuple):
    """Where to, and as whom.

    Attributes:
        host, port, user: of the server; an empty user is the one here.
        directory: the working directory there, absolute.
        keys: private keys to try.
        known_hosts: files of keys of servers.
        fingerprint: the server's key as ``SHA256:…``; then no file counts.
        agent: the socket of an agent that holds keys; empty: none. It is never forwarded.
        label: the first part of every command's label: this gateway's run.
        session_id: the second.
    """

    host: str
    port: int
    user: str
    directory: str
    keys: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    fingerprint: str
    agent: str
    label: str
    session_id: str

    @property
    def shown(self) -> str:
        """For people."""
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port != 22 else ""
        return f"{user}{self.host}{port}:{self.directory}"


class Ssh:
    """A working directory on another machine.

    One connection, made on first use and again when it was lost; the session owns it.

    Args:
        place: where.
        session: the session's scope.
        why: why this sandbox, for people.
    """

    def __init__(self, place: Place, session: Scope, why: str) -> None:
        self._place = place
        self._session = session
        self._why = why
        self._lease: Lease[Link] | None = None
        self._number = 0
        self.root = Path(place.directory)
        self.hidden = ()

    @property
    def confinement(self) -> Confinement:
        """Nothing is confined."""
        about = f"on {self._place.shown} by SSH, unconfined there ({self._why})"
        return Confinement("ssh", confined=False, network=True, about=about)

    @property
    def files(self) -> Ssh:
        """By SFTP."""
        return self

    async def start(self, scope: Scope, order: Order) -> Running:
        """See `Sandbox.start`."""
        link = await self._link()
        self._number += 1
        label = f"{self._place.label}/{self._place.session_id}/{self._number}"
        lease = await scope.build(
            order.kind,
            lambda: link.start(label, self._place.directory, order),
            lambda running: running.end(),
            kill=lambda running: running.cut(),
            grace_s=10.0,
            label=order.label or PurePosixPath(order.argv[0]).name,
        )
        lease.value.adopted(lease)
        return lease.value

    async def _link(self) -> Link:
        """The connection, made if there is none.

        Raises:
            SandboxUnavailable: the machine cannot be reached, or is not who it should be.
        """
        lease = self._lease
        lost = lease is not None and lease.state is LeaseState.HELD and lease.value.lost
        if lease is None or lease.ending or lost:
            if lease is not None:
                lease.release_nowait()
            lease = self._lease = self._session.reserve(
                "ssh connection", self._connect, lambda link: link.aclose(),
                kill=lambda link: link.abort(), grace_s=CLOSE_S, label=self._place.shown,
            )  # fmt: skip
        await lease.ready()
        return lease.value

    async def _connect(self) -> Link:
        try:
            module = await import_off_loop("tenure.sandbox.ssh_link")
        except ImportError as exc:
            raise SandboxUnavailable(
                f"SSH needs the package {exc.name}; install it with: pip install 'tenure[ssh]'."
            ) from exc
        link: Link = await module.connect(self._place)
        return link

    # --- files ------------------------------------------------------------------------------------

    async def find(self, path: str, bounds: Bounds) -> str:
        """See `Files.find`."""
        return await (await self._tree(bounds)).find(path)

    async def read(self, path: str, bounds: Bounds) -> bytes:
        """See `Files.read`."""
        return await (await self._tree(bounds)).read(path)

    async def write(self, path: str, content: bytes, bounds: Bounds) -> bool:
        """See `Files.write`."""
        return await (await self._tree(bounds)).write(path, content)

    async def entries(self, path: str, bounds: Bounds) -> list[Entry]:
        """See `Files.entries`."""
        return await (await self._tree(bounds)).entries(path)

    async def _tree(self, bounds: Bounds) -> Tree:
        sftp = await (await self._link()).files()
        module = await import_off_loop("tenure.sandbox.ssh_files")
        tree: Tree = module.Tree(sftp, self._place.directory, bounds)
        return tree


# --- scripts: run by the other machine's sh -------------------------------------------------------


def bootstrap(script_bytes: int) -> str:
    """Says its process id, reads a script of that size from its input, and becomes it."""
    return f'{HELLO}; eval "$(dd bs=1 count={script_bytes} 2>/dev/null)"'


def script(label: str, directory: str, order: Order) -> str:
    """What a command becomes: variables, the working directory, then the program itself."""
    # With a level below 2, bash takes itself for a login by SSH and reads the user's files.
    lines = [f"export TENURE_OWNER={shlex.quote(label)} SHLVL=2"]
    lines += [f"export {name}={shlex.quote(text)}" for name, text in order.env.items()]
    lines.append(f"cd {shlex.quote(directory)} || exit 125")
    ends = "2>&1" if order.stderr == "merge" else "2>/dev/null"
    ends = ends if order.screen is None else ""
    source = "</dev/null" if order.stdin == "null" and order.screen is None else ""
    lines.append(f"exec {shlex.join(order.argv)} {source} {ends}".rstrip())
    return "\n".join(lines) + "\n"
