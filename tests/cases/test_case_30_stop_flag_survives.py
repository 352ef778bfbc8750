"""Case 30: a stop belongs to one turn; the next one does not see it, whatever the old one does."""

from __future__ import annotations

import asyncio

from tenure.agent.loop import run_turn
from tenure.conversation import Message
from tenure.errors import LeaseLost
from tenure.lifecycle.lease import KILL_GRACE_S
from tenure.lifecycle.scope import Scope
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.journal import MemoryJournal
from tenure.testing.tools import scripted_tool
from tenure.testing.turns import PlayedModel, calls, ports_of, says, turn_of


class FencedJournal(MemoryJournal):
    """Refuses writes once its turn has been given up."""

    fenced = False

    async def _write(self) -> None:
        if self.fenced:
            raise LeaseLost("This turn was ended by force.")
        await super()._write()


async def test_the_next_turn_runs_while_the_stopped_one_still_hangs(caplog):
    clock = ManualClock()
    root = Scope.root("session", clock)
    gate = Gate()
    tool = scripted_tool(gate=gate, deaf=True)
    model = PlayedModel(calls(("probe", "{}")), says("second answer"))

    old_scope, old = root.child("turn 1"), FencedJournal([Message("user", "one")])
    first = old_scope.spawn(
        run_turn(turn_of(model, [tool]), ports_of(old_scope, clock, old)), name="turn 1"
    ).value
    await gate.wait_parked()
    first.cancel("user")
    await settle()
    assert not first.done()  # its tool ignores the cancel
    old.fenced = True  # unlocked by force

    new_scope, new = root.child("turn 2"), MemoryJournal([*old.items, Message("user", "two")])
    end = await run_turn(turn_of(model, [tool]), ports_of(new_scope, clock, new))
    assert (end.state, end.text) == ("completed", "secondanswer")
    assert len(model.requests) == 2

    before = list(old.items), list(new.items), list(new.published)
    gate.release()
    await settle()
    assert (await first).state == "interrupted"
    assert (old.items, new.items, new.published) == before
    await root.close()


async def test_a_tool_that_never_ends_is_given_up_after_its_grace(caplog):
    clock = ManualClock()
    root = Scope.root("session", clock)
    gate = Gate()
    journal = MemoryJournal([Message("user", "one")])
    turn = turn_of(PlayedModel(calls(("probe", "{}"))), [scripted_tool(gate=gate, deaf=True)])
    task = asyncio.ensure_future(run_turn(turn, ports_of(root.child("turn"), clock, journal)))
    await gate.wait_parked()
    task.cancel("user")
    for _ in range(3):
        await settle()
        clock.advance(5.0 + KILL_GRACE_S)
    end = await task
    assert (end.state, end.cause) == ("interrupted", "user")
    assert journal.items[-1].text == "Interrupted by the user; the outcome is unknown."
    assert [entry.state for entry in root.census()] == ["leaked"]  # and is seen
    gate.release()
    await settle()
    await root.close()
