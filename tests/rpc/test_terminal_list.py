"""terminal.list: the session's terminals."""

from __future__ import annotations


async def test_several_of_a_session_and_of_no_other(rig):
    session, other = await rig.session(), await rig.session()
    for command in ("sleep 1001", "true"):
        await rig.call("terminal.open", session_id=session, command=command)
    await rig.client.until("terminal.close", session)
    rows = (await rig.call("terminal.list", session_id=session))["terminals"]
    told = [(row["terminal_id"], row["running"], row["returncode"]) for row in rows]
    assert told == [("t1", True, None), ("t2", False, 0)]
    assert await rig.call("terminal.list", session_id=other) == {"terminals": []}


async def test_guards(rig):
    await rig.refuses_strangers("terminal.list")
    await rig.refuses_wrong_types("terminal.list", session_id=await rig.session())
