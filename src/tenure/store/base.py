"""The seam to the store: rows as values, writes as operations, a handful of reads.

A write is a tuple of operations that take effect together or not at all. Operations are plain
values, so a fake applies them to dictionaries, a fault test fails the n-th of them, and a second
database needs one more interpreter, not one more interface. `Fence` comes first in every write of
a session's owner: the write fails with `LeaseLost` if a newer owner exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from tenure.conversation import Found, Message, Upload
from tenure.store.files import (
    HoldUploads as HoldUploads,  # noqa: PLC0414 - a name of this module too
    ReleaseUploads as ReleaseUploads,  # noqa: PLC0414 - a name of this module too
)
from tenure.store.memories import (
    AcceptMemory as AcceptMemory,  # noqa: PLC0414 - a name of this module too
    DeleteMemories as DeleteMemories,  # noqa: PLC0414 - a name of this module too
    InsertMemory as InsertMemory,  # noqa: PLC0414 - a name of this module too
    MemoryRow as MemoryRow,  # noqa: PLC0414 - a name of this module too
)
from tenure.store.outside import (
    ContainerRow as ContainerRow,  # noqa: PLC0414 - a name of this module too
    EndContainer as EndContainer,  # noqa: PLC0414 - a name of this module too
    InsertContainer as InsertContainer,  # noqa: PLC0414 - a name of this module too
    PruneContainers as PruneContainers,  # noqa: PLC0414 - a name of this module too
)
from tenure.store.owed import (
    DeliverNotes as DeliverNotes,  # noqa: PLC0414 - a name of this module too
    EndIdle as EndIdle,  # noqa: PLC0414 - a name of this module too
    EndRow as EndRow,  # noqa: PLC0414 - a name of this module too
    FinishEnd as FinishEnd,  # noqa: PLC0414 - a name of this module too
    InsertEnd as InsertEnd,  # noqa: PLC0414 - a name of this module too
    InsertNote as InsertNote,  # noqa: PLC0414 - a name of this module too
    NoteRow as NoteRow,  # noqa: PLC0414 - a name of this module too
    StartEnd as StartEnd,  # noqa: PLC0414 - a name of this module too
)
from tenure.store.terms import Term

TURN_OPEN = ("queued", "running")


class SessionRow(msgspec.Struct, frozen=True):
    """A stored session. Times are wall-clock seconds."""

    id: str
    title: str
    cwd: str
    model: str
    source: str
    status: str
    """open, closed (resumable), or ended-with-a-crash rows that boot turns into closed."""
    reason: str
    created_at: float
    updated_at: float
    preview: str = ""
    message_count: int = 0
    settings: dict[str, Any] = {}
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    draft: tuple[Upload, ...] = ()
    """Files that wait for the next prompt."""

    @property
    def said(self) -> bool:
        """Whether something was said in it, or it was given a name or a mark."""
        return bool(self.message_count or self.pinned or self.title or self.preview or self.tags)


TAGS_MAX = 32
"""Tags of one session."""


class Sieve(msgspec.Struct, frozen=True):
    """Which sessions of a list or a search are wanted."""

    tag: str = ""
    """Only those with this tag."""
    pinned: bool = False
    """Only pinned ones."""
    archived: bool = False
    """Archived ones instead of all others."""
    since: float = 0.0
    """Only those used since then, in wall-clock seconds."""
    apart: str = ""
    """Without the session of this id."""
    said: bool = False
    """Without those in which nothing was ever said and which have neither a name nor a mark."""


class TurnRow(msgspec.Struct, frozen=True):
    """A stored turn: from one prompt until the agent stops."""

    id: str
    session_id: str
    ordinal: int
    state: str
    """queued, running, completed, interrupted, failed or refused."""
    prompt: str
    created_at: float
    cause: str = ""
    """user, client, timeout, shutdown, crash, … for turns that did not complete."""
    error: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    usage: dict[str, int] = {}
    continues: str = ""
    """The interrupted turn that this one goes on with; it stands in the same place (`ordinal`)."""
    attempts: int = 0
    """How often this work has been taken up again; counted before it runs."""
    marked_at: float = 0.0
    """The interruption marker: since when this running turn is known to be cut off. 0: none, or it
    has been taken."""
    key: str = ""
    """The idempotency key that it came with; unique in its session."""
    body: str = ""
    """A hash of the text that came with the key."""
    files: tuple[Upload, ...] = ()
    """What came with the prompt."""


class ItemRow(msgspec.Struct, frozen=True):
    """One entry of a session's history."""

    seq: int
    turn_id: str
    kind: str
    """message, or summary (stands for the entries up to `replaces` when the model is asked)."""
    message: Message
    replaces: int = 0


class EventRow(msgspec.Struct, frozen=True):
    """A durable event. `payload` is JSON."""

    epoch: int
    seq: int
    type: str
    payload: bytes
    at: float


class ApprovalRow(msgspec.Struct, frozen=True):
    """A question to a person, bound to session, turn and principal, decided once."""

    id: str
    session_id: str
    turn_id: str
    question: dict[str, Any]
    created_at: float
    decision: str = ""
    """Empty while it is open. What was typed into a secret question stands nowhere."""
    decided_at: float = 0.0
    kind: str = "approval"
    """approval, clarify, secret or sudo."""
    principal: str = "owner"
    """Who may answer."""


class Unfinished(msgspec.Struct, frozen=True):
    """A session in which something is queued or marked."""

    session_id: str
    epoch: int
    """Of its last lease."""


class HomeRow(msgspec.Struct, frozen=True):
    """Who holds the home: one row. Its times are seconds of the store's own clock."""

    holder: str
    """The holder's identity (JSON, see `tenure.home.Holder`); empty once it was given up."""
    epoch: int
    """Grows with each holder."""
    taken_at: float
    renewed_at: float
    """The holder's last sign of life."""
    expires_at: float


# --- operations -------------------------------------------------------------------------------


class Fence(msgspec.Struct, frozen=True):
    """Fail the whole write with `LeaseLost` unless `key` is still held at `epoch`."""

    key: str
    epoch: int


class FenceTurn(msgspec.Struct, frozen=True):
    """Fail the whole write with `LeaseLost` unless turn `id` is stored and not over.

    So nothing of a prompt that could not be stored, or of a turn that has ended, is ever stored.
    """

    id: str
    runs: bool = False
    """It must run, as its row says: one whose start could not be stored still waits there."""


class TakeLease(msgspec.Struct, frozen=True):
    """Take `key` for `holder`; the result is the new epoch (one more than the last)."""

    key: str
    holder: str
    at: float


class EndLease(msgspec.Struct, frozen=True):
    """Give `key` up; the epoch stays, so the next holder gets a higher one."""

    key: str
    epoch: int


class TakeHome(msgspec.Struct, frozen=True):
    """Take the home; the result is ``(epoch, HomeRow of the one before or None)``.

    Fails with `LeaseLost` while somebody else's lease runs, unless its epoch is `over`: that of a
    holder that the caller knows to be gone.
    """

    holder: str
    lease_s: float
    over: int = 0


class RenewHome(msgspec.Struct, frozen=True):
    """Hold the home for `lease_s` more seconds from now; `LeaseLost` if it has another holder."""

    epoch: int
    lease_s: float


class EndHome(msgspec.Struct, frozen=True):
    """Give the home up; the epoch stays."""

    epoch: int


class InsertSession(msgspec.Struct, frozen=True):
    """Add a session and take its lease at epoch 1 for `holder`."""

    row: SessionRow
    holder: str


class PatchSession(msgspec.Struct, frozen=True):
    """Change columns of a session; the result is the number of rows changed (0 or 1).

    Of `settings` only the keys that are given change, so that two writers do not undo each other.
    """

    id: str
    changes: dict[str, Any]


class TagSession(msgspec.Struct, frozen=True):
    """Add and remove tags of a session; the result is what it has then, None if there is none."""

    id: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class DeleteSession(msgspec.Struct, frozen=True):
    """Remove a session with everything that belongs to it; the result tells whether it existed."""

    id: str


class PruneSessions(msgspec.Struct, frozen=True):
    """Remove up to `limit` closed sessions that were not used since `before`; the ids removed.

    Pinned ones stay, and those whose end a hook is still to be told of.
    """

    before: float
    limit: int
    empty: bool = False
    """Only those in which nothing was ever said, without a name or a mark; unloaded ones too."""


class PruneEvents(msgspec.Struct, frozen=True):
    """Remove the events of up to `limit` closed sessions that were not used since `before`.

    The result is how many sessions that were. Their history stays.
    """

    before: float
    limit: int


class InsertTurn(msgspec.Struct, frozen=True):
    """Add a turn."""

    row: TurnRow


class PatchTurn(msgspec.Struct, frozen=True):
    """Change columns of a turn that is not yet final; the result is the number of rows changed."""

    id: str
    changes: dict[str, Any]


class AppendItem(msgspec.Struct, frozen=True):
    """Add one entry of history; counts towards ``message_count``."""

    session_id: str
    item: ItemRow


class DropItems(msgspec.Struct, frozen=True):
    """Remove the entries of history from number `first` on; the result is how many there were.

    They count no more towards ``message_count``. The rows of their turns stay.
    """

    session_id: str
    first: int


class AppendEvent(msgspec.Struct, frozen=True):
    """Add one durable event; the result is the sequence number it got.

    Numbers have no gaps in their epoch: a write that fails takes none. ``event.seq`` is ignored.
    """

    session_id: str
    event: EventRow


class InsertApproval(msgspec.Struct, frozen=True):
    """Add a question."""

    row: ApprovalRow


class DecideApproval(msgspec.Struct, frozen=True):
    """Decide a question that is open; the result is the number of rows changed (0 or 1)."""

    id: str
    decision: str
    at: float


class MarkInterrupted(msgspec.Struct, frozen=True):
    """Mark every turn that runs as cut off at `at`; the result is how many.

    Written before anything is waited for at a stop, and at the next start for what a holder that
    died left running. Only a marked turn is ever continued.
    """

    at: float
    session_id: str = ""


class TakeMark(msgspec.Struct, frozen=True):
    """Take the marker of turn `id`; fails with `LeaseLost` where there is none, so it acts once."""

    id: str


class RevokeApproval(msgspec.Struct, frozen=True):
    """Take back what was allowed for the session; the result is the number of rows changed."""

    id: str
    at: float


class SettleLeftovers(msgspec.Struct, frozen=True):
    """End every row that a dead gateway left open; the result counts turns, sessions, questions.

    With `session_id` only the turns and questions of that session, which is about to be closed: a
    closed session has none that are open, even where the write that should have ended them failed.
    With `keep_queued`, prompts that wait stay queued: they run when the session is opened next.
    """

    reason: str
    at: float
    session_id: str = ""
    keep_queued: bool = False
    hook: bool = False
    """Also `InsertEnd` for every session that is ended; not with `session_id`."""


def with_tags(before: Sequence[str], op: TagSession) -> tuple[str, ...]:
    """The tags after `op`, sorted; unchanged where they would be more than `TAGS_MAX`. Pure."""
    tags = sorted((set(before) | set(op.add)) - set(op.remove))
    return tuple(tags if len(tags) <= TAGS_MAX else before)


Op = (
    InsertContainer | EndContainer | PruneContainers | HoldUploads | ReleaseUploads
    | InsertMemory | AcceptMemory | DeleteMemories
    | Fence | FenceTurn | TakeLease | EndLease | InsertSession | PatchSession | TagSession
    | DeleteSession
    | PruneSessions | PruneEvents | InsertTurn | PatchTurn | AppendItem | DropItems | AppendEvent
    | InsertNote | DeliverNotes | InsertEnd | StartEnd | FinishEnd | EndIdle
    | InsertApproval | DecideApproval | RevokeApproval | TakeHome | RenewHome | EndHome
    | MarkInterrupted | TakeMark | SettleLeftovers
)  # fmt: skip


class Store(Protocol):
    """Rows. Every method may raise `StoreError`."""

    def write(self, *ops: Op) -> asyncio.Future[list[Any]]:
        """Apply `ops` in one transaction; the future gives one result each after the commit.

        The write is accepted at the call, in call order, and does not depend on anybody awaiting
        the future; cancelling the future does not undo it.

        Raises (through the future):
            LeaseLost: a `Fence` failed; nothing was written.
            StoreFull: no space; nothing was written.
            StoreError: closed, or the database failed; nothing was written.
        """

    async def session(self, session_id: str) -> SessionRow | None:
        """One session."""

    async def sessions(
        self, *, limit: int, status: str | None = None, only: Sieve | None = None
    ) -> list[SessionRow]:
        """Sessions, newest use first; with `only`, what it lets through, pinned ones first."""

    async def search(self, terms: tuple[Term, ...], *, only: Sieve, limit: int) -> list[Found]:
        """Sessions in whose messages every term stands, the best match first."""

    async def history(self, session_id: str) -> list[ItemRow]:
        """All entries in order."""

    async def turns(self, session_id: str) -> list[TurnRow]:
        """All turns in order; a turn stands before what continues it."""

    async def turn_by_key(self, session_id: str, key: str) -> TurnRow | None:
        """The turn whose prompt came with this idempotency key."""

    async def questions(self, session_id: str, *, decision: str) -> list[ApprovalRow]:
        """The questions of a session that were decided in one way (empty: open), oldest first."""

    async def notes(self, session_id: str) -> list[NoteRow]:
        """The notes of a session that were not delivered, oldest first."""

    async def ends(self) -> list[EndRow]:
        """Ends of sessions whose hook has not finished, oldest first."""

    async def containers(self) -> list[ContainerRow]:
        """Containers that may be there, oldest first."""

    async def uploads(self, session_id: str = "") -> dict[str, tuple[int, ...]]:
        """Contents that a session (empty: any) refers to, with the entries that do."""

    async def memories(self) -> list[MemoryRow]:
        """What agents remember, oldest first."""

    async def find_memories(
        self, terms: tuple[Term, ...], *, state: str, limit: int
    ) -> list[MemoryRow]:
        """Of that (in one state; empty: in any) what has every term, the best match first."""

    async def unfinished(self) -> list[Unfinished]:
        """Sessions with queued prompts or marked turns, the one that waits longest first."""

    async def home(self) -> HomeRow | None:
        """Who holds the home; None before the first holder."""

    def hold_home(self, epoch: int, lost: Callable[[], object]) -> None:
        """From here on every write fails with `LeaseLost` unless the home is held at `epoch`.

        Checked inside each transaction. `lost` is called on the loop, once, when it first fails.
        """

    async def events(
        self, session_id: str, *, epoch: int, after_seq: int, limit: int
    ) -> list[EventRow]:
        """Durable events of one epoch after a sequence number."""

    def statistics(self) -> dict[str, int]:
        """Handles, threads, writes and commits so far, for the census."""

    async def aclose(self) -> None:
        """Finish what was accepted, checkpoint, close every handle. Idempotent."""
