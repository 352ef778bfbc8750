"""Ending and removing a session by its id, whether it is live, on its way, unloaded or closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tenure.errors import TenureError
from tenure.lifecycle.threads import run_in_thread
from tenure.sessions.belongings import forget_files
from tenure.sessions.closing import UNLOADED
from tenure.store.base import DeleteSession, EndIdle

if TYPE_CHECKING:
    from tenure.sessions.actor import Session
    from tenure.sessions.registry import Sessions


async def end_unloaded(sessions: Sessions, session_id: str, profile: str, reason: str) -> bool:
    """End a stored session that is unloaded. One that is being opened meanwhile is left alone.

    The caller has found no live session of this id.

    Returns:
        Whether there was one.
    """
    async with sessions.profiles.using_ports(profile) as ports:
        hook = bool(ports.config().hooks.session_end)
        op = EndIdle(session_id, reason, ports.clock.wall(), hook=hook)
        (ended,) = await ports.store.write(op)
    if ended and hook:
        sessions.hooks.wake(profile)
    return bool(ended)


async def close_by_id(sessions: Sessions, session_id: str, profile: str, reason: str) -> bool:
    """End a session for good, live or unloaded; it can be opened again, as any that has ended.

    Returns:
        Whether there was anything to end.
    """
    while True:
        session = await _live(sessions, session_id)
        if session is not None:
            first = await sessions.close(session, reason)
            if not first and session.closing and (session.scope.reason or "").startswith(UNLOADED):
                await asyncio.shield(session.closing)  # it is being unloaded; it ends after that
                continue
            return True
        if await end_unloaded(sessions, session_id, profile, reason):
            return True
        if sessions.find(session_id) is None and sessions.opening(session_id) is None:
            return False


async def delete(sessions: Sessions, session_id: str, profile: str) -> bool:
    """Close if live, then remove every row. A late write of its last owner is fenced off.

    Returns:
        Whether it existed.
    """
    told = existed = False
    drafted: set[str] = set()
    while True:
        while (session := await _live(sessions, session_id)) is not None:
            profile, told = session.ports.profile, False
            drafted.update(digest for one in session.draft for digest in one.digests)
            sessions.close_nowait(session, "deleted", "user")
            assert session.closing is not None
            await asyncio.shield(session.closing)
        async with sessions.profiles.using_ports(profile) as ports:
            digests = drafted.union(await ports.store.uploads(session_id))
            if sessions.find(session_id) or sessions.opening(session_id):
                continue  # opened meanwhile; from here to the write nothing is awaited
            if told or not ports.config().hooks.session_end:
                (existed,) = await ports.store.write(DeleteSession(session_id))
                if digests and ports.uploads is not None:
                    await ports.uploads.sweep(ports.store, sessions.scope, digests)
                break
        await end_unloaded(sessions, session_id, profile, "deleted")
        await sessions.hooks.wait_started(session_id, profile)
        told = True  # and once more: it may have been opened meanwhile
    home = sessions.profiles.home.profile(profile)
    await run_in_thread(sessions.scope, forget_files, home, session_id)
    return bool(existed)


async def _live(sessions: Sessions, session_id: str) -> Session | None:
    """The live session of an id, once it is open."""
    while sessions.find(session_id) is None:
        opening = sessions.opening(session_id)
        if opening is None:
            return None
        with suppress(TenureError):
            await asyncio.shield(opening.session)
        await asyncio.sleep(0)  # until it is registered as live, or as gone
    return sessions.find(session_id)
