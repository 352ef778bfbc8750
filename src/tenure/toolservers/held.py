"""The tool servers of one session: where each is, what the model is offered of them, what is shown.

Files are looked at between turns. A server that is declared otherwise than before is another one:
it starts after the old one has gone.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.config import ApprovalRule
from tenure.lifecycle.scope import Scope
from tenure.sandbox.base import Sandbox
from tenure.tools.base import Tool
from tenure.toolservers.catalog import Offers, public_name
from tenure.toolservers.declared import PROJECT_FILE, Declared
from tenure.toolservers.lending import Key, ToolServers
from tenure.toolservers.slot import Slot
from tenure.toolservers.tools import LENT_MAX, ServerRead, ServerTool, ToolSearch

if TYPE_CHECKING:
    from tenure.toolservers.link import Link

TOOLS_MAX, TOKENS_MAX = 40, 8_000
"""With more tools than that, or longer schemas, they are offered on demand."""
SMALL_TOOLS_MAX, SMALL_TOKENS_MAX = 4, 600
"""For a model whose prompts must be tiny."""
BYTES_PER_TOKEN = 4
NO_NETWORK = "sessions have no network ([web] enabled = false)"


class Place:
    """Where a session finds one server: a slot of its own, or one that it borrows on first use."""

    def __init__(
        self, name: str, server: Declared, home: ToolServers, own: Slot | Key, held: SessionServers
    ) -> None:
        self.name = name
        self.server = server
        self._home = home
        self._own = own
        self._held = held
        self._borrowed: Slot | None = None
        self._listing = False

    @property
    def here(self) -> Slot | None:
        """The slot, as far as there is one."""
        return self._own if isinstance(self._own, Slot) else self._home.peek(self._own)

    @property
    def own(self) -> Slot | None:
        """The session's own slot; None for a shared server."""
        return self._own if isinstance(self._own, Slot) else None

    @property
    def offers(self) -> Offers | None:
        """What is known of what it offers."""
        return self._home.catalog.get(self.server.digest)

    async def slot(self) -> Slot:
        """The slot, borrowed if need be for as long as the session lives. Raises ScopeClosed."""
        if isinstance(self._own, Slot):
            return self._own
        if self._borrowed is None:
            slot = await self._home.borrow(self._own, self._held.scope)
            if self._borrowed is None:
                self._borrowed = slot
                slot.listeners.append(self._held.changed)
                self._held.scope.own(
                    "listener", slot, lambda s: s.listeners.remove(self._held.changed)
                )
        return self._borrowed

    def list_soon(self) -> None:
        """Find out in the background what it offers."""
        if isinstance(self._own, Slot):
            self._own.list_soon()
        elif not self._listing:
            self._listing = True
            self._held.scope.spawn(self._list_shared(), name=f"list {self.name}")

    async def _list_shared(self) -> None:
        try:
            slot = await self.slot()
            slot.list_soon()
        finally:
            self._listing = False

    def output_bytes(self) -> int:
        """The most that a result has."""
        return self._home.output_bytes()

    def row(self) -> dict[str, Any]:
        """For clients."""
        slot, offers = self.here, self.offers
        status = slot.status if slot else "idle"
        return {
            "name": self.name,
            "status": status,
            "connected": status != "degraded",
            "tools": len(offers.tools) if offers else 0,
            "transport": self.server.transport,
            "shared": self.server.shared,
            "reason": slot.reason if slot else "",
            "pid": slot.pid if slot else None,
        }


class SessionServers:
    """Of one session. Loop thread only; what it holds, `scope` owns.

    Args:
        scope: the session's.
        home: those of the profile.
        cwd: the session's working directory on this machine.
        sandbox: where its own servers run.
        told: called when something that is shown has changed; must not block.

    Attributes:
        scope: a child of the session's.
    """

    def __init__(
        self, scope: Scope, home: ToolServers, cwd: Path, sandbox: Sandbox,
        told: Callable[[], None],
    ) -> None:  # fmt: skip
        self.scope = scope.child("tool servers")
        self._home = home
        self._cwd = cwd
        self._sandbox = sandbox
        self._told = told
        self._places: dict[str, Place] = {}
        self._leaving: dict[str, Slot] = {}
        """Who has a place still, and is wanted there no more."""
        self._left_out: list[dict[str, Any]] = []
        self._lent: dict[str, ServerTool] = {}
        self._made: dict[str, tuple[Offers, tuple[ServerTool, ...]]] = {}
        self.warnings: tuple[str, ...] = ()

    @property
    def project_file(self) -> Path:
        """The working directory's file, which counts after consent."""
        return self._cwd / PROJECT_FILE

    def changed(self) -> None:
        """Something that is shown has changed."""
        if self.scope.admits:
            self._told()

    def look(self) -> None:
        """Take over what the files declare now; lists of unknown servers are fetched meanwhile."""
        if not self.scope.admits:
            return
        mine = self._home.declared()
        project = self._home.read(self.project_file)
        trusted = self._home.trust.allows(self.project_file, project.digest)
        brought = _narrowed(project.servers) if trusted else {}
        self.warnings = (*mine.warnings, *(project.warnings if trusted else ()))
        declared = {**brought, **mine.servers}
        wanted = {name: one for name, one in declared.items() if self._may_have(one)}
        self._left_out = [
            _row_of(name, server, "no network", NO_NETWORK)
            for name, server in declared.items()
            if name not in wanted and not server.disabled
        ]
        why = (
            f"{self.project_file} may not start it; `tenure mcp trust {self.project_file}` lets it"
        )
        self._left_out += [
            _row_of(name, server, "not trusted", why)
            for name, server in project.servers.items()
            if name not in declared and not server.disabled
        ]
        for name in [name for name in self._places if name not in wanted]:
            self._drop(name)
        for name, server in wanted.items():
            known = self._places.get(name)
            if known is None or known.server != server:
                self._place(name, server)
        for place in self._places.values():
            if place.offers is None and (place.here is None or place.here.status == "idle"):
                place.list_soon()

    def _may_have(self, server: Declared) -> bool:
        return not server.disabled and (self._home.networked or not server.remote)

    def _drop(self, name: str) -> None:
        """Let go of a server; its place is free once nothing of it runs."""
        place = self._places.pop(name)
        self._made.pop(name, None)
        self._lent = {key: t for key, t in self._lent.items() if t.place is not place}
        if place.own is not None:  # a shared one is stopped when unused
            self._leaving[name] = place.own
            self.scope.spawn(self._leave(name, place.own), name=f"end {name}")

    async def _leave(self, name: str, slot: Slot) -> None:
        if not await slot.leave() and self._leaving.get(name) is slot:
            del self._leaving[name]

    def _place(self, name: str, server: Declared) -> None:
        if name in self._places:
            self._drop(name)
        kind = self._sandbox.confinement.kind
        if server.shared and (server.remote or kind != "docker"):  # a container is a session's own
            key = self._home.key(name, server, kind)
            self._places[name] = Place(name, server, self._home, key, self)
            return

        async def sandbox(_scope: Scope) -> Sandbox:
            return self._sandbox

        def open_link(scope: Scope) -> Awaitable[Link]:
            return self._home.open(
                scope, name, server, sandbox=sandbox, roots=(self._sandbox.root,), elicits=True
            )

        slot = Slot(
            self.scope.child(name), name, server, open_link, self._home.catalog, self.changed
        )
        slot.before = self._leaving.pop(name, None)
        self._places[name] = Place(name, server, self._home, slot, self)

    # --- what the model is offered ---------------------------------------------------------------

    def tools(self, *, small: bool = False) -> tuple[Tool, ...]:
        """What is known now. A long list is offered on demand: a search, and what it has found."""
        everything = self._everything()
        tools_max = SMALL_TOOLS_MAX if small else TOOLS_MAX
        tokens_max = SMALL_TOKENS_MAX if small else TOKENS_MAX
        offered: list[Tool] = list(everything)
        if len(everything) > tools_max or _tokens(everything) > tokens_max:
            known = {tool.name: tool for tool in everything}
            lent = [known[name] for name in self._lent if name in known]
            names = ", ".join(place.name for place in self._places.values())
            offered = [ToolSearch(self._everything, self._lend, names), *lent]
        readable = [
            p
            for p in self._places.values()
            if p.offers and (p.offers.resources or p.offers.prompts)
        ]
        if readable and not small:
            offered.append(ServerRead(readable))
        return tuple(offered)

    def _everything(self) -> list[ServerTool]:
        return [tool for place in self._places.values() for tool in self._tools_of(place)]

    def _tools_of(self, place: Place) -> tuple[ServerTool, ...]:
        offers = place.offers
        if offers is None:
            return ()
        made = self._made.get(place.name)
        if made is None or made[0] is not offers:
            named: dict[str, ServerTool] = {}
            for offer in offers.tools:
                name = public_name(place.name, offer.name)
                named.setdefault(name, ServerTool(place, offer, name))
            made = self._made[place.name] = offers, tuple(named.values())
        return made[1]

    def _lend(self, tools: Any) -> None:
        for tool in tools:
            self._lent.pop(tool.name, None)
            self._lent[tool.name] = tool
        while len(self._lent) > LENT_MAX:
            del self._lent[next(iter(self._lent))]

    def rules(self) -> tuple[ApprovalRule, ...]:
        """What servers are trusted with by their ``allow``: weaker than every rule of the user."""
        return tuple(
            ApprovalRule(decision="allow", tool=_escape(tool.name))
            for place in self._places.values()
            if place.server.allow
            for tool in self._tools_of(place)
            if any(fnmatch.fnmatchcase(tool.offer.name, glob) for glob in place.server.allow)
        )

    # --- what is shown ---------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """For clients: one for each server, those that it does not have included."""
        return [*(place.row() for place in self._places.values()), *self._left_out]

    @property
    def busy(self) -> bool:
        """Whether a server of the session's own runs that has done something for it."""
        return any(place.own is not None and place.own.keeps for place in self._places.values())

    def names(self) -> dict[str, list[str]]:
        """The tools that are known, by server."""
        found = {p.name: [t.name for t in self._tools_of(p)] for p in self._places.values()}
        return {f"mcp: {name}": tools for name, tools in found.items() if tools}


def _narrowed(servers: Mapping[str, Declared]) -> dict[str, Declared]:
    """What a folder brings may run: neither unasked, nor with more network than commands have."""
    return {
        name: msgspec.structs.replace(server, allow=(), network=False)
        for name, server in servers.items()
    }


def _row_of(name: str, server: Declared, status: str, reason: str) -> dict[str, Any]:
    """Of a server that the session does not have, and why."""
    return {
        "name": name,
        "status": status,
        "connected": False,
        "tools": 0,
        "transport": server.transport,
        "shared": server.shared,
        "reason": reason,
        "pid": None,
    }


def _tokens(tools: list[ServerTool]) -> int:
    specs = [(t.name, t.spec.description, t.spec.parameters) for t in tools]
    return len(msgspec.json.encode(specs)) // BYTES_PER_TOKEN


def _escape(name: str) -> str:
    return name.replace("[", "[[]")
