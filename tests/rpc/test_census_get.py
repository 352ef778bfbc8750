"""census.get: everything held, by owner."""

from __future__ import annotations

from tenure.rpc.handlers.census import resident


async def test_a_session_and_its_parts(rig):
    session = await rig.session()
    found = await rig.call("census.get", owner=f"gateway/sessions/session:{session}")
    kinds = {e["kind"] for e in found["entries"]}
    assert {"model", "http client", "credentials"} <= kinds
    assert all(e["age_s"] >= 0 and e["state"] == "held" for e in found["entries"])
    everything = await rig.call("census.get")
    assert len(everything["entries"]) > len(found["entries"])
    await rig.call("session.close", session_id=session)
    assert (await rig.call("census.get", owner=f"gateway/sessions/session:{session}"))[
        "entries"
    ] == []
    await rig.refuses_wrong_types("census.get")


def test_a_process_that_has_just_gone_uses_nothing():
    assert resident(2**30) == 0
