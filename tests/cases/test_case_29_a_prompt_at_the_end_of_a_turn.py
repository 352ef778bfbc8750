"""Case 29: a prompt that arrives as the turn ends is taken by somebody."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.sessions.journal import Journal
from tenure.testing.gateway import open_test_gateway


async def test_submitted_between_the_end_and_the_look_at_the_queue(tmp_path, monkeypatch):
    script = Script([{"text": "one"}, {"text": "two"}])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        late = []
        kept = Journal.record

        def record(journal, ops, events=(), *, turn_id=""):
            commit = kept(journal, ops, events, turn_id=turn_id)
            if any(kind == "message.complete" for kind, _ in events) and not late:
                late.append(gw.root.spawn(session.submit("late"), name="late").value)
            return commit

        monkeypatch.setattr(Journal, "record", record)
        await client.call("prompt.submit", session_id=sid, text="first")
        await client.until("message.complete")
        done = await client.until("message.complete")
        assert done.payload["text"] == "two"
        turns = await gw.store.turns(sid)
        assert [(t.prompt, t.state) for t in turns] == [
            ("first", "completed"),
            ("late", "completed"),
        ]
