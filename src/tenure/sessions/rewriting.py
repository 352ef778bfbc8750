"""Going back in a session: undo, begin again from an earlier prompt, branch off, compress.

Each is alone in its session while it works: prompts that come meanwhile wait. What was done to
files is none of this; checkpoints bring those back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tenure.agent.compaction import Compacted, compact
from tenure.agent.context import Gauge, room
from tenure.agent.faults import internal_error
from tenure.agent.ports import TurnEnd
from tenure.agent.writing import write_whole
from tenure.conversation import Upload
from tenure.errors import NotFound, SessionBusy, TenureError
from tenure.ids import new_id
from tenure.sessions import uploads
from tenure.sessions.journal import TurnRecorder, stored
from tenure.sessions.prompts import Accepted, body_of, check_prompt
from tenure.sessions.recovery import unanswered
from tenure.sessions.turns import LiveTurn
from tenure.store.base import DropItems, HoldUploads, InsertTurn, ItemRow, Op

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

log = logging.getLogger("tenure.sessions")
_Done = TypeVar("_Done")
CUT_OFF = "Outcome unknown: this session branched off while it ran; check before repeating it."


class Rewound(msgspec.Struct, frozen=True):
    """What was taken back.

    Attributes:
        removed: entries of history.
        turn_ids: their turns, oldest first.
        text: the prompt of the oldest one, to be sent again in other words.
        again: the turn of the prompt that took their place, if one did.
    """

    removed: int
    turn_ids: tuple[str, ...]
    text: str
    again: str = ""


async def undo(session: Session, turns: int = 1) -> Rewound:
    """Take the last turns of a session back, as if they had not been said.

    Raises:
        SessionBusy, SessionClosing: not now.
        NotFound: there are not so many.
        StoreError: nothing was taken back.
    """

    def choose(rows: Sequence[ItemRow]) -> int:
        starts = _starts(rows)
        if not starts:
            raise NotFound("There is nothing to undo in this session.")
        if turns > len(starts):
            there = "is only 1 turn" if len(starts) == 1 else f"are only {len(starts)} turns"
            raise NotFound(f"There {there} to undo in this session; nothing was taken back.")
        return starts[-turns][0]

    return await _rewind(session, "undo", choose)


Choose = Callable[[Sequence[ItemRow]], int]
"""The first entry of a history that is to go. Raises NotFound."""


def from_turn(turn_id: str) -> Choose:
    """Everything from this turn on."""

    def choose(rows: Sequence[ItemRow]) -> int:
        for first, owner in _starts(rows):
            if owner == turn_id != "":  # what came with a branch has no turn
                return first
        raise NotFound(f"Turn {turn_id[:40]!r} is not in the history of this session.")

    return choose


def from_ordinal(ordinal: int) -> Choose:
    """Everything from the prompt with this number on, counted from 0."""

    def choose(rows: Sequence[ItemRow]) -> int:
        prompts = [r.seq for r in rows if r.kind == "message" and r.message.asks]
        if not 0 <= ordinal < len(prompts):
            raise NotFound(f"There is no prompt {ordinal} in this session; the target is gone.")
        return prompts[ordinal]

    return choose


class Wording(msgspec.Struct, frozen=True):
    """A prompt in other words, which takes the place of what is taken back.

    Attributes:
        text, key: as for `Session.submit`.
        first: what is to be done before it runs, such as giving files back.
    """

    text: str
    key: str = ""
    first: Callable[[Rewound], Awaitable[object]] | None = None


async def say_again(session: Session, choose: Choose, wording: Wording) -> Accepted:
    """Take a prompt back with all that followed, and put another wording in its place.

    Both are one write, so whoever asked may be lost at any moment: it is as it was, or the new
    prompt is stored and runs. Cancellation stops the waiting alone.

    Args:
        session: an idle one.
        choose: from where.
        wording: what is said instead; the same key gets the same receipt and takes nothing back.

    Raises:
        NotFound: there is no such prompt (any more).
        Conflict, Overloaded, TooLarge: see `Session.submit`.
        SessionBusy, SessionClosing, StoreError: as `undo`.
    """
    if known := await session.receipts.known(wording.key, wording.text):
        return known
    check_prompt(session, wording.text)
    done = await _rewind(session, "edit", choose, wording)
    return Accepted(done.again, "streaming")


def _starts(rows: Sequence[ItemRow]) -> list[tuple[int, str]]:
    """The first entry and the id of each turn that a person began, oldest first."""
    starts: list[tuple[int, str]] = []
    for row in rows:
        begins = not starts or starts[-1][1] != row.turn_id or not row.turn_id
        if row.kind == "message" and row.message.asks and begins:
            starts.append((row.seq, row.turn_id))
    return starts


async def _rewind(
    session: Session, name: str, choose: Choose, wording: Wording | None = None
) -> Rewound:
    done: list[Rewound] = []

    async def work(_turn: LiveTurn) -> None:
        rows = await session.ports.store.history(session.id)
        first = choose(rows)
        gone = [row for row in rows if row.seq >= first]
        ids = tuple(dict.fromkeys(row.turn_id for row in gone))
        told = {"first": first, "removed": len(gone), "turn_ids": list(ids)}
        ops: list[Op] = [DropItems(session.id, first)]
        waited = session.draft
        again = _new_turn(session, wording, gone[0].message.files) if wording else None
        if again is not None:
            held = [digest for upload in again.files for digest in upload.digests]
            ops += [InsertTurn(again.row(session.id, "queued")), *uploads.takes(session, again)]
            ops += [HoldUploads(session.id, tuple(held))] if held else []

        def take() -> None:
            session.journal.drop_from(rows, first, place)
            done.append(Rewound(len(gone), ids, gone[0].message.text, again.id if again else ""))
            if again is not None:
                session.queue.prepend([again])  # it runs when the session is free again

        place = session.journal.next_item
        commit = session.journal.record(ops, [("session.rewound", told)])
        if again is not None and waited:

            def keep(done: asyncio.Future[list[Any]]) -> None:
                if done.cancelled() or done.exception() is not None:
                    uploads.give_back(session, waited)

            commit.add_done_callback(keep)
        if again is not None and again.key:
            accepted = Accepted(again.id, "streaming")
            session.receipts.keep(again.key, again.body, accepted, commit)
        await write_whole(session.ports.clock, stored(commit, take))
        if wording is not None and wording.first is not None:
            await wording.first(done[0])

    return await _alone(session, "rewind", work, done)


def _new_turn(session: Session, wording: Wording, files: tuple[Upload, ...]) -> LiveTurn:
    """Other words keep the files that the first ones had, and get those that wait."""
    body = body_of(wording.text) if wording.key else ""
    turn = session.new_turn(wording.text, wording.key, body)
    turn.files = (*files, *uploads.take(session))
    return turn


async def _alone(session: Session, name: str, work: Any, done: list[_Done]) -> _Done:
    """Have the session alone for `work`; what it put into `done`, else what it raised.

    Cancellation of the waiter changes nothing; an interrupt of the session ends the work.
    """
    session.check_open()
    if session.working:
        raise SessionBusy(
            f"No {name} now: session busy ({session.status}); wait for its end or interrupt it."
        )
    turn = LiveTurn(new_id(name), 0, name, session.ports.clock.wall())
    turn.chore, turn.before = True, session.state
    turn.recorder = TurnRecorder(session.journal, turn.id, has_row=False)
    failed: list[TenureError] = []

    async def caught() -> TurnEnd:
        try:
            await work(turn)
        except TenureError as exc:
            failed.append(exc)
        except Exception as exc:
            log.exception("The %s of session %s failed", name, session.id)
            failed.append(internal_error(log, exc))
        return TurnEnd("completed", "stop")

    session.occupy(turn, caught)
    await turn.over.wait()
    if done:
        return done[0]
    if failed:
        raise failed[0]
    raise SessionBusy(f"The {name} was interrupted before it was stored; look at the history.")


# --- branching --------------------------------------------------------------------------------


class Branch(msgspec.Struct, frozen=True):
    """What a branch begins with.

    Attributes:
        items: its history.
        settings: those of its parent, and which that is.
    """

    items: list[ItemRow]
    settings: dict[str, Any]


async def branch_of(session: Session, at: int) -> Branch:
    """What a branch of a session begins with.

    Args:
        session: where it branches off; it may be working.
        at: the last entry to take along; 0 for all that is stored.

    Raises:
        NotFound: there is no such entry, or nothing at all.
    """
    rows = await session.ports.store.history(session.id)
    if at and all(row.seq != at for row in rows):
        raise NotFound(f"Session {session.id} has no entry {at}.")
    kept = [row for row in rows if not at or row.seq <= at or _belongs(row, at, rows)]
    if not kept:
        raise NotFound(f"Session {session.id} has no history to branch from.")
    items = [msgspec.structs.replace(row, turn_id="") for row in kept]
    # A call that still runs belongs to the parent.
    for answer in unanswered(items, CUT_OFF):
        items.append(ItemRow(items[-1].seq + 1, "", "message", answer))
    return Branch(items, {**session.settings, "parent": session.id, "at": kept[-1].seq})


def _belongs(row: ItemRow, at: int, rows: Sequence[ItemRow]) -> bool:
    """Whether `row` holds a result of the calls just before `at`: a call stays with its results."""
    between = [r for r in rows if at < r.seq <= row.seq]
    return bool(between) and all(r.message.role == "tool" for r in between)


# --- compressing ------------------------------------------------------------------------------


class Compressed(msgspec.Struct, frozen=True):
    """What a compression did; `how` is "none" where a summary would have been no shorter."""

    result: Compacted
    before_messages: int
    after_messages: int


async def compress(session: Session, focus: str) -> Compressed:
    """Replace older history by a summary now, whatever room there is.

    Args:
        session: an idle one.
        focus: what the summary must keep above all.

    Raises:
        SessionBusy, SessionClosing: not now, or interrupted; history is as it was.
        ModelError: there is no model to write it.
    """
    if session.unbuilt:
        session.begin_build()
    await session.wait_built()
    agent = session.agent
    if agent is None:
        raise session.build_error or SessionBusy("There is no agent yet; try again.")
    done: list[Compressed] = []

    async def work(turn: LiveTurn) -> None:
        assert turn.recorder is not None
        gauge, journal = Gauge(), session.journal
        before = len(journal.items)
        prefix = gauge.prefix(agent.prompt.text, [tool.spec for tool in agent.tools])
        wanted = min(
            gauge.messages(turn.recorder.history()), room(agent.model.context_tokens, prefix)
        )
        result = await compact(
            agent.model, turn.recorder, session.ports.clock,
            tokens_max=wanted, gauge=gauge, focus=focus,
        )  # fmt: skip
        done.append(Compressed(result, before, len(journal.items)))

    return await _alone(session, "compress", work, done)
