"""session.attach: listen from now on, or from a cursor."""

from __future__ import annotations

import pytest

from tenure.errors import Conflict, ReadOnly, StoreError
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.store import MemoryStore


async def after(client, session, count):
    """The next `count` events of `session`, as (seq, type)."""
    found = []
    while len(found) < count:
        event = await client.next_event()
        if event.session_id == session and event.seq:
            found.append((event.seq, event.type))
    return found


def cursor(opened, seq=None):
    return {"epoch": opened["epoch"], "seq": opened["seq"] if seq is None else seq}


@pytest.mark.parametrize("behind", ["ring", "store"])
async def test_a_cursor_brings_exactly_what_was_missed(rig, behind):
    session = await rig.session()
    await rig.turn(session)
    other, _ = await rig.gateway.client()
    opened = await other.call("session.attach", session_id=session)
    assert opened["seq"] == 2 and opened["replay"] is None
    assert await other.call("session.detach", session_id=session) == {"detached": True}
    await rig.turn(session)
    if behind == "store":
        rig.live(session).journal.ring.clear()
    again = await other.call("session.attach", session_id=session, cursor=cursor(opened))
    assert again["replay"] == {"gap": False, "reason": "", "events": 2}
    assert again["messages"] == [] and again["seq"] == 4
    await rig.turn(session)
    kinds = ["message.start", "message.complete"] * 2
    assert await after(other, session, 4) == list(zip((3, 4, 5, 6), kinds, strict=True))


async def test_nothing_was_missed(rig):
    session = await rig.session()
    await rig.turn(session)
    opened = await rig.call("session.attach", session_id=session)
    again = await rig.call("session.attach", session_id=session, cursor=cursor(opened))
    assert again["replay"] == {"gap": False, "reason": "", "events": 0}
    assert again["attachment"] == opened["attachment"]


async def test_another_epoch_is_a_gap_with_a_snapshot(rig):
    session = await rig.session()
    await rig.turn(session)
    opened = await rig.call("session.attach", session_id=session)
    await rig.call("session.close", session_id=session)
    again = await rig.call("session.attach", session_id=session, cursor=cursor(opened))
    assert again["epoch"] > opened["epoch"]
    assert again["replay"]["gap"] is True and "anew" in again["replay"]["reason"]
    assert [m["text"] for m in again["messages"]] == ["hi", "First answer."]


async def test_a_cursor_ahead_of_the_log_is_a_gap(rig):
    session = await rig.session()
    opened = await rig.call("session.attach", session_id=session)
    again = await rig.call("session.attach", session_id=session, cursor=cursor(opened, seq=7))
    assert again["replay"]["gap"] is True


async def test_who_missed_too_much_gets_a_snapshot(rig, monkeypatch):
    monkeypatch.setattr("tenure.rpc.handlers.attach.REPLAY_MAX", 3)
    monkeypatch.setattr("tenure.sessions.replay.missed_since.__defaults__", (3,))
    session = await rig.session()
    for _ in range(2):
        await rig.turn(session)
    start = {"epoch": 1, "seq": 0}
    again = await rig.call("session.attach", session_id=session, cursor=start)
    assert again["replay"] == {
        "gap": True,
        "reason": "More than 3 events were missed.",
        "events": 0,
    }
    assert len(again["messages"]) == 4


async def test_what_is_published_during_the_answer_comes_once_and_after_it(rig, monkeypatch):
    """The store is slow; the log goes on meanwhile."""
    session = await rig.session()
    await rig.turn(session)
    live = rig.live(session)
    live.journal.ring.clear()
    gate, read = Gate(), MemoryStore.events

    async def slow(store, *args, **kwargs):
        rows = await read(store, *args, **kwargs)
        await gate.park()
        return rows

    monkeypatch.setattr(MemoryStore, "events", slow)
    other, _ = await rig.gateway.client()
    call = rig.gateway.root.spawn(
        other.call("session.attach", session_id=session, cursor={"epoch": 1, "seq": 0}), name="late"
    ).value
    await gate.wait_parked()
    await rig.turn(session)
    gate.release()
    answer = await call
    assert answer["replay"]["events"] == 4 and answer["seq"] == 4
    await rig.turn(session)
    assert [seq for seq, _ in await after(other, session, 6)] == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def slow(rig, monkeypatch) -> Gate:
    """Reads of events from the store wait here."""
    gate, read = Gate(), MemoryStore.events

    async def events(store, *args, **kwargs):
        rows = await read(store, *args, **kwargs)
        await gate.park()
        return rows

    monkeypatch.setattr(MemoryStore, "events", events)
    return gate


async def begun(rig, client, session, slow):
    """An attaching that reads from the store, as a task."""
    await rig.turn(session)
    rig.live(session).journal.ring.clear()
    call = client.call("session.attach", session_id=session, cursor={"epoch": 1, "seq": 0})
    task = rig.gateway.root.spawn(call, name="attach").value
    await slow.wait_parked()
    return task


async def test_what_a_snapshot_holds_does_not_come_again(rig, monkeypatch):
    session = await rig.session()
    gate, read = Gate(), MemoryStore.history

    async def history(store, session_id):
        rows = await read(store, session_id)
        await gate.park()
        return rows

    other, _ = await rig.gateway.client()
    monkeypatch.setattr(MemoryStore, "history", history)
    call = other.call("session.attach", session_id=session)
    attaching = rig.gateway.root.spawn(call, name="attach").value
    await gate.wait_parked()
    await rig.turn(session)
    gate.release()
    answer = await attaching
    assert answer["seq"] == 2 and len(answer["messages"]) == 2
    await rig.turn(session)
    assert [seq for seq, _ in await after(other, session, 2)] == [3, 4]


async def test_what_happens_during_a_replay_comes_after_it(rig):
    session = await rig.session()
    live = rig.live(session)
    for n in range(300):
        live.questions.let_pass("a test" if n % 2 == 0 else "")
    await live.journal.caught_up()
    late, _ = await rig.gateway.client()
    await late.call("session.attach", session_id=session, cursor={"epoch": 1, "seq": 0})
    heard = [event.seq for event in late._events if event.seq]
    assert len(heard) < 300, "the replay is not over"
    live.questions.let_pass("a test")
    assert [seq for seq, _ in await after(late, session, 301)] == list(range(1, 302))


async def test_what_happens_after_the_answer_is_heard(rig):
    session = await rig.session()
    other, _ = await rig.gateway.client()
    await other.call("session.attach", session_id=session)
    rig.live(session).questions.let_pass("a test")
    await settle()
    assert [event.type for event in other._events if event.seq] == ["approval.mode"]


async def test_whoever_was_detached_meanwhile_is_told(rig, slow):
    session = await rig.session()
    other, _ = await rig.gateway.client()
    attaching = await begun(rig, other, session, slow)
    assert await other.call("session.detach", session_id=session) == {"detached": True}
    slow.release()
    with pytest.raises(Conflict, match="was detached from session"):
        await attaching


async def test_an_attaching_that_fails_leaves_things_as_they_were(rig, monkeypatch):
    session = await rig.session()
    await rig.turn(session)
    rig.live(session).journal.ring.clear()

    async def fail(*_args, **_kwargs):
        raise StoreError("The disk is gone.")

    monkeypatch.setattr(MemoryStore, "events", fail)
    other, _ = await rig.gateway.client()
    for client, left in ((other, 1), (rig.client, 1)):
        with pytest.raises(StoreError, match="gone"):
            await client.call("session.attach", session_id=session, cursor={"epoch": 1, "seq": 0})
        await settle()
        assert len(rig.live(session).attachments) == left
    rig.live(session).questions.let_pass("a test")
    await rig.client.until("approval.mode")
    await settle()
    assert not [event for event in other._events if event.session_id == session]


async def test_a_viewer_watches_and_changes_nothing(rig):
    session = await rig.session()
    viewer, scope = await rig.gateway.client()
    opened = await viewer.call(
        "session.attach", session_id=session, role="viewer", close_on_disconnect=True
    )
    assert opened["role"] == "viewer"
    for method, params in (
        ("prompt.submit", {"text": "no"}),
        ("session.interrupt", {}),
        ("session.close", {}),
        ("session.delete", {}),
        ("session.title", {"title": "mine"}),
        ("config.set", {"key": "yolo", "value": True}),
        ("config.set", {"key": "model", "value": "scripted:x"}),
        ("approval.respond", {"choice": "once"}),
        ("process.stop", {}),
        ("slash.exec", {"command": "/stop"}),
        ("slash.exec", {"command": "/model scripted:x"}),
        ("slash.exec", {"command": "/title mine"}),
    ):
        with pytest.raises(ReadOnly, match="only watches"):
            await viewer.call(method, session_id=session, **params)
    assert (await viewer.call("session.title", session_id=session))["title"] == ""
    await rig.turn(session)
    assert (await viewer.until("message.complete", session)).payload["text"] == "First answer."
    await scope.close()
    assert rig.live(session).status == "idle", "its leaving ends nothing"
    became, _ = await rig.gateway.client()
    await became.call("session.attach", session_id=session, role="viewer")
    await became.call("session.activate", session_id=session)  # keeps the role
    with pytest.raises(ReadOnly):
        await became.call("session.close", session_id=session)
    await became.call("session.attach", session_id=session)
    assert await became.call("session.close", session_id=session) == {"closed": True}


async def test_lazy_opens_without_an_agent_and_the_first_prompt_builds_it(rig):
    session = await rig.session()
    await rig.turn(session)
    await rig.call("session.close", session_id=session)
    picks = rig.gateway.picker.picks
    opened = await rig.call("session.attach", session_id=session, lazy=True, role="viewer")
    assert opened["info"]["lazy"] and opened["status"] == "idle"
    assert rig.gateway.picker.picks == picks and len(opened["messages"]) == 2
    eager = await rig.call("session.attach", session_id=session, eager_build=True)
    assert not eager["info"]["lazy"] and rig.gateway.picker.picks == picks + 1
    assert (await rig.turn(session))["text"] == "Second answer."


async def test_a_prompt_builds_what_was_opened_lazily(rig):
    session = await rig.session()
    await rig.call("session.close", session_id=session)
    await rig.call("session.attach", session_id=session, lazy=True)
    assert (await rig.turn(session))["text"] == "First answer."


async def test_attaching_says_nothing_about_what_others_chose(rig):
    session = await rig.session(auto_approve=True)
    other, _ = await rig.gateway.client()
    await other.call("session.attach", session_id=session)
    assert rig.live(session).questions.bypass == "session.create"
    await other.call("session.attach", session_id=session, interactive=False)
    assert rig.live(session).questions.interactive, "somebody else can still be asked"


async def test_guards(rig):
    await rig.refuses_strangers("session.attach")
    await rig.refuses_wrong_types("session.attach", session_id="x")
