"""What a turn is about to change is saved first: one checkpoint a turn, before its first change."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tenure.checkpoints.keeper import Asked, Checkpoints
from tenure.errors import TenureError
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.sessions.turns import LiveTurn

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

log = logging.getLogger("tenure.sessions")


class TurnSaver:
    """Takes the checkpoint of one turn, once; whoever comes later waits for the same one.

    A folder that cannot be saved does not stop the turn: that is said, and the turn goes on.

    Args:
        session: whose folder.
        turn: which turn.
        scope: the turn's; ends the taking.
        checkpoints: where they are kept.
    """

    __slots__ = ("_checkpoints", "_scope", "_session", "_taking", "_turn")

    def __init__(
        self, session: Session, turn: LiveTurn, scope: Scope, checkpoints: Checkpoints
    ) -> None:
        self._session = session
        self._turn = turn
        self._scope = scope
        self._checkpoints = checkpoints
        self._taking: Lease[asyncio.Task[None]] | None = None

    async def __call__(self) -> None:
        """Return when the folder is saved, or cannot be. Cancellation stops the waiting."""
        if self._taking is None:
            name = f"checkpoint {self._turn.id}"
            self._taking = self._scope.spawn(self._take(), name=name)
        await asyncio.shield(self._taking.value)

    async def _take(self) -> None:
        session, turn = self._session, self._turn
        asked = Asked(session_id=session.id, turn_id=turn.id, root=session.cwd, label=turn.prompt)
        try:
            taken = await self._checkpoints.take(self._scope, asked)
        except TenureError as exc:
            self._say(f"no checkpoint: {exc.message}")
        except Exception as exc:
            log.exception("No checkpoint for turn %s", turn.id)
            self._say(f"no checkpoint: it failed inside ({exc!r})")
        else:
            if taken is not None and taken.partial:
                self._say(
                    f"the checkpoint covers the {taken.files:,} entries nearest to the root; a "
                    "limit was reached (tenure checkpoint list)"
                )

    def _say(self, text: str) -> None:
        log.warning("Session %s: %s", self._session.id, text)
        note = {"kind": "checkpoint", "text": text}
        self._session.journal.transient("status.update", note, turn_id=self._turn.id)
