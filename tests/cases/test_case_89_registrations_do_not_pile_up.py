"""Case 89: registries have the same length after 100 and after 1,000 cycles."""

from __future__ import annotations

import asyncio
import gc

from tenure.models.script import Script
from tenure.protocol.methods import METHODS
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


def sizes(gw, client):
    gc.collect()
    connections = [o for o in gc.get_objects() if type(o).__name__ == "Connection"]
    return {
        "census": sorted(gw.census()),
        "live": len(gw.sessions),
        "opening": len(gw.sessions._opening),
        "waiting": client._peer.waiting,
        "sessions": sum(type(o).__name__ == "Session" for o in gc.get_objects()),
        "scopes": sum(type(o).__name__ == "Scope" for o in gc.get_objects()),
        "connection": [
            (len(c._outbox), c._outbox._bytes, len(c._pastes), len(c._told_lazy))
            for c in connections
        ],
    }


async def cycle(gw, client):
    sid = await client.ready_session()
    await client.call("prompt.submit", session_id=sid, text="hello")
    await client.until("message.complete", sid)
    await client.call("session.close", session_id=sid)
    await client.until("session.closed", sid)
    client.seen.clear()


async def test_a_thousand_sessions(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        for n in range(1_000):
            await cycle(gw, client)
            gw.store.writes.clear()
            gw.store._rows.__init__()
            gw.picker.script.requests.clear()
            if n == 99:
                await settle()
                first = sizes(gw, client)
        await settle()
        assert sizes(gw, client) == first


PARAMS = {
    "session_id": "20260101_000000_00000000",
    "key": "full",
    "choice": "once",
    "text": "t",
    "command": "/help",
    "name": "help",
}


async def ask(client, method):
    try:
        await client.call(method, **PARAMS)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it must be ours
        assert type(exc).__module__ == "tenure.errors", (method, exc)


async def test_a_thousand_requests_of_each_method(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        first = None
        for n in range(1_000):
            async with asyncio.TaskGroup() as round_:
                for method in METHODS:
                    if method != "session.create":
                        round_.create_task(ask(client, method))
            await settle()
            client.seen.clear()
            if n == 99:
                first = sizes(gw, client)
        assert sizes(gw, client) == first
