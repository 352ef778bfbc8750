"""checkpoint.list: one a turn that changes something, before its first change."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tenure.checkpoints.blobs import Blobs
from tenure.errors import StoreFull
from tenure.sessions.saving import SLOW_S
from tenure.testing.clock import settle

WRITE = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "one"}}}
TWO = [
    {"call": {"name": "shell", "arguments": {"command": "touch b.txt"}}},
    {"call": {"name": "write", "arguments": {"path": "c.txt", "content": "two"}}},
]
READ = {"call": {"name": "list", "arguments": {}}}


@pytest.fixture
def steps():
    return [READ, {"text": "Looked."}, WRITE, TWO, {"text": "Wrote."}, WRITE, {"text": "More."}]


async def test_one_a_turn_and_none_where_nothing_can_change(rig, tmp_path):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "look around")
    assert await rig.call("checkpoint.list", session_id=session) == {
        "enabled": True, "checkpoints": [],
    }  # fmt: skip
    done = await rig.turn(session, "write\n  much")
    (row,) = (await rig.call("checkpoint.list", session_id=session))["checkpoints"]
    assert row["turn_id"] == done["turn_id"] and row["kind"] == "turn"
    assert row["label"] == "write much" and row["root"] == str(tmp_path)
    assert row["files"] == 0, "taken before the first change"
    assert {"path": "home", "why": "Tenure's own folder"} in row["skipped"]
    await rig.turn(session, "more")
    rows = (await rig.call("checkpoint.list", session_id=session))["checkpoints"]
    assert [r["files"] for r in rows] == [0, 3] and rows[0]["id"] == row["id"]


async def test_a_folder_that_cannot_be_saved_is_said_and_stops_no_turn(rig, tmp_path, monkeypatch):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "look around")

    def full(_self):
        raise StoreFull("No space is left for checkpoints.")

    monkeypatch.setattr("tenure.checkpoints.blobs.Blobs.check_room", full)
    done = await rig.turn(session, "write")
    assert done["text"] == "Wrote." and (tmp_path / "c.txt").exists()
    notes = [e.payload for e in rig.client.seen if e.type == "status.update"]
    assert {
        "kind": "checkpoint",
        "text": "no checkpoint: No space is left for checkpoints.",
    } in notes


async def test_an_interrupt_ends_the_look_and_nothing_runs(rig, tmp_path, monkeypatch):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "look around")
    (tmp_path / "old.txt").write_text("old")
    inside, go_on = threading.Event(), threading.Event()
    real = Blobs.keep_file

    def held(self, *args):
        inside.set()
        assert go_on.wait(30)
        return real(self, *args)

    monkeypatch.setattr(Blobs, "keep_file", held)
    await rig.call("prompt.submit", session_id=session, text="write")
    while not inside.is_set():
        await asyncio.sleep(0.001)
    rig.gateway.ports.clock.advance(SLOW_S)
    note = (await rig.client.until("status.update", session)).payload
    assert note == {"kind": "checkpoint", "text": "saving the folder before its first change"}
    await rig.call("session.interrupt", session_id=session)
    await settle()
    go_on.set()
    done = (await rig.client.until("message.complete", session)).payload
    assert done["state"] == "interrupted" and not (tmp_path / "a.txt").exists()
    (call,) = [e.payload for e in rig.client.seen if e.type == "tool.complete"][1:]
    assert call["outcome"] == "not_run"
    assert (await rig.call("checkpoint.list", session_id=session))["checkpoints"] == []


async def test_deleting_a_session_deletes_its_checkpoints(rig, tmp_path):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "look around")
    await rig.turn(session, "write")
    kept = tmp_path / "home" / "checkpoints" / "sessions" / session
    assert any(kept.iterdir())
    await rig.call("session.delete", session_id=session)
    assert not kept.exists()


async def test_guards(rig):
    await rig.refuses_strangers("checkpoint.list")
    await rig.refuses_wrong_types("checkpoint.list", session_id="x")
