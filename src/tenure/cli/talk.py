"""One connection's worth of a chat: what is typed goes out, what happens is shown.

Several windows may show one session. What another one does is told in a line: its prompts, what it
takes back, the questions that it answers, and that it has closed or deleted the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

from tenure.cli.ask import REQUESTS, answer_of, is_hidden, is_plan, keys_of, question_text
from tenure.cli.attach import Attached, Where
from tenure.cli.complete import WireCompleter
from tenure.cli.line import Line
from tenure.cli.opening import plan_now, wait_built, with_model
from tenure.cli.seen import Seen
from tenure.cli.sessions import id_of
from tenure.cli.show import Show
from tenure.errors import AlreadyDecided, Conflict, TenureError, TransportError
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams
from tenure.transports.base import TransportClosed

LOCAL = {"/quit", "/exit"}
AT_A_QUESTION = {
    "/help", "/status", "/stop", "/usage", "/context", "/tools", "/queue", "/agents", "/plan",
    "/memory",
}  # fmt: skip
"""Commands that are no answer to a question which takes any text."""
DELETED = "deleted"
"""The reason of a session that is gone with its history."""


class Wish(NamedTuple):
    """What is asked of a session: to allow what would be asked, to begin in plan mode."""

    yes: bool
    plan: bool = False


class Talk:
    """A conversation over one connection.

    Args:
        attached: the gateway.
        where: what the command was called with.
        show: the window.
        line: where it is typed.
        seen: what the window has shown; outlives the connection.
        wish: what is asked of the session.
    """

    def __init__(
        self, attached: Attached, where: Where, show: Show, line: Line, seen: Seen, wish: Wish
    ) -> None:
        self._attached = attached
        self._client = attached.client
        self._where = where
        self._show = show
        self._line = line
        self._seen = seen
        self._yes = wish.yes
        self._plan = wish.plan
        self._asked: dict[str, Any] | None = None
        self._editing = False
        """The next line is the plan that is asked about, in other words."""
        self._idle = asyncio.Event()
        self._typed = ""
        """The line that is being dealt with."""
        self._quiet = asyncio.Event()
        """No prompt is on its way: whose a turn is can be told."""
        self._quiet.set()
        self._watching = False
        self._opening: asyncio.Queue[EventParams | None] | None = None
        """While a session is opened later on: what tells of its agent; None when all is gone."""
        self._held: list[EventParams] = []
        self._above: set[str] = set()
        """Own turns whose prompt stands right above."""
        self._queued: set[str] = set()
        """Own prompts that waited when they came."""
        self._told: set[str] = set()
        """Waiting prompts of others that were told of."""
        self._late: tuple[int, dict[str, Any]] | None = None
        """What a running turn has said, and after which event that is to be shown."""
        self._ended = ""
        """Why the session has ended, if it has."""
        self._warned = False
        self._talked = False
        """Something was said in the session."""
        self._files = 0
        """Files that wait for the next prompt."""
        self.session = ""

    # --- the session --------------------------------------------------------------------------

    async def open(self, session: str) -> str:
        """Create or resume, and say so; the id."""
        profile = self._where.profile
        common = {"auto_approve": self._yes, "interactive": True, "profile": profile}
        if session:
            session = await id_of(self._client, profile, session)
            opened = await self._client.call(
                "session.resume", session_id=session, cursor=self._seen.cursor(session), **common
            )
        else:
            opened = await self._client.call(
                "session.create", cwd=str(self._where.cwd), model=self._where.model, source="chat",
                sandbox=self._where.sandbox, plan=self._plan, **common,
            )  # fmt: skip
        if session and self._plan:
            await self._client.call("plan.mode", session_id=opened["session_id"], on=True)
            opened["info"]["plan"] = {**opened["info"]["plan"], "on": True}
        self.session, self._ended = opened["session_id"], ""
        self._talked = bool(session)
        info = await self._built(opened["info"])
        if session:
            if not self._watching:
                info = await with_model(self._client, self.session, info, self._where.model)
            self._show_past(opened)
        self._seen.begin(self.session)
        self._files = len(info.get("draft", ()))
        self._show.opened(info, self._attached.where)
        if opened.get("inflight"):
            self._idle.clear()
            self._show_running(opened)
        else:
            self._idle.set()
        if self._attached.embedded is not None:
            self._attached.embedded.own_sessions.add(self.session)
        if opened.get("pending_questions"):
            self._ask(opened["pending_questions"][0])
        self._opening = None
        held, self._held = self._held, []
        for event in held:
            self._happened(event)
        return self.session

    async def _built(self, info: dict[str, Any]) -> dict[str, Any]:
        """The session's facts once its agent is there, or cannot be."""
        if not self._watching:
            return await wait_built(self._client, self.session, info)
        self._opening = asyncio.Queue()
        while info["lazy"] and "credential_warning" not in info:
            event = await self._opening.get()
            if event is None:
                raise TransportClosed
            told = {**info, "credential_warning": event.payload.get("message", "")}
            info = event.payload if event.type == "session.info" else told
        return info

    def _show_past(self, opened: dict[str, Any]) -> None:
        """What was said before, as far as it does not stand on the screen."""
        self._seen.begin(self.session)
        if opened["replay"] and not opened["replay"]["gap"]:
            return  # the events follow
        for message in self._seen.missed(opened["messages"]):
            if message["turn_id"] and message["turn_id"] == self._seen.running:
                self._show.catch_up(message["text"])
            else:
                self._show.past(message)
        self._seen.snapshot(opened)

    def _show_running(self, opened: dict[str, Any]) -> None:
        found, replay = opened["inflight"], opened.get("replay")
        if found is None:
            return
        if replay and replay["events"]:
            self._late = opened["seq"], found
        elif replay and not replay["gap"]:
            self._show.catch_up(found["assistant"])
        else:
            self._show.running(found)

    # --- input and output ---------------------------------------------------------------------

    async def run(self) -> int:
        """Take lines until the end of input.

        Raises:
            TransportClosed: the gateway is gone.
        """
        scope = Scope.root("talk", self._client.clock)
        self._watching = True
        reading = scope.spawn(self._watch(), name="events").value
        if self._attached.embedded is not None:
            # Others may attach a moment later; the prompt comes first.
            scope.spawn(self._attached.embedded.listen_once(), name="listen")
        self._line.attend(
            WireCompleter(self._client, lambda: self.session), self._toolbar, self._stop
        )
        try:
            while True:
                line = await self._line.next(reading)
                if line is None or line.strip() in LOCAL:
                    if self._line.gone or self._leaves():
                        return 0
                else:
                    self._warned = False
                    await self._take(line)
                self._line.taken()
        finally:
            self._line.unattended()
            await scope.close("talk over")

    def _leaves(self) -> bool:
        """Whether the person who wants to leave does; what becomes of a running turn is said."""
        if self._idle.is_set():
            if self._talked and not self._ended:
                self._show.note(f"tenure chat --session {self.session} goes on with this")
            return True
        own = self._attached.embedded
        if own is None:
            self._show.note(f"the turn goes on; tenure chat --session {self.session} shows it")
        elif not self._warned and not own.others_listen(self.session):
            self._warned = True
            self._show.note(
                "a turn is running, and its gateway ends with this chat: Ctrl-D again cuts it off "
                "(it goes on when a gateway next starts), Ctrl-C interrupts it"
            )
            return False
        return True

    def _toolbar(self) -> str:
        if self._editing:
            return " Enter keeps the plan · Alt-Enter new line · Ctrl-X Ctrl-E editor "
        if self._asked is not None:
            return f" {keys_of(self._asked)} "
        state = "idle" if self._idle.is_set() else "working (Ctrl-C interrupts)"
        if self._files:
            state += f" · {self._files} attached"
        return f" {state} · /help · Ctrl-D leaves "

    def _stop(self) -> Coroutine[Any, Any, None] | None:
        """What Ctrl-C does: interrupt what runs, if anything does."""
        return None if self._idle.is_set() else self._interrupt()

    # --- what happens -------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Show what comes."""
        try:
            while True:
                event = await self._client.next_event()
                if event.type in {"message.start", "prompt.queue"}:
                    await self._quiet.wait()
                if event.session_id != self.session:
                    continue
                if self._opening is None:
                    self._happened(event)
                elif event.type in {"session.info", "error"}:
                    self._opening.put_nowait(event)
                else:
                    self._held.append(event)
        except TransportClosed:
            if self._opening is not None:
                self._opening.put_nowait(None)

    def _happened(self, event: EventParams) -> None:
        payload = event.payload or {}
        was_running = self._seen.running
        self._seen.event(event)
        self._show.event(event)
        self._line.refresh()
        match event.type:
            case "message.start":
                self._idle.clear()
                self._talked = True
                self._began(payload)
            case "message.complete":
                self._over(payload, was_running)
            case "message.steered":
                self._show.prompt(payload["text"], "goes into the running turn")
            case "prompt.queue" | "prompt.files":
                self._waits(event.type, payload["entries"])
            case "session.rewound":
                self._taken_back(payload)
            case "session.closed":
                self._closed(payload["reason"])
            case _:
                self._asking(event.type, payload)
        if self._late is not None and event.seq >= self._late[0]:
            self._show.catch_up(self._late[1]["assistant"])
            self._late = None

    def _asking(self, kind: str, payload: dict[str, Any]) -> None:
        match kind:
            case "plan.changed":
                self._plan_changed(payload)
            case "question.settled":
                self._settled(payload["request_id"], payload["decision"])
            case _ if kind in REQUESTS:
                self._ask({"kind": REQUESTS[kind], **payload})
            case _:
                pass

    def _began(self, payload: dict[str, Any]) -> None:
        turn_id = payload["turn_id"]
        if turn_id in self._above:
            self._above.discard(turn_id)
        elif self._steers(payload["prompt"]):
            return  # nothing ran, so it runs by itself
        elif not payload.get("note"):  # what the gateway tells the model nobody has said
            self._show.prompt(
                payload["prompt"], "" if turn_id in self._queued else "another window"
            )

    def _over(self, payload: dict[str, Any], was_running: str) -> None:
        if payload["turn_id"] == was_running or not was_running:
            self._idle.set()
        elif payload["turn_id"] in self._queued | self._told:
            self._show.note("a prompt that waited was taken out of the queue; it does not run")

    def _waits(self, kind: str, entries: list[dict[str, Any]]) -> None:
        """Files are counted; prompts that wait and do not come from here are told of."""
        if kind == "prompt.files":
            self._files = len(entries)
            return
        for entry in entries:
            turn_id = entry["turn_id"]
            if self._steers(entry["text"]):
                self._queued.add(turn_id)
            elif turn_id not in self._above | self._queued | self._told:
                self._told.add(turn_id)
                self._show.note(f"another window queued: {_short(entry['text'])}")

    def _steers(self, text: str) -> bool:
        """Whether this very prompt is what a command that is under way has just sent."""
        return self._typed.startswith("/steer ") and self._typed.endswith(text)

    def _taken_back(self, payload: dict[str, Any]) -> None:
        if not self._typed.startswith("/undo"):  # else it is told as the answer to that
            turns = len(payload["turn_ids"])
            what = "the last turn was" if turns == 1 else f"the last {turns} turns were"
            self._show.note(f"{what} taken back in another window")

    def _closed(self, reason: str) -> None:
        if self._typed == "/new" or reason.startswith("gateway ended"):
            return  # the one is told as its answer, the other by the connection
        self._idle.set()
        self._ended = reason
        if reason == DELETED:
            self._show.note("this session was deleted in another window")
        else:
            self._show.note(f"this session was closed ({reason}); the next prompt opens it again")

    def _ask(self, question: dict[str, Any]) -> None:
        if self._asked and self._asked["request_id"] == question["request_id"]:
            return  # shown again to whoever has come late
        self._asked = question
        self._line.hide(is_hidden(question))
        self._show.plain(question_text(question).rstrip("> \n"))

    def _settled(self, request_id: str, decision: str = "") -> None:
        """A question is over, whoever answered it; one that was not answered here is told."""
        if self._asked and self._asked["request_id"] == request_id:
            self._asked, self._editing = None, False
            self._line.hide(False)
            if decision:
                void = decision.startswith("void (")
                told = decision.removeprefix("void (").removesuffix(")") if void else decision
                self._show.note(f"the question is over: {told}")

    # --- what is typed ------------------------------------------------------------------------

    async def _take(self, line: str) -> None:
        was_idle = self._idle.is_set()
        self._typed = line.strip()
        try:
            if self._editing:
                await self._keep_plan(line)
            elif self._asked is not None and _answers(self._asked, line):
                await self._answer(self._asked, line)
            elif self._typed == "/new":
                await self._new()
            elif self._typed and await self._is_open():
                await self._say(line)
        except TransportError:
            raise TransportClosed from None
        except TenureError as exc:
            if was_idle:
                self._idle.set()
            self._show.refused(exc)
        finally:
            self._typed = ""

    async def _is_open(self) -> bool:
        """See to it that there is a session to talk to; one that is deleted stays so."""
        if self._ended == DELETED:
            self._show.note("this session is deleted; /new begins another one, Ctrl-D leaves")
            return False
        if self._ended:
            await self.open(self.session)
        return True

    async def _say(self, line: str) -> None:
        if line.startswith("/"):
            result = await self._client.call(
                "slash.exec", session_id=self.session, command=self._typed
            )
            self._show.plain(result["output"])
            return
        self._idle.clear()
        self._quiet.clear()
        try:
            receipt = await self._client.call("prompt.submit", session_id=self.session, text=line)
            (self._above if receipt["status"] == "streaming" else self._queued).add(
                receipt["turn_id"]
            )
        finally:
            self._quiet.set()
        if receipt["status"] == "queued":
            self._show.note(f"queued behind {receipt['position']}")

    async def _keep_plan(self, line: str) -> None:
        """Change the plan that is asked about, unless somebody else has; the question stays."""
        self._editing = False
        if self._asked is None or not line.strip():
            return
        plan = await self._client.call(
            "plan.edit", session_id=self.session, text=line, revision=self._asked["revision"]
        )
        self._asked |= {"command": plan["text"], "revision": plan["revision"]}
        self._show.plain(question_text(self._asked).rstrip("> \n"))

    def _plan_changed(self, plan: dict[str, Any]) -> None:
        """Tell of plan mode and of another plan; the one that is asked about is shown anew."""
        asked = self._asked
        if asked is not None and is_plan(asked) and plan["revision"] > asked["revision"]:
            if self._editing:
                return  # what is kept then is refused, since this one was not seen
            asked |= {"command": plan["text"], "revision": plan["revision"]}
            self._show.note("the plan was changed:")
            self._show.plain(question_text(asked).rstrip("> \n"))

    async def _answer(self, question: dict[str, Any], line: str) -> None:
        if is_plan(question) and line.strip().lower() in {"e", "edit"}:
            self._editing = True
            self._line.offer(question["command"])
            return
        call = answer_of(question, line)
        if call is None:
            choices = ", ".join(question["choices"])
            self._show.refused(f"Answer with one of {choices}; commands like /status work too.")
            return
        method, params = call
        self._settled(question["request_id"])
        try:
            await self._client.call(method, session_id=self.session, **params)
        except AlreadyDecided:
            self._show.note("that question was over already: answered in another window, or void")
        except Conflict as exc:  # about the plan: it is another one by now
            self._show.refused(exc)
            self._ask({**question, **await plan_now(self._client, self.session)})

    async def _new(self) -> None:
        """Another session; this one ends, unless somebody else has it open."""
        found = await self._client.call("session.active_list", current_session_id=self.session)
        clients = {row["id"]: row["clients"] for row in found["sessions"]}
        method = "session.detach" if clients.get(self.session, 0) > 1 else "session.close"
        if not self._ended:
            await self._client.call(method, session_id=self.session)
        await self.open("")

    async def _interrupt(self) -> None:
        try:
            await self._client.call("session.interrupt", session_id=self.session)
        except TenureError as exc:
            self._show.refused(exc)


def _answers(question: dict[str, Any], line: str) -> bool:
    """Whether a line is meant as the answer to an open question."""
    if is_hidden(question):
        return True
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    if question["kind"] == "approval":
        return bool(word) and not word.startswith("/")
    return bool(word) and word not in AT_A_QUESTION


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:69]}…"
