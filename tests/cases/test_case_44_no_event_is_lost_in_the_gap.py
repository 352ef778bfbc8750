"""Case 44: after a cut exactly the missing events come, the last one included, then the status."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for


def look(n):
    return {"call": {"name": "glob", "arguments": {"pattern": f"*.{n}"}}}


@pytest.mark.parametrize("behind", ["ring", "store"])
async def test_cut_in_the_middle_and_back_with_a_cursor(tmp_path, behind):
    steps = [[{"text": "I look. "}, {"gate": "g"}, look(0)], *[[look(n)] for n in range(1, 12)]]
    script = Script([*steps, [{"text": "That is all."}]])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gw:
        client, scope = await gw.client()
        watcher, _ = await gw.client()
        sid = await client.ready_session(auto_approve=True)
        await watcher.call("session.attach", session_id=sid, role="viewer")
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.delta")
        (start,) = [e for e in client.seen if e.type == "message.start"]
        await scope.close()
        script.gate("g").open()
        end = await watcher.until("message.complete", sid)
        all_events = [e for e in watcher.seen if e.seq]
        assert len(all_events) > 20
        if behind == "store":
            gw.sessions.get(sid).journal.ring.clear()
        back, _ = await gw.client()
        cursor = {"epoch": start.epoch, "seq": start.seq}
        opened = await back.call("session.attach", session_id=sid, cursor=cursor)
        assert opened["replay"]["events"] == end.seq - start.seq
        assert (opened["status"], opened["running"]) == ("idle", False)
        await back.until("message.complete", sid)
        got = [(e.seq, e.type, e.payload) for e in back.seen if e.session_id == sid and e.seq]
        assert got == [(e.seq, e.type, e.payload) for e in all_events if e.seq > start.seq]
        await settle()


async def test_what_streams_is_marked_and_has_no_number(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Hello."}])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.complete", sid)
        for event in client.seen:
            if event.session_id == sid:
                assert event.transient == (event.seq == 0), event.type
