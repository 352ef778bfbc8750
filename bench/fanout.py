"""Fan-out of small deltas over real sockets: ours against the same server with nothing behind it.

The sender is one process; the receivers are another, which only reads bytes until the last frame.

    bare         uvicorn with the same settings sends frames that were encoded before, one by one
    uncoalesced  a session publishes deltas, numbered and encoded by us, each as a frame
    coalesced    the same as the product does it: text that streams fast is merged
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from tenure.clock import SystemClock
from tenure.config import Config
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.protocol.messages import EventParams, encode_event
from tenure.rpc import outbox
from tenure.server import Admission, GatewayApp, Listener, bind
from tenure.testing.gateway import open_test_gateway

PIECE = "word "
LAST = b"bench.last"
TOKEN = "bench"
MODES = ("bare", "uncoalesced", "coalesced")
BEHIND_MAX = 64
"""Frames that may wait for one client before the publisher yields."""


class _Bare:
    """The server alone: each socket gets the encoded frames."""

    def __init__(self, clients: int, events: int) -> None:
        self._ready = asyncio.Barrier(clients)
        self._events = events
        self.elapsed_s = 0.0

    async def __call__(self, scope, receive, send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        frame = encode_event(EventParams("message.delta", "s" * 24, {"text": PIECE})).decode()
        await self._ready.wait()
        begun = time.perf_counter()
        for n in range(self._events):
            await send({"type": "websocket.send", "text": frame})
            if n % BEHIND_MAX == 0:
                await asyncio.sleep(0)
        await send({"type": "websocket.send", "text": LAST.decode()})
        self.elapsed_s = max(self.elapsed_s, time.perf_counter() - begun)
        await receive()


async def _serve_bare(clients: int, events: int) -> None:
    app, sock = _Bare(clients, events), bind("127.0.0.1", 0)
    listener = Listener(app, sock)
    serving = asyncio.ensure_future(listener.serve())
    print(listener.address[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await listener.aclose()
    await serving


async def _serve_ours(clients: int, events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_test_gateway(
            Path(folder), Script([]), clock=SystemClock(), config=Config()
        ) as gw:
            client, _ = await gw.client()
            session = gw.sessions.get(await client.ready_session())
            await client.call("session.detach", session_id=session.id)
            root = Scope.root("bench", SystemClock())

            async def ports():
                return gw.ports

            app = GatewayApp(Admission(TOKEN, (), ()), ports, root.child("connections"))
            listener = Listener(app, bind("127.0.0.1", 0))
            root.spawn(listener.serve(), name="serve")
            print(listener.address[1], session.id, flush=True)
            while len(session.attachments) < clients:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            await _publish(session, events)
            await asyncio.to_thread(sys.stdin.readline)
            await root.child("stop").close()
            await listener.aclose()
            await root.close()


async def _publish(session, events: int) -> None:
    boxes = [lease.value.listener._outbox for lease in session.attachments._bound]
    for n in range(events):
        session.journal.transient("message.delta", {"text": PIECE})
        if n % BEHIND_MAX == 0:
            await asyncio.sleep(0)
            while any(len(box) > BEHIND_MAX for box in boxes):
                await asyncio.sleep(0)
    session.journal.transient(LAST.decode(), {})


async def _receive(port: int, session: str, clients: int) -> float:
    """Seconds from the first byte of any delta to the last frame at the last client."""
    begun: list[float] = []
    ended: list[float] = []
    go = asyncio.Barrier(clients)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(upgrade(port, TOKEN))
        await reader.readuntil(b"\r\n\r\n")
        await go.wait()
        if session:
            attach = {"session_id": session, "role": "viewer", "omit_messages": True}
            call = {"jsonrpc": "2.0", "id": 1, "method": "session.attach", "params": attach}
            writer.write(masked(msgspec.json.encode(call)))
        tail = b""
        while LAST not in tail:
            chunk = await reader.read(1 << 18)
            if not begun and b"message.delta" in chunk:
                begun.append(time.perf_counter())
            tail = tail[-32:] + chunk
        ended.append(time.perf_counter())
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return max(ended) - begun[0]


def upgrade(port: int, token: str) -> bytes:
    """The request that opens a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /api/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    ).encode()


def masked(payload: bytes) -> bytes:
    """A client's text frame; the mask is zero."""
    head = bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big")
    return head + bytes(4) + payload


def once(mode: str, clients: int, events: int) -> float:
    """Events a second, over all clients."""
    command = [sys.executable, "-m", "bench.fanout"]
    with subprocess.Popen(
        [*command, mode, str(clients), str(events)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        port, _, session = server.stdout.readline().strip().partition(" ")
        seconds = float(
            subprocess.run(
                [*command, "receive", port, str(clients), session or "-"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        server.communicate("\n")
    return clients * events / seconds


def measure(rounds: int) -> dict[str, float]:
    """The best of some rounds for 1, 8 and 100 clients, and what that is of the bare server."""
    found = {}
    for clients, events in ((1, 100_000), (8, 20_000), (100, 2_000)):
        rates = dict.fromkeys(MODES, 0.0)
        for _ in range(rounds):  # side by side, so that they share the machine's moods
            for mode in MODES:
                rates[mode] = max(rates[mode], once(mode, clients, events))
        label = f"fan-out to {clients} client{'s' if clients > 1 else ''}"
        for mode, rate in rates.items():
            found[f"{label}, {mode}, events/s"] = rate
        for mode in ("uncoalesced", "coalesced"):
            found[f"{label}, {mode}, part of bare"] = rates[mode] / rates["bare"]
    return found


def main() -> None:
    mode, first, second, *rest = sys.argv[1:]
    uvloop.install()
    if mode == "receive":
        session = rest[0] if rest[0] != "-" else ""
        print(asyncio.run(_receive(int(first), session, int(second))))
    elif mode == "bare":
        asyncio.run(_serve_bare(int(first), int(second)))
    else:
        if mode == "uncoalesced":
            outbox._MERGED = frozenset()
        asyncio.run(_serve_ours(int(first), int(second)))


if __name__ == "__main__":
    main()
