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

SCAN_S = 1.0
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
        self._unattached: dict[str, None] = {}
        """Sessions that nobody may be attached to, the one that was left longest ago first."""
        self._scanned_at = 0.0
        self.looks = 0
        """Passes so far."""

    def session_added(self) -> None:
        """There is a session to look at. Never waits."""
        self._wake.set()

    def left(self, session_id: str) -> None:
        """The last client of a session has gone. Never waits."""
        self.gone(session_id)
        if self._sessions.find(session_id) is not None:
            self._unattached[session_id] = None

    def gone(self, session_id: str) -> None:
        """The session is over. Never waits."""
        self._unattached.pop(session_id, None)

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
        """Free what is not used until the budgets hold, the longest left first. Synchronous.

        Args:
            room: sessions that are about to be loaded.
        """
        limits = self._sessions.ports.config().limits
        excess = len(self._sessions) + room - limits.loaded_max
        if excess > 0 or self._over(limits):
            self._unload_unattached(excess, limits)
        if self._over(limits):
            self._lay_to_rest(limits)

    def _over(self, limits: LimitsConfig) -> bool:
        held: int = self._sessions.ports.memory.histories.held_bytes
        return held > limits.history_mib << 20

    def _unload_unattached(self, excess: int, limits: LimitsConfig) -> None:
        for session_id in tuple(self._unattached):
            if excess <= 0 and not self._over(limits):
                return
            session = self._sessions.find(session_id)
            if session is None or len(session.attachments):
                del self._unattached[session_id]  # until it is left again
            elif session.scope.admits and not in_use(session):
                session.rest()  # its history counts no more from this moment
                excess -= self._sessions.unload(session, "making room")

    def _lay_to_rest(self, limits: LimitsConfig) -> None:
        """Take the history of idle attached sessions out of the memory; at most once a second."""
        now = self._sessions.ports.clock.monotonic()
        if now - self._scanned_at < SCAN_S:
            return
        self._scanned_at = now
        for session in sorted(self._sessions.live(), key=lambda s: s.used_at):
            if not self._over(limits):
                return
            session.rest()


def in_use(session: Session) -> bool:
    """Whether it must stay: attached (or about to be), working, or with something that runs."""
    attached = session.pins > 0 or len(session.attachments) > 0
    return attached or session.working or session.has_background


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
