"""One model call, read to its end."""

import asyncio

from tenure.agent.ports import TextDelta
from tenure.agent.stream import TURN_OF_OTHERS_CHARS, Answer, read_answer
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


async def test_a_model_is_not_read_further_than_the_store_follows():
    piece = "x" * (TURN_OF_OTHERS_CHARS + 1)
    model = PlayedModel(says(f"{piece} {piece}"))
    journal, answer = Slow(), Answer(1)
    reading = asyncio.create_task(read_answer(model, ModelRequest("", ()), answer, journal))
    await settle()
    assert journal.storing.parked == 1
    assert len(journal.published) == 1
    journal.storing.release()
    await reading
    assert len(journal.published) == 2
