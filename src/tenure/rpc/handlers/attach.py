"""Listening to a session: resume, attach, activate, detach, and events after a cursor.

Whoever attaches gets an answer first: a snapshot, or the promise of the missed events. What is
published meanwhile is held and follows it, each event once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from tenure.errors import Conflict, ReadOnly, ScopeClosed
from tenure.protocol import methods as m
from tenure.protocol.messages import EventParams
from tenure.rpc.ports import Call, Peer
from tenure.sessions.actor import Session
from tenure.sessions.attachments import Attachment, Role
from tenure.sessions.replay import (
    REPLAY_MAX,
    History,
    Missed,
    messages_of,
    missed_since,
    snapshot_of,
)

PORTION = 32
"""Missed events that are sent without letting others have a turn."""


def attach(
    call: Call,
    session: Session,
    role: Role | None = None,
    *,
    close_on_disconnect: bool | None = None,
) -> Attachment:
    """Bind this connection to `session` and hold its events until the answer is out.

    Args:
        call: the request that is being answered.
        session: what to listen to.
        role: what this connection may do from now on; None keeps its role (owner at first).
        close_on_disconnect: None leaves what it said about its disconnect.
    """
    bound = session.attachments.of(call.peer)
    kept = bound.value.role if bound else Role.OWNER
    lease = session.attachments.attach(
        call.peer,
        call.peer.scope,
        session.id,
        role=role or kept,
        close_on_disconnect=close_on_disconnect,
    )
    lease.value.hold()
    call.later.append(lease.value.let_go)
    return lease.value


def changing(call: Call, session_id: str) -> Session:
    """The live session, for a request that changes or ends it.

    Raises:
        SessionNotFound, SessionClosing: see `Sessions.get`.
        ReadOnly: this connection only watches it.
    """
    session = call.gateway.sessions.get(session_id)
    check_owner(call, session)
    return session


def check_owner(call: Call, session: Session) -> None:
    """Raises ReadOnly where this connection is attached as a viewer."""
    bound = session.attachments.of(call.peer)
    if bound is not None and bound.value.role is Role.VIEWER:
        raise ReadOnly(
            f"This connection only watches session {session.id}; attach to it as owner to "
            "change it (session.attach with role owner)."
        )


def told(call: Call, session: Session) -> dict[str, Any]:
    """The session's facts for an answer; notes it if the agent is still being built."""
    if session.agent is None:
        call.peer.told_lazy.append(session.id)
    return session.info()


def tell_again(call: Call, session_id: str) -> None:
    """Repeat what an answer could not say, or what came right after it: facts, an open question.

    A client that reads that answer and the event after it in one piece may handle the event first
    and be left with the older facts; the poll of the terminal client is when it is told again.
    """
    session = next((s for s in call.gateway.sessions.live() if s.id == session_id), None)
    if session is None or session.agent is None:
        return
    while session_id in call.peer.told_lazy:
        call.peer.told_lazy.remove(session_id)
    call.peer.publish(EventParams("session.info", session_id, session.info()))
    if session.notice:
        note = {"text": session.notice, "level": "warn", "kind": "recovery", "key": "recovery"}
        call.peer.publish(EventParams("notification.show", session_id, note))
    if (entry := session.questions.shown) is not None:
        kind, payload = entry.request
        call.peer.publish(EventParams(kind, session_id, payload))


async def session_resume(params: m.SessionResume, call: Call) -> m.SessionResumed:
    """Attach to a live session, or open a stored one."""
    role, flag = Role(params.role), params.close_on_disconnect
    session = await call.gateway.sessions.resume(
        params, lambda found: _begin(call, found, role, close_on_disconnect=flag)
    )
    if params.eager_build:
        await session.wait_built()
    return await _opened(call, session, params.cursor, omit=params.omit_messages)


async def session_attach(params: m.SessionResume, call: Call) -> m.SessionResumed:
    """The same, under the name of what it does."""
    return await session_resume(params, call)


async def session_activate(params: m.ForSession, call: Call) -> m.SessionResumed:
    """Attach to a live session."""
    session = call.gateway.sessions.get(params.session_id)
    _begin(call, session)
    return await _opened(call, session, None, omit=False)


def _begin(
    call: Call,
    session: Session,
    role: Role | None = None,
    *,
    close_on_disconnect: bool | None = None,
) -> None:
    """Attach; without an answer that says so the peer hears nothing, and does not listen."""
    fresh = session.attachments.of(call.peer) is None
    attachment = attach(call, session, role, close_on_disconnect=close_on_disconnect)
    if fresh:
        attachment.told = False
        call.later.append(partial(_unless_told, call, session, attachment))


def _unless_told(call: Call, session: Session, attachment: Attachment) -> None:
    if not attachment.told:
        session.attachments.detach(call.peer, attachment.epoch)


async def _opened(
    call: Call, session: Session, cursor: m.Cursor | None, *, omit: bool
) -> m.SessionResumed:
    # Borrowed for the reading: the session may end meanwhile, and its profile with it.
    async with call.gateway.profiles.using(session.ports.profile):
        missed = await missed_since(session, cursor.epoch, cursor.seq) if cursor else None
        if missed and missed.more:
            missed = Missed(gap=f"More than {REPLAY_MAX} events were missed.")
        replay = m.Replay(gap=bool(missed.gap), reason=missed.gap) if missed else None
        history = History(seq=session.journal.last_seq)
        if not omit and (missed is None or missed.gap):
            history = await messages_of(session)
    seq = history.seq
    # From here on in one step: the answer, then what was missed, then what comes.
    attachment = _still_bound(call, session)
    attachment.told = True
    attachment.answers += 1
    attachment.forget_held(seq)
    if missed and replay and missed.events:
        replay.events = len(missed.events)
        seq = missed.events[-1].seq
        attachment.hold()
        call.later.append(partial(_begin_replay, call, attachment, missed))
    if missed is None or missed.gap:
        call.later.append(partial(_show_question, call, session))
    return m.SessionResumed(
        **snapshot_of(session, history),
        seq=seq,
        info=told(call, session),
        attachment=attachment.epoch,
        role=attachment.role.value,
        replay=replay,
    )


def _still_bound(call: Call, session: Session) -> Attachment:
    bound = session.attachments.of(call.peer)
    if bound is None:  # closed, or detached by another request of this connection
        session.check_open()
        raise Conflict(
            f"This connection was detached from session {session.id} meanwhile; attach again."
        )
    return bound.value


def _begin_replay(call: Call, attachment: Attachment, missed: Missed) -> None:
    with suppress(ScopeClosed):  # the connection is ending
        replay = _replay(call.peer, attachment, missed, attachment.answers)
        call.peer.scope.spawn(replay, name="replay")


async def _replay(peer: Peer, attachment: Attachment, missed: Missed, answer: int) -> None:
    """Send what was missed, a portion at a time: the answer is out before, others have turns.

    It goes on as the peer takes it: how much was missed makes nobody slow. What happens meanwhile
    is held, and that is bounded (`HELD_MAX`). A later answer to this peer says anew where it is, so
    what is left of an earlier replay is not sent after it.
    """
    for n, event in enumerate(missed.events):
        if n % PORTION == 0:
            await asyncio.sleep(0)
        await peer.has_room()
        if attachment.answers != answer:
            break
        attachment.listener.publish(event)
    else:
        attachment.skip_to(missed.events[-1].seq)
    attachment.let_go()


def _show_question(call: Call, session: Session) -> None:
    """A client that reads events only is shown what waits for an answer; see `tell_again`."""
    entry = session.questions.shown
    if entry is not None:
        kind, payload = entry.request
        call.peer.publish(EventParams(kind, session.id, payload))
        call.peer.told_lazy.append(session.id)


async def session_detach(params: m.SessionDetach, call: Call) -> m.Detached:
    """Stop listening; the session goes on."""
    session = call.gateway.sessions.get(params.session_id)
    return m.Detached(session.attachments.detach(call.peer, params.attachment))


async def session_events_since(params: m.EventsSince, call: Call) -> m.Events:
    """Durable events after a cursor, or a gap with a snapshot."""
    session = call.gateway.sessions.get(params.session_id)
    journal = session.journal
    limit = max(1, min(params.limit, REPLAY_MAX))
    missed = await missed_since(session, params.epoch or journal.epoch, params.last_seen, limit)
    found = m.Events(
        events=[msgspec.to_builtins(event) for event in missed.events],
        count=len(missed.events),
        epoch=journal.epoch,
        latest_seq=journal.last_seq,
        more=missed.more,
        truncated=bool(missed.gap),
        reason=missed.gap,
    )
    if missed.gap:
        history = await messages_of(session)
        found.latest_seq = history.seq
        found.snapshot = {**snapshot_of(session, history), "info": session.info()}
    return found
