"""What a turn is about to change is saved first: one checkpoint a turn, before its first change.

And it comes back: `give_back`, while no turn runs in the folder.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tenure.checkpoints.keeper import Asked, Checkpoints, Restored
from tenure.checkpoints.records import LABEL_CHARS
from tenure.errors import Conflict, SessionBusy, TenureError
from tenure.lifecycle.scope import Scope
from tenure.sessions.turns import LiveTurn

if TYPE_CHECKING:
    from tenure.sessions.actor import Session
    from tenure.sessions.registry import Sessions

SLOW_S = 1.0
"""After so long the person is told what the turn waits for."""
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

    __slots__ = ("_checkpoints", "_scope", "_session", "_taking", "_turn", "_waiting")

    def __init__(
        self, session: Session, turn: LiveTurn, scope: Scope, checkpoints: Checkpoints
    ) -> None:
        self._session = session
        self._turn = turn
        self._scope = scope
        self._checkpoints = checkpoints
        self._taking: asyncio.Task[None] | None = None
        self._waiting = 0

    async def __call__(self) -> None:
        """Return when the folder is saved, or cannot be.

        Cancellation: stops the waiting; when nobody waits any more, the taking.
        """
        if self._taking is None or self._taking.cancelled():
            name = f"checkpoint {self._turn.id}"
            self._taking = self._scope.spawn(self._take(), name=name).value
        self._waiting += 1
        try:
            await asyncio.shield(self._taking)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._taking.cancel()  # no effect once it is taken

    async def _take(self) -> None:
        session, turn = self._session, self._turn
        # Without the prompt: what was said stands in the database alone.
        asked = Asked(session_id=session.id, turn_id=turn.id, root=session.cwd, label="")
        slow = session.ports.clock.call_later(SLOW_S, self._say_slow)
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

        finally:
            slow.cancel()

    def _say_slow(self) -> None:
        self._note("saving the folder before its first change")

    def _say(self, text: str) -> None:
        log.warning("Session %s: %s", self._session.id, text)
        self._note(text)

    def _note(self, text: str) -> None:
        note = {"kind": "checkpoint", "text": text}
        self._session.journal.transient("status.update", note, turn_id=self._turn.id)


def keeper_of(session: Session) -> Checkpoints:
    """Where the checkpoints of a session are kept.

    Raises:
        Conflict: nowhere.
    """
    if session.ports.checkpoints is None:
        raise Conflict("This gateway keeps no checkpoints.")
    return session.ports.checkpoints


async def labels_of(session: Session) -> dict[str, str]:
    """What people call the turns of a session: their prompts, shortened."""
    turns = await session.ports.store.turns(session.id)
    return {turn.id: " ".join(turn.prompt.split())[:LABEL_CHARS] for turn in turns}


async def give_back(
    sessions: Sessions, session: Session, ref: str, path: str, *, remove_new: bool
) -> Restored:
    """Restore a checkpoint of `session`; see `Checkpoints.restore`.

    A turn that begins meanwhile waits with its first change until the restore is over.

    Cancellation: stops the waiting; the restore belongs to the registry and runs to its end.

    Raises:
        SessionBusy: a turn is running in that folder, whoever's.
        NotFound, BadValue, Conflict, StoreError: see `Checkpoints.restore`.
    """
    keeper = keeper_of(session)
    for other in sessions.live():
        works = other.current
        if works is not None and not works.chore and _overlap(other.cwd, session.cwd):
            raise SessionBusy(
                f"Files cannot be restored now: session busy (a turn of session {other.id} runs in "
                f"{other.cwd}); interrupt it or wait."
            )
    done = await keeper.restore(sessions.scope, session.id, ref, path, remove_new=remove_new)
    out = done.outcome
    told = {
        "checkpoint": done.checkpoint.id, "undo": done.undo.id,
        "restored_count": out.restored_count, "removed_count": out.removed_count,
        "problem_count": out.problem_count,
    }  # fmt: skip
    if session.scope.admits:
        turn = done.checkpoint.kind == "turn"
        labels = await labels_of(session) if turn else {}
        label = labels.get(done.checkpoint.turn_id, "") if turn else "an earlier restore"
        session.notes.files_restored(label, told)
    return done


def _overlap(one: str, other: str) -> bool:
    """Whether one folder is the other, or lies in it."""
    shorter, longer = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return longer.startswith(shorter)
