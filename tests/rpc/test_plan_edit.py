"""plan.edit: people change the plan, before and while it is asked about."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, Conflict, TooLarge


async def test_each_change_has_a_number_and_the_second_of_two_is_refused(rig):
    session = await rig.session(plan=True)
    first = await rig.call("plan.edit", session_id=session, text="One.", revision=0)
    assert (first["text"], first["revision"], first["on"]) == ("One.", 1, True)
    assert (await rig.client.until("plan.changed", session)).payload == first
    with pytest.raises(Conflict, match="it is revision 1, not 0"):
        await rig.call("plan.edit", session_id=session, text="Two.", revision=0)
    assert (await rig.call("plan.get", session_id=session))["text"] == "One."
    assert (await rig.call("plan.edit", session_id=session, text="Two."))["revision"] == 2


async def test_guards(rig):
    session = await rig.session(plan=True)
    with pytest.raises(BadValue, match="The plan is empty"):
        await rig.call("plan.edit", session_id=session, text=" \n")
    with pytest.raises(TooLarge, match="at most 32,000"):
        await rig.call("plan.edit", session_id=session, text="x" * 32_001)
    await rig.refuses_strangers("plan.edit", text="x")
    await rig.refuses_wrong_types("plan.edit", session_id="x", text="x")
