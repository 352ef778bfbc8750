"""Case 48: one client that does not read delays nobody, and is dropped at its own limit."""

from __future__ import annotations

import asyncio

import pytest

from support.commands import Place
from support.served import serving
from tenure.models.script import Script
from tenure.rpc import outbox
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gateway import open_test_gateway
from tenure.transports.memory import MemoryTransport

PIECES = 400
PIECE = "x" * 25_000


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


async def test_over_real_sockets_ten_megabytes_reach_the_other_client(place):
    steps = [{"reasoning": PIECE} for _ in range(PIECES)]
    with serving(place, "--model", place.script([*steps, {"text": "Done."}])) as served:
        async with served.client() as stalled, served.client() as client:
            sid = await client.ready_session()
            await stalled.call("session.attach", session_id=sid)
            stalled._transport._socket.transport.pause_reading()
            await client.call("prompt.submit", session_id=sid, text="go")
            end = await asyncio.wait_for(client.until("message.complete", sid), 60)
            assert end.payload["text"] == "Done."
            thought = [e.payload["text"] for e in client.seen if e.type == "reasoning.delta"]
            assert sum(map(len, thought)) == PIECES * len(PIECE)
            stalled._transport._socket.transport.resume_reading()
            back = await client.call("session.attach", session_id=sid)
            assert back["messages"][-1]["text"] == "Done."


async def test_it_is_told_and_cut_off_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "EVENT_BYTES_MAX", 200_000)
    clock = ManualClock()
    script = Script([[*({"reasoning": PIECE} for _ in range(40)), {"text": "Done."}]])
    async with open_test_gateway(tmp_path, script, clock=clock) as gw:
        stalled, _ = await gw.client()
        client, _ = await gw.client()
        sid = await client.ready_session()
        await stalled.call("session.attach", session_id=sid)
        bound = gw.sessions.get(sid).attachments._bound[-1].value
        listener = bound.listener
        theirs = listener._transport
        assert isinstance(theirs, MemoryTransport)
        gate = asyncio.Event()

        async def send(frame):
            await gate.wait()

        monkeypatch.setattr(theirs, "send", send)
        monkeypatch.setattr(theirs, "send_nowait", lambda frame, **_: False)
        await client.call("prompt.submit", session_id=sid, text="go")
        end = await client.until("message.complete", sid)
        assert end.payload["text"] == "Done."
        assert listener._outbox.overflowed
        clock.advance(10.0)
        await settle(40)
        assert len(gw.sessions.get(sid).attachments) == 1, "it is gone, the other stays"


async def test_much_that_was_missed_makes_nobody_slow(tmp_path, monkeypatch):
    """A replay is larger than what may wait for a peer; it goes on as the peer takes it."""
    monkeypatch.setattr(outbox, "EVENT_BYTES_MAX", 200_000)
    monkeypatch.setattr(outbox, "EVENT_BYTES_LOW", 50_000)
    turns = 20
    script = Script([{"text": PIECE} for _ in range(turns)])
    async with open_test_gateway(tmp_path, script, clock=ManualClock()) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for _ in range(turns):
            await client.call("prompt.submit", session_id=sid, text="go")
            await client.until("message.complete", sid)
        late, _ = await gw.client()
        begun = await late.call("session.attach", session_id=sid, omit_messages=True)
        bound = gw.sessions.get(sid).attachments._bound[-1].value
        bound.listener._outbox._send_nowait = lambda frame, **_: False  # it takes one by one
        cursor = {"epoch": begun["epoch"], "seq": 0}
        again = await late.call("session.attach", session_id=sid, cursor=cursor)
        assert again["replay"]["events"] >= 2 * turns
        for _ in range(turns):
            await late.until("message.complete", sid)
        assert not bound.listener._outbox.overflowed
