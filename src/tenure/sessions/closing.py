"""Closing a session: claim, cancel, release, finalize, announce. One winner; everyone awaits it.

    claim     the scope refuses from this instant; the first reason stands
    cancel    the running turn, with grace; then it is fenced off. Queued prompts are returned;
              when the gateway stops they stay queued in the store, and run after its next start
    release   the scope, in reverse; each lease in its own grace; then closes are answered
    finalize  one fenced write: status, reason, the lease's end; no row of it stays open
    announce  session.closed after that commit; then the attachments end and the registry forgets

The closing runs in a task of the registry's scope, so a requester that vanishes cannot tear it.
"""

from __future__ import annotations

import asyncio
import logging

from tenure.errors import StoreError
from tenure.lifecycle.deadline import deadline
from tenure.sessions import uploads
from tenure.sessions.actor import Session
from tenure.store.base import EndLease, InsertEnd, Op, PatchSession, SettleLeftovers

log = logging.getLogger("tenure.sessions")

UNLOAD = "unload"
"""The cause of endings that are none: everything is freed, the session goes on when resumed."""
UNLOADED = "unloaded"
"""How their reasons begin."""
TURN_GRACE_S = 5.0
"""How long a cancelled turn may take to store its end."""


async def end_session(session: Session, reason: str, cause: str) -> None:
    """Run the closing of a session whose scope has been claimed, and turn cancelled, by the caller.

    Args:
        session: whose `scope.claim` this caller has won.
        reason: stored and announced.
        cause: what interrupted turns say (client, user, shutdown, …).
    """
    await _await_turn(session, cause)
    stops, unloads = cause == "shutdown", cause == UNLOAD
    kept = session.queue.leave() if stops else 0
    returned = session.return_queue(cause)
    report = await session.scope.close(reason)
    session.released.set()
    if report.failures:
        log.warning("Session %s closed with failures: %s", session.id, report.failures)
    if stops:  # a prompt that could not be steered after all has come back meanwhile
        kept += session.queue.leave()
    else:
        returned += session.return_queue(cause)
    session.endings.last_try()
    journal = session.journal
    payload = {
        "reason": reason,
        "returned": returned,
        "kept": kept,
        "failures": len(report.failures),
    }
    final = journal.record(
        [
            SettleLeftovers(cause, session.scope.clock.wall(), session.id, keep_queued=stops),
            PatchSession(session.id, {"status": "idle" if unloads else "closed", "reason": reason}),
            *uploads.closes(session, goes_on=stops or unloads),
            *_hook(session, reason, unloads=unloads),
            EndLease(f"session:{session.id}", journal.epoch),
        ],
        [] if unloads else [("session.closed", payload)],
    )
    try:
        await asyncio.shield(final)
    except StoreError as exc:
        # The next start ends the row with a reason; the resources are free either way.
        log.warning("The end of session %s could not be stored: %s", session.id, exc)
        journal.transient("notification.show", _unstored(session.id, exc))
    session.attachments.clear()


def _unstored(session_id: str, exc: StoreError) -> dict[str, str]:
    """For whoever listens: everything is free, but the row does not say so."""
    text = (
        f"Session {session_id} has ended, but that could not be stored ({exc.message}); the next "
        "start of the gateway ends its row."
    )
    return {"text": text, "level": "error", "kind": "store", "key": "end"}


def _hook(session: Session, reason: str, *, unloads: bool) -> list[Op]:
    """That the hook has to run, if there is one and this is an end; see `sessions/hooks.py`."""
    if unloads or not session.ports.config().hooks.session_end:
        return []
    return [InsertEnd(session.id, reason, session.ports.clock.wall())]


async def _await_turn(session: Session, cause: str) -> None:
    turn = session.current
    if turn is None:
        return
    try:
        async with deadline(session.scope.clock, TURN_GRACE_S):
            await turn.over.wait()
    except TimeoutError:
        session.abandon(turn, cause)
