"""A served gateway under attack: signals, descriptors, the database, clients that do not behave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import sqlite3

import pytest

from support.commands import Place
from support.served import pids_with, serving, wait_for
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.testing.waiting import until
from tenure.transports.websocket_client import connect_websocket

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def rows(place: Place, query: str) -> list:
    base = sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)
    try:
        return base.execute(query).fetchall()
    finally:
        base.close()


async def test_one_signal_to_the_whole_group_is_one_asking(place):
    call = {"call": {"name": "shell", "arguments": {"command": "sleep 1234.5", "timeout_s": 60}}}
    with serving(place, "--model", place.script([call])) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True)
            await client.call("prompt.submit", session_id=session, text="sleep")
            await client.until("tool.start")
            wait_for(lambda: pids_with("sleep\x001234.5"), "it sleeps")
            os.killpg(served.guard_pid, signal.SIGTERM)  # as a service manager does
        assert served.process.wait(30) == 0
    assert not pids_with("sleep\x001234.5")
    assert rows(place, "SELECT status, reason FROM sessions") == [
        ("closed", "gateway ended (signal SIGTERM)")
    ]
    assert rows(place, "SELECT state, cause FROM turns") == [("interrupted", "shutdown")]


def test_a_database_that_is_locked_for_long_ends_serve_with_a_sentence(place):
    place.home.mkdir(mode=0o700)
    path = place.home / "tenure.db"
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    other.execute("CREATE TABLE x (y)")
    process = place.popen("serve", "--port", "0", "--json")
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        other.close()
    assert process.returncode == 1, out
    (line,) = err.decode().splitlines()
    assert "locked" in line


def test_a_signal_while_the_store_opens_is_heard(place):
    place.home.mkdir(mode=0o700)
    other = sqlite3.connect(place.home / "tenure.db")
    other.execute("BEGIN EXCLUSIVE")
    other.execute("CREATE TABLE x (y)")
    process = place.popen("serve", "--port", "0", "--json")
    try:
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        other.rollback()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
        other.close()


async def test_a_database_locked_for_six_seconds_costs_one_refusal(place):
    with serving(place, "--model", place.script({"text": "hi"}, loop=True)) as served:
        async with served.client() as client:
            session = await client.ready_session()
            other = sqlite3.connect(place.home / "tenure.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            lost = client.call("prompt.submit", session_id=session, text="lost")
            with pytest.raises(Exception, match="locked"):
                async with asyncio.timeout(30):
                    await lost
            other.execute("ROLLBACK")
            other.close()
            await client.call("prompt.submit", session_id=session, text="again")
            done = await client.until("message.complete", session)
            assert done.payload["state"] == "completed"
        assert served.stop() == 0
    assert rows(place, "SELECT prompt, state FROM turns") == [("again", "completed")]


def limited():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


async def test_few_descriptors_refuse_clients_and_lose_nothing(place):
    ref = place.script({"text": "hi"}, loop=True)
    with serving(place, "--model", ref, preexec_fn=limited) as served:
        async with served.client() as client:
            session = await client.ready_session()
            crowd = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(60)]
            for n in range(3):
                await client.call("prompt.submit", session_id=session, text=f"p{n}")
                done = await client.until("message.complete", session)
                assert done.payload["state"] == "completed", done
            for sock in crowd:
                sock.close()
            again = await client.ready_session()
            assert again != session
        assert served.stop() == 0
    assert {s for (s,) in rows(place, "SELECT status FROM sessions")} == {"closed"}


async def census(client) -> list[dict]:
    return (await client.call("census.get"))["entries"]


def kinds(entries: list[dict]) -> list[tuple[str, str, str]]:
    """Entries without what differs from time to time."""
    return sorted((e["kind"], re.sub(r":\d+$", "", e["owner"]), e["label"]) for e in entries)


async def test_two_hundred_connections_at_once_leave_no_trace(place):
    with serving(place, "--model", place.script({"text": "hi"})) as served:
        async with served.client() as client:
            await client.ready_session()  # so that what is built once is there
            once = {"recovery", "thread"}
            while any(once & {e["label"], e["kind"]} for e in await census(client)):
                await asyncio.sleep(0.01)  # what a start does once is over
            before = await census(client)
            scope = Scope.root("crowd", SystemClock())

            async def visit(n: int) -> None:
                transport = await connect_websocket(served.url, served.token)
                if n % 2:
                    request = {"jsonrpc": "2.0", "id": 1, "method": "session.create",
                               "params": {"close_on_disconnect": True}}  # fmt: skip
                    await transport.send(json.dumps(request).encode())
                await transport.aclose()

            visits = [scope.spawn(visit(n), name="visit").value for n in range(200)]
            await asyncio.wait(visits)
            await scope.close()

            async def as_before():
                return kinds(await census(client)) == kinds(before)

            await until(as_before, "nothing of them is held")
        assert served.stop() == 0
    assert rows(place, "SELECT count(*) FROM sessions WHERE status = 'open'") == [(0,)]


async def test_a_client_that_asks_and_does_not_read_is_not_read_either(place):
    with serving(place, "--model", place.script({"text": "hi"})) as served:
        async with served.client() as client:
            sock = raw_socket(served)
            frame = masked(b'{"jsonrpc":"2.0","id":1,"method":"commands.catalog","params":{}}')
            sock.setblocking(False)
            sent, silent, rest = 0, 0, b""
            while sent < 20_000_000 and silent < 40:
                rest = rest or 500 * frame
                try:
                    taken = sock.send(rest)
                    sent, silent, rest = sent + taken, 0, rest[taken:]
                except BlockingIOError:
                    silent += 1
                    await asyncio.sleep(0.05)
                if silent in {0, 39}:
                    assert (await client.call("gateway.info"))["pid"] == served.pid
            assert silent, "it was read without an end"
            with open(f"/proc/{served.pid}/statm") as statm:
                assert int(statm.read().split()[1]) * 4096 < 250e6
            sock.close()
        assert served.stop() == 0


def raw_socket(served) -> socket.socket:
    """A WebSocket that never reads after its upgrade."""
    sock = socket.create_connection(("127.0.0.1", served.port))
    head = (
        f"GET /api/ws?token={served.token} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    sock.sendall(head.encode())
    assert b"101" in sock.recv(4096)
    return sock


def masked(payload: bytes) -> bytes:
    """One text frame of a client, under a mask of zeros."""
    assert len(payload) < 126
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload
