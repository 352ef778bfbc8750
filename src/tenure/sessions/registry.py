"""The live sessions: get or create, one incarnation each; the only way in and the only way out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tenure.errors import (
    Conflict,
    InternalError,
    NotFound,
    Overloaded,
    ScopeClosed,
    SessionClosing,
    SessionNotFound,
    StoreError,
    TenureError,
)
from tenure.glance import Glance
from tenure.ids import SESSION_ID, new_session_id
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.protocol.methods import SessionCreate, SessionResume
from tenure.sessions.actor import Session
from tenure.sessions.admission import check_descriptors, model_ref
from tenure.sessions.closing import UNLOAD, UNLOADED, end_session
from tenure.sessions.hooks import EndHooks
from tenure.sessions.profiles import Profiles
from tenure.sessions.reaper import Reaper
from tenure.sessions.recovery import mark_running, take_up
from tenure.sessions.removing import delete
from tenure.sessions.resources import SessionPorts
from tenure.sessions.rewriting import Branch
from tenure.sessions.seed import seed_items
from tenure.sessions.workplace import first_settings
from tenure.store.base import (
    AppendItem,
    InsertSession,
    SessionRow,
)

log = logging.getLogger("tenure.sessions")

CLOSE_PATIENCE_S = 2.0
"""How long whoever asks for a close waits for the releases; the closing itself never stops."""
REOPEN_PATIENCE_S = 15.0
"""How long a resume waits for the closing of the same session."""
GONE = "the client left"
"""The reason of a session that nobody knows of."""
Bind = Callable[[Session], object]


class Opening:
    """A stored session that is being opened.

    Attributes:
        profile: where it is stored.
        session: for whoever waits.
        waiters: how many do.
    """

    __slots__ = ("profile", "session", "waiters")

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.session: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self.waiters = 0


class Sessions:
    """The registry. Its scope owns every session and every closing.

    Args:
        scope: where sessions live.
        profiles: what each is given, by the profile that it belongs to.
    """

    def __init__(self, scope: Scope, profiles: Profiles) -> None:
        self.scope = scope
        self.profiles = profiles
        self.ports = profiles.base
        self._live: dict[str, Session] = {}
        self._opening: dict[str, Opening] = {}
        self._closing: set[Session] = set()
        self._ending = False
        self.hooks = EndHooks(scope.child("end hooks"), profiles)
        self.reaper = Reaper(self)
        self._check_descriptors = Glance(check_descriptors)
        self._left = self.reaper.left
        self.ports.memory.histories.relieve = self.reaper.relieve

    def begin(self) -> None:
        """Look after unused sessions from now on, in a task of this registry's scope."""
        self.scope.spawn(self.reaper.run(), name="reaper")

    def __len__(self) -> int:
        return len(self._live)

    def live(self) -> list[Session]:
        """The live sessions, oldest first."""
        return list(self._live.values())

    def find(self, session_id: str) -> Session | None:
        """The live session of this id, also one on its way out."""
        return self._live.get(session_id)

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

    def profile_of(self, session_id: str, asked: str) -> str:
        """Where a session is stored: the profile asked for, else where it is live."""
        session = self._live.get(session_id)
        return asked or (session.ports.profile if session else "")

    # --- opening ------------------------------------------------------------------------------

    async def create(
        self,
        params: SessionCreate,
        cwd: str,
        bind: Bind,
        *,
        branch: Branch | None = None,
    ) -> Session:
        """A new session, committed; its agent is being built.

        Cancellation: a requester that leaves before `bind` leaves nobody who knows of the session,
        so it is closed.

        Args:
            params: as the client gave them.
            cwd: its working directory, checked and absolute.
            bind: called synchronously once it is stored; attaches the requester.
            branch: what it begins with, for a branch of another session.

        Raises:
            Overloaded: too many sessions, or no file descriptors left.
            NotFound, BadValue, Conflict: see `Profiles.name_of`.
            SessionClosing: the gateway is ending, or somebody closed it meanwhile.
            StoreError: it could not be stored; nothing is held.
        """
        self._admit()
        items = branch.items if branch else seed_items(params.messages)
        now = self.ports.clock.wall()
        row = SessionRow(
            id=new_session_id(now),
            title=params.title,
            cwd=cwd,
            model=model_ref(params.provider, params.model),
            source=params.source,
            status="open",
            reason="",
            created_at=now,
            updated_at=now,
            settings=first_settings(branch, params.sandbox, params.plan),
        )
        ports = await self._hold(params.profile, row.id)
        session = Session(row, 1, self.scope.child(f"session:{row.id}"), ports)
        session.questions.bypass = "session.create" if params.auto_approve else ""
        session.questions.interactive = params.interactive
        if items:
            session.journal.load(items)
        commit = session.journal.open(
            [InsertSession(row, ports.holder), *(AppendItem(row.id, i) for i in items)]
        )
        self._add(session)
        session.begin_build()
        try:
            await asyncio.shield(commit)
            session.check_open()
            bind(session)
            session.pins = 0
        except StoreError:
            await self._undo(session)
            raise
        except BaseException:
            self.close_nowait(session, GONE, "client")
            raise
        return session

    def _add(self, session: Session) -> None:
        self._live[session.id] = session
        self.reaper.session_added()
        session.attachments.on_empty = self._left

    async def _undo(self, session: Session) -> None:
        """The session was not stored: free what it holds, as if it had never been."""
        self._live.pop(session.id, None)
        session.attachments.clear()
        session.journal.forget()
        try:
            await session.scope.close("not stored")
        finally:  # the requester may leave meanwhile
            self.profiles.let_go(session.ports.profile, session.id)

    async def _hold(self, profile: str, session_id: str) -> SessionPorts:
        """The ports of a profile for a session to be; it lets go of them when it is over."""
        ports = await self.profiles.hold(profile, session_id, self.scope)
        if ports is not self.ports:
            try:
                self._admit()  # the gateway may have begun to end while the profile was opened
            except BaseException:
                self.profiles.let_go(ports.profile, session_id)
                raise
        return ports

    async def resume(self, params: SessionResume, bind: Bind) -> Session:
        """The live session of an id or exact title; a stored one is opened, once.

        One that is being closed is opened anew when its closing has ended.

        Cancellation: a session that was opened for requesters who have all left is closed again.

        Args:
            params: as the client gave them.
            bind: called synchronously with the session; attaches the requester.

        Raises:
            NotFound: no such session or profile.
            Conflict: the session of this id is live in another profile than the one named.
            SessionClosing: its closing takes too long, or the gateway is ending.
        """
        ref, profile = params.session_id, self.profiles.name_of(params.profile)
        session_id = ref if SESSION_ID.fullmatch(ref) else await self._by_title(ref, profile)
        await self._closed(session_id)
        session = self._live.get(session_id)
        if session is not None:
            _check_profile(session.ports.profile, params)
            self._take(session, params, bind)
            return session
        opening = self._opening_of(session_id, profile)
        _check_profile(opening.profile, params)
        opening.waiters += 1
        try:
            session = await asyncio.shield(opening.session)
            self._take(session, params, bind)
        finally:
            opening.waiters -= 1
            self._end_if_left(opening)
        return session

    def _opening_of(self, session_id: str, profile: str) -> Opening:
        """The opening of a stored session; begun unless it is on its way. Synchronous."""
        opening = self._opening.get(session_id)
        if opening is None:
            self._admit()
            opening = self._opening[session_id] = Opening(profile)
            task = self.scope.spawn(self._open(session_id, opening), name=f"open {session_id}")
            task.value.add_done_callback(lambda _: self._opened(session_id, opening))
        return opening

    async def recover(self, session_id: str, profile: str) -> None:
        """Open a stored session that has something to run, unless it is open; nobody is attached.

        Raises:
            As `resume`.
        """
        await self._closed(session_id)
        if session_id not in self._live:
            await asyncio.shield(self._opening_of(session_id, profile).session)

    async def _closed(self, session_id: str) -> None:
        """Wait while the session of this id is being closed, bounded."""
        with suppress(TimeoutError):
            async with deadline(self.ports.clock, REOPEN_PATIENCE_S):
                while (session := self._live.get(session_id)) is not None and session.closing:
                    await asyncio.shield(session.closing)

    def _take(self, session: Session, params: SessionResume, bind: Bind) -> None:
        session.check_open()
        if params.auto_approve is not None:
            session.questions.let_pass("session.resume" if params.auto_approve else "")
        # Who cannot be asked takes nobody else's voice: others may listen.
        if params.interactive or (params.interactive is False and not len(session.attachments)):
            session.questions.interactive = params.interactive
        if session.unbuilt and not params.lazy:
            session.begin_build()
        bind(session)

    def _end_if_left(self, opening: Opening) -> None:
        """Nobody has taken what was opened, and nobody waits for it any more: close it.

        An opening that failed is told to whoever waits; nobody need be waiting.
        """
        done = opening.session.done() and not opening.session.cancelled()
        if opening.waiters or not done or opening.session.exception() is not None:
            return
        session = opening.session.result()
        session.pins = 0  # whoever was to attach has
        if not len(session.attachments):
            self.reaper.left(session.id)
        works = session.queued or session.current is not None  # what was taken up runs to its end
        if session.scope.admits and not len(session.attachments) and not works:
            self.close_nowait(session, GONE, "client")

    async def _by_title(self, title: str, profile: str) -> str:
        async with self.profiles.using(profile) as store:
            for row in await store.sessions(limit=1000):
                if row.title == title:
                    return row.id
        raise NotFound(f"No session is called {title[:80]!r}; `tenure sessions list` shows them.")

    async def _open(self, session_id: str, opening: Opening) -> None:
        """Open a stored session for everyone who waits for it."""
        try:
            opening.session.set_result(await self._load(session_id, opening.profile))
        except TenureError as exc:
            opening.session.set_exception(exc)
        except Exception as exc:
            log.exception("Session %s cannot be opened", session_id)
            told = InternalError(f"Session {session_id} cannot be opened ({exc!r}).")
            opening.session.set_exception(told)

    def _opened(self, session_id: str, opening: Opening) -> None:
        """The opening is over, also one that was cancelled before its first step."""
        self._opening.pop(session_id, None)
        if not opening.session.done():
            opening.session.set_exception(SessionClosing("The gateway is ending."))
        self._end_if_left(opening)

    async def _load(self, session_id: str, profile: str) -> Session:
        ports = await self._hold(profile, session_id)
        try:
            return await self._load_from(ports, session_id)
        except BaseException:
            self.profiles.let_go(profile, session_id)
            raise

    async def _load_from(self, ports: SessionPorts, session_id: str) -> Session:
        row = await ports.store.session(session_id)
        if row is None:
            raise _not_found(session_id)
        allowed = await ports.store.questions(session_id, decision="session")
        taken = await take_up(ports, row)
        session = Session(taken.row, taken.epoch, self.scope.child(f"session:{session_id}"), ports)
        session.journal.load(taken.history)
        session.journal.last_seq = taken.seq
        session.resume_from(taken.ordinal)
        session.requeue(taken.queue)
        session.notice = taken.notice
        session.questions.load(allowed)
        session.notes.load(taken.notes)
        self._add(session)
        if session.queued:  # otherwise whoever takes it says whether it is to be built
            session.begin_build()
        return session

    def _admit(self) -> None:
        if self._ending or not self.scope.admits:
            raise SessionClosing("The gateway is ending; nothing new is opened.")
        self.reaper.relieve(room=1)
        limit = self.ports.config().limits.sessions_max
        if len(self._live) + len(self._opening) >= limit:
            raise Overloaded(
                f"{limit} sessions are open, which is the limit (limits.sessions_max); "
                "close one first."
            )
        self._check_descriptors()

    # --- ending -------------------------------------------------------------------------------

    async def close(self, session: Session, reason: str, cause: str = "client") -> bool:
        """Close a session; whoever comes later awaits the same closing.

        Returns when everything is released, or after `CLOSE_PATIENCE_S`. The closing goes on by
        itself: it stores the end, then announces it.

        Returns:
            Whether this caller's claim was the first.
        """
        first = self.close_nowait(session, reason, cause)
        with suppress(TimeoutError):
            async with deadline(self.ports.clock, CLOSE_PATIENCE_S):
                await session.released.wait()
        return first

    def close_nowait(self, session: Session, reason: str, cause: str) -> bool:
        """Claim and start the closing; see `close`."""
        first = session.scope.claim(reason)
        if session.closing is None:
            session.closing = asyncio.get_running_loop().create_future()
            if session.current is not None:
                session.current.cancel(cause)  # before it meets the claim and guesses why
            ending = self._end(session, reason, cause)
            self._closing.add(session)
            try:
                self.scope.spawn(ending, name=f"close {session.id}", grace_s=30.0)
            except ScopeClosed:  # everything is: whoever closes the registry's scope frees it
                self._over(session)
        return first

    def unload(self, session: Session, why: str) -> bool:
        """Free everything that a session holds; it stays resumable, and this is no end of it.

        Returns:
            Whether that has begun.
        """
        return self.close_nowait(session, f"{UNLOADED} ({why})", UNLOAD)

    async def _end(self, session: Session, reason: str, cause: str) -> None:
        try:
            await end_session(session, reason, cause)
        finally:
            _ = session.scope.end()  # whatever became of that, nothing stays held
            self._over(session)

    def _over(self, session: Session) -> None:
        self._closing.discard(session)
        session.journal.forget()
        if self._live.get(session.id) is session:
            del self._live[session.id]
        self.reaper.gone(session.id)
        if session.ports.config().hooks.session_end:
            self.hooks.wake(session.ports.profile)
        self.profiles.let_go(session.ports.profile, session.id)  # its last write is stored
        session.released.set()
        if session.closing is not None and not session.closing.done():
            session.closing.set_result(None)

    async def wait_stored(self) -> None:
        """Wait until the ends of sessions whose closing was answered are stored; bounded.

        For whoever reads rows: what was answered before is in them.
        """
        with suppress(TimeoutError):
            async with deadline(self.ports.clock, CLOSE_PATIENCE_S):
                for session in tuple(self._closing):
                    if session.released.is_set() and session.closing:
                        await asyncio.shield(session.closing)

    async def delete(self, session_id: str, profile: str = "") -> bool:
        """Close if live, then remove every row and file; whether it existed.

        Cancellation: the deletion goes on.
        """
        work = delete(self, session_id, self.profiles.name_of(profile))
        task = self.scope.spawn(work, name=f"delete {session_id}", grace_s=30.0)
        return await asyncio.shield(task.value)

    def opening(self, session_id: str) -> Opening | None:
        """The opening of a stored session that is on its way."""
        return self._opening.get(session_id)

    async def drain(self, reason: str, patience_s: float) -> bool:
        """Close every session, in parallel, within one budget of seconds; open none any more.

        What is left of the budget goes to the hooks of their ends.

        Returns:
            Whether all are closed.
        """
        self._ending = True
        closed = False
        with suppress(TimeoutError):
            async with deadline(self.ports.clock, patience_s):
                while self._live or self._opening:
                    await self._drain_once(reason)
                closed = True
                await self.hooks.wait_idle()
        return closed

    async def _drain_once(self, reason: str) -> None:
        # Before anything is waited for, and again: what was being opened may have begun a turn.
        mark_running(self.live(), self.ports.clock.wall())
        for session in self.live():
            self.close_nowait(session, reason, "shutdown")
        for session in self.live():
            assert session.closing is not None
            await asyncio.shield(session.closing)
        for opening in tuple(self._opening.values()):
            with suppress(TenureError):
                await asyncio.shield(opening.session)
            await asyncio.sleep(0)


def _check_profile(profile: str, params: SessionResume) -> None:
    if params.profile not in ("", profile):
        raise Conflict(
            f"Session {params.session_id[:40]} is live in the profile {profile!r}, not in "
            f"{params.profile[:40]!r}."
        )


def _not_found(session_id: str) -> NotFound:
    return NotFound(f"No session {session_id}; `tenure sessions list` shows them.")
