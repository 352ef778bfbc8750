"""memory.accept: from then on a note counts."""

from __future__ import annotations

import pytest

from support.memories import with_memories
from tenure.errors import NotFound


async def test_as_it_stands_or_in_other_words(rig):
    memories = with_memories(rig.gateway)
    await memories.add("The build takes long.", "agent", "s1")
    await memories.add("Ada likes tea.", "agent", "s1")
    assert memories.text == ""
    accepted = await rig.call("memory.accept", id=1)
    assert accepted["state"] == "accepted" and accepted["decided_at"] > 0
    assert accepted["by"] == "agent" and accepted["session_id"] == "s1", "its source stays"
    other = await rig.call("memory.accept", id=2, text="Ada likes green tea.")
    assert other["text"] == "Ada likes green tea."
    assert (await rig.call("memory.search", query="green"))["notes"] == [other]
    assert (await rig.call("memory.list"))["notes"] == [accepted, other]
    assert "- Ada likes green tea. (" in memories.text and "The build takes long." in memories.text


async def test_guards(rig):
    with_memories(rig.gateway)
    with pytest.raises(NotFound, match="There is no note 7"):
        await rig.call("memory.accept", id=7)
    await rig.refuses_wrong_types("memory.accept", id=1)
