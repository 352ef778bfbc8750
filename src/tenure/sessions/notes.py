"""Notes: what the model of one session is to be told, by nobody's prompt.

A note is a row the moment its news comes, addressed to one session for ever. It starts no turn. The
next step of a turn of that session takes it: the entry of history and the mark that it was
delivered are one write, so it stands there exactly once, whatever is lost in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tenure.errors import StoreError
from tenure.ids import new_id
from tenure.sessions.projection import Wire
from tenure.sessions.turns import LiveTurn
from tenure.store.base import DeliverNotes, InsertNote, NoteRow, Op
from tenure.tools.background import list_background
from tenure.tools.clip import clip
from tenure.tools.shell import signal_name

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

COMMAND_CHARS_MAX = 200


class Notes:
    """The notes of one live session that were not delivered. The store has them too.

    Args:
        session: whose.
    """

    __slots__ = ("_loaded", "_session", "_waiting")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[NoteRow] | None = None
        self._loaded: Sequence[NoteRow] = ()
        """Those of earlier incarnations, whose processes and their ids are gone."""

    def load(self, rows: Sequence[NoteRow]) -> None:
        """Take over what is stored."""
        self._loaded = rows
        self._waiting = list(rows) or None

    def process_ended(self, process_id: str, command: str, returncode: int) -> None:
        """A background process has ended by itself. Never waits; stored as soon as possible."""
        how = (
            f"with exit code {returncode}" if returncode >= 0 else f"by {signal_name(-returncode)}"
        )
        shown = " ".join(clip(command, COMMAND_CHARS_MAX).split())
        told = f"Background process {process_id} (`{shown}`) ended {how}"
        payload = {
            "task_id": process_id,
            "text": f"{told}.",
            "command": shown,
            "returncode": returncode,
        }
        self._add(process_id, told, ("background.complete", payload))

    def files_restored(self, label: str, payload: dict[str, Any]) -> None:
        """Files were given back. Never waits; stored as soon as possible.

        Args:
            label: of the checkpoint: the prompt before whose changes they are as they were.
            payload: of the event that tells clients.
        """
        told = (
            f"The person has restored files in the working directory to what they were before "
            f"`{label}`: {payload['restored_count']} restored, {payload['removed_count']} removed; "
            "read a file again before you rely on what it holds"
        )
        self._add("", told, ("checkpoint.restored", payload))

    def _add(self, subject: str, told: str, event: Wire) -> None:
        row = self._wait(subject, told)
        _ = self._session.endings.store([InsertNote(row)], [event])

    def _wait(self, subject: str, told: str) -> NoteRow:
        session = self._session
        row = NoteRow(new_id("note"), session.id, subject, told, session.ports.clock.wall())
        self._waiting = [*(self._waiting or ()), row]
        return row

    async def report(self, told: str, event: Wire, brings: tuple[str, ...]) -> tuple[str, ...]:
        """Store what a sub-agent has found, and that it is over, in one write.

        Whoever takes the report delivers the note with it; else the next step does.

        Args:
            told: the report.
            event: tells clients.
            brings: notes of its own sub-agents, whose news it contains.

        Returns:
            The note's id; nothing where the store failed.
            Cancellation: the write goes on.
        """
        session = self._session
        row = self._wait("", told)
        ops: list[Op] = [InsertNote(row)]
        if brings:
            ops.append(DeliverNotes(brings, session.ports.clock.wall()))
        commit = session.journal.record(ops, [event])
        commit.add_done_callback(lambda done: self.taken((row.id,) if done.exception() else brings))
        try:
            await asyncio.shield(commit)
        except StoreError:
            return ()
        return (row.id,)

    def tell(
        self, told: str, ops: Sequence[Op], events: Sequence[Wire]
    ) -> asyncio.Future[list[Any]]:
        """Tell the model something with its next step, in one write with `ops` and `events`."""
        row = self._wait("", told)
        commit = self._session.journal.record([*ops, InsertNote(row)], events)
        commit.add_done_callback(lambda done: self.taken((row.id,)) if done.exception() else None)
        return commit

    def taken(self, ids: tuple[str, ...]) -> None:
        """These were delivered otherwise."""
        self._waiting = [row for row in self._waiting or () if row.id not in ids] or None

    def deliver(self, turn: LiveTurn) -> Coroutine[Any, Any, None] | None:
        """Put what waits into the running turn, if there is anything; awaiting it stores that.

        If that fails (`StoreError`), it waits for the next step.
        """
        if not self._waiting or turn.recorder is None or not turn.recorder.live:
            return None
        rows, self._waiting = self._waiting, None

        def settled(stored: bool) -> None:
            if not stored:
                self._waiting = [*rows, *(self._waiting or ())]

        text = "\n".join(f"[{row.text.rstrip('.')}{self._advice(row)}]" for row in rows)
        delivered = DeliverNotes(tuple(row.id for row in rows), self._session.ports.clock.wall())
        return turn.recorder.note(text, [delivered], settled)

    def _advice(self, row: NoteRow) -> str:
        """Of a process: its output is kept while the session is in memory."""
        if not row.subject:
            return "."
        jobs = list_background(self._session.tool_state) if row not in self._loaded else []
        if any(job["process_id"] == row.subject and not job["running"] for job in jobs):
            return f"; read its output with the tool background (action read, id {row.subject})."
        return "; its output is not kept any more."
