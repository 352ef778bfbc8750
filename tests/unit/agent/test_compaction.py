"""Summaries: committed only against the history they were made from."""

import asyncio

import pytest

from tenure.agent.compaction import (
    ATTEMPTS,
    HEADING,
    LAST_REQUEST,
    SUMMARY_CHARS_MAX,
    compact,
)
from tenure.agent.context import Gauge, repair
from tenure.agent.loop import run_turn
from tenure.agent.ports import CompactionDone, CompactionStarted
from tenure.conversation import Message, Usage
from tenure.errors import ModelError
from tenure.lifecycle.scope import Scope
from tenure.models import base
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.journal import MemoryJournal
from tenure.testing.turns import CancelAt, PlayedModel, ports_of, says, turn_of, unpaired

LONG = "word " * 400


def history(count=8):
    items = []
    for number in range(count):
        items += [
            Message("user", f"ask {number} {LONG}"),
            Message("assistant", f"say {number} {LONG}"),
        ]
    return [*items, Message("user", "and now this")]


def run(model, journal, tokens_max=3_000):
    return compact(model, journal, ManualClock(), tokens_max=tokens_max, gauge=Gauge())


async def test_the_oldest_items_become_a_summary():
    journal = MemoryJournal(history())
    model = PlayedModel(says("they talked", input=7, output=3))
    done = await run(model, journal)
    assert (done.how, done.usage) == ("summary", Usage(input=7, output=3))
    assert journal.items[0] == Message("user", HEADING + "theytalked")
    assert journal.items[-1] == Message("user", "and now this")
    assert done.after < 3_000 < done.before
    assert [type(event) for event in journal.published] == [CompactionStarted, CompactionDone]
    assert model.requests[0].text_only
    assert "ask 0" in model.requests[0].messages[0].text


async def test_a_short_history_is_left_alone_without_a_word():
    journal = MemoryJournal([Message("user", "hi")])
    model = PlayedModel()
    assert (await run(model, journal)).how == "none"
    assert (model.requests, journal.published) == ([], [])


async def test_the_running_prompt_survives_word_for_word():
    from tenure.conversation import ToolCall

    loop_items = [Message("user", "count the files")]
    for number in range(9):
        loop_items.append(Message("assistant", tool_calls=(ToolCall(f"c{number}", "t", "{}"),)))
        loop_items.append(Message("tool", LONG, tool_call_id=f"c{number}"))
    journal = MemoryJournal(loop_items)
    await run(PlayedModel(says("s"), says("t")), journal)
    assert journal.items[0].text.endswith(LAST_REQUEST + "count the files")
    assert repair(journal.items) == tuple(journal.items)
    journal.items += loop_items[1:]
    await run(PlayedModel(says("u")), journal)
    assert journal.items[0].text == f"{HEADING}u{LAST_REQUEST}count the files"


async def test_a_summary_of_a_history_that_changed_is_made_anew():
    journal = MemoryJournal(history())

    def interfere():
        journal.interfere(Message("assistant", "meanwhile"))

    play = [base.TextDelta("old"), interfere, base.Finished("stop", Usage(1, 1))]
    model = PlayedModel(play, says("new"))
    done = await run(model, journal)
    assert done.how == "summary"
    assert journal.items[0].text == HEADING + "new"
    assert journal.items[-1].text == "meanwhile"
    assert unpaired(journal.published) == []


async def test_it_gives_up_after_some_attempts_and_changes_nothing():
    journal = MemoryJournal(history())

    def interfere():
        journal.interfere(Message("assistant", "again"))

    play = [base.TextDelta("s"), interfere, base.Finished("stop", Usage(1, 1))]
    done = await run(PlayedModel(*[play] * 9), journal)
    assert done.how == "none"
    assert done.usage == Usage(ATTEMPTS, ATTEMPTS)
    assert journal.items[:17] == history()
    assert unpaired(journal.published) == []


@pytest.mark.parametrize(
    "play",
    [
        [ModelError("no.")],
        [base.Finished("stop", Usage())],
        says(LONG * 30),
        [*[base.TextDelta(" " * SUMMARY_CHARS_MAX)] * 2, *says("late")],
        [*[base.ReasoningDelta("x" * SUMMARY_CHARS_MAX)] * 2, *says("late")],
    ],
)
async def test_a_summary_that_fails_or_does_not_help_changes_nothing(play):
    journal = MemoryJournal(history())
    model = PlayedModel(play)
    assert (await run(model, journal)).how == "none"
    assert journal.items == history()
    assert (unpaired(journal.published), model.open_streams) == ([], 0)


async def test_what_the_summarizer_is_shown_fits_into_its_window():
    model = PlayedModel(says("s"), context_tokens=2_000)
    focus = "the focus " * 1_000
    done = await compact(
        model, MemoryJournal(history()), ManualClock(), tokens_max=3_000, gauge=Gauge(), focus=focus
    )
    asked = model.requests[0].messages[0].text
    assert done.how == "summary" and "the focus" in asked
    assert len(asked) < 2_000 * 4


async def test_a_long_request_is_kept_in_part():
    asked = Message("user", "count the files " * 1_000)
    told = [Message("assistant", f"say {number} {LONG}") for number in range(8)]
    journal = MemoryJournal([asked, *told])
    assert (await run(PlayedModel(says("s")), journal)).how == "summary"
    assert LAST_REQUEST in journal.items[0].text and len(journal.items[0].text) < 5_000


async def test_a_cancel_while_a_summary_is_stored_waits_for_the_store():
    class Acknowledging(MemoryJournal):
        stored = Gate()

        async def compact(self, change, *, events=()):
            stored = await super().compact(change, events=events)
            await self.stored.park()
            return stored

    journal = Acknowledging(history())
    running = asyncio.create_task(run(PlayedModel(says("s")), journal))
    await journal.stored.wait_parked()
    running.cancel()
    await settle()
    journal.stored.release()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal.items[0].text == HEADING + "s"
    assert unpaired(journal.published) == []


async def test_a_cancel_at_any_await_leaves_history_as_before_or_after():
    counted = CancelAt(run(PlayedModel(says("s")), MemoryJournal(history())))
    await counted
    for number in range(1, counted.awaits + 1):
        journal, model = MemoryJournal(history()), PlayedModel(says("s"))
        with pytest.raises(asyncio.CancelledError):
            await CancelAt(run(model, journal), number)
        assert journal.items == history() or journal.items[0].text.startswith(HEADING)
        assert (unpaired(journal.published), model.open_streams) == ([], 0)


@pytest.mark.parametrize(
    ("small", "plays", "summaries"),
    [(False, [says("sum"), says("answer")], 1), (False, [[ModelError("x.")], says("answer")], 0),
     (True, [says("answer")], 0)],
)  # fmt: skip
async def test_a_turn_makes_room_and_goes_on(small, plays, summaries):
    clock = ManualClock()
    root = Scope.root("test", clock)
    journal = MemoryJournal(history())
    model = PlayedModel(*plays, context_tokens=4_000, small=small)
    end = await run_turn(turn_of(model), ports_of(root, clock, journal))
    await root.close()
    assert (end.state, end.text) == ("completed", "answer")
    assert sum(item.text.startswith(HEADING) for item in journal.items) == summaries
    assert not (summaries and end.filling), "there is room again"
    assert Gauge().messages(model.requests[-1].messages) < 4_000 * 0.8
    assert model.requests[-1].messages[-1].text == "and now this"
