"""Case 46: whoever comes back sends its last event, and gets nothing twice."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway

TURNS, CUTS = 60, 10


async def test_ten_cuts_cost_no_event_twice(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        worker, _ = await gw.client()
        sid = await worker.ready_session()
        got, cursor, scope, client = [], {"epoch": 1, "seq": 0}, None, None
        for n in range(TURNS):
            if n % (TURNS // CUTS) == 0:
                if scope is not None:
                    await scope.close()
                client, scope = await gw.client()
                await client.call("session.attach", session_id=sid, cursor=cursor)
            await worker.call("prompt.submit", session_id=sid, text=f"p{n}")
            await worker.until("message.complete", sid)
            if n % (TURNS // CUTS) in {1, 2, 3}:  # the rest is in its socket, or missed
                while cursor["seq"] < 2 * n + 2:
                    event = await client.next_event()
                    if event.seq:
                        got.append(event.seq)
                        cursor = {"epoch": event.epoch, "seq": event.seq}
        await scope.close()
        client, scope = await gw.client()
        answer = await client.call("session.attach", session_id=sid, cursor=cursor)
        got += [cursor["seq"] + 1 + n for n in range(answer["replay"]["events"])]
        assert got == list(range(1, 2 * TURNS + 1))
