"""The memory of a sub-agent keeps what a journal promises."""

from tenure.agent.ports import Compaction, StatusNote
from tenure.agent.scratch import Scratch
from tenure.conversation import Message

TASK = Message("user", "look")


async def test_a_summary_of_what_has_changed_since_is_refused():
    seen = []
    scratch = Scratch(TASK, seen.append)
    stale = Compaction(Message("user", "sum"), 1, scratch.revision)
    await scratch.item(Message("assistant", "one"), notes=("n1",))
    assert not await scratch.compact(stale, events=(StatusNote("never"),))
    assert scratch.history() == [TASK, Message("assistant", "one")] and seen == []
    change = Compaction(Message("user", "sum"), 1, scratch.revision)
    assert await scratch.compact(change, events=(StatusNote("done"),))
    assert scratch.history() == [Message("user", "sum"), Message("assistant", "one")]
    assert seen == [StatusNote("done")]
    assert not await scratch.compact(change), "a second one of the same moment"
    await scratch.item(Message("assistant", "two"), notes=("n2",))
    assert scratch.notes == ("n1", "n2")
