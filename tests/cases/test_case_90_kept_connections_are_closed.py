"""Case 90: what a server has ended, or what nobody uses, is closed, also if no request comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure.conversation import Message
from tenure.errors import ConfigError, ModelError
from tenure.models.base import ModelRequest
from tenure.models.http_client import KEPT_CONNECTIONS_MAX, KEPT_S
from tenure.models.openai import Endpoint, open_provider
from tenure.models.retry import NEVER
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer, say
from tenure.testing.plugin import open_fds
from tenure.testing.waiting import until

POOLED = 50
RETRIES = 500
ASK = ModelRequest("Be brief.", (Message("user", "hi"),), ())
CLOSE_WAIT = "08"
FAILURES = {
    "exception": Answer(hang_up=True),
    "refusal": Answer(b"no", status=400, content_type="text/plain"),
    "partial": Answer(b'data: {"choices": [', abort=True),
    "no stream": Answer(b"<html>", content_type="text/html"),
}


def half_closed(port: int) -> int:
    """How many sockets to that port the other side has ended and we have not."""
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, there, state, *_ = line.split()
        found += state == CLOSE_WAIT and int(there.rpartition(":")[2], 16) == port
    return found


async def provided(root, server, scope=None):
    endpoint = Endpoint("test", server.base_url)
    return await open_provider(
        endpoint, scope=scope or root, clock=root.clock, environ={}, retry=NEVER
    )


async def ask(provider) -> None:
    async with provider.model("m").stream(ASK) as events:
        async for _ in events:
            pass


async def crowd(provider, server, count: int) -> None:
    """So many answers at one time, each on a connection of its own."""
    gate = Gate()
    server.fallback = Answer(gate, *say("hello").pieces)
    asked = [asyncio.ensure_future(ask(provider)) for _ in range(count)]
    async with asyncio.timeout(30):
        while server.connections < count:
            await asyncio.sleep(0.002)
        gate.release()
        await asyncio.gather(*asked)


async def test_what_the_server_has_ended_is_closed_within_the_bound(root):
    async with ModelServer() as server:
        provider, port = await provided(root, server), server.port
        before = len(open_fds())
        await crowd(provider, server, POOLED)
    await until(lambda: half_closed(port) == KEPT_CONNECTIONS_MAX)
    root.clock.advance(KEPT_S)
    await until(lambda: half_closed(port) == 0)
    await until(lambda: len(open_fds()) <= before, "both ends are closed")
    await provider.aclose()


async def test_what_nobody_uses_is_closed_and_then_nothing_looks_any_more(root, monkeypatch):
    async with ModelServer() as server:
        provider = await provided(root, server)
        await crowd(provider, server, 3)
        pool = provider.client._transport._pool
        assert len(pool.connections) == 3
        for _ in range(3):
            root.clock.advance(KEPT_S)
            await settle()
        assert server.connections == 3, "it is kept by the machine's clock"
        for connection in pool.connections:
            connection._connection._expire_at = 0.0
        root.clock.advance(KEPT_S)
        await until(lambda: server.connections == 0)
        await until(lambda: root.clock.pending == 0, "nothing looks any more")
        server.fallback = say("hello")
        await ask(provider)  # and it works as before
        await provider.aclose()


async def test_a_connection_in_use_is_left_alone(root):
    async with ModelServer() as server:
        provider, gate = await provided(root, server), Gate()
        server.fallback = Answer(gate, *say("hello").pieces)
        asked = asyncio.ensure_future(ask(provider))
        await until(lambda: server.connections == 1)
        for _ in range(3):
            root.clock.advance(KEPT_S)
            await settle()
        gate.release()
        await asked
        await provider.aclose()


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_connection_that_fails_is_gone(root, failure):
    async with ModelServer() as server:
        provider = await provided(root, server)
        server.fallback = FAILURES[failure]
        with pytest.raises(ModelError):
            await ask(provider)
        before = len(open_fds())
        for _ in range(RETRIES):
            with pytest.raises(ModelError):
                await ask(provider)
        await until(lambda: server.connections <= 1)
        await until(lambda: len(open_fds()) <= before + 1, "both ends are closed")
        await provider.aclose()
        await until(lambda: server.connections == 0)


async def test_a_provider_that_cannot_be_made_holds_nothing(root):
    before, leases = len(open_fds()), len(root.census())
    for url in ("ftp://nowhere", "no url", "http://"):
        for _ in range(RETRIES // 3):
            with pytest.raises(ConfigError):
                await open_provider(Endpoint("test", url), scope=root, clock=root.clock, environ={})
    assert (len(open_fds()), len(root.census())) == (before, leases)
