"""One model call, read to its end."""

import asyncio

import pytest

from tenure.agent import stream
from tenure.agent.ports import TextDelta
from tenure.agent.stream import TURN_OF_OTHERS_CHARS, Answer, read_answer
from tenure.conversation import Usage
from tenure.errors import ModelGarbage
from tenure.models import base
from tenure.models.base import ModelRequest
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.journal import MemoryJournal
from tenure.testing.turns import PlayedModel, says


class Behind(MemoryJournal):
    """What leads to the answer is not stored yet."""

    def __init__(self):
        super().__init__()
        self.storing = Gate()

    async def caught_up(self):
        await self.storing.park()


async def test_a_model_is_not_read_on_while_what_leads_to_its_answer_is_being_stored():
    model = PlayedModel(says("one two"))
    journal, answer = Behind(), Answer(1)
    reading = asyncio.create_task(read_answer(model, ModelRequest("", ()), answer, journal))
    await settle()
    assert journal.storing.parked == 1
    assert answer.text == "" and journal.published == []
    journal.storing.release()
    await reading
    assert journal.published == [TextDelta("one"), TextDelta("two")]
    assert journal.storing.passed == 1, "once an answer"
    assert model.open_streams == 0


class Slow(MemoryJournal):
    """The first commit is over; those of what streams are not."""

    def __init__(self):
        super().__init__()
        self.asked = 0
        self.storing = Gate()

    async def caught_up(self):
        self.asked += 1
        if self.asked > 1:
            await self.storing.park()


PIECE = "x" * (TURN_OF_OTHERS_CHARS + 1)
END = base.Finished("stop", Usage())


@pytest.mark.parametrize("delta", [base.TextDelta(PIECE), base.ReasoningDelta(PIECE)])
async def test_a_model_is_not_read_further_than_the_store_follows(delta):
    model = PlayedModel([delta, delta, END])
    journal, answer = Slow(), Answer(1)
    reading = asyncio.create_task(read_answer(model, ModelRequest("", ()), answer, journal))
    await settle()
    assert journal.storing.parked == 1
    assert len(journal.published) == 1
    journal.storing.release()
    await reading
    assert len(journal.published) == 2


async def test_an_answer_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(stream, "ANSWER_CHARS_MAX", TURN_OF_OTHERS_CHARS)
    model = PlayedModel([base.TextDelta("x" * 40_000)] * 100)
    answer = Answer(1)
    with pytest.raises(ModelGarbage, match="does not come to an end"):
        await read_answer(model, ModelRequest("", ()), answer, MemoryJournal())
    assert len(answer.text) == 80_000, "what came is kept"
    assert model.open_streams == 0


async def test_thinking_is_seen_whole_and_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(stream, "REASONING_CHARS_MAX", 25)
    thoughts = [base.ReasoningDelta(f"{number:010}") for number in range(9)]
    play = [*thoughts, base.TextDelta("so"), base.Finished("stop", Usage())]
    journal, answer = MemoryJournal(), Answer(1)
    await read_answer(PlayedModel(play), ModelRequest("", ()), answer, journal)
    assert answer.reasoning == "0000000000" + "0000000001" + "00000"
    assert answer.text == "so" and len(journal.published) == 10
