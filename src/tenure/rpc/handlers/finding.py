"""session.search, the marks of sessions, and what fills a window."""

from __future__ import annotations

import msgspec

from tenure.errors import BadValue, NotFound
from tenure.ids import checked_name, checked_session_id
from tenure.protocol import finding as f
from tenure.protocol.params import ForSession
from tenure.rpc.ports import Call
from tenure.sessions.finding import breakdown_of, find_sessions
from tenure.store.base import TAGS_MAX, Op, PatchSession, SessionRow, Sieve, TagSession


def sieve_of(params: f.Sieved) -> Sieve:
    """What a request lets through."""
    return Sieve(params.tag, params.pinned, params.archived, params.since)


async def session_search(params: f.SessionSearch, call: Call) -> f.FoundSessions:
    """Search one profile."""
    async with call.gateway.profiles.using(params.profile) as store:
        found = await find_sessions(store, params.query, params.limit, only=sieve_of(params))
    return f.FoundSessions([f.FoundSession(**msgspec.structs.asdict(one)) for one in found])


async def session_pin(params: f.SessionPin, call: Call) -> f.Marks:
    """Pin or unpin."""
    change = PatchSession(params.session_id, {"pinned": params.pinned})
    return _marks(await _marked(params, call, change))


async def session_archive(params: f.SessionArchive, call: Call) -> f.Marks:
    """Archive, or bring back; a live session stays live."""
    change = PatchSession(params.session_id, {"archived": params.archived})
    return _marks(await _marked(params, call, change))


async def session_tag(params: f.SessionTag, call: Call) -> f.Marks:
    """Change the tags, in one step."""
    add = tuple(checked_name(tag, "tag") for tag in params.add)
    row = await _marked(params, call, TagSession(params.session_id, add, params.remove))
    if set(add) - set(params.remove) - set(row.tags):
        raise BadValue(f"A session has {TAGS_MAX} tags at the most; remove some first.")
    return _marks(row)


async def _marked(params: f.StoredSession, call: Call, change: Op) -> SessionRow:
    """Apply `change`. Marks are people's, not the owner's, so no lease fences them."""
    session_id = checked_session_id(params.session_id)
    profile = call.gateway.sessions.profile_of(session_id, params.profile)
    async with call.gateway.profiles.using(profile) as store:
        await store.write(change)
        row = await store.session(session_id)
    if row is None:
        raise NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
    return row


def _marks(row: SessionRow) -> f.Marks:
    return f.Marks(session_id=row.id, pinned=row.pinned, archived=row.archived, tags=row.tags)


async def session_context_breakdown(params: ForSession, call: Call) -> f.ContextBreakdown:
    """What fills the window of a live session."""
    return breakdown_of(call.gateway.sessions.get(params.session_id))
