"""The tool servers of one profile: what its file declares, what is known of them, what is shared.

A shared server is borrowed by the sessions that have used it and counted; its child is stopped when
nobody uses it, its place is freed when nobody borrows it. Its sandbox is its own, of the kind that
the borrowing session has: one session's folder is not another's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tenure.errors import ConfigError
from tenure.glance import Glance
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.lifecycle.threads import call_in_thread
from tenure.paths import kept
from tenure.sandbox.base import Sandbox
from tenure.sandbox.choice import Asked, Sandboxes
from tenure.toolservers.catalog import Catalog
from tenure.toolservers.declared import FILE, PROJECT_FILE, Declared, Servers, read_servers
from tenure.toolservers.remote import Network
from tenure.toolservers.slot import Slot
from tenure.toolservers.trust import FILE as TRUST_FILE, Trust
from tenure.toolservers.wire import ServerLog

if TYPE_CHECKING:
    from tenure.toolservers.link import Link

SHARED_IDLE_S = 60.0
SHARED_GRACE_S = 12.0


class Folders(NamedTuple):
    """Where things of a profile are.

    Attributes:
        home: of the profile: its file, its consents, its logins.
        cache: for what servers were found to offer, and for the folders of shared ones.
        logs: for what servers say on stderr.
    """

    home: Path
    cache: Path
    logs: Path


class Key(NamedTuple):
    """What makes a shared server another one. The profile is whose pool it is in."""

    name: str
    digest: str
    sandbox: str

    def __str__(self) -> str:
        return self.name


class ToolServers:
    """Of one profile. Loop thread only.

    Args:
        scope: owns the shared ones; it outlasts every session.
        folders: where things are.
        sandboxes: makes the sandbox of a shared one.
        network: how remote ones are reached.
        know: told each secret, so that the log hides it.
        output_bytes: the most that a call's result has, now.
    """

    def __init__(
        self,
        scope: Scope,
        folders: Folders,
        sandboxes: Sandboxes,
        network: Network,
        *,
        know: Callable[[str], None],
        output_bytes: Callable[[], int],
    ) -> None:
        self._scope = scope.child("tool servers")
        self._folders = folders
        self._sandboxes = sandboxes
        self._network = network
        self._know = know
        self._file = folders.home / FILE
        self._read: dict[Path, tuple[tuple[int, ...], Servers]] = {}
        self._looked: Glance[dict[str, Servers]] = Glance(dict)
        self._told: Glance[dict[str, bool]] = Glance(dict)
        self._shared: dict[Key, Slot] = {}
        self._wanted: dict[Key, Declared] = {}
        self.output_bytes = output_bytes
        self.catalog = Catalog(folders.cache / "tool-servers")
        self.trust = Trust(folders.home / TRUST_FILE)
        self._lent: Shared[Key, Slot] = Shared(
            self._scope,
            "shared tool server",
            build=self._build,
            release=self._release,
            idle_s=SHARED_IDLE_S,
            grace_s=SHARED_GRACE_S,
        )

    # --- what is declared ------------------------------------------------------------------------

    def declared(self) -> Servers:
        """What the profile's file says; a broken one says so in a warning."""
        return self.read(self._file)

    def declares(self, cwd: str) -> bool:
        """Whether any file says anything of servers, for sessions in this directory."""
        told = self._told()
        found = told.get(cwd)
        if found is None:
            files = (self.declared(), self.read(kept(f"{cwd}/{PROJECT_FILE}")))
            found = told[cwd] = any(one.servers or one.warnings for one in files)
        return found

    def read(self, path: Path) -> Servers:
        """A file of servers, read again when it has changed; one look in a turn of the loop."""
        looked, spelled = self._looked(), str(path)
        found = looked.get(spelled)
        if found is None:
            found = looked[spelled] = self._look_at(path)
        return found

    def _look_at(self, path: Path) -> Servers:
        try:
            stat = path.stat()
        except OSError:
            self._read.pop(path, None)
            return Servers()
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        known = self._read.get(path)
        if known is not None and known[0] == seen:
            return known[1]
        try:
            found = read_servers(path)
        except ConfigError as exc:
            found = Servers({}, (exc.message,))
        for server in found.servers.values():
            for secret in server.secrets():
                self._know(secret)
        self._read[path] = seen, found
        return found

    @property
    def networked(self) -> bool:
        """Whether sessions have a network now."""
        return self._network.web().enabled

    # --- links -----------------------------------------------------------------------------------

    async def open(
        self,
        scope: Scope,
        name: str,
        server: Declared,
        *,
        sandbox: Callable[[Scope], Any],
        roots: tuple[Path, ...] = (),
        elicits: bool = False,
    ) -> Link:
        """Start or reach a server and shake hands. `scope` owns all of it.

        Raises:
            ToolError, ProcessError, ConfigError: it cannot be had.
        """
        module: Any = await import_off_loop("tenure.toolservers.link")
        link: Link = module.Link(scope, roots=roots, elicits=elicits)
        if server.remote:
            await self._network.open(scope, link, name, server)
        else:
            log = ServerLog(self._folders.logs / f"mcp-{name}.log")
            await module.open_stdio(scope, await sandbox(scope), server, name, link, log)
        return link

    # --- shared ones -----------------------------------------------------------------------------

    def key(self, name: str, server: Declared, kind: str) -> Key:
        """The key of a shared server, for a session whose sandbox is of that kind."""
        key = Key(name, server.digest, "" if server.remote else kind)
        self._wanted[key] = server
        return key

    def peek(self, key: Key) -> Slot | None:
        """The shared server, if somebody has borrowed it."""
        return self._shared.get(key)

    async def borrow(self, key: Key, into: Scope) -> Slot:
        """A shared server; given back when `into` closes. Raises ScopeClosed."""
        return await self._lent.borrow(key, into)

    async def _build(self, key: Key) -> Slot:
        server = self._wanted[key]
        scope = self._scope.child(key.name)

        async def sandbox(into: Scope) -> Sandbox:
            root = Path(server.cwd) if server.cwd else await self._folder(key)
            asked = Asked(f"shared-{key.name}-{key.digest[:8]}", root, kind=key.sandbox)
            return await self._sandboxes.make(asked, into)

        async def open_link(into: Scope) -> Link:
            return await self.open(into, key.name, server, sandbox=sandbox)

        slot = Slot(scope, key.name, server, open_link, self.catalog, _nobody)
        self._shared[key] = slot
        return slot

    async def _folder(self, key: Key) -> Path:
        folder = self._folders.cache / "tool-servers" / f"{key.name}-{key.digest[:8]}"
        await call_in_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        return folder

    async def _release(self, slot: Slot) -> None:
        await slot.scope.close("nobody has it")
        for key in [key for key, found in self._shared.items() if found is slot]:
            del self._shared[key]
            self._wanted.pop(key, None)


def _nobody() -> None:
    """A shared server has as many listeners as borrowers."""
