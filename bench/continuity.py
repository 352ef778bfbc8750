"""``python -m bench continuity``: what losing a client, a process or a night costs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import uvloop

from bench import driver, fanout
from bench.gateways import Running, Tenure

Figures = dict[str, float]
MISSED = 1_000
IN_FLIGHT = 64
PROFILES = 4


async def _reattach(running: Running, rounds: int) -> Figures:
    """A session with a thousand events more than the client has seen."""
    wire = await driver.Wire.open(running.url, running.token)
    session, _, _ = await driver.create(wire)
    for _ in range(MISSED // 2 + 1):
        await wire.call("prompt.submit", session_id=session, text="hi")
        await wire.until("message.complete")
    seq = (await wire.call("session.events.since", session_id=session))["latest_seq"]
    cursor = {"epoch": 1, "seq": seq - MISSED}
    params = {"session_id": session, "cursor": cursor}
    times = [await asyncio.to_thread(_attach_raw, running, params, seq) for _ in range(rounds)]
    first, whole, size = (min(one) for one in zip(*times, strict=True))
    await wire.close()
    return {
        f"reattach with {MISSED} missed events: first byte, ms": first * 1000,
        f"reattach with {MISSED} missed events: all of them, ms": whole * 1000,
        f"reattach with {MISSED} missed events: MB": size / 1e6,
    }


def _attach_raw(running: Running, params: dict[str, Any], seq: int) -> tuple[float, float, int]:
    """Seconds to the first byte and to the last missed event, and their bytes, on a bare socket.

    A client's library would parse everything that has come before it shows the first frame.
    """
    port = int(running.url.rsplit(":", 1)[1].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(fanout.upgrade(port, running.token))
        seen = b""
        while b"gateway.ready" not in seen:
            seen += sock.recv(65_536)
        call = {"jsonrpc": "2.0", "id": 1, "method": "session.attach", "params": params}
        frame = fanout.masked(json.dumps(call).encode())
        last = f'"seq":{seq}}}'.encode()
        begun = time.perf_counter()
        sock.sendall(frame)
        first, size, tail = 0.0, 0, b""
        while last not in tail:
            chunk = sock.recv(1 << 18)
            first = first or time.perf_counter() - begun
            size += len(chunk)
            tail = tail[-64:] + chunk
        return first, time.perf_counter() - begun, size


def _frames(sock: socket.socket) -> Iterator[bytes]:
    """The server's frames, as they come."""
    data = b""
    while True:
        data += sock.recv(1 << 18)
        while len(data) >= 2:
            size, start = data[1], 2
            if size == 126:
                size, start = int.from_bytes(data[2:4]), 4
            elif size == 127:
                size, start = int.from_bytes(data[2:10]), 10
            if len(data) < start + size:
                break
            yield data[start : start + size]
            data = data[start + size :]


def _create_many(running: Running, count: int) -> tuple[socket.socket, list[str], Figures]:
    """Sessions, created over one bare socket, which must stay open: they are attached to it."""
    before = driver.footprint(running.pid)
    port = int(running.url.rsplit(":", 1)[1].partition("/")[0])
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(fanout.upgrade(port, running.token))
    seen = b""
    while b"gateway.ready" not in seen:
        seen += sock.recv(65_536)
    call = {"jsonrpc": "2.0", "id": 1, "method": "session.create", "params": {}}
    frame = fanout.masked(json.dumps(call).encode())
    sessions: list[str] = []
    times: list[float] = []
    begun = time.perf_counter()
    sock.sendall(frame * IN_FLIGHT)
    sent = IN_FLIGHT
    for answer in _frames(sock):
        if b'"result"' not in answer[:40]:
            continue  # an event
        sessions.append(json.loads(answer)["result"]["session_id"])
        times.append(time.perf_counter())
        if sent < count:
            sock.sendall(frame)
            sent += 1
        if len(sessions) == count:
            break
    whole = times[-1] - begun
    part = min(1_000, count // 4)
    time.sleep(3)
    after = driver.footprint(running.pid)
    return (
        sock,
        sessions,
        {
            f"{count} sessions created with {IN_FLIGHT} in flight, per second": count / whole,
            f"the first {part}, per second": part / (times[part - 1] - begun),
            f"the last {part}, per second": part / (times[-1] - times[-part - 1]),
            f"the gateway with {count} loaded idle sessions, MB": after["rss"] / 1e6,
            "of that for sessions, MB": (after["rss"] - before["rss"]) / 1e6,
        },
    )


def _open_rows(home: Path) -> int:
    with closing(sqlite3.connect(f"file:{home}/tenure/tenure.db?mode=ro", uri=True)) as db:
        turns = "SELECT count(*) FROM turns WHERE state IN ('queued', 'running') OR marked_at > 0"
        return int(db.execute(turns).fetchone()[0])


async def _boot(gateway: Tenure, home: Path, count: int, unfinished: int) -> Figures:
    """Many sessions, some of them killed in the middle of a turn; then the next start."""
    waits = home / "waits.json"
    waits.write_text(json.dumps({"steps": [{"gate": "never"}], "loop": True}))
    ends = home / "ends.json"
    ends.write_text(json.dumps({"steps": [{"text": "Done."}], "loop": True}))
    running = gateway.start(home, 0, f"scripted:{waits}")
    sock, sessions, found = await asyncio.to_thread(_create_many, running, count)
    wire = await driver.Wire.open(running.url, running.token)
    for session in sessions[:unfinished]:
        await wire.call("prompt.submit", session_id=session, text="unfinished")
    wire.reader.cancel()
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait()
    sock.close()
    left = _open_rows(home)
    begun = time.perf_counter()
    again = gateway.start(home, 0, f"scripted:{ends}")
    while _open_rows(home):
        await asyncio.sleep(0.02)
    settled = time.perf_counter() - begun
    begun = time.perf_counter()
    again.stop()
    label = f"boot with {count} sessions, {left} of them unfinished"
    return found | {
        f"{label}: ready, s": again.ready_s,
        f"{label}: all settled, s": settled,
        f"{label}: stopped, s": time.perf_counter() - begun,
    }


async def _profiles(running: Running, cycles: int) -> Figures:
    """Sessions of profiles, opened and closed again and again."""
    wire = await driver.Wire.open(running.url, running.token)
    for n in range(PROFILES):
        await wire.call("profile.create", name=f"bench{n}")

    async def cycle(n: int) -> None:
        profile = f"bench{n % PROFILES}"
        session = (await wire.call("session.create", profile=profile))["session_id"]
        await wire.call("session.close", session_id=session)
        await wire.call("session.resume", session_id=session, profile=profile)
        await wire.call("session.close", session_id=session)

    for n in range(PROFILES * 2):
        await cycle(n)
    before = driver.footprint(running.pid)["fds"]
    begun = time.perf_counter()
    for n in range(cycles):
        await cycle(n)
    seconds = time.perf_counter() - begun
    after = driver.footprint(running.pid)["fds"]
    await wire.close()
    label = f"{cycles} create/close and resume/close cycles in profiles"
    return {f"{label}: descriptors more": after - before, f"{label}, per second": cycles / seconds}


def measure(port: int, *, quick: bool) -> Figures:
    """All figures.

    Args:
        port: of the instant model server.
        quick: fewer repetitions.
    """
    uvloop.install()
    gateway = Tenure()
    found: Figures = {}
    count, unfinished = (2_000, 100) if quick else (10_000, 500)
    with tempfile.TemporaryDirectory() as folder:
        running = gateway.start(Path(folder), port)
        try:
            found |= asyncio.run(_reattach(running, 3 if quick else 10))
            found |= asyncio.run(_profiles(running, 100 if quick else 1_000))
        finally:
            running.stop()
    with tempfile.TemporaryDirectory() as folder:
        found |= asyncio.run(_boot(gateway, Path(folder), count, unfinished))
    print("fan-out …", file=sys.stderr)
    return found | fanout.measure(1 if quick else 3)


def show(found: Figures) -> str:
    """A table."""
    lines = ["| what | figure |", "|---|--:|"]
    return "\n".join([*lines, *(f"| {name} | {_told(value)} |" for name, value in found.items())])


def _told(value: Any) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"
