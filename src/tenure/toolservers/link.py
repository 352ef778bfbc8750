"""One connection to a tool server, from its handshake to its end. Brings the SDK: imported late.

The SDK's session is entered and left by one task of ours, its keeper, since its cancel scopes must
not be left by another. Calls come from any task. What the server asks for (where it works, what a
person thinks) is answered in the name of the newest call that runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from tenure import __version__
from tenure.errors import ProcessError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.sandbox.base import Order, Running, Sandbox
from tenure.toolservers.asking import answer
from tenure.toolservers.calls import Caller, Lost, Outcome
from tenure.toolservers.catalog import TOOLS_MAX, Offer, Offers
from tenure.toolservers.declared import Declared
from tenure.toolservers.described import bounded
from tenure.toolservers.outcome import outcome_of, shown_block, shown_resource
from tenure.toolservers.wire import (
    DISPATCH,
    Dispatch,
    Inbox,
    Outbox,
    ServerLog,
    drain_errors,
)

HANDSHAKE_S = 30.0
LIST_S = 30.0
EXIT_S = 0.3
"""How long the exit of a server is waited for that has closed its output."""
PAGES_MAX = 64
CLOSED = ("Connection closed", "SSE stream ", "server answered a request with 202")
"""How the library begins to say that there will be no answer."""
GRACE_S = 2.0
CALL_S_MAX = 3600.0
"""The longest call, however often it tells of itself."""
R = TypeVar("R")
Streams = tuple[Any, Any]
log = logging.getLogger("tenure.toolservers")


class _Patience(deadline):
    """A deadline that begins again as long as there is news."""

    __slots__ = ("_ends_at", "_news")

    def __init__(self, scope: Scope, seconds: float, news: Callable[[], bool]) -> None:
        super().__init__(scope.clock, seconds)
        self._ends_at = scope.clock.monotonic() + CALL_S_MAX
        self._news = news

    def _expire(self) -> None:
        if self._seconds and self._news() and self._clock.monotonic() < self._ends_at:
            self._timer = self._clock.call_later(self._seconds, self._expire)
        else:
            super()._expire()


class _Session(ClientSession):
    """The SDK's, without its judging of results by a schema that the server has written.

    A pattern in such a schema could hold the loop for ever; the model reads the result either way.
    """

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Whatever it is, it is text for the model."""
        del name, result


class Link:
    """A server that has answered the handshake. Made by `open_stdio` or `open_remote`.

    Attributes:
        gone: why it has ended; empty as long as it has not.
        pid: of the child; None for a remote one.
        on_changed: called when the server says that its tools are others now.
    """

    def __init__(self, scope: Scope, *, roots: tuple[Path, ...], elicits: bool) -> None:
        self.gone = ""
        self.pid: int | None = None
        self.on_changed: Callable[[], None] | None = None
        self._scope = scope
        self._roots = roots
        self._elicits = elicits
        self._callers: list[Caller] = []
        self._over = asyncio.Event()
        self._session: ClientSession | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, why: str) -> None:
        """It has ended; the first reason stands. Synchronous."""
        if not self.gone:
            self.gone = why
        self._over.set()

    async def wait_gone(self) -> str:
        """Wait until it has ended; why."""
        await self._over.wait()
        return self.gone

    # --- the keeper -----------------------------------------------------------------------------

    async def keep(self, streams: AbstractAsyncContextManager[Streams]) -> None:
        """Hold the session from its handshake to its end: a task of the link's scope."""
        try:
            async with streams as (read, write), self._session_over(read, write) as session:
                await session.initialize()
                self._session = session
                if not self._ready.done():
                    self._ready.set_result(None)
                await self._over.wait()
        except asyncio.CancelledError:
            self.end("it was stopped")
            raise
        except Exception as exc:  # noqa: BLE001 - whatever the library says, it is the end of it
            self.end(why_of(exc))
        finally:
            self._session = None
            self.end("it has ended")
            if not self._ready.done():
                self._ready.set_result(None)

    def _session_over(self, read: Any, write: Any) -> ClientSession:
        return _Session(
            read,
            write,
            elicitation_callback=self._elicit if self._elicits else None,
            list_roots_callback=self._list_roots if self._roots else None,
            logging_callback=self._hear,
            message_handler=self._notice,
            client_info=types.Implementation(name="tenure", version=__version__),
        )

    async def shake_hands(self) -> None:
        """Wait for the handshake.

        Raises:
            ToolError: there was none.
        """
        try:
            async with deadline(self._scope.clock, HANDSHAKE_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self.end(f"it did not answer the handshake within {HANDSHAKE_S:.0f} s")
        if self.gone:
            raise ToolError(self.gone)

    # --- what is asked of it ---------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        caller: Caller,
        dispatch: Dispatch,
        timeout_s: float,
    ) -> Outcome:
        """Call a tool. Cancellation tells the server, and stops the waiting.

        Raises:
            Lost: it ended under the call.
            TimeoutError: no answer and no news within `timeout_s` seconds.
            ToolError: it refused.
        """

        async def told(progress: float, total: float | None, message: str | None) -> None:
            caller.moved = True
            part = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            caller.tell(f"[{part}] {message or ''}".rstrip()[:500] + "\n")

        def news() -> bool:
            moved, caller.moved = caller.moved or caller.asking > 0, False
            return moved

        self._callers.append(caller)
        try:
            async with _Patience(self._scope, timeout_s, news):
                result = await self._ask(
                    lambda s: s.call_tool(name, arguments, progress_callback=told), dispatch
                )
        finally:
            self._callers.remove(caller)
        return outcome_of(result)

    async def offers(self) -> Offers:
        """All that it offers, page by page.

        Raises:
            Lost, TimeoutError, ToolError.
        """
        session = self._session
        can = session.server_capabilities if session else None
        found: list[types.Tool] = []
        async with deadline(self._scope.clock, LIST_S):
            if can is not None and can.tools is not None:
                async for page in self._pages(lambda s, p: s.list_tools(params=p)):
                    found += page.tools
        tools = await run_in_thread(self._scope, _offers, found[:TOOLS_MAX])
        seen: dict[str, Offer] = {tool.name: tool for tool in tools}
        return Offers(
            tuple(seen.values()),
            resources=can is not None and can.resources is not None,
            prompts=can is not None and can.prompts is not None,
        )

    async def resources(self) -> list[str]:
        """A line for each resource and template. Raises as `offers`."""
        found: list[str] = []
        async with deadline(self._scope.clock, LIST_S):
            async for page in self._pages(lambda s, p: s.list_resources(params=p)):
                found += [_line(r.uri, r.name, r.description) for r in page.resources]
            with contextlib.suppress(ToolError):
                async for page in self._pages(lambda s, p: s.list_resource_templates(params=p)):
                    rows = page.resource_templates
                    found += [_line(r.uri_template, r.name, r.description) for r in rows]
        return found

    async def resource(self, uri: str) -> str:
        """A resource as text. Raises as `offers`."""
        async with deadline(self._scope.clock, LIST_S):
            return shown_resource(await self._ask(lambda s: s.read_resource(uri)))

    async def prompts(self) -> list[str]:
        """A line for each prompt. Raises as `offers`."""
        found: list[str] = []
        async with deadline(self._scope.clock, LIST_S):
            async for page in self._pages(lambda s, p: s.list_prompts(params=p)):
                for prompt in page.prompts:
                    names = ", ".join(
                        a.name + ("" if a.required else "?") for a in prompt.arguments or ()
                    )
                    found.append(_line(f"{prompt.name}({names})", "", prompt.description))
        return found

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """A prompt as text. Raises as `offers`."""
        async with deadline(self._scope.clock, LIST_S):
            result = await self._ask(lambda s: s.get_prompt(name, arguments))
        parts = [f"{m.role}: {shown_block(m.content)}" for m in result.messages]
        return "\n\n".join(parts)

    async def _pages(self, fetch: Callable[[ClientSession, Any], Awaitable[Any]]) -> Any:
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._ask(lambda s, p=params: fetch(s, p))  # type: ignore[misc]
            yield page
            cursor = page.next_cursor
            if not cursor:
                return

    async def _ask(
        self, request: Callable[[ClientSession], Awaitable[R]], dispatch: Dispatch | None = None
    ) -> R:
        session = self._session
        if session is None or self.gone:
            raise Lost(self.gone)
        if dispatch is not None and self.pid is None:
            dispatch.begun = True  # of a remote one nobody can tell
        token = DISPATCH.set(dispatch)
        try:
            return await request(session)
        except MCPError as exc:
            if self._ends(exc):
                self.end(exc.error.message[:200])
                raise Lost(self.gone) from None
            raise ToolError(f"The server refused: {exc.error.message[:500]}") from None
        except (ValidationError, RuntimeError) as exc:
            raise ToolError(
                f"The server's answer is not what it should be: {_brief(exc)}"
            ) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise Lost(self.gone) from None
        finally:
            DISPATCH.reset(token)

    def _ends(self, exc: MCPError) -> bool:
        """Whether an error means that there is no connection any more."""
        told = exc.error.message
        if self.gone or (self.pid is None and told == "Session terminated"):
            return True
        # The code alone says nothing: it is one that servers use for errors of their own.
        return exc.error.code == types.CONNECTION_CLOSED and told.startswith(CLOSED)

    # --- what it asks and tells ------------------------------------------------------------------

    async def _elicit(
        self, context: ClientRequestContext, params: Any
    ) -> types.ElicitResult | types.ErrorData:
        del context
        caller = self._callers[-1] if self._callers else None
        if caller is None or caller.ask is None:
            return types.ElicitResult(action="decline")
        caller.asking += 1
        try:
            return await answer(params, caller.ask)
        finally:
            caller.asking -= 1
            caller.moved = True

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        del context
        roots = [types.Root(uri=path.as_uri(), name=path.name) for path in self._roots]  # type: ignore[arg-type]
        return types.ListRootsResult(roots=roots)

    async def _hear(self, params: Any) -> None:
        if self._callers and params.level != "debug":
            self._callers[-1].tell(f"{str(params.data)[:500]}\n")

    async def _notice(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) and self.on_changed:
            self.on_changed()


def _offers(tools: list[types.Tool]) -> list[Offer]:
    return [_offer(tool) for tool in tools]


def _offer(tool: types.Tool) -> Offer:
    hints = tool.annotations
    reads = bool(hints and hints.read_only_hint)
    return bounded(tool.name, tool.description or "", tool.input_schema, reads_only=reads)


def _line(head: str, name: str, about: str | None) -> str:
    first = (about or "").strip().splitlines()
    tail = " - ".join(part for part in (name if name != head else "", *first[:1]) if part)
    return f"{head}: {tail}"[:300] if tail else head[:300]


def why_of(exc: BaseException) -> str:
    """Why a library's exception ended a connection, as a clause."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, MCPError):
        return f"it refused: {exc.error.message[:300]}"
    if isinstance(exc, httpx2.ConnectError):  # also where the address may not be reached at all
        return f"it cannot be reached: {str(exc)[:300].rstrip('.')}"
    return f"its answer cannot be used ({_brief(exc)})"


def _brief(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0][:200]}" if lines else type(exc).__name__


# --- a child -------------------------------------------------------------------------------------


class _Pipes:
    """The streams of a child: the tasks that move its lines belong to the link's scope."""

    def __init__(self, link: Link, scope: Scope, running: Running, server_log: ServerLog) -> None:
        self._link = link
        self._running = running
        self._outbox = Outbox(running, anyio.ClosedResourceError)
        send, self._read = anyio.create_memory_object_stream[Any](0)
        self._send = send
        scope.own("streams", None, lambda _: self._close())
        scope.spawn(self._pump(), name="to the tool server")
        scope.spawn(self._drain(), name="from the tool server")
        if running.stderr is not None:
            scope.spawn(
                drain_errors(running.stderr, server_log, scope), name="errors of the tool server"
            )

    async def __aenter__(self) -> Streams:
        return self._read, self._outbox

    async def __aexit__(self, *_exc: object) -> None:
        return

    def _close(self) -> None:
        self._outbox.close()
        self._send.close()
        self._read.close()

    async def _pump(self) -> None:
        await self._outbox.pump()
        self._link.end("it closed its input")

    async def _drain(self) -> None:
        assert self._running.stdout is not None
        inbox = Inbox(_message, self._send.send)
        why = ""
        try:
            why = await inbox.drain(self._running.stdout)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            why = "the connection was closed"
        self._outbox.close()
        why = why or await self._status(inbox)
        self._link.end(why)
        self._send.close()  # requests that wait, the handshake too, are told at once

    async def _status(self, inbox: Inbox) -> str:
        """How it ended, in words."""
        said = f" after saying {inbox.first_garbage!r}" if inbox.first_garbage else ""
        try:
            async with asyncio.timeout(EXIT_S):  # noticed a moment later
                status = await self._running.wait()
        except TimeoutError:
            return f"it closed its output{said}"
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return self._running.verdict or f"it exited with {how}{said}"


def _message(line: bytes) -> SessionMessage:
    """A line as a message. Raises ValueError."""
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))


async def open_stdio(
    scope: Scope, sandbox: Sandbox, server: Declared, name: str, link: Link, server_log: ServerLog
) -> None:
    """Start a server in `sandbox` and shake hands with it. `scope` owns all of it.

    Raises:
        ToolError: it does not start, or is no tool server.
    """
    argv = (server.command, *server.args)
    if server.cwd:
        argv = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", server.cwd, *argv)
    order = Order(
        argv, server.env, stdin="pipe", stderr="pipe", network=server.network,
        label=name, kind="tool server",
    )  # fmt: skip
    try:
        running = await sandbox.start(scope, order)
    except ProcessError as exc:
        raise ToolError(exc.message.rstrip(".")) from None
    link.pid = running.pid
    await begin(scope, link, link.keep(_Pipes(link, scope, running, server_log)))


async def begin(scope: Scope, link: Link, keeper: Coroutine[Any, Any, None]) -> None:
    """Run a link's keeper and wait for the handshake. Raises ToolError."""
    scope.spawn(keeper, name="keeper of the tool server", grace_s=GRACE_S)
    await link.shake_hands()
