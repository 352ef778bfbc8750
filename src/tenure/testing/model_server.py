"""A small real HTTP server that speaks the chat-completions wire as a test tells it to.

It listens on loopback with TCP_NODELAY, answers each request with the next `Answer` (or one chosen
by path), remembers the requests, holds at gates, breaks off, and knows when a client hung up.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tenure.testing.gates import Gate

Piece = bytes | Gate


class Answer:
    """What to say to one request.

    Args:
        pieces: bytes, each written by itself; a `Gate` holds the answer there.
        status: HTTP status.
        content_type: of the body.
        headers: further headers.
        abort: reset the connection after the last piece instead of ending the body.
        hang_up: close the connection without a word.
    """

    def __init__(
        self,
        *pieces: Piece,
        status: int = 200,
        content_type: str = "text/event-stream",
        headers: dict[str, str] | None = None,
        abort: bool = False,
        hang_up: bool = False,
    ) -> None:
        self.pieces = pieces
        self.status = status
        self.content_type = content_type
        self.headers = headers or {}
        self.abort = abort
        self.hang_up = hang_up


class Request:
    """One request that came.

    Attributes:
        method, path, headers: as sent; header names in lower case.
        body: the JSON body, or None.
        gone: set when the client closed the connection before the answer had ended.
        served: set when the answer was written to its end.
    """

    def __init__(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.raw = raw
        self.body: Any = json.loads(raw) if raw else None
        self.gone = asyncio.Event()
        self.served = asyncio.Event()


_ENVELOPE = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "stub",
}
"""What real servers put around each chunk."""


def event(data: object) -> bytes:
    """One server-sent event; a text is sent as it is, anything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def chunk(finish: str | None = None, **delta: object) -> bytes:
    """One chat-completions chunk with this delta."""
    return event({
        **_ENVELOPE, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]
    })  # fmt: skip


def usage(prompt: int = 3, output: int = 2, cached: int = 0) -> bytes:
    """The chunk that ends a stream with its usage."""
    counted = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return event({**_ENVELOPE, "choices": [], "usage": counted})


DONE = event("[DONE]")


def say(*deltas: str, reasoning: str = "") -> Answer:
    """An ordinary answer in these pieces."""
    thought = [chunk(reasoning_content=reasoning)] if reasoning else []
    words = [chunk(content=d) for d in deltas]
    return Answer(chunk(role="assistant"), *thought, *words, chunk("stop"), usage(), DONE)


def call(name: str, arguments: object, *, call_id: str = "call_1", text: str = "") -> Answer:
    """An answer that calls one tool, its arguments in two pieces."""
    whole = arguments if isinstance(arguments, str) else json.dumps(arguments)
    first = {"index": 0, "id": call_id, "type": "function", "function": {"name": name}}
    cut = len(whole) // 2
    parts = [
        chunk(tool_calls=[{"index": 0, "function": {"arguments": part}}])
        for part in (whole[:cut], whole[cut:])
        if part
    ]
    words = [chunk(content=text)] if text else []
    return Answer(
        *words, chunk(tool_calls=[first]), *parts, chunk("tool_calls"), usage(), DONE
    )  # fmt: skip


def refuse(status: int, message: str = "", **headers: str) -> Answer:
    """An error answer in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "error"}}).encode()
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return Answer(body, status=status, content_type="application/json", headers=named)


def models(*names: str) -> Answer:
    """The answer to ``GET /models``."""
    body = json.dumps({"object": "list", "data": [{"id": n} for n in names]}).encode()
    return Answer(body, content_type="application/json")


class ModelServer:
    """``async with ModelServer() as server``: listens while the block runs.

    Attributes:
        requests: everything that came, in order.
        by_path: answers for a path (without query), repeated as often as asked.
        accepted: connections so far.
        fallback: the answer once the queue is empty.
    """

    def __init__(self, answers: Iterable[Answer] = (), *, host: str = "127.0.0.1") -> None:
        self._queue = deque(answers)
        self._host = host
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self.requests: list[Request] = []
        self.by_path: dict[str, Answer] = {}
        self.fallback = refuse(500, "The test gave no answer for this request.")
        self.port = 0
        self.accepted = 0

    @property
    def base_url(self) -> str:
        """For an OpenAI-compatible client."""
        return f"http://{self._host}:{self.port}/v1"

    @property
    def connections(self) -> int:
        """Open connections now."""
        return len(self._open)

    def answer(self, *answers: Answer) -> None:
        """Queue further answers."""
        self._queue.extend(answers)

    def take(self, request: Request) -> Answer:
        """The answer to `request`."""
        self.requests.append(request)
        chosen = self.by_path.get(request.path.partition("?")[0])
        if chosen is not None:
            return chosen
        return self._queue.popleft() if self._queue else self.fallback

    def _accept(self) -> _Connection:
        self.accepted += 1
        return _Connection(self, self._open)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._open):
            await connection.end()
        await self._server.wait_closed()


class _Connection(asyncio.Protocol):
    """One client; requests one after another."""

    def __init__(self, server: ModelServer, registry: set[_Connection]) -> None:
        self._server = server
        self._registry = registry
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._current: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._registry.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.discard(self)
        if self._current is not None and not self._current.served.is_set():
            self._current.gone.set()
        if self._task is not None:
            self._task.cancel()
        self._lost.set()

    async def end(self) -> None:
        """Hang up and wait for the answering task."""
        assert self._transport is not None
        self._transport.abort()
        await self._lost.wait()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    def _next(self) -> None:
        if self._task is not None and not self._task.done():
            return
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {
            n.strip().lower(): v.strip() for n, _, v in (x.partition(":") for x in lines[1:])
        }
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        request = Request(method, path, headers, rest[:length])
        self._current = request
        answer = self._server.take(request)
        self._task = asyncio.get_running_loop().create_task(self._reply(request, answer))

    async def _reply(self, request: Request, answer: Answer) -> None:
        transport = self._transport
        assert transport is not None
        if answer.hang_up:
            transport.close()
            return
        headers = {"content-type": answer.content_type, "transfer-encoding": "chunked"}
        lines = [f"{n}: {v}" for n, v in {**headers, **answer.headers}.items()]
        head = "\r\n".join([f"HTTP/1.1 {answer.status} Answer", *lines, "", ""])
        transport.write(head.encode("latin-1"))
        await self._write(transport, answer.pieces)
        if answer.abort:
            transport.abort()
            return
        transport.write(b"0\r\n\r\n")
        request.served.set()
        asyncio.get_running_loop().call_soon(self._next)

    async def _write(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Gate):
                await piece.park()
            elif piece:
                transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await asyncio.sleep(0)
