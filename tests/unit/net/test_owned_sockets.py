"""A socket has its owner before anything is said over it."""

from __future__ import annotations

import asyncio

from tenure.net.http import _OwnedBackend


async def test_a_connection_is_owned_before_its_handshake(root):
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        scope = root.child("request")
        kept = await _OwnedBackend(scope, None).connect_tcp("127.0.0.1", port)
        assert [lease.kind for lease in scope.census()] == ["socket"]
        await scope.close()  # whoever still holds the stream holds a closed one
        async with asyncio.timeout(30):
            await ended.wait()
        del kept
