"""Where a session's tools work: its sandbox, and what they keep there from call to call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tenure.browser.visit import pages_open
from tenure.paths import kept
from tenure.sandbox.base import UNCONFINED, Confinement, Sandbox
from tenure.sandbox.choice import Asked, LocalOnly
from tenure.sessions.planning import plan_of
from tenure.sessions.subagents import Board
from tenure.tools.background import list_background
from tenure.tools.base import Tool
from tenure.tools.plan import PLAN, PLAN_TOOL
from tenure.tools.terminals import FAMILY, Terminals, terminals_running
from tenure.toolservers.held import SessionServers

if TYPE_CHECKING:
    from tenure.sessions.actor import Session
    from tenure.sessions.rewriting import Branch

SETTING = "sandbox"
"""Where a session's wish stands in its settings."""


def first_settings(branch: Branch | None, wanted: str, plan: bool) -> dict[str, Any]:
    """The settings of a new session: those of what it branches off, and what is asked for.

    Args:
        branch: what it branches off.
        wanted: the sandbox; empty: none in particular.
        plan: whether it begins in plan mode.
    """
    settings = dict(branch.settings) if branch else {}
    settings |= {SETTING: wanted} if wanted else {}
    return settings | ({PLAN: {"on": True}} if plan else {})


@functools.lru_cache(maxsize=64)
def _facts(confinement: Confinement) -> dict[str, Any]:
    return confinement._asdict()


class Workplace:
    """One session's. What it holds, the session's scope owns."""

    __slots__ = ("_delegation", "_sandbox", "_servers", "_session", "_state")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sandbox: Sandbox | None = None
        self._state: dict[str, Any] | None = None
        self._delegation: Board | None = None
        self._servers: SessionServers | None = None

    async def open(self) -> Sandbox:
        """The session's sandbox; made on first use, from then on the same.

        Raises:
            SandboxUnavailable: what the session asked for cannot be had here.
        """
        session = self._session
        if self._sandbox is None:
            sandboxes = session.ports.sandboxes or LocalOnly(session.ports.spawner)
            wish = session.settings.get(SETTING, "")
            asked = Asked(session.id, kept(session.cwd), session.journal.epoch, wish)
            made = await sandboxes.make(asked, session.scope)
            return self._keep(made)
        return self._sandbox

    def _keep(self, made: Sandbox) -> Sandbox:
        """The first one stays: another may have been quicker."""
        if self._sandbox is None:
            self._sandbox = made
            self.look_for_servers()
        return self._sandbox

    def look_for_servers(self) -> SessionServers | None:
        """Take over what files declare of tool servers now; None while there is nothing to hold."""
        session, sandbox = self._session, self._sandbox
        home = session.ports.toolservers
        if home is None or sandbox is None or not session.scope.admits:
            return self._servers
        if self._servers is None and home.declares(session.cwd):

            def told() -> None:
                session.journal.transient("session.info", session.info())

            cwd = kept(session.cwd)
            self._servers = SessionServers(session.scope, home, cwd, sandbox, told)
        if self._servers is not None:
            self._servers.look()
        return self._servers

    @property
    def servers(self) -> SessionServers | None:
        """The session's tool servers, once there were any and its sandbox is open."""
        return self._servers

    def server_tools(self) -> tuple[Tool, ...]:
        """What they offer by now."""
        agent = self._session.agent
        return self._servers.tools(small=agent.model.small) if self._servers and agent else ()

    @property
    def planning(self) -> bool:
        """Whether nothing may be changed; see sessions/planning.py."""
        return plan_of(self._session).on

    def plan_tools(self) -> tuple[Tool, ...]:
        """What plan mode needs, while it is on."""
        return (PLAN_TOOL,) if self.planning else ()

    def more_tools(self) -> tuple[Tool, ...]:
        """What a running turn may use from its next step."""
        return (*self.server_tools(), *self.plan_tools())

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, which must be open: it is once there is an agent."""
        assert self._sandbox is not None
        return self._sandbox

    @property
    def confinement(self) -> Confinement | None:
        """What it confines; None before it is open."""
        return self._sandbox.confinement if self._sandbox else None

    @property
    def confined(self) -> bool:
        """Whether what runs in it needs no question."""
        found = self.confinement or UNCONFINED
        return found.confined and self._session.ports.config().approvals.mode == "auto"

    def shown(self) -> dict[str, Any]:
        """For clients: what it is called and what it confines; nothing before it is open."""
        if self._sandbox is None:
            return {}
        return {**_facts(self._sandbox.confinement), "root": str(self._sandbox.root)}

    @property
    def state(self) -> dict[str, Any]:
        """What tools keep per session (background processes, terminals)."""
        if self._state is None:
            session = self._session
            terminals = Terminals(
                session.scope, self.open, session.ports.clock, session.journal.transient
            )
            self._state = {FAMILY: terminals}
        return self._state

    @property
    def terminals(self) -> Terminals:
        """The session's terminals."""
        found = self.state[FAMILY]
        assert isinstance(found, Terminals)
        return found

    @property
    def delegation(self) -> Board:
        """The session's sub-agents."""
        if self._delegation is None:
            self._delegation = Board()
        return self._delegation

    @property
    def active_subagents(self) -> int:
        """How many wait or run."""
        return len(self._delegation.live) if self._delegation else 0

    @property
    def busy(self) -> bool:
        """Whether something of it runs that outlives turns."""
        state = self._state or {}
        running = any(job["running"] for job in list_background(state)) or terminals_running(state)
        return running or pages_open(state) or (self._servers is not None and self._servers.busy)
