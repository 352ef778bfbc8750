"""The live sessions: get or create, one incarnation each; the only way in and the only way out."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tenure.errors import NotFound, Overloaded, SessionClosing, SessionNotFound, TenureError
from tenure.ids import SESSION_ID, new_session_id
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.protocol.methods import SessionCreate
from tenure.sessions.actor import Session
from tenure.sessions.closing import end_session
from tenure.sessions.resources import SessionPorts
from tenure.sessions.seed import seed_items
from tenure.store.base import (
    AppendItem,
    DeleteSession,
    InsertSession,
    PatchSession,
    SessionRow,
    TakeLease,
)

CLOSE_PATIENCE_S = 2.0
"""How long whoever asks for a close waits for its end; the closing itself never stops."""
SPARE_DESCRIPTORS = 8
"""Descriptors that must be free before more work is admitted."""


class Sessions:
    """The registry. Its scope owns every session and every closing.

    Args:
        scope: where sessions live.
        ports: what each is given.
    """

    def __init__(self, scope: Scope, ports: SessionPorts) -> None:
        self.scope = scope
        self.ports = ports
        self._live: dict[str, Session] = {}
        self._opening: dict[str, asyncio.Future[Session]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def live(self) -> list[Session]:
        """The live sessions, oldest first."""
        return list(self._live.values())

    def get(self, session_id: str) -> Session:
        """The live session of this id.

        Raises:
            SessionNotFound: none; says that `session.resume` may open it.
            SessionClosing: it is on its way out.
        """
        session = self._live.get(session_id)
        if session is None:
            raise SessionNotFound(
                f"No live session {session_id[:40]!r}; call session.resume to open a stored one."
            )
        session.check_open()
        return session

    # --- opening ------------------------------------------------------------------------------

    async def create(self, params: SessionCreate, cwd: str) -> Session:
        """A new session, committed; its agent is being built.

        Args:
            params: as the client gave them.
            cwd: its working directory, checked and absolute.

        Raises:
            Overloaded: too many sessions, or no file descriptors left.
            StoreError: it could not be stored; nothing is held.
        """
        self._admit()
        now = self.ports.clock.wall()
        row = SessionRow(
            id=new_session_id(now),
            title=params.title,
            cwd=cwd,
            model=_model_ref(params.provider, params.model),
            source=params.source,
            status="open",
            reason="",
            created_at=now,
            updated_at=now,
        )
        session = Session(row, 1, self.scope.child(f"session:{row.id}"), self.ports)
        self._set_up(session, params.auto_approve, params.interactive)
        items = seed_items(params.messages)
        session.journal.load(items)
        session.message_count = len(items)
        commit = session.journal.open(
            [InsertSession(row, self.ports.holder), *(AppendItem(row.id, i) for i in items)]
        )
        self._live[row.id] = session
        session.begin_build()
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._live.pop(row.id, None)
            await session.scope.close("not stored")
            raise
        return session

    async def resume(self, ref: str, *, auto_approve: bool, interactive: bool) -> Session:
        """The live session of an id or exact title; a stored one is opened, once.

        Raises:
            NotFound: no such session.
            SessionClosing: it is being closed right now.
        """
        session_id = ref if SESSION_ID.fullmatch(ref) else await self._by_title(ref)
        session = self._live.get(session_id)
        if session is None:
            opening = self._opening.get(session_id)
            if opening is None:
                self._admit()
                opening = asyncio.get_running_loop().create_future()
                self._opening[session_id] = opening
                self.scope.spawn(self._open(session_id, opening), name=f"open {session_id}")
            session = await asyncio.shield(opening)
        session.check_open()
        self._set_up(session, auto_approve, interactive)
        return session

    def _set_up(self, session: Session, auto_approve: bool, interactive: bool) -> None:
        session.questions.auto_approve = auto_approve
        session.questions.interactive = interactive

    async def _by_title(self, title: str) -> str:
        for row in await self.ports.store.sessions(limit=1000):
            if row.title == title:
                return row.id
        raise NotFound(f"No session is called {title[:80]!r}; `tenure sessions list` shows them.")

    async def _open(self, session_id: str, opening: asyncio.Future[Session]) -> None:
        """Open a stored session for everyone who waits for it."""
        try:
            session = await self._load(session_id)
            if not opening.done():
                opening.set_result(session)
        except (TenureError, asyncio.CancelledError) as exc:
            error = (
                exc if isinstance(exc, TenureError) else SessionClosing("The gateway is ending.")
            )
            if not opening.done():
                opening.set_exception(error)
                opening.exception()  # whoever waits gets it; nobody need be waiting
        finally:
            self._opening.pop(session_id, None)

    async def _load(self, session_id: str) -> Session:
        store, now = self.ports.store, self.ports.clock.wall()
        row = await store.session(session_id)
        if row is None:
            raise NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
        key = f"session:{session_id}"
        epoch, _ = await store.write(
            TakeLease(key, self.ports.holder, now),
            PatchSession(session_id, {"status": "open", "reason": ""}),
        )
        history = await store.history(session_id)
        turns = await store.turns(session_id)
        session = Session(row, epoch, self.scope.child(f"session:{session_id}"), self.ports)
        session.journal.load(history)
        session.resume_from(len(turns))
        self._live[session_id] = session
        session.begin_build()
        return session

    def _admit(self) -> None:
        limit = self.ports.config().limits.sessions_max
        if len(self._live) >= limit:
            raise Overloaded(
                f"{limit} sessions are open, which is the limit (limits.sessions_max); "
                "close one first."
            )
        check_descriptors()

    # --- ending -------------------------------------------------------------------------------

    async def close(self, session: Session, reason: str, cause: str = "client") -> bool:
        """Close a session; whoever comes later awaits the same closing.

        Waits `CLOSE_PATIENCE_S` at the most; the closing goes on by itself.

        Returns:
            Whether this caller's claim was the first.
        """
        first = self.close_nowait(session, reason, cause)
        assert session.closing is not None
        try:
            async with deadline(self.ports.clock, CLOSE_PATIENCE_S):
                await asyncio.shield(session.closing)
        except TimeoutError:
            return first
        return first

    def close_nowait(self, session: Session, reason: str, cause: str) -> bool:
        """Claim and start the closing; see `close`."""
        first = session.scope.claim(reason)
        if session.closing is None:
            session.closing = asyncio.get_running_loop().create_future()
            self.scope.spawn(
                self._end(session, reason, cause), name=f"close {session.id}", grace_s=30.0
            )
        return first

    async def _end(self, session: Session, reason: str, cause: str) -> None:
        try:
            await end_session(session, reason, cause)
        finally:
            if self._live.get(session.id) is session:
                del self._live[session.id]
            assert session.closing is not None
            if not session.closing.done():
                session.closing.set_result(None)

    async def delete(self, session_id: str) -> bool:
        """Close if live, then remove every row. A late write of its last owner is fenced off."""
        session = self._live.get(session_id)
        if session is not None:
            self.close_nowait(session, "deleted", "user")
            assert session.closing is not None
            await asyncio.shield(session.closing)
        (existed,) = await self.ports.store.write(DeleteSession(session_id))
        return bool(existed)

    async def drain(self, reason: str, patience_s: float) -> None:
        """Close every session, in parallel, within one budget of seconds."""
        for session in self.live():
            self.close_nowait(session, reason, "shutdown")
        try:
            async with deadline(self.ports.clock, patience_s):
                for session in self.live():
                    if session.closing is not None:
                        await asyncio.shield(session.closing)
        except TimeoutError:
            return


def _model_ref(provider: str, model: str) -> str:
    return f"{provider}:{model}" if provider and model and ":" not in model else model


def check_descriptors() -> None:
    """Refuse while file descriptors are nearly exhausted, before anything is half done.

    Raises:
        Overloaded: naming the limit.
    """
    opened: list[int] = []
    try:
        for _ in range(SPARE_DESCRIPTORS):
            opened.append(os.dup(2))  # noqa: PERF401 - each must be closed if a later one fails
    except OSError as exc:
        raise Overloaded(
            "File descriptors are exhausted, so nothing new is admitted; close sessions or raise "
            "the limit (ulimit -n)."
        ) from exc
    finally:
        for fd in opened:
            os.close(fd)


def checked_cwd(given: str, default: Path) -> str:
    """The working directory of a session.

    Raises:
        NotFound: it is no folder.
    """
    path = Path(given).expanduser() if given else default
    if "\0" in given or not path.is_absolute() or not path.is_dir():
        raise NotFound(
            f"The working directory {given[:200]!r} is no folder (give an absolute path)."
        )
    return str(path)


def summary_of(row: SessionRow) -> dict[str, Any]:
    """A stored session as a line of a list."""
    return {
        "id": row.id,
        "title": row.title,
        "preview": row.preview,
        "started_at": row.created_at,
        "last_active": row.updated_at,
        "message_count": row.message_count,
        "source": row.source,
        "status": row.status,
        "reason": row.reason,
        "model": row.model,
        "cwd": row.cwd,
    }
