"""Case 45: (epoch, seq) never goes back, and what cannot be replayed whole is a gap with a snapshot."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.sessions import replay
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


async def test_more_was_missed_than_is_sent_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tenure.rpc.handlers.attach.REPLAY_MAX", 5)
    monkeypatch.setattr(replay.missed_since, "__defaults__", (5,))
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for n in range(4):
            await client.call("prompt.submit", session_id=sid, text=f"p{n}")
            await client.until("message.complete", sid)
        away, _ = await gw.client()
        opened = await away.call("session.attach", session_id=sid, cursor={"epoch": 1, "seq": 1})
        assert opened["replay"]["gap"] and opened["replay"]["events"] == 0
        stored = await gw.store.history(sid)
        assert [m["text"] for m in opened["messages"]] == [row.message.text for row in stored]
        assert opened["seq"] == 8
        await client.call("prompt.submit", session_id=sid, text="more")
        await away.until("message.complete", sid)
        assert [e.seq for e in away.seen if e.seq and e.session_id == sid] == [9, 10]


async def test_events_that_are_gone_from_the_store_are_a_gap(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.complete", sid)
        session = gw.sessions.get(sid)
        session.journal.ring.clear()
        del gw.store._rows.events[sid, 1, 1]
        opened = await client.call("session.attach", session_id=sid, cursor={"epoch": 1, "seq": 0})
        assert opened["replay"]["gap"] and "not kept" in opened["replay"]["reason"]


async def test_opened_anew_is_a_new_epoch(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        seen = []
        for _ in range(3):
            await client.call("prompt.submit", session_id=sid, text="go")
            await client.until("message.complete", sid)
            await client.call("session.detach", session_id=sid)
            gw.sessions.unload(gw.sessions.get(sid), "a test")
            await settle(40)
            opened = await client.call("session.attach", session_id=sid)
            seen.append((opened["epoch"], opened["seq"]))
        assert [epoch for epoch, _ in seen] == [2, 3, 4]
        numbers = [(e.epoch, e.seq) for e in client.seen if e.seq]
        assert numbers == sorted(set(numbers))


async def test_a_cut_during_a_replay_costs_nothing(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for n in range(5):
            await client.call("prompt.submit", session_id=sid, text=f"p{n}")
            await client.until("message.complete", sid)
        for _ in range(3):
            away, scope = await gw.client()
            gw.root.spawn(_attach(away, sid), name="attach")
            await settle(2)
            await scope.close()
        back, _ = await gw.client()
        opened = await back.call("session.attach", session_id=sid, cursor={"epoch": 1, "seq": 0})
        assert opened["replay"]["events"] == 10
        while len([e for e in back.seen if e.seq]) < 10:
            back.seen.append(await back.next_event())
        assert [e.seq for e in back.seen if e.seq] == list(range(1, 11))
        assert len(gw.sessions.get(sid).attachments) == 2


async def _attach(client, sid):
    from contextlib import suppress

    from tenure.errors import TransportError

    with suppress(TransportError):
        await client.call("session.attach", session_id=sid, cursor={"epoch": 1, "seq": 0})
