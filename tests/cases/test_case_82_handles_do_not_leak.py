"""Case 82: database handles are bounded; running out of descriptors is told as itself."""

from __future__ import annotations

import os
import resource

import pytest

from tenure.errors import Overloaded
from tenure.models.script import Script
from tenure.store.sqlite import READERS_MAX, open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway


def handles(path):
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}") == str(path)
        except FileNotFoundError:
            continue
    return found


async def test_turns_and_reads_use_a_bounded_number_of_handles(tmp_path):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True), store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for _ in range(100):
            await client.call("prompt.submit", session_id=sid, text="hi")
            await client.until("message.complete")
            await client.call("session.history", session_id=sid)
            await client.call("session.list")
            with pytest.raises(Exception, match="No session"):
                await client.call("session.resume", session_id="20200101_000000_00000000")
        assert 1 <= handles(path) <= 1 + READERS_MAX
    assert handles(path) == 0


async def test_exhausted_descriptors_stop_admission_and_lose_nothing(tmp_path):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True), store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.list")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            free = []
            while True:
                try:
                    free.append(os.dup(2))
                except OSError:
                    break
            for fd in free[:5]:
                os.close(fd)
            free = free[5:]
            with pytest.raises(Overloaded, match="descriptors are exhausted"):
                await client.call("session.create")
            await client.call("prompt.submit", session_id=sid, text="still works")
            done = await client.until("message.complete")
            assert done.payload["state"] == "completed"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in free:
                os.close(fd)
        assert [t.state for t in await store.turns(sid)] == ["completed"]
        assert await client.ready_session()
