"""Case 29: a prompt that arrives as the turn ends is taken by somebody."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway


async def test_submitted_between_the_end_and_the_look_at_the_queue(tmp_path):
    script = Script([{"text": "one"}, {"text": "two"}])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        late = []
        finish = session.journal.record

        def record(ops, events=(), *, turn_id=""):
            commit = finish(ops, events, turn_id=turn_id)
            if any(kind == "message.complete" for kind, _ in events) and not late:
                late.append(gw.root.spawn(session.submit("late"), name="late").value)
            return commit

        object.__setattr__(session, "journal", session.journal)
        session.journal.__class__.record, original = (
            lambda self, *a, **k: (
                record(*a, **k) if self is session.journal else original(self, *a, **k)
            ),
            session.journal.__class__.record,
        )
        try:
            await client.call("prompt.submit", session_id=sid, text="first")
            await client.until("message.complete")
            done = await client.until("message.complete")
        finally:
            session.journal.__class__.record = original
        assert done.payload["text"] == "two"
        turns = await gw.store.turns(sid)
        assert [(t.prompt, t.state) for t in turns] == [
            ("first", "completed"),
            ("late", "completed"),
        ]
