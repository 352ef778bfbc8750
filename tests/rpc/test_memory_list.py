"""memory.list: what is remembered."""

from __future__ import annotations

import pytest

from support.memories import with_memories
from tenure.errors import NotFound


async def test_all_or_those_in_a_state(rig):
    memories = with_memories(rig.gateway)
    assert await rig.call("memory.list") == {"notes": []}
    await memories.add("Tabs, never spaces.", "person")
    await memories.add("The build takes long.", "agent", "s1")
    first, second = (await rig.call("memory.list"))["notes"]
    assert (first["id"], first["state"], first["by"], first["session_id"]) == (
        1,
        "accepted",
        "person",
        "",
    )
    assert (second["state"], second["by"], second["session_id"]) == ("proposed", "agent", "s1")
    assert second["created_at"] > 0 and second["decided_at"] == 0
    assert (await rig.call("memory.list", state="proposed"))["notes"] == [second]


async def test_guards(rig):
    with pytest.raises(NotFound, match="Nothing is remembered here"):
        await rig.call("memory.list")
    await rig.refuses_wrong_types("memory.list", session_id="x")
