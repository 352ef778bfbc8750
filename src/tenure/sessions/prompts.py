"""Prompts on their way in: the queue of those that wait, and the receipts of those that came.

A prompt that waits is a stored row and can be read, edited and removed until it runs. One that is
steered waits too; the running turn takes it before its next step, and if that turn ends first, it
runs as a turn of its own: what was acknowledged is never lost.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from tenure.errors import AlreadyRuns, BadValue, Conflict, Overloaded, TooLarge
from tenure.protocol.messages import PROMPT_BYTES_MAX
from tenure.sessions import uploads
from tenure.sessions.configured import is_outdated
from tenure.sessions.journal import failed
from tenure.sessions.setting import keep_setting
from tenure.sessions.state import SessionState
from tenure.sessions.turns import LiveTurn
from tenure.store.base import InsertTurn, PatchTurn, TurnRow

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

RECEIPTS_MAX = 256
"""Receipts of one session in memory; older ones are read from the store."""
Busy = Literal["queue", "steer", "interrupt"]
"""What a prompt does that meets a running turn."""


class PromptQueue:
    """The prompts of one session that wait, in order. Owns nothing."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: deque[LiveTurn] | None = None

    def __len__(self) -> int:
        return len(self._turns or ())

    def __iter__(self) -> Iterator[LiveTurn]:
        return iter(tuple(self._turns or ()))

    def append(self, turn: LiveTurn) -> None:
        """The last to run."""
        self._turns = self._turns if self._turns is not None else deque()
        self._turns.append(turn)

    def prepend(self, turns: Sequence[LiveTurn]) -> None:
        """The first to run, in their order."""
        self._turns = deque((*turns, *self))

    def take(self) -> LiveTurn:
        """The next one."""
        assert self._turns
        return self._turns.popleft()

    def take_all(self) -> list[LiveTurn]:
        """Everything that waits."""
        taken, self._turns = list(self), None
        return taken

    def leave(self) -> int:
        """Let go of every waiting prompt, which stays queued in the store; how many."""
        left = self.take_all()
        for turn in left:
            turn.ended = True
            turn.over.set()
        return len(left)

    def take_steered(self) -> list[LiveTurn]:
        """Those that are meant for the running turn."""
        taken = [turn for turn in self if turn.steered]
        for turn in taken:
            self.remove(turn)
        return taken

    def remove(self, turn: LiveTurn) -> bool:
        """Take one out; False if it does not wait."""
        if self._turns is None or turn not in self._turns:
            return False
        self._turns.remove(turn)
        return True

    def find(self, turn_id: str) -> LiveTurn:
        """The waiting prompt of this id.

        Raises:
            AlreadyRuns: it does not wait; it runs, has ended, or never was.
        """
        for turn in self:
            if turn.id == turn_id:
                return turn
        raise AlreadyRuns(
            f"Prompt {turn_id[:40]} does not wait in the queue; it runs already, has ended, or is "
            "not of this session (prompt.queue lists what waits)."
        )

    def rows(self) -> list[dict[str, Any]]:
        """What waits, for clients."""
        return [
            {
                "turn_id": turn.id,
                "text": turn.prompt,
                "position": place,
                "accepted_at": turn.accepted_at,
                "steered": turn.steered,
                "files": [upload.about for upload in turn.files],
            }
            for place, turn in enumerate(self, 1)
        ]


class Accepted(NamedTuple):
    """A prompt that was accepted.

    Attributes:
        turn_id: its turn.
        status: streaming (runs now), queued or steered.
        position: how many run before it.
        duplicate: it had been accepted before under the same key.
    """

    turn_id: str
    status: str
    position: int = 0
    duplicate: bool = False


class _Receipt(NamedTuple):
    body: str
    accepted: Accepted
    commit: asyncio.Future[list[Any]]


class Receipts:
    """One receipt per key: whoever sends the same prompt again gets the one that it had.

    Args:
        session: whose prompts they are.
    """

    __slots__ = ("_kept", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: OrderedDict[str, _Receipt] | None = None

    async def known(self, key: str, text: str) -> Accepted | None:
        """The receipt of a prompt that came before under this key; None without a key.

        Raises:
            As `find`.
        """
        return await self.find(key, body_of(text)) if key else None

    async def find(self, key: str, body: str) -> Accepted | None:
        """The receipt of `key`, once it counts; None for a key that is new at this moment.

        Raises:
            Conflict: the key stands for another prompt.
            StoreError: the first one could not be stored, or the store cannot be read.
        """
        known = self._of(key)
        if known is None:
            row = await self._session.ports.store.turn_by_key(self._session.id, key)
            known = self._of(key)  # somebody may have used it meanwhile
            if known is None:
                return self._again(row, body) if row else None
        if known.body != body:
            raise _another(key)
        await asyncio.shield(known.commit)
        return known.accepted._replace(duplicate=True)

    def _of(self, key: str) -> _Receipt | None:
        return self._kept.get(key) if self._kept else None

    def _again(self, row: TurnRow, body: str) -> Accepted:
        if row.body != body:
            raise _another(row.key)
        status = "queued" if row.state == "queued" else "streaming"
        return Accepted(row.id, status, duplicate=True)

    def keep(
        self, key: str, body: str, accepted: Accepted, commit: asyncio.Future[list[Any]]
    ) -> None:
        """From this moment on `key` stands for this prompt, unless it cannot be stored."""
        kept = self._kept = self._kept if self._kept is not None else OrderedDict()
        kept[key] = receipt = _Receipt(body, accepted, commit)
        if len(kept) > RECEIPTS_MAX:
            kept.popitem(last=False)

        def check(done: asyncio.Future[list[Any]]) -> None:
            lost = done.cancelled() or done.exception() is not None
            if lost and kept.get(key) is receipt:
                del kept[key]

        commit.add_done_callback(check)


def _another(key: str) -> Conflict:
    return Conflict(
        f"The idempotency key {key[:40]!r} was used for another prompt of this session; use a new "
        "key for a new prompt."
    )


def body_of(text: str) -> str:
    """What tells two prompts apart: a hash, so that no second copy of the text is kept."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


POLICIES = get_args(Busy)


def policy_of(session: Session) -> Busy:
    """What a prompt does that meets a running turn, unless it says so itself."""
    found: Busy = session.settings.get("busy", "queue")
    return found if found in POLICIES else "queue"


async def set_policy(session: Session, value: str) -> None:
    """Store what a prompt does from now on that meets a running turn.

    Raises:
        BadValue: there is no such policy.
        StoreError: it could not be stored; the old one stands.
    """
    if value not in POLICIES:
        raise BadValue(f"{value[:40]!r} is no policy for prompts: use queue, steer or interrupt.")
    await keep_setting(session, "busy", value)


async def accept(session: Session, text: str, key: str, busy: Busy | None) -> Accepted:
    """Accept a prompt; see `Session.submit`. What it does is decided in one step."""
    body = body_of(text) if key else ""
    if key and (known := await session.receipts.find(key, body)):
        return known
    check_prompt(session, text)
    turn = session.new_turn(text, key, body)
    turn.files = uploads.take(session)
    if session.state in {SessionState.FAILED, SessionState.UNBUILT} or is_outdated(session):
        session.begin_build()
    if session.state is SessionState.IDLE:
        accepted, commit = Accepted(turn.id, "streaming"), session.start(turn, fresh=True)
    else:
        accepted, commit = _enqueue(session, turn, busy or policy_of(session))
    if key:
        session.receipts.keep(key, body, accepted, commit)
    try:
        await asyncio.shield(commit)
    except asyncio.CancelledError:
        raise  # the asker left; the prompt stays accepted
    except BaseException as exc:
        session.refuse(turn, exc)
        raise
    return accepted


def _enqueue(
    session: Session, turn: LiveTurn, busy: Busy
) -> tuple[Accepted, asyncio.Future[list[Any]]]:
    """Let a prompt wait, where the policy says."""
    running = session.current is not None
    position = session.queued + running
    status = "queued" if position else "streaming"  # nobody is before it, it waits for its agent
    if running and busy == "interrupt":
        position = 1
        session.queue.prepend([turn])
    else:
        session.queue.append(turn)
    if running and busy == "steer":
        turn.steered, status = True, "steered"
    commit = session.journal.record(
        [InsertTurn(turn.row(session.id, "queued")), *uploads.takes(session, turn)]
    )
    tell_queue(session)
    if running and busy == "interrupt":
        session.interrupt("user")
    return Accepted(turn.id, status, position), commit


def tell_queue(session: Session) -> None:
    """Show clients what waits."""
    session.journal.transient("prompt.queue", {"entries": session.queue.rows()})


async def edit_queued(session: Session, turn_id: str, text: str) -> None:
    """Change the text of a prompt that waits.

    Raises:
        AlreadyRuns: it does not wait (any more).
        TooLarge, SessionClosing: see `check_prompt`.
        StoreError: not stored; it runs as it was.
    """
    check_text(session, text)
    turn = session.queue.find(turn_id)
    before, turn.prompt = turn.prompt, text
    commit = session.journal.record([PatchTurn(turn.id, {"prompt": text})])

    def settle(done: asyncio.Future[list[Any]]) -> None:
        # Not by the waiter, who may be gone; and what somebody wrote since then stays.
        if failed(done) and turn.prompt == text:
            turn.prompt = before
        tell_queue(session)

    commit.add_done_callback(settle)
    await asyncio.shield(commit)


async def remove_queued(session: Session, turn_id: str) -> str:
    """Take a prompt that waits out of the queue, as not run; its text. Returns after the commit.

    Raises:
        AlreadyRuns: it does not wait (any more).
        SessionClosing: the session is being closed.
        StoreError: it does not run; that is stored later, or a new start may run it.
    """
    session.check_open()
    turn = session.queue.find(turn_id)
    session.queue.remove(turn)
    uploads.give_back(session, turn.files)
    stored = session.end_unrun(turn, "removed")
    tell_queue(session)
    if stored is not None:
        await asyncio.shield(stored)
    return turn.prompt


def take_steered(session: Session, into: LiveTurn) -> Coroutine[Any, Any, None] | None:
    """Put what was steered into the running turn, if there is anything.

    Awaiting the result is one write: each becomes an entry of history, and its own row ends. If
    that fails (`StoreError`), it waits again and runs by itself.
    """
    if into.recorder is None or not into.recorder.live:
        return None
    taken = session.queue.take_steered()
    if not taken:
        return None

    def settled(stored: bool) -> None:
        if not stored:
            session.put_back(taken)
        for turn in taken if stored else ():
            turn.ended = True
            if released := uploads.starts(session, turn):
                session.journal.record_nowait(released)
            turn.over.set()
        tell_queue(session)

    return into.recorder.take_in([(turn.id, turn.message) for turn in taken], settled)


def check_text(session: Session, text: str) -> None:
    """Whether a text can be a prompt here.

    Raises:
        SessionClosing: the session is being closed.
        TooLarge: over 4 MiB.
    """
    session.check_open()
    if len(text) > PROMPT_BYTES_MAX or len(text.encode()) > PROMPT_BYTES_MAX:
        raise TooLarge(
            f"The prompt has {len(text):,} characters; the limit is {PROMPT_BYTES_MAX >> 20} "
            "MiB. Put the text into a file and name the file instead."
        )


def check_prompt(session: Session, text: str) -> None:
    """Whether a prompt may come in now.

    Raises:
        SessionClosing, TooLarge: see `check_text`.
        Overloaded: the queue is full.
    """
    check_text(session, text)
    limit = session.ports.config().limits.queue_max
    if session.working and session.queued >= limit:
        raise Overloaded(
            f"The queue of session {session.id} is full ({limit} prompts wait, session busy); "
            "wait for one to run, remove one or interrupt the running turn."
        )
