"""memory.reject: what waits is removed, and nothing else."""

from __future__ import annotations

import pytest

from support.memories import with_memories
from tenure.errors import InvalidParams


async def test_only_what_waits(rig):
    memories = with_memories(rig.gateway)
    await memories.add("Tabs.", "person")
    await memories.add("Spaces.", "agent")
    assert await rig.call("memory.reject", ids=[1, 2, 9]) == {"removed": [2]}
    (left,) = (await rig.call("memory.list"))["notes"]
    assert left["text"] == "Tabs."


async def test_guards(rig):
    with_memories(rig.gateway)
    with pytest.raises(InvalidParams, match="ids"):
        await rig.call("memory.reject", ids=[])
    await rig.refuses_wrong_types("memory.reject", ids=[1])
