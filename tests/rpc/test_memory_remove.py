"""memory.remove: for good, and for every turn that begins later."""

from __future__ import annotations

from support.memories import with_memories


async def test_a_session_that_is_open_is_told_no_more_of_it(rig):
    memories = with_memories(rig.gateway)
    script = rig.gateway.picker.script
    await memories.add("Tabs.", "person")
    session = await rig.session()
    await rig.turn(session)
    assert "- Tabs. (" in script.requests[-1].system
    assert await rig.call("memory.remove", ids=[1, 2]) == {"removed": [1]}
    await rig.turn(session)
    assert "Tabs." not in script.requests[-1].system and "<notes>" not in script.requests[-1].system
    assert (await rig.call("memory.search", query="tabs"))["notes"] == []
    number = (await rig.call("memory.add", text="Tabs."))["id"]
    assert number == 2, "a number is not used twice"


async def test_guards(rig):
    with_memories(rig.gateway)
    await rig.refuses_wrong_types("memory.remove", ids=[1])
