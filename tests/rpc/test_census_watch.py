"""census.watch: what comes and goes."""

from __future__ import annotations

from tenure.rpc.handlers.census import WATCH_S
from tenure.testing.clock import settle


async def test_changes_are_told_until_no_more(rig):
    assert await rig.call("census.watch") == {"watching": True}
    assert await rig.call("census.watch") == {"watching": True}, "once is enough"
    await settle()
    session = await rig.session()
    rig.gateway.ports.clock.advance(WATCH_S)
    change = (await rig.client.until("census.change")).payload
    added = [row for row in change["added"] if f"session:{session}" in row["owner"]]
    assert {"model", "credentials"} <= {row["kind"] for row in added}
    await rig.call("session.close", session_id=session)
    await settle()
    rig.gateway.ports.clock.advance(WATCH_S)
    gone = (await rig.client.until("census.change")).payload["removed"]
    assert {row["key"] for row in added} <= set(gone)
    assert await rig.call("census.watch", watching=False) == {"watching": False}
    await settle()
    assert rig.gateway.ports.clock.pending <= 1, "only the reaper's timer is left"
    await rig.refuses_wrong_types("census.watch")
