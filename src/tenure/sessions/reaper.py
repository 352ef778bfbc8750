"""Which sessions stay in memory: a decision from their state, taken again and again.

A session is in use while a client is attached to it, a turn or a prompt is under way, or a
background process of its runs. One that is not is unloaded when its last client has been gone for
the grace and its last work is older than the idle time: everything it holds is freed, its row stays
resumable. Looking at a session, pinging or listing is no use of it.

Both times are counted on the monotonic clock, which stands still while the machine sleeps: a laptop
that wakes up finds its sessions. No timer belongs to a session, so none can be missed or fire late.

Over the budgets the longest unused goes first: unattached sessions are unloaded, attached ones are
laid to rest (agent and history leave the memory, the attachment stays). Never during a turn.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tenure.config import LimitsConfig
from tenure.sessions.actor import Session

if TYPE_CHECKING:
    from tenure.sessions.registry import Sessions

log = logging.getLogger("tenure.sessions")

PERIOD_S = 60.0
"""Seconds between two looks at the most; a gateway without sessions does not look at all."""


class Reaper:
    """Unloads what nobody uses. One per gateway; `run` is its one task.

    Args:
        sessions: the registry.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._wake = asyncio.Event()
        self.looks = 0
        """Passes so far."""

    def session_added(self) -> None:
        """There is a session to look at. Never waits."""
        self._wake.set()

    async def run(self) -> None:
        """Look again and again while there are sessions. Cancellable."""
        clock = self._sessions.ports.clock
        while True:
            while not len(self._sessions):
                self._wake.clear()
                await self._wake.wait()
            limits = self._sessions.ports.config().limits
            await clock.sleep(min(PERIOD_S, max(1.0, limits.orphan_grace_s / 2)))
            self.look()

    def look(self) -> None:
        """One pass over all sessions. Synchronous: what it decides holds when it acts."""
        self.looks += 1
        limits = self._sessions.ports.config().limits
        now = self._sessions.ports.clock.monotonic()
        for session in self._sessions.live():
            try:
                if expired(session, now, limits):
                    self._sessions.unload(session, "unused")
            except Exception:  # one that fails must not keep the others
                log.exception("Session %s cannot be looked at", session.id)
        self.relieve()

    def relieve(self, room: int = 0) -> None:
        """Free the longest unused until the budgets hold. Synchronous.

        Args:
            room: sessions that are about to be loaded.
        """
        limits = self._sessions.ports.config().limits
        spare = limits.loaded_max - len(self._sessions) - room
        budget = self._sessions.ports.memory.histories
        if spare >= 0 and budget.held_bytes <= limits.history_mib << 20:
            return
        for session in sorted(self._sessions.live(), key=lambda s: s.used_at):
            over_bytes = budget.held_bytes > limits.history_mib << 20
            if spare >= 0 and not over_bytes:
                return
            if not session.scope.admits or session.working:
                continue
            if not in_use(session):
                spare += self._sessions.unload(session, "making room")
            elif over_bytes:
                session.rest()


def in_use(session: Session) -> bool:
    """Whether it must stay: attached, working, or with a background process that runs."""
    return bool(len(session.attachments)) or session.working or session.has_background


def expired(session: Session, now: float, limits: LimitsConfig) -> bool:
    """Whether nobody will miss it in memory.

    Args:
        session: a live one.
        now: monotonic seconds.
        limits: the grace after its last client, and the idle time after its last work.
    """
    if not session.scope.admits or in_use(session):
        return False
    left_s = now - session.attachments.left_at
    unused_s = now - session.used_at
    return left_s >= limits.orphan_grace_s and unused_s >= limits.idle_s
