"""Taking up what an earlier incarnation of a session left unfinished.

Everything here starts from rows that say so: a queued prompt, or the *mark* of an interrupted turn.
A mark is set on turns that run, before anything is waited for when the gateway stops, and at the
next start on what a gateway that died left running, as of its last sign of life. The shape or the
age of a history never starts anything.

What happens is decided in `plan`, a pure function, and stored in one write before anything runs:
the mark is taken, the attempt is counted, calls without a result get one that says so. It is done
where a stored session is opened, so whoever opens it first does it, and everyone else waits for
that one opening: a person's resume and the start of the gateway cannot both do it.

    mark is fresh           the turn goes on as a new turn in its place, before what is queued
    mark is too old         nothing runs; a notice says so
    too many attempts       quarantine: nothing runs, what was queued is returned, a notice says so
    queued prompts alone    they run, once, in order

A call of a tool is never repeated by us: one without a stored result is told to the model as
unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from tenure.agent.context import UNKNOWN, lost
from tenure.agent.ports import TurnEnd
from tenure.config import RecoveryConfig
from tenure.conversation import Message
from tenure.errors import LeaseLost, NotFound, TenureError
from tenure.ids import new_id
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.sessions.projection import Wire, complete
from tenure.store.base import (
    AppendEvent,
    AppendItem,
    EndLease,
    EventRow,
    Fence,
    FenceTurn,
    InsertTurn,
    ItemRow,
    MarkInterrupted,
    NoteRow,
    Op,
    PatchSession,
    PatchTurn,
    SessionRow,
    SettleLeftovers,
    Store,
    TakeLease,
    TakeMark,
    TurnRow,
    Unfinished,
)
from tenure.tools.clip import clip

if TYPE_CHECKING:
    from tenure.clock import Clock
    from tenure.sessions.actor import Session
    from tenure.sessions.registry import Sessions
    from tenure.sessions.resources import SessionPorts

log = logging.getLogger("tenure.sessions")

CUT_BY = frozenset({"shutdown", "crash"})
"""Causes of turns that nobody wanted to end."""
OPEN_AT_ONCE = 64
"""Sessions that the start of a gateway opens at the same time."""
PACE_S = 0.05
"""How long each of those waits for the turn that it has started, so that not all ask at once."""
SETTLE_TRIES = 3
SHOWN_CHARS = 500
"""Of each prompt that is returned, in the notice."""
RETRY_S = 5.0
RETRY_MAX_S = 60.0
"""What could not be opened (too many sessions, no space) is tried again, 5 to 60 seconds later."""
GO_ON = (
    "[The gateway was restarted while the request above was being worked on; this goes on with it. "
    "What was done before stands above. A call whose outcome is unknown may have taken effect: "
    "check before repeating it. Finish the request.]"
)
NOTICE = "recovery: "
"""What the reason of a session begins with when it is a notice."""
Verdict = Literal["nothing", "run", "go_on", "too_old", "off", "quarantine"]


class Plan(msgspec.Struct, frozen=True):
    """What is to be done with a stored session before it runs.

    Attributes:
        verdict: in one word.
        queue: what runs, in order; the first is what an attempt is counted for.
        marks: turns whose mark is taken.
        cut: the interrupted turn that this is about, if there is one.
        returned: queued prompts that are ended as not run.
        notice: for people; empty if there is nothing to tell.
    """

    verdict: Verdict
    queue: tuple[TurnRow, ...] = ()
    marks: tuple[str, ...] = ()
    cut: TurnRow | None = None
    returned: tuple[TurnRow, ...] = ()
    notice: str = ""

    @property
    def runs(self) -> bool:
        """Whether the session has to be opened for it."""
        return bool(self.queue)


def plan(turns: Sequence[TurnRow], now: float, limits: RecoveryConfig) -> Plan:
    """Decide what becomes of a session's unfinished turns.

    Args:
        turns: all of them, in order, none running.
        now: wall-clock seconds.
        limits: how old a mark may be, and how many attempts there are.
    """
    queued = tuple(turn for turn in turns if turn.state == "queued")
    marked = [turn for turn in turns if turn.marked_at > 0]
    marks = tuple(turn.id for turn in marked)
    # A turn that ended by itself while the gateway stopped, or that a person ended, is over.
    cut = next(
        (t for t in reversed(marked) if t.state == "interrupted" and t.cause in CUT_BY), None
    )
    kept_back = _why_not(cut, now, limits) if cut else None
    first = cut if cut and kept_back is None else next(iter(queued), None)
    if first is not None and first.attempts >= limits.attempts_max:
        told = (
            f"Quarantined: this was taken up {first.attempts} times and the gateway stopped each "
            "time, so it is not tried again. A new prompt runs as usual." + _not_run(queued)
        )
        return Plan("quarantine", (), marks, cut, queued, told)
    if cut is None:
        return Plan("run" if queued else "nothing", _counted(queued), marks)
    if kept_back is not None:
        return Plan(kept_back[0], _counted(queued), marks, cut, (), kept_back[1])
    on = TurnRow(
        new_id("turn"), cut.session_id, cut.ordinal, "queued", GO_ON, now,
        continues=cut.id, attempts=cut.attempts + 1,
    )  # fmt: skip
    told = f"The interrupted turn goes on (attempt {on.attempts} of {limits.attempts_max})."
    return Plan("go_on", (on, *queued), marks, cut, (), told)


def _not_run(returned: Sequence[TurnRow]) -> str:
    """What was returned, in its words, so that nothing that somebody said is lost."""
    shown = "".join(f' "{clip(" ".join(t.prompt.split()), SHOWN_CHARS)}"' for t in returned)
    return f" Not run:{shown}" if shown else ""


def _why_not(cut: TurnRow, now: float, limits: RecoveryConfig) -> tuple[Verdict, str] | None:
    """Why an interrupted turn does not go on, if it does not."""
    if not limits.continue_turns:
        return "off", "The interrupted turn does not go on: recovery.continue_turns is off."
    age_s = now - cut.marked_at
    if age_s > limits.max_age_s:
        return "too_old", (
            f"The turn that was interrupted {age_s / 3600:.1f} hours ago does not go on: that is "
            f"longer than {limits.max_age_s / 3600:.1f} hours (recovery.max_age_s)."
        )
    return None


def _counted(queued: tuple[TurnRow, ...]) -> tuple[TurnRow, ...]:
    if not queued:
        return ()
    return (msgspec.structs.replace(queued[0], attempts=queued[0].attempts + 1), *queued[1:])


# --- as rows ------------------------------------------------------------------------------------


def unanswered(history: Sequence[ItemRow], why: str = UNKNOWN) -> list[Message]:
    """A result that says `why` for every call at the end of `history` that has none."""
    answered: set[str] = set()
    for row in reversed(history):
        if row.message.role == "tool":
            answered.add(row.message.tool_call_id)
            continue
        return [lost(call, why) for call in row.message.tool_calls if call.id not in answered]
    return []


def ops_of(planned: Plan, session_id: str, now: float) -> list[Op]:
    """What `plan` decided, as rows: the marks taken, the attempt counted, the rest ended."""
    ops: list[Op] = [TakeMark(turn_id) for turn_id in planned.marks]
    if planned.queue:
        head = planned.queue[0]
        new = planned.verdict == "go_on"
        ops.append(InsertTurn(head) if new else PatchTurn(head.id, {"attempts": head.attempts}))
    refused = {"state": "refused", "cause": "quarantine", "ended_at": now}
    for turn in planned.returned:  # once: whoever comes second finds that it is over
        ops += [FenceTurn(turn.id), PatchTurn(turn.id, refused)]
    if planned.notice and not planned.queue:
        ops.append(PatchSession(session_id, {"reason": NOTICE + planned.notice}))
    return ops


def events_of(planned: Plan, answers: Iterable[Message], names: dict[str, str]) -> list[Wire]:
    """What clients are told, in order."""
    events = [_tool_complete(answer, names) for answer in answers]
    cut = planned.cut
    if cut is not None and cut.cause == "crash":
        # A gateway that stopped told it; one that died could not.
        events.append(("message.complete", complete(TurnEnd("interrupted", "crash"), cut.id, "")))
    for turn in planned.returned:
        end = TurnEnd("refused", "quarantine")
        events.append(("message.complete", complete(end, turn.id, "")))
    if planned.notice:
        notice = {
            "kind": planned.verdict,
            "text": planned.notice,
            "turn_id": cut.id if cut else "",
            "continued_by": planned.queue[0].id if planned.verdict == "go_on" else "",
            "returned": [turn.prompt for turn in planned.returned],
        }
        events.append(("session.notice", notice))
    return events


def _tool_complete(answer: Message, names: dict[str, str]) -> Wire:
    return "tool.complete", {
        "tool_id": answer.tool_call_id,
        "name": names.get(answer.tool_call_id, ""),
        "result": answer.text,
        "result_text": answer.text,
        "summary": answer.text,
        "is_error": True,
        "outcome": "unknown",
        "duration_s": 0.0,
    }


def _event_ops(session_id: str, epoch: int, events: Iterable[Wire], now: float) -> list[Op]:
    return [
        AppendEvent(session_id, EventRow(epoch, 0, kind, msgspec.json.encode(payload), now))
        for kind, payload in events
    ]


# --- opening ------------------------------------------------------------------------------------


class TakenUp(msgspec.Struct, frozen=True):
    """A stored session, ready to be opened.

    Attributes:
        row: as it is now.
        epoch: of the lease that was taken for it.
        history: its entries, every call with a result.
        queue: what runs first, in order.
        ordinal: the highest that is stored.
        seq: of the last event of this epoch.
        notice: what became of work that was cut off, for people, also if that was settled before.
        notes: what the model is to be told.
    """

    row: SessionRow
    epoch: int
    history: list[ItemRow]
    queue: tuple[TurnRow, ...]
    ordinal: int
    seq: int
    notice: str
    notes: list[NoteRow]


async def take_up(ports: SessionPorts, row: SessionRow) -> TakenUp:
    """Take the lease of a stored session, and up what is unfinished in it; see the module.

    The caller has made sure that nobody else opens it in this process.

    Raises:
        NotFound: it was deleted meanwhile.
        LeaseLost: somebody has taken it over meanwhile.
        StoreError: nothing was taken up.
    """
    store, now, sid = ports.store, ports.clock.wall(), row.id
    key = f"session:{sid}"
    epoch, _, found = await store.write(
        TakeLease(key, ports.holder, now),
        # Where the last write of an earlier incarnation failed, its rows are still open.
        SettleLeftovers("crash", now, sid, keep_queued=True),
        PatchSession(sid, {"status": "open", "reason": ""}),
    )
    if not found:
        _ = store.write(EndLease(key, epoch))  # nobody holds what is gone
        raise NotFound(f"No session {sid}; `tenure sessions list` shows them.")
    try:
        for _ in range(SETTLE_TRIES - 1):
            with suppress(LeaseLost):  # `note` was quicker: look again
                return await _settle(ports, row, epoch, now)
        return await _settle(ports, row, epoch, now)
    except BaseException:
        status = "idle" if row.status == "idle" else "closed"  # no end, if it was not before
        closed = PatchSession(sid, {"status": status, "reason": "not opened"})
        _ = store.write(Fence(key, epoch), closed, EndLease(key, epoch))
        raise


async def _settle(ports: SessionPorts, row: SessionRow, epoch: int, now: float) -> TakenUp:
    """Store what becomes of it, in one write."""
    store, sid = ports.store, row.id
    history, turns = await store.history(sid), await store.turns(sid)
    planned = plan(turns, now, ports.config().recovery)
    answers = unanswered(history)
    names = {call.id: call.name for item in history for call in item.message.tool_calls}
    place = max((item.seq for item in history), default=0) + 1
    after = history[-1].turn_id if history else ""
    added = [ItemRow(place + n, after, "message", text) for n, text in enumerate(answers)]
    events = events_of(planned, answers, names)
    ops = [*ops_of(planned, sid, now), *(AppendItem(sid, item) for item in added)]
    if ops or events:
        fence = Fence(f"session:{sid}", epoch)
        await store.write(fence, *ops, *_event_ops(sid, epoch, events, now))
    if planned.verdict != "nothing":
        log.info("Session %s: %s, %d to run", sid, planned.verdict, len(planned.queue))
    ordinal = max((turn.ordinal for turn in turns), default=0)
    before = row.reason.removeprefix(NOTICE) if row.reason.startswith(NOTICE) else ""
    row = msgspec.structs.replace(row, message_count=row.message_count + len(added))
    told = planned.notice or before
    return TakenUp(
        row, epoch, [*history, *added], planned.queue, ordinal, len(events), told,
        await store.notes(sid),
    )  # fmt: skip


# --- the start ----------------------------------------------------------------------------------


class Recovery:
    """Goes through what earlier gateways left unfinished, once, at the start.

    Sessions with something to run are opened as everybody opens them. Two passes at once harm
    nobody: a session is opened once, and a mark is taken once.

    Args:
        scope: owns the work.
        sessions: where sessions are opened.
    """

    def __init__(self, scope: Scope, sessions: Sessions) -> None:
        self._scope = scope
        self._sessions = sessions
        self.opened = 0
        """Sessions opened so far."""

    def begin(self) -> asyncio.Task[None]:
        """Start in the background; the task is owned by the scope."""
        return self._scope.spawn(self.run(), name="recovery").value

    async def run(self) -> None:
        """Go through all profiles until nothing is left to take up. Cancellable."""
        pause_s = RETRY_S
        while await self._pass():
            await self._scope.clock.sleep(pause_s)
            pause_s = min(RETRY_MAX_S, 2 * pause_s)

    async def _pass(self) -> int:
        """One pass; how many sessions have to wait for another."""
        left = 0
        profiles = self._sessions.profiles
        for name in profiles.names():
            try:
                async with profiles.using_ports(name) as ports:
                    if ports.config().hooks.session_end:
                        self._sessions.hooks.wake(name)
                    left += await self._through(name, ports.store)
            except TenureError as exc:
                log.warning("What is unfinished in profile %s cannot be taken up: %s", name, exc)
                left += 1
        return left

    async def _through(self, profile: str, store: Store) -> int:
        waiting = deque(await store.unfinished())
        if not waiting:
            return 0
        log.info("Taking up %d unfinished sessions of profile %s", len(waiting), profile)
        failed: list[Unfinished] = []

        async def work() -> None:
            while waiting:
                one = waiting.popleft()
                if not await self._take(profile, store, one):
                    failed.append(one)

        async with self._scope.child(f"take up {profile}") as scope:
            workers = [scope.spawn(work(), name="take up") for _ in range(OPEN_AT_ONCE)]
            await asyncio.wait({worker.value for worker in workers})
        return len(failed)

    async def _take(self, profile: str, store: Store, one: Unfinished) -> bool:
        """Take one session up; False where that has to be tried again."""
        try:
            if not await note(
                store, one, self._clock.wall(), self._sessions.ports.config().recovery
            ):
                await self._sessions.recover(one.session_id, profile)
                self.opened += 1
                await self._pace(one.session_id)
        except (NotFound, LeaseLost):
            return True  # deleted meanwhile, or somebody else has taken it up
        except TenureError as exc:
            log.warning("Session %s cannot be taken up yet: %s", one.session_id, exc)
            return False
        return True

    async def _pace(self, session_id: str) -> None:
        """Let what was started get on before the next is opened."""
        session = self._sessions.find(session_id)
        first = session and (session.current or next(iter(session.queue), None))
        if first:
            with suppress(TimeoutError):
                async with deadline(self._clock, PACE_S):
                    await first.over.wait()

    @property
    def _clock(self) -> Clock:
        return self._scope.clock


async def note(store: Store, one: Unfinished, now: float, limits: RecoveryConfig) -> bool:
    """Settle a session in which nothing has to run, without opening it; whether it was one.

    Raises:
        LeaseLost: somebody has taken it up meanwhile; nothing was written.
        StoreError: nothing was written.
    """
    planned = plan(await store.turns(one.session_id), now, limits)
    if planned.runs:
        return False
    ops = ops_of(planned, one.session_id, now)
    events = events_of(planned, (), {})
    await store.write(*ops, *_event_ops(one.session_id, one.epoch, events, now))
    return True


def mark_running(sessions: Iterable[Session], now: float) -> None:
    """Mark what runs in these sessions as cut off by a stop, in one write per database.

    Never waits. A store keeps the order of its writes, so the mark is there before anything that
    the stop does to the turns.
    """
    for store in {session.ports.profile: session.ports.store for session in sessions}.values():
        store.write(MarkInterrupted(now)).add_done_callback(_check_marked)


def _check_marked(done: asyncio.Future[list[object]]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("What runs could not be marked as cut off, so it will not go on: %s", error)
