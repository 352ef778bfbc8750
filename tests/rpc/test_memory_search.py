"""memory.search: notes by words."""

from __future__ import annotations

import pytest

from support.memories import with_memories
from tenure.errors import BadValue


async def test_all_words_must_stand_in_it(rig):
    memories = with_memories(rig.gateway)
    for text in ("Tabs, never spaces.", "Spaces in YAML.", "The café opens at nine."):
        await memories.add(text, "person")
    await memories.add("Spaces again?", "agent")

    async def found(**params):
        return [note["id"] for note in (await rig.call("memory.search", **params))["notes"]]

    assert sorted(await found(query="spaces")) == [1, 2, 4]
    assert await found(query="spaces tab*") == [1]
    assert await found(query="cafe") == [3]
    assert sorted(await found(query="SPACES", state="accepted")) == [1, 2]
    assert len(await found(query="spaces", limit=1)) == 1
    assert await found(query="nowhere") == []


async def test_guards(rig):
    with_memories(rig.gateway)
    with pytest.raises(BadValue, match="at least one word"):
        await rig.call("memory.search", query="…")
    await rig.refuses_wrong_types("memory.search", query="x")
