"""An endpoint of the OpenAI wire that answers with whatever bytes it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.models.openai import Endpoint, OpenAIModel, open_provider
from tenure.models.retry import RetryPolicy

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def provider(answer: Callable[[], list[bytes]]) -> AsyncIterator[OpenAIModel]:
    """A model whose every stream is what `answer` gives, piece by piece."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            writer.write(HEAD)
            for piece in answer():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    clock = SystemClock()
    scope = Scope.root("fuzz", clock)
    opened = await open_provider(
        Endpoint(provider="openai", base_url=base), scope=scope, clock=clock, environ={},
        retry=RetryPolicy(attempts=1),
    )  # fmt: skip
    try:
        yield OpenAIModel(opened, "stub")
    finally:
        await opened.aclose()
        await scope.close()
        server.close()
        await server.wait_closed()
