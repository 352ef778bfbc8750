"""`tenure chat`: a conversation in the terminal. Speaks only the wire.

The prompt line stays usable for the next input while a turn streams above it. Ctrl-C interrupts the
turn, Ctrl-D leaves. A gateway that goes away is replaced: the chat attaches to the next one (or
becomes one itself) and resumes its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from tenure.cli.ask import REQUESTS, answer_of, is_hidden, keys_of, question_text
from tenure.cli.attach import Attached, Where, attach
from tenure.cli.complete import WireCompleter
from tenure.cli.line import Line
from tenure.cli.opening import wait_built, with_model
from tenure.cli.sessions import id_of
from tenure.cli.show import Show
from tenure.cli.starter import ensure_model
from tenure.clock import SystemClock
from tenure.errors import TenureError, TransportError
from tenure.home import is_held
from tenure.lifecycle.scope import Scope
from tenure.transports.base import TransportClosed

ANOTHER_S = 5.0
"""How long a chat whose gateway has gone waits for the next one, in seconds."""
PAUSE_S = 0.1
LOCAL = {"/quit", "/exit"}


async def chat(where: Where, *, yes: bool, session: str) -> int:
    """Talk until Ctrl-D or /quit; the exit code.

    The prompt line comes first: a gateway of one's own opens while the person types.
    """
    if not session:  # a session that goes on has its model
        await ensure_model(where, yes=yes, quiet=False)
    where.home.prepare()
    console = Console(highlight=False)
    scope = Scope.root("chat", SystemClock())
    line = Line(where.own.root / "chat_history", scope)
    try:
        with patch_stdout(raw=True):
            scope.spawn(line.read(), name="prompt")
            while True:
                async with attach(where) as attached:
                    talk = _Talk(attached, where, console, line, yes=yes)
                    session = await talk.open(session)
                    try:
                        return await talk.run()
                    except TransportClosed:
                        console.print("[dim]the gateway is gone; attaching again …[/]")
                        session = talk.session
                if attached.embedded is None and not where.connect:
                    await _wait_for_another(where)
    finally:
        await scope.close("chat over")


async def _wait_for_another(where: Where) -> None:
    """Leave the home to a gateway that is started again, before becoming one oneself."""
    clock = SystemClock()
    for _ in range(round(ANOTHER_S / PAUSE_S)):
        if is_held(where.home):
            return
        await clock.sleep(PAUSE_S)


class _Talk:
    """One connection's worth of conversation."""

    def __init__(
        self, attached: Attached, where: Where, console: Console, line: Line, *, yes: bool
    ) -> None:
        self._attached = attached
        self._client = attached.client
        self._where = where
        self._console = console
        self._line = line
        self._yes = yes
        self._show = Show(console)
        self._asked: dict[str, Any] | None = None
        self._idle = asyncio.Event()
        self.session = ""

    # --- the session --------------------------------------------------------------------------

    async def open(self, session: str) -> str:
        """Create or resume, and say so; the id."""
        profile = self._where.profile
        common = {"auto_approve": self._yes, "interactive": True, "profile": profile}
        if session:
            session = await id_of(self._client, profile, session)
            opened = await self._client.call("session.resume", session_id=session, **common)
            for message in opened["messages"]:
                self._show.past(message)
        else:
            opened = await self._client.call(
                "session.create", cwd=str(self._where.cwd), model=self._where.model, source="chat",
                **common,
            )  # fmt: skip
        self.session = opened["session_id"]
        info = await wait_built(self._client, self.session, opened["info"])
        if session:
            info = await with_model(self._client, self.session, info, self._where.model)
        self._show.opened(info, self._attached.where)
        if opened.get("running"):
            self._idle.clear()
        else:
            self._idle.set()
        if self._attached.embedded is not None:
            self._attached.embedded.own_sessions.add(self.session)
        if opened.get("pending_questions"):
            self._ask(opened["pending_questions"][0])
        return self.session

    # --- input and output ---------------------------------------------------------------------

    async def run(self) -> int:
        """Take lines until the end of input.

        Raises:
            TransportClosed: the gateway is gone.
        """
        scope = Scope.root("talk", self._client.clock)
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
                    return 0
                await self._take(line)
                self._line.taken()
        finally:
            self._line.unattended()
            await scope.close("talk over")

    def _toolbar(self) -> str:
        if self._asked is not None:
            return f" {keys_of(self._asked)} "
        state = "idle" if self._idle.is_set() else "working (Ctrl-C interrupts)"
        return f" {state} · /help · Ctrl-D leaves "

    def _stop(self) -> Coroutine[Any, Any, None] | None:
        """What Ctrl-C does: interrupt what runs, if anything does."""
        return None if self._idle.is_set() else self._interrupt()

    async def _watch(self) -> None:
        """Show what comes."""
        try:
            while True:
                event = await self._client.next_event()
                if event.session_id != self.session:
                    continue
                self._show.event(event)
                if event.type == "message.start":
                    self._idle.clear()
                elif event.type == "message.complete":
                    self._idle.set()
                elif event.type in REQUESTS:
                    self._ask({"kind": REQUESTS[event.type], **event.payload})
                elif event.type == "question.settled":
                    self._settled(event.payload["request_id"])
        except TransportClosed:
            return

    def _ask(self, question: dict[str, Any]) -> None:
        if self._asked and self._asked["request_id"] == question["request_id"]:
            return  # shown again to whoever has come late
        self._asked = question
        self._line.hide(is_hidden(question))
        self._console.print(question_text(question).rstrip("> \n"), markup=False)

    async def _take(self, line: str) -> None:
        try:
            if self._asked is not None and (line.strip() or is_hidden(self._asked)):
                await self._answer(self._asked, line)
            elif line.startswith("/"):
                await self._command(line.strip())
            elif line.strip():
                self._idle.clear()
                receipt = await self._client.call(
                    "prompt.submit", session_id=self.session, text=line
                )
                if receipt["status"] == "queued":
                    self._console.print(f"[dim]queued behind {receipt['position']}[/]")
        except TransportError:
            raise TransportClosed from None
        except TenureError as exc:
            self._idle.set()
            self._console.print(f"[red]{exc}[/]")

    def _settled(self, request_id: str) -> None:
        """A question is over, whoever answered it."""
        if self._asked and self._asked["request_id"] == request_id:
            self._asked = None
            self._line.hide(False)

    async def _answer(self, question: dict[str, Any], line: str) -> None:
        call = answer_of(question, line)
        if call is None:
            self._console.print(f"[red]Answer with one of {', '.join(question['choices'])}.[/]")
            return
        method, params = call
        self._settled(question["request_id"])
        await self._client.call(method, session_id=self.session, **params)

    async def _command(self, line: str) -> None:
        if line == "/new":
            await self._client.call("session.close", session_id=self.session)
            await self.open("")
            return
        result = await self._client.call("slash.exec", session_id=self.session, command=line)
        self._console.print(result["output"], markup=False)

    async def _interrupt(self) -> None:
        try:
            await self._client.call("session.interrupt", session_id=self.session)
        except TenureError as exc:
            self._console.print(f"[red]{exc}[/]")
