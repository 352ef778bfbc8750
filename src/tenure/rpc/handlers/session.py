"""session.*: open, look at, end."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.errors import NotFound
from tenure.ids import checked_session_id
from tenure.protocol import methods as m
from tenure.rpc.handlers.attach import attach, changing, check_owner, tell_again, told
from tenure.rpc.handlers.finding import sieve_of
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.facts import retitle, summary_of, title_in
from tenure.sessions.projection import message_of, page_of
from tenure.sessions.removing import close_by_id

RECENT_MAX = 1_000
"""Sessions among which the last one is looked for that somebody has said something in."""


async def session_create(params: m.SessionCreate, call: Call) -> m.SessionOpened:
    """Open a session; the answer comes after its commit, the agent after that."""
    cwd = call.gateway.folders.checked(params.cwd)
    if params.title:
        params = msgspec.structs.replace(params, title=title_in(params.title))
    session = await call.gateway.sessions.create(
        params,
        cwd,
        lambda made: attach(call, made, close_on_disconnect=params.close_on_disconnect),
    )
    messages = [message_of(row) for row in session.journal.items]
    return m.SessionOpened(
        session_id=session.id,
        stored_session_id=session.id,
        message_count=len(messages),
        messages=messages,
        info=told(call, session),
    )


async def session_list(params: m.SessionList, call: Call) -> m.SessionRows:
    """Stored sessions, newest use first."""
    await call.gateway.sessions.wait_stored()
    profile = call.gateway.profiles.name_of(params.profile)
    async with call.gateway.profiles.using(profile) as store:
        limit = max(1, min(params.limit, 10_000))
        only = msgspec.structs.replace(sieve_of(params), said=params.said)
        rows = await store.sessions(limit=limit, only=only)
    return m.SessionRows([{**summary_of(row), "profile": profile} for row in rows])


async def session_active_list(params: m.ActiveList, call: Call) -> m.SessionRows:
    """Live sessions."""
    shown = params.current_session_id
    if shown and shown in call.peer.told_lazy:
        tell_again(call, shown)
    return m.SessionRows(
        [
            {
                "id": s.id,
                "session_key": s.id,
                "current": s.id == params.current_session_id,
                "status": s.status,
                "title": s.title,
                "preview": s.preview,
                "model": s.agent.model.ref if s.agent else "",
                "message_count": s.journal.count,
                "started_at": s.created_at,
                "last_active": s.last_active,
                "clients": len(s.attachments),
                "profile": s.ports.profile,
            }
            for s in call.gateway.sessions.live()
        ]
    )


async def session_most_recent(params: m.Empty, call: Call) -> m.MostRecent:
    """The session used last."""
    del params
    await call.gateway.sessions.wait_stored()
    async with call.gateway.profiles.using("") as store:
        rows = await store.sessions(limit=RECENT_MAX)
    row = next((row for row in rows if row.said), None)
    if row is None:
        return m.MostRecent(session_id=None)
    return m.MostRecent(
        session_id=row.id, title=row.title, started_at=row.created_at, source=row.source
    )


async def session_history(params: m.SessionHistory, call: Call) -> m.Messages:
    """Messages, live or stored."""
    session_id = checked_session_id(params.session_id)
    profile = call.gateway.sessions.profile_of(session_id, params.profile)
    async with call.gateway.profiles.using(profile) as store:
        rows = await store.history(session_id)
        if not rows and await store.session(session_id) is None:
            raise NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
    messages, omitted = page_of(rows, params.before)
    return m.Messages(len(messages), messages, omitted)


async def session_title(params: m.SessionTitle, call: Call) -> m.Title:
    """Read or set the title."""
    session = call.gateway.sessions.get(params.session_id)
    if params.title is not None:
        check_owner(call, session)
        await retitle(session, title_in(params.title))
    return m.Title(session.title, session.id)


async def session_status(params: m.ForSession, call: Call) -> m.Output:
    """The session in a few lines."""
    session = call.gateway.sessions.get(params.session_id)
    return m.Output(status_text(session))


def status_text(session: Session) -> str:
    """The session in a few lines."""
    info, count = session.info(), len(session.attachments)
    clients = "1 client" if count == 1 else f"{count} clients"
    lines = [
        f"session   {session.id}  {session.title}".rstrip(),
        f"state     {session.status}, {session.queued} queued, {clients}",
        f"model     {info['model']}  ({info['model_reason']})",
        f"directory {session.cwd}",
        f"commands  {info['sandbox'].get('about', '(not known yet)')}",
        f"approvals {info['approval_mode']}  {info['approval_source']}".rstrip(),
    ]
    if info["plan"]["on"]:
        lines.append("plan mode nothing is changed until a plan is approved")
    if info["instructions"]:
        lines.append(f"reads     {', '.join(info['instructions'])}")
    return "\n".join(lines)


async def session_usage(params: m.ForSession, call: Call) -> dict[str, Any]:
    """Token counters."""
    return call.gateway.sessions.get(params.session_id).usage()


async def session_interrupt(params: m.ForSession, call: Call) -> m.Status:
    """End the running turn."""
    session = changing(call, params.session_id)
    return m.Status("interrupted" if session.interrupt("user") else "idle")


async def session_close(params: m.StoredSession, call: Call) -> m.Closed:
    """End a session, live or unloaded. Closing one that has ended is no error."""
    sessions = call.gateway.sessions
    if (live := sessions.find(params.session_id)) is not None:
        check_owner(call, live)
    profile = call.gateway.profiles.name_of(sessions.profile_of(params.session_id, params.profile))
    reason = "closed by a client"
    return m.Closed(await close_by_id(sessions, params.session_id, profile, reason))


async def session_delete(params: m.StoredSession, call: Call) -> m.Deleted:
    """Remove a session with its history."""
    session_id = checked_session_id(params.session_id)
    if (live := call.gateway.sessions.find(session_id)) is not None:
        check_owner(call, live)
    if not await call.gateway.sessions.delete(session_id, params.profile):
        raise NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
    return m.Deleted(session_id)
