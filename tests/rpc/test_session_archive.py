"""session.archive: out of the list, and back."""

from __future__ import annotations


async def test_an_archived_session_is_hidden_and_stays_as_it_is(rig):
    hidden, shown = await rig.session(), await rig.session()
    assert (await rig.call("session.archive", session_id=hidden))["archived"] is True
    assert [r["id"] for r in (await rig.call("session.list"))["sessions"]] == [shown]
    rows = (await rig.call("session.list", archived=True))["sessions"]
    assert [(r["id"], r["archived"]) for r in rows] == [(hidden, True)]
    assert (await rig.turn(hidden))["state"] == "completed"  # it lives on
    await rig.call("session.archive", session_id=hidden, archived=False)
    assert len((await rig.call("session.list"))["sessions"]) == 2


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.archive", session_id=await rig.session())
