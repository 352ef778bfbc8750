"""session.events.since: durable events after a cursor."""

from __future__ import annotations


async def test_every_durable_event_can_be_had_again(rig):
    session = await rig.session()
    await rig.turn(session)
    await rig.turn(session)
    await rig.client.until("session.info")
    heard = [(e.epoch, e.seq, e.type) for e in rig.client.seen if e.seq]
    found = await rig.call("session.events.since", session_id=session)
    assert [(e["epoch"], e["seq"], e["type"]) for e in found["events"]] == heard
    assert (found["latest_seq"], found["epoch"], found["truncated"]) == (4, 1, False)
    later = await rig.call("session.events.since", session_id=session, last_seen=3, epoch=1)
    assert [e["seq"] for e in later["events"]] == [4] and later["count"] == 1


async def test_a_cursor_of_an_earlier_epoch_is_told(rig):
    session = await rig.session()
    await rig.turn(session)
    await rig.call("session.close", session_id=session)
    await rig.call("session.resume", session_id=session, eager_build=True)
    found = await rig.call("session.events.since", session_id=session, last_seen=2, epoch=1)
    assert found["truncated"] is True and found["epoch"] == 2
    assert found["events"] == []
    assert [m["text"] for m in found["snapshot"]["messages"]] == ["hi", "First answer."]
    assert found["snapshot"]["status"] == "idle"


async def test_in_portions(rig):
    session = await rig.session()
    for _ in range(2):
        await rig.turn(session)
    found = await rig.call("session.events.since", session_id=session, limit=3)
    assert [e["seq"] for e in found["events"]] == [1, 2, 3] and found["more"] is True
    found = await rig.call("session.events.since", session_id=session, last_seen=3, limit=3)
    assert [e["seq"] for e in found["events"]] == [4] and found["more"] is False


async def test_portions_are_bounded(rig, monkeypatch):
    monkeypatch.setattr("tenure.rpc.handlers.attach.REPLAY_MAX", 3)
    session = await rig.session()
    for _ in range(3):
        await rig.turn(session)
    for limit, count in ((10**9, 3), (0, 1), (-5, 1)):
        found = await rig.call("session.events.since", session_id=session, limit=limit)
        assert (found["count"], found["more"]) == (count, True)


async def test_guards(rig):
    await rig.refuses_strangers("session.events.since")
    await rig.refuses_wrong_types("session.events.since", session_id="x")
