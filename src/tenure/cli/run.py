"""`tenure run PROMPT`: one turn, streamed; its exit code says how it ended."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenure.cli.ask import REQUESTS, ask_person
from tenure.cli.attach import Attached, Where, attach
from tenure.cli.calls import Calls, change_of, note_of, sub_agent
from tenure.cli.exits import DENIED, INTERRUPTED, code_of, code_of_turn
from tenure.cli.files import attach_all
from tenure.cli.opening import plan_now, wait_built, with_model
from tenure.cli.sessions import id_of
from tenure.cli.show import word_of
from tenure.cli.starter import ensure_model
from tenure.errors import AlreadyDecided, Conflict, TenureError
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams
from tenure.transports.base import TransportClosed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked for.

    Attributes:
        prompt: the text.
        yes: allow what would be asked.
        as_json: print events as JSON lines, the result object last.
        session: continue this session instead of a new one.
        plan: change nothing until a plan is approved.
        files: what goes with the prompt; absolute paths.
        interactive: whether stdin and stderr are a terminal, so that questions can be asked.
    """

    prompt: str
    yes: bool
    as_json: bool
    session: str = ""
    interactive: bool = False
    plan: bool = False
    files: tuple[Path, ...] = ()


async def run(options: RunOptions, where: Where) -> int:
    """Run one turn; the exit code."""
    try:
        return await _run(options, where)
    except TenureError as exc:
        if options.as_json:  # whoever reads the lines gets a result in any case
            failed = {"state": "failed", "cause": "start", "error": exc.message, "text": ""}
            _print_json({"result": {**failed, "session_id": "", "exit_code": code_of(exc)}})
        raise


async def _run(options: RunOptions, where: Where) -> int:
    if not options.session:  # a session that goes on has its model
        await ensure_model(where, yes=options.yes, quiet=options.as_json)
    async with attach(where) as attached:
        turn = _Turn(options, attached)
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, turn.interrupt)
        try:
            return await turn.run(where)
        finally:
            for signum in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(signum)


class _Turn:
    """The one turn, from its prompt to its result."""

    def __init__(self, options: RunOptions, attached: Attached) -> None:
        self._options = options
        self._attached = attached
        self._client = attached.client
        self._session = ""
        self._plan: dict[str, Any] = {}
        self._show: Callable[[EventParams], None] = _Plain().show
        if options.as_json:
            self._show = _show_json
        self._asking = Scope.root("question", self._client.clock)
        self._asked = ""
        self._interrupts = 0
        self._interrupting: asyncio.Event = asyncio.Event()

    def interrupt(self) -> None:
        """Ctrl-C: the first interrupts the turn, the second leaves at once."""
        self._interrupts += 1
        self._interrupting.set()
        if self._interrupts > 1:
            raise KeyboardInterrupt

    async def run(self, where: Where) -> int:
        """Create or resume the session, submit, show, and judge the end."""
        info = await self._open(where)
        if info["model_reason"]:  # else there is none, and the turn tells why
            self._note(
                f"model {info['model']} ({info['model_reason']}), directory {info['cwd']}, "
                f"session {self._session}"
            )
            if info["sandbox"]:
                self._note(f"commands run {info['sandbox']['about']}")
        if info["approval_source"]:
            self._note(f"approvals are let pass ({word_of(info['approval_source'])})")
        for path in info["instructions"]:
            self._note(f"reads {path}")
        if self._attached.embedded is not None:
            self._attached.embedded.own_sessions.add(self._session)
            await self._attached.embedded.listen()
        await attach_all(
            self._client, self._session, self._options.files, where.connect, self._note
        )
        receipt = await self._client.call(
            "prompt.submit", session_id=self._session, text=self._options.prompt
        )
        # One that is steered into a running turn ends with that.
        turn = "" if receipt["status"] == "steered" else receipt["turn_id"]
        if receipt["status"] == "queued":
            self._note("another turn of this session runs first")
        complete = await self._follow(turn)
        self._tell_plan()
        return self._judge(complete)

    def _tell_plan(self) -> None:
        """Where a plan is left that nobody has approved."""
        if self._plan.get("on") and self._plan.get("revision"):
            self._note(
                f"the plan is kept: tenure plan show|edit|approve {self._session}, then\n"
                f"  tenure run --session {self._session} 'go on'"
            )

    async def _open(self, where: Where) -> dict[str, Any]:
        common = {
            "auto_approve": self._options.yes,
            "interactive": self._options.interactive,
            "profile": where.profile,
        }
        if self._options.session:
            session = await id_of(self._client, where.profile, self._options.session)
            opened = await self._client.call("session.resume", session_id=session, **common)
        else:
            opened = await self._client.call(
                "session.create", cwd=str(where.cwd), model=where.model, source="run",
                sandbox=where.sandbox, plan=self._options.plan,
                close_on_disconnect=True, **common,
            )  # fmt: skip
        self._session = opened["session_id"]
        self._plan = opened["info"].get("plan", {})
        info = await wait_built(self._client, self._session, opened["info"])
        if self._options.session and self._options.plan:
            await self._client.call("plan.mode", session_id=self._session, on=True)
        if self._options.session:
            info = await with_model(self._client, self._session, info, where.model)
        return info

    async def _follow(self, turn: str) -> dict[str, Any]:
        """Show the events of `turn` (empty: of any) until it is over; others may run before it."""
        shown = not turn
        scope = Scope.root("turn", self._client.clock)
        scope.spawn(self._pass_interrupt(), name="interrupts")
        try:
            while True:
                event = await self._client.next_event()
                if event.session_id != self._session:
                    continue
                if event.type == "plan.changed":
                    self._plan = event.payload
                if event.type == "message.start":
                    shown = turn in {"", event.payload["turn_id"]}
                if shown or self._options.as_json:
                    self._show(event)
                if event.type in REQUESTS:
                    await self._ask({"kind": REQUESTS[event.type], **event.payload})
                if event.type == "question.settled" and event.payload["request_id"] == self._asked:
                    await self._ask(None)  # answered elsewhere, or nobody waits any more
                if event.type == "message.complete" and turn in {"", event.payload["turn_id"]}:
                    payload: dict[str, Any] = event.payload
                    return payload
        except TransportClosed:
            return {
                "state": "failed",
                "cause": "gateway",
                "error": "The gateway is gone; `tenure sessions show last` has what was stored.",
                "text": "",
            }
        finally:
            await self._ask(None)
            await scope.close("turn over")

    async def _ask(self, question: dict[str, Any] | None) -> None:
        """Put a question to the person, who may take their time; an earlier one is over."""
        await self._asking.close("the question is over")
        self._asking = Scope.root("question", self._client.clock)
        self._asked = question["request_id"] if question else ""
        if question:
            self._asking.spawn(self._answer(question), name="answer")

    async def _pass_interrupt(self) -> None:
        await self._interrupting.wait()
        await self._client.call("session.interrupt", session_id=self._session)

    async def _answer(self, question: dict[str, Any]) -> None:
        method, params = await ask_person(question)
        try:
            await self._client.call(method, session_id=self._session, **params)
        except AlreadyDecided:  # by another client, or the turn has ended
            return
        except Conflict as exc:  # about the plan: another client has changed it
            self._note(f"tenure run: {exc.message}")
            await self._answer({**question, **await plan_now(self._client, self._session)})

    def _judge(self, complete: dict[str, Any]) -> int:
        code = code_of_turn(complete)
        if self._options.as_json:
            _print_json({"result": {**complete, "session_id": self._session, "exit_code": code}})
        elif complete.get("error"):
            self._note(f"tenure run: {complete['error']}")
        elif complete["cause"] == "content_filter":
            self._note("tenure run: the model's provider refused to answer.")
        elif code == DENIED:
            self._note("tenure run: a call was denied; its ✗ above says why.")
        elif code == INTERRUPTED:
            self._note(f"tenure run: interrupted ({complete['cause']}).")
        return code

    def _note(self, text: str) -> None:
        if not self._options.as_json:
            sys.stderr.write(text + "\n")


class _Plain:
    """Text to stdout, everything else to stderr."""

    def __init__(self) -> None:
        self._mid_line = False
        self._calls = Calls()

    def show(self, event: EventParams) -> None:
        """Show one event."""
        payload = event.payload or {}
        match event.type:
            case "message.delta":
                sys.stdout.write(payload["text"])
                sys.stdout.flush()
                self._mid_line = not payload["text"].endswith("\n")
            case "tool.start":
                self._calls.began(payload)
                self._line(f"• {payload['name']} {payload['context']}".rstrip())
                for line in change_of(payload):
                    self._line(f"    {line}")
            case "tool.complete":
                mark = "✗" if payload["is_error"] else "✓"
                self._line(f"  {mark} {self._calls.result(payload)}")
            case "status.update" | "notification.show" | "session.notice":
                self._line(f"… {payload['text']}")
            case "memory.changed":
                self._line(note_of(payload, "tenure memory"))
            case "message.complete":
                self._finish_line()
            case _ if line := sub_agent(event.type, payload):
                self._line(line)
            case _:
                return

    def _line(self, text: str) -> None:
        self._finish_line()
        sys.stderr.write(text + "\n")

    def _finish_line(self) -> None:
        if self._mid_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._mid_line = False


def _show_json(event: EventParams) -> None:
    if event.type != "session.info":
        _print_json({"event": event.type, "seq": event.seq, **(event.payload or {})})


def _print_json(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()
