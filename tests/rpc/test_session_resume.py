"""session.resume: a live session, or a stored one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tenure.errors import NotFound, SessionClosing
from tenure.testing.gates import Gate
from tenure.testing.store import MemoryStore


async def test_a_stored_session_is_opened_again(rig):
    session = await rig.session(title="Of old")
    await rig.turn(session, "remember")
    await rig.call("session.close", session_id=session)
    for ref in (session, "Of old"):
        resumed = await rig.call("session.resume", session_id=ref)
        assert resumed["session_id"] == resumed["resumed"] == resumed["session_key"] == session
        assert [m["text"] for m in resumed["messages"]] == ["remember", "First answer."]
        assert resumed["message_count"] == 2 and resumed["running"] is False
    assert resumed["epoch"] == 2
    assert (await rig.turn(session))["state"] == "completed"


@pytest.mark.parametrize("steps", [[[{"text": "Half "}, {"gate": "g"}]]])
async def test_a_running_turn_is_shown_to_whoever_comes_late(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="go")
    await rig.client.until("message.delta")
    late, _ = await rig.gateway.client()
    resumed = await late.call("session.resume", session_id=session)
    assert resumed["running"] and resumed["status"] == "working"
    assert [message["text"] for message in resumed["messages"]] == ["go"], "and nowhere else:"
    assert resumed["inflight"] == {"user": "", "assistant": "Half ", "streaming": True}
    resumed = await late.call("session.resume", session_id=session, omit_messages=True)
    assert resumed["inflight"] == {"user": "go", "assistant": "Half ", "streaming": True}


async def test_what_is_not_there_or_closing(rig):
    with pytest.raises(NotFound, match="No session is called"):
        await rig.call("session.resume", session_id="nothing of the kind")
    await rig.refuses_strangers("session.resume")
    await rig.refuses_wrong_types("session.resume", session_id="x")


async def test_a_replay_ends_with_the_next_answer(rig):
    session_id = await rig.session()
    session = rig.gateway.sessions.get(session_id)
    for n in range(300):
        session.questions.let_pass("a test" if n % 2 == 0 else "")
    await session.journal.caught_up()
    late, _ = await rig.gateway.client()
    cursor = {"epoch": 1, "seq": 0}
    first = await late.call("session.resume", session_id=session_id, cursor=cursor)
    assert first["replay"] == {"gap": False, "reason": "", "events": 300}
    second = await late.call("session.activate", session_id=session_id)
    before = [event.seq for event in late._events if event.seq]
    late._events.clear()
    session.questions.let_pass("a test")
    after = await late.until("approval.mode")
    assert before == list(range(1, len(before) + 1))
    assert len(before) < 300, "the replay was over before the next answer"
    assert after.seq == second["seq"] + 1 == 301


class SlowlyRead(MemoryStore):
    """Its history is read at a gate; `too_late` counts what is read after it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.reading: Gate | None = None
        self.too_late = 0

    async def history(self, session_id):
        if self.reading is not None:
            await self.reading.park()
        self.too_late += self._closed
        return await super().history(session_id)


@pytest.mark.parametrize(
    ("method", "told"), [("session.resume", SessionClosing), ("session.branch", NotFound)]
)
async def test_a_profile_is_not_closed_under_whoever_reads_it(rig, method, told):
    gateway, store, gate = rig.gateway, SlowlyRead(), Gate()
    gateway.ports.profiles.create("work")

    async def opened(name, scope, base):
        scope.own("store", store, lambda s: s.aclose())
        return replace(base, store=store, profile=name)

    gateway.open_profile = opened
    session = await rig.session(profile="work")
    late, _ = await gateway.client()
    store.reading = gate
    reading = asyncio.create_task(late.call(method, session_id=session))
    await gate.wait_parked()
    assert (await rig.call("session.close", session_id=session))["closed"]
    await gateway.sessions.wait_stored()
    await gateway.ports.profiles.open.end_idle()
    gate.release()
    with pytest.raises(told):
        await reading
    assert store.too_late == 0
