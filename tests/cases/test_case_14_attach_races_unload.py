"""Case 14: a resume and the unloading of one session never leave two of it, or none."""

from __future__ import annotations

import asyncio

import pytest

from tenure.config import Config, LimitsConfig
from tenure.models.script import Script
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore


@pytest.mark.parametrize("rounds", range(12))
async def test_a_resume_at_any_moment_of_an_unload(tmp_path, rounds):
    async with open_test_gateway(tmp_path, Script([{"text": "Here."}])) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        late, _ = await gw.client()
        await scope.close()
        await settle()
        assert gw.sessions.unload(gw.sessions.get(sid), "a test")
        for _ in range(rounds):
            await asyncio.sleep(0)
        resumed = await late.call("session.resume", session_id=sid)
        assert resumed["epoch"] == 2
        await late.call("prompt.submit", session_id=sid, text="hi")
        assert (await late.until("message.complete", sid)).payload["text"] == "Here."
        assert [s.id for s in gw.sessions.live()] == [sid]
        assert gw.picker.opened == list(gw.picker.STEPS)


async def test_what_was_attached_a_moment_before_the_look_is_not_unloaded(tmp_path):
    """Between the end of its patience and the reaper's look, somebody comes."""
    clock = ManualClock()
    async with open_test_gateway(tmp_path, Script([]), clock=clock) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        await scope.close()
        await settle()
        limits = gw.sessions.ports.config().limits
        late, _ = await gw.client()
        session.attachments.left_at -= limits.idle_s + 1
        session.used_at -= limits.idle_s + 1
        await late.call("session.attach", session_id=sid)
        gw.sessions.reaper.look()
        assert gw.sessions.get(sid) is session and session.scope.admits


async def test_a_session_that_is_being_opened_is_not_unloaded_to_make_room(tmp_path):
    """It is in memory, nobody is attached yet: its commit is still on its way to the disk."""
    store = MemoryStore()
    config = Config(limits=LimitsConfig(loaded_max=1))
    async with open_test_gateway(tmp_path, Script([]), store=store, config=config) as gw:
        client, _ = await gw.client()
        stored = await client.ready_session()
        await client.call("session.close", session_id=stored)
        await settle(40)
        store._gate = disk = Gate()
        calls = [
            gw.root.spawn(client.call("session.create"), name="create").value for _ in range(5)
        ]
        await disk.wait_parked()
        await settle()
        gw.sessions.reaper.relieve(room=5)
        disk.release()
        opened = [(await call)["session_id"] for call in calls]
        assert [s.id for s in gw.sessions.live()] == opened
        build = gw.picker.gates["model"] = Gate()
        resuming = gw.root.spawn(client.call("session.resume", session_id=stored), name="r").value
        await build.wait_parked()
        gw.sessions.reaper.relieve(room=5)
        build.release()
        assert (await resuming)["session_id"] == stored
