"""One turn of a session while it is alive."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.conversation import Message, Upload
from tenure.lifecycle.entry import LeaseState
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.sessions.journal import TurnRecorder
from tenure.sessions.recovery import GO_ON
from tenure.sessions.state import SessionState
from tenure.store.base import FenceTurn, InsertTurn, Op, PatchTurn, TurnRow


class LiveTurn:
    """A prompt that waits or runs. Cancellation belongs to it alone.

    Attributes:
        id: its id.
        ordinal: its place among the session's turns.
        prompt: the user's text.
        files: what came with it.
        key, body: its idempotency key and what tells its text from others, if it has one.
        steered: it waits for the running turn to take it.
        chore: no prompt, but something else that must be alone in the session; it has no row.
        named: what the session is called since this prompt: its title and preview, if these.
        before: the session's state when it began, and after it.
        accepted_at: wall-clock seconds.
        recorder: its memory, once it runs; fenced off at its end.
        scope: what it holds, once it runs.
        task: the lease of the task that drives it.
        ended: set once, by whoever ends it first.
        over: set when `ended` is.
        cause: why it is being interrupted, if it is.
    """

    __slots__ = (
        "accepted_at", "before", "body", "cause", "chore", "ended", "files", "id", "key", "named",
        "ordinal", "over", "prompt", "recorder", "scope", "steered", "task", "text",
    )  # fmt: skip

    def __init__(self, turn_id: str, ordinal: int, prompt: str, accepted_at: float) -> None:
        self.id = turn_id
        self.ordinal = ordinal
        self.prompt = prompt
        self.accepted_at = accepted_at
        self.recorder: TurnRecorder | None = None
        self.scope: Scope | None = None
        self.task: Lease[asyncio.Task[None]] | None = None
        self.ended = False
        self.over = asyncio.Event()
        self.cause = ""
        self.key = self.body = ""
        self.files: tuple[Upload, ...] = ()
        self.steered = False
        self.chore = False
        self.before = SessionState.IDLE
        self.named: dict[str, str] = {}
        self.text: list[str] = []
        """Streamed answer text so far, for clients that come late."""

    def row(self, session_id: str, state: str) -> TurnRow:
        """It as a new row."""
        return TurnRow(
            self.id,
            session_id,
            self.ordinal,
            state,
            self.prompt,
            self.accepted_at,
            started_at=self.accepted_at if state == "running" else 0.0,
            key=self.key,
            body=self.body,
            files=self.files,
        )

    @classmethod
    def of(cls, row: TurnRow) -> LiveTurn:
        """A stored prompt that waits again."""
        turn = cls(row.id, row.ordinal, row.prompt, row.created_at)
        turn.files = row.files
        return turn

    def begins(self, session_id: str, now: float, *, fresh: bool) -> list[Op]:
        """That it runs. One that waited may turn out not to be stored: then nothing of it is."""
        if fresh:
            return [InsertTurn(self.row(session_id, "running"))]
        return [PatchTurn(self.id, {"state": "running", "started_at": now}), FenceTurn(self.id)]

    @property
    def message(self) -> Message:
        """The prompt as an entry of history."""
        return Message("user", self.prompt, note=self.prompt == GO_ON, files=self.files)

    @property
    def started(self) -> dict[str, Any]:
        """What is told when it starts. What the gateway says to the model nobody has typed."""
        told: dict[str, Any] = {"turn_id": self.id, "prompt": self.prompt}
        if self.files:
            told["files"] = [upload.about for upload in self.files]
        return {**told, "note": True} if self.message.note else told

    def cancel(self, cause: str) -> None:
        """Interrupt it. The first cause stands."""
        if not self.cause:
            self.cause = cause
        task = self.task
        if task is None or task.state is LeaseState.RELEASED:
            return  # it is over, also where its end has not been noticed yet
        task.value.cancel(self.cause)
