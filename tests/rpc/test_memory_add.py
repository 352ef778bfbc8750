"""memory.add: a note of the person's own."""

from __future__ import annotations

import pytest

from support.memories import with_memories
from tenure.errors import BadValue, ReadOnly, SessionNotFound, TooLarge


async def test_it_counts_at_once_and_only_once(rig):
    with_memories(rig.gateway)
    session = await rig.session()
    note = await rig.call(
        "memory.add", session_id=session, text=" Tabs,\n never  </notes> spaces. "
    )
    assert note["text"] == "Tabs, never < /notes> spaces.", "one line that ends nothing"
    assert (note["state"], note["by"], note["session_id"]) == ("accepted", "person", session)
    again = await rig.call("memory.add", text="TABS, never < /notes> spaces")
    assert again["id"] == note["id"] and len((await rig.call("memory.list"))["notes"]) == 1


async def test_guards(rig):
    with_memories(rig.gateway)
    with pytest.raises(BadValue, match="The note is empty"):
        await rig.call("memory.add", text=" \n")
    with pytest.raises(TooLarge, match="at most 1,000"):
        await rig.call("memory.add", text="x" * 1_001)
    with pytest.raises(SessionNotFound):
        await rig.call("memory.add", session_id="20200101_000000_00000000", text="x")
    await rig.refuses_wrong_types("memory.add", text="x")


async def test_a_viewer_changes_nothing(rig):
    with_memories(rig.gateway)
    session = await rig.session()
    viewer, _ = await rig.gateway.client()
    await viewer.call("session.attach", session_id=session, role="viewer")
    with pytest.raises(ReadOnly):
        await viewer.call("memory.add", session_id=session, text="x")
