"""What an entry of history takes in memory."""

from tenure.conversation import Message, ToolCall, Upload
from tenure.sessions.budget import ENTRY_BYTES, size_of


def test_all_that_is_kept_of_an_entry_counts():
    file = Upload(id="f", digest="d", kind="text", type="text/plain", name="a", size=1)
    assert size_of(Message("user")) == ENTRY_BYTES
    assert size_of(Message("user", "x" * 10)) == ENTRY_BYTES + 10
    assert size_of(Message("assistant", reasoning="x" * 20)) == ENTRY_BYTES + 20
    calls = (ToolCall("c", "t", "x" * 30), ToolCall("d", "t", "x" * 5))
    assert size_of(Message("assistant", tool_calls=calls)) == ENTRY_BYTES + 35
    assert size_of(Message("user", files=(file, file))) == 3 * ENTRY_BYTES
