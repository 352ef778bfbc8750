"""A session: one conversation with its resources, as a synchronous state machine on the loop.

Every decision (run or queue, who ends a turn, what runs next) is made and takes effect in one
synchronous step, so there is no moment between "nobody runs" and "the queue was looked at". What
takes time runs in tasks that the session's scope owns. Closing stands in `sessions/closing.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tenure.agent.faults import internal_error
from tenure.agent.ports import TurnEnd
from tenure.errors import SessionClosing, TenureError
from tenure.ids import new_id
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams
from tenure.sessions import uploads
from tenure.sessions.attachments import Attachments
from tenure.sessions.configured import is_outdated
from tenure.sessions.endings import Endings
from tenure.sessions.facts import first_words, session_info, unname
from tenure.sessions.journal import Journal, TurnRecorder
from tenure.sessions.notes import Notes
from tenure.sessions.planning import Plan
from tenure.sessions.projection import NOTHING_SPENT, complete
from tenure.sessions.prompts import Accepted, Busy, PromptQueue, Receipts, accept, tell_queue
from tenure.sessions.questions import Questions
from tenure.sessions.resources import Agent, SessionPorts, build_agent
from tenure.sessions.running import run
from tenure.sessions.state import SessionState, shown
from tenure.sessions.turns import LiveTurn
from tenure.sessions.workplace import Workplace
from tenure.store.base import (
    AppendItem,
    FenceTurn,
    Op,
    PatchSession,
    PatchTurn,
    SessionRow,
    TurnRow,
)

log = logging.getLogger("tenure.sessions")

INTERRUPT_GRACE_S = 5.0
"""How long an interrupted turn may take to end by itself; then it is fenced off and left behind."""


class Session:
    """A live session. Made and forgotten by the registry.

    Attributes:
        id: its one id, live and stored.
        ports: what it was given.
        scope: what it holds; its state is the only record of being closed.
        journal: its memory.
        attachments: who listens.
        endings: ends of turns on their way to the store.
        questions: what waits for a person.
        notes: what waits for the model.
        pins: whoever opens it and is about to attach; it stays while there are any.
        state: where it is.
        used_at: monotonic seconds of the last work in it; looking at it is none.
        draft: files for the next prompt; see uploads.py.
        wanted: the model asked for; empty for the gateway's choice.
        work: where its tools work, and what they keep there.
        build_error: why there is no agent, if a build has failed.
        notice: what became of work that was cut off, until a new prompt runs; see recovery.py.
        current: the running turn, if any.
        spent: tokens of this incarnation.
        closing, released: once claimed: the end of its closing, and before it the moment when
            nothing is held any more.
    """

    __slots__ = (
        "_agent", "_building", "_ordinal", "attachments", "build_error", "closing",
        "created_at", "current", "cwd", "draft", "endings", "id", "journal", "last_active", "notes",
        "notice", "pins", "plan_accepted", "ports", "preview", "questions", "queue", "receipts",
        "released", "scope", "settings", "source", "spent", "state", "title", "used_at", "wanted",
        "work",
    )  # fmt: skip

    def __init__(self, row: SessionRow, epoch: int, scope: Scope, ports: SessionPorts) -> None:
        self.ports = ports
        self.id = row.id
        self.title = row.title
        self.cwd = row.cwd
        self.source = row.source
        self.created_at = row.created_at
        self.last_active = row.updated_at
        self.used_at = ports.clock.monotonic()
        self.preview = row.preview
        self.settings = row.settings
        self.plan_accepted: Plan | None = None
        self.scope = scope
        self.attachments = Attachments(ports.clock)
        self.journal = Journal(ports.store, row.id, epoch, ports.clock, self._publish, ports.memory)
        self.endings = Endings(self.journal, scope)
        config = ports.config()
        self.questions = Questions(
            self.journal, self.endings, ports.grants, config.approvals.rules,
            config.approvals.timeout_s, self._announce,
        )  # fmt: skip
        self.notes = Notes(self)
        self.pins = 1
        self.state = SessionState.UNBUILT
        self.current: LiveTurn | None = None
        self.closing: asyncio.Future[None] | None = None
        self.released = asyncio.Event()
        self._agent: Agent | None = None
        self._building: asyncio.Task[None] | None = None
        self.build_error: TenureError | None = None
        self.notice = ""
        self.wanted = row.model
        self.draft = row.draft
        self.queue = PromptQueue()
        self.receipts = Receipts(self)
        self._ordinal = 0
        self.spent = NOTHING_SPENT
        self.work = Workplace(self)

    def resume_from(self, ordinal: int) -> None:
        """Number the next turn after `ordinal`, the highest that is stored."""
        self._ordinal = ordinal

    def requeue(self, turns: Sequence[TurnRow]) -> None:
        """Let stored prompts wait again, in their order and before anything new."""
        self.queue.prepend([LiveTurn.of(turn) for turn in turns])

    # --- building -----------------------------------------------------------------------------

    def begin_build(self, wanted: str | None = None) -> None:
        """(Re)build the agent in the background; `session.info` says when it is ready."""
        if wanted is not None:
            self.wanted = wanted
        self.state = SessionState.BUILDING
        self.build_error = None
        self._building = self.scope.spawn(self._build(), name="build").value

    async def _build(self) -> None:
        old, self._agent = self._agent, None
        try:
            if old is not None:
                await old.scope.close("replaced")
            if not self.journal.loaded:
                self.journal.load(await self.ports.store.history(self.id))
            box = await self.work.open()
            agent = await build_agent(self.scope, self.ports, self.wanted, self.cwd, box)
        except TenureError as exc:
            if self.scope.admits:  # else the closing says what becomes of what waits
                self._build_failed(exc)
            return
        except Exception as exc:
            log.exception("Building the agent of session %s failed", self.id)
            self._build_failed(internal_error(log, exc))
            return
        self._agent = agent
        self.state = SessionState.IDLE
        self._announce()
        self._next()

    def _build_failed(self, error: TenureError) -> None:
        self.build_error = error
        self.state = SessionState.FAILED
        self.journal.transient("error", {"message": error.message, "code": error.code})
        for turn in self.queue.take_all():
            self._finish(turn, TurnEnd("failed", "model", error=error))

    async def wait_built(self) -> None:
        """Wait until the build that runs is over, however. Cancelling it cancels the waiting."""
        while self.state is SessionState.BUILDING and self._building and self.scope.admits:
            await asyncio.wait({self._building})

    @property
    def unbuilt(self) -> bool:
        """Whether nobody has asked for its agent since it was opened or laid to rest."""
        return self.state is SessionState.UNBUILT

    def rest(self) -> bool:
        """Free the agent and the history of an idle session; the next prompt brings both back.

        Returns:
            False where something is under way, or not all of it is stored yet.
        """
        idle = self.state in {SessionState.IDLE, SessionState.FAILED} and not self.working
        if not idle or not self.scope.admits or not self.journal.shed():
            return False
        agent, self._agent = self._agent, None
        self.state = SessionState.UNBUILT
        if agent is not None:
            _ = agent.scope.end()
        return True

    @property
    def working(self) -> bool:
        """Whether a turn or a build is under way; a prompt waits for one of them."""
        under_way = self.state is SessionState.BUILDING or self.state is SessionState.RUNNING
        return self.current is not None or under_way

    @property
    def has_background(self) -> bool:
        """Whether something of it runs that outlives turns."""
        return self.work.busy

    @property
    def agent(self) -> Agent | None:
        """The built agent, if there is one."""
        return self._agent

    # --- prompts ------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Prompts that wait."""
        return len(self.queue)

    async def submit(self, text: str, *, key: str = "", busy: Busy | None = None) -> Accepted:
        """Accept a prompt: run it, queue it, or steer it into what runs. Returns after the commit.

        Args:
            text: what the person says.
            key: the same key and text get the same receipt, however often they come.
            busy: what to do if a turn runs; None for the session's own policy.

        Raises:
            SessionClosing: the session is being closed; nothing was stored.
            Overloaded: the queue is full; nothing was stored.
            TooLarge: over 4 MiB.
            Conflict: the key was used for another prompt.
            StoreError: it could not be stored; it does not run.
        """
        return await accept(self, text, key, busy)

    def new_turn(self, text: str, key: str, body: str) -> LiveTurn:
        """The next turn; counts as use."""
        self._ordinal += 1
        turn = LiveTurn(new_id("turn"), self._ordinal, text, self.ports.clock.wall())
        turn.key, turn.body = key, body
        self.last_active = turn.accepted_at
        self.used_at = self.ports.clock.monotonic()
        return turn

    def check_open(self) -> None:
        """Raises SessionClosing once the session is claimed."""
        if not self.scope.admits:
            raise SessionClosing(
                f"Session {self.id} is being closed ({self.scope.reason}); resume it first."
            )

    def start(self, turn: LiveTurn, *, fresh: bool) -> asyncio.Future[list[Any]]:
        """Run `turn`. Its commit overlaps the model call; everything published waits behind it."""
        now = self.ports.clock.wall()
        turn.recorder = TurnRecorder(self.journal, turn.id, taken=self.notes.taken)
        row = self.journal.new_item(turn.message, turn.id)
        ops: list[Op] = [
            *turn.begins(self.id, now, fresh=fresh),
            AppendItem(self.id, row),
            *uploads.starts(self, turn, fresh=fresh),
            PatchSession(self.id, first_words(self, turn, now)),
        ]
        start = {**turn.started, "bypass": self.questions.bypass}
        commit = self.journal.record(ops, [("message.start", start)], turn_id=turn.id)
        self.occupy(turn, lambda: self._run(turn))
        commit.add_done_callback(lambda done: self._check_start(turn, done, fresh=fresh))
        return commit

    def occupy(self, turn: LiveTurn, work: Callable[[], Awaitable[TurnEnd]]) -> None:
        """Let `turn` have the session until `work` is over; prompts wait meanwhile."""
        self.state, self.current = SessionState.RUNNING, turn
        turn.scope = self.scope.child(f"turn:{turn.id}")
        turn.task = self.scope.spawn(self._drive(turn, work), name=f"turn {turn.id}")
        turn.task.value.add_done_callback(lambda _: self._driven(turn))

    def _check_start(self, turn: LiveTurn, done: asyncio.Future[list[Any]], *, fresh: bool) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            return
        if fresh:
            self.refuse(turn, error)
            return
        # It was accepted when it was queued, so whoever sent it is told its end.
        self._withdraw(turn)
        told = error if isinstance(error, TenureError) else internal_error(log, error)
        self._finish(turn, TurnEnd("failed", "store", error=told))

    def refuse(self, turn: LiveTurn, error: BaseException) -> None:
        """A prompt that could not be stored does not run, and nobody is told that it did."""
        self._withdraw(turn)
        if turn.ended:
            return
        turn.ended = True
        self.queue.remove(turn)
        uploads.give_back(self, turn.files)
        log.error("Prompt %s of session %s was refused: %s", turn.id, self.id, error)
        self._leave(turn)

    def _withdraw(self, turn: LiveTurn) -> None:
        """Stop a turn whose start was not stored; history is as it was before."""
        if turn.recorder is not None:
            turn.recorder.fence()
            for item in [i for i in self.journal.items if i.turn_id == turn.id]:
                self.journal.drop_item(item)
        unname(self, turn)
        if not turn.over.is_set():
            turn.cancel("store")

    # --- running ------------------------------------------------------------------------------

    async def _run(self, turn: LiveTurn) -> TurnEnd:
        assert self._agent is not None
        assert turn.scope is not None
        return await run(self, turn, self._agent, turn.scope)

    async def _drive(self, turn: LiveTurn, work: Callable[[], Awaitable[TurnEnd]]) -> None:
        assert turn.scope is not None
        end = TurnEnd("interrupted", turn.cause or "client")
        try:
            end = await work()
        except Exception as exc:
            log.exception("Turn %s failed", turn.id)
            end = TurnEnd("failed", "internal", error=internal_error(log, exc))
        finally:
            try:
                await turn.scope.close(end.cause)
            finally:
                self._finish(turn, self._named(turn, end))

    def _named(self, turn: LiveTurn, end: TurnEnd) -> TurnEnd:
        """The end with the cause of whoever interrupted.

        The turn itself may have met only the claim of its scope, or a cancel without a name.
        """
        if end.state != "interrupted":
            return end
        ending = "shutdown" if not self.scope.admits else end.cause
        return msgspec.structs.replace(end, cause=turn.cause or ending)

    def _driven(self, turn: LiveTurn) -> None:
        """Its task is over; one that was cancelled before its first step has ended nothing."""
        if turn.scope is not None:
            _ = turn.scope.end()
        self._finish(turn, self._named(turn, TurnEnd("interrupted", "client")))

    @property
    def tool_state(self) -> dict[str, Any]:
        """What tools keep per session (background processes, terminals); owned by `scope`."""
        return self.work.state

    def _finish(self, turn: LiveTurn, end: TurnEnd) -> asyncio.Future[list[Any]] | None:
        """End a turn, exactly once, and run the next. Synchronous; returns its commit, if any."""
        if turn.ended:
            return None
        turn.ended = True
        if turn.recorder is not None:
            turn.recorder.fence()
        if turn.chore:
            self._leave(turn)
            return None
        self.spent = self.spent.after(end)
        now = self.ports.clock.wall()
        self.last_active = now
        self.used_at = self.ports.clock.monotonic()
        changes = {
            "state": end.state,
            "cause": end.cause,
            "error": end.error.message if end.error else "",
            "ended_at": now,
            "usage": msgspec.structs.asdict(end.usage),
        }
        model = self._agent.model.ref if self._agent else self.wanted
        stored = self.endings.store(
            [
                FenceTurn(turn.id),
                PatchTurn(turn.id, changes),
                PatchSession(self.id, {"updated_at": now}),
                *uploads.ends(self, turn),
            ],
            [("message.complete", complete(end, turn.id, model))],
        )
        self._leave(turn)
        return stored

    def _leave(self, turn: LiveTurn) -> None:
        """The turn no longer occupies the session."""
        turn.over.set()
        if self.current is turn:
            self.current = None
            if self.state is SessionState.RUNNING:
                self.state = turn.before
            self._announce()
            self._next()
            self.ports.memory.histories.relieve()

    def _next(self) -> None:
        if not self.queued or not self.scope.admits:
            return
        if self.state is SessionState.UNBUILT or self.state is SessionState.FAILED:
            self.begin_build()  # what came during a chore
        if self.state is SessionState.IDLE:
            if is_outdated(self):
                self.begin_build()
                return
            _ = self.start(self.queue.take(), fresh=False)
            tell_queue(self)

    # --- interrupting -------------------------------------------------------------------------

    def interrupt(self, cause: str = "user") -> bool:
        """End the running turn; what is queued runs next. False if nothing runs."""
        turn = self.current
        if turn is None:
            return False
        turn.cancel(cause)
        if self.scope.admits:
            self.scope.spawn(self._enforce(turn, cause), name=f"interrupt {turn.id}")
        return True

    async def _enforce(self, turn: LiveTurn, cause: str) -> None:
        """A turn that does not end by itself is fenced off: it can write nothing any more."""
        try:
            async with deadline(self.ports.clock, INTERRUPT_GRACE_S):
                await turn.over.wait()
        except TimeoutError:
            self.abandon(turn, cause)

    def abandon(self, turn: LiveTurn, cause: str) -> None:
        """End `turn` from outside. Its task and scope stay owned by the session."""
        if not turn.ended:
            log.warning("Turn %s did not end after its interrupt; it is fenced off", turn.id)
            self._finish(turn, TurnEnd("interrupted", cause))

    def put_back(self, turns: Sequence[LiveTurn]) -> None:
        """Prompts that could not be steered wait again, before all others."""
        for turn in turns:
            turn.steered = False
        self.queue.prepend([turn for turn in turns if not turn.ended])
        self._next()

    def end_unrun(self, turn: LiveTurn, cause: str) -> asyncio.Future[list[Any]] | None:
        """End a prompt that was taken off the queue and did not run; its commit, if any."""
        return self._finish(turn, TurnEnd("refused", cause))

    def return_queue(self, cause: str) -> list[str]:
        """Take every waiting prompt off the queue, as not run; their texts."""
        returned = self.queue.take_all()
        for turn in returned:
            self.end_unrun(turn, cause)
        return [turn.prompt for turn in returned]

    # --- showing ------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """The state in one word."""
        return shown(self.state, asking=self.questions.shown is not None)

    def info(self) -> dict[str, Any]:
        """The payload of session.info."""
        return session_info(self)

    def usage(self) -> dict[str, Any]:
        """Token counters of this incarnation."""
        agent = self._agent
        if agent is None:
            return self.spent.counters(self.wanted, 0)
        counters = self.spent.counters(agent.model.ref, agent.model.context_tokens)
        return {**counters, "active_subagents": self.work.active_subagents}

    def inflight(self) -> dict[str, Any] | None:
        """The running turn as a late client sees it."""
        turn = self.current
        if turn is None or turn.chore:
            return None
        return {"user": turn.prompt, "assistant": "".join(turn.text), "streaming": True}

    def _announce(self) -> None:
        """Tell whoever listens what it is now; who comes later reads that in the answer."""
        if self.scope.admits and len(self.attachments):
            self.journal.transient("session.info", self.info())

    def _publish(self, event: EventParams, turn_id: str) -> None:
        turn = self.current
        if event.type == "message.delta" and turn is not None and turn.id == turn_id:
            turn.text.append(event.payload["text"])
        elif event.type == "message.interim" and turn is not None:
            turn.text.clear()  # it is in history now
        self.attachments.publish(event)
