"""A socket whose other end is gone without a word is found by pings, and its attachments end."""

from __future__ import annotations

import asyncio
import base64
import json
import os

from tenure import server
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.server import Admission, GatewayApp, Listener, bind
from tenure.testing.clock import ManualClock
from tenure.testing.gateway import open_test_gateway

TOKEN = "t" * 20


async def opened(port):
    """A raw WebSocket that answers no pings."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /api/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(method, **params):
    payload = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    assert len(payload) < 65_536
    return bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload


async def test_a_half_open_socket_is_found_and_the_session_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "PING_INTERVAL_S", 0.05)
    monkeypatch.setattr(server, "PING_TIMEOUT_S", 0.05)
    async with open_test_gateway(tmp_path, Script([{"text": "Still here."}])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        root = Scope.root("sockets", ManualClock())
        app = GatewayApp(Admission(TOKEN, (), ()), _resolved(gw.ports), root.child("connections"))
        listener = Listener(app, bind("127.0.0.1", 0))
        root.spawn(listener.serve(), name="serve")
        root.own("listener", listener, lambda held: held.aclose())
        try:
            async with asyncio.timeout(30):
                reader, writer = await opened(listener.address[1])
                writer.write(frame("session.attach", session_id=sid))
                session = gw.sessions.get(sid)
                while await reader.read(65_536):
                    pass  # everything it sends, pings too, until it gives us up
            while len(session.attachments) > 1:
                await asyncio.sleep(0)
            assert session.scope.admits
            writer.close()
            await client.call("prompt.submit", session_id=sid, text="there?")
            assert (await client.until("message.complete", sid)).payload["text"] == "Still here."
        finally:
            await root.close()


def _resolved(ports):
    async def resolve():
        return ports

    return resolve
