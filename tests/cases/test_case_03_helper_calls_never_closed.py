"""Case 3: helper calls of a turn (summaries) are closed on every path; titles need no call."""

from __future__ import annotations

import pytest

from tenure.agent.loop import run_turn
from tenure.agent.prompt import title_of
from tenure.conversation import Message
from tenure.errors import ModelError
from tenure.testing.journal import MemoryJournal
from tenure.testing.turns import PlayedModel, ports_of, says, turn_of, unpaired

LONG = [
    Message(role, f"{role} {number} " + "word " * 400)
    for number in range(8)
    for role in ("user", "assistant")
]


@pytest.mark.parametrize("failing", [False, True])
async def test_fifty_compactions_leave_nothing(root, clock, failing):
    for _ in range(50):
        scope = root.child("turn")
        journal = MemoryJournal([*LONG, Message("user", "go on")])
        first = [ModelError("no.")] if failing else says("summary")
        model = PlayedModel(first, says("answer"), context_tokens=4_000)
        end = await run_turn(turn_of(model), ports_of(scope, clock, journal))
        assert (end.state, end.text) == ("completed", "answer")
        assert (model.open_streams, scope.census(), unpaired(journal.published)) == (0, [], [])
        await scope.close()
    assert root.census() == []
    assert clock.pending == 0


def test_a_title_is_made_without_a_model():
    assert title_of("Fix the flaky test\nplease") == "Fix the flaky test"
