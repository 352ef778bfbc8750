"""One model call, read to its end: deltas go out at once, the answer adds up."""

from __future__ import annotations

import asyncio
from typing import Literal

from tenure.agent.ports import ReasoningDelta, StatusNote, TextDelta, ToolGenerating, TurnJournal
from tenure.conversation import ToolCall
from tenure.errors import ModelGarbage
from tenure.models import base as events
from tenure.models.base import Finished, Model, ModelRequest

TURN_OF_OTHERS_CHARS = 64 * 1024
"""After so much without a pause everybody else on the loop has a turn."""
ANSWER_CHARS_MAX = 6 * 1024 * 1024
"""Of text in one answer. No useful one is longer; one that does not end must not fill the memory
and the disk. It also fits into one frame."""
REASONING_CHARS_MAX = 1024 * 1024
"""Of thinking that is kept of one answer; what is beyond is seen as it streams, and no longer."""
AnswerStatus = Literal["complete", "interrupted", "error"]


class Answer:
    """What a model has said so far in one step."""

    __slots__ = ("_reasoning", "_text", "calls", "chars", "finished", "step", "text_chars")

    def __init__(self, step: int) -> None:
        self.step = step
        self.calls: list[ToolCall] = []
        """Whole calls only."""
        self.finished: Finished | None = None
        self.chars = 0
        """Of text and thinking, so far."""
        self.text_chars = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thinking before it, or its beginning."""
        return "".join(self._reasoning)

    def say(self, text: str, journal: TurnJournal) -> None:
        """More text."""
        self._text.append(text)
        self.chars += len(text)
        self.text_chars += len(text)
        journal.transient(TextDelta(text))

    def take(self, event: events.ModelEvent, journal: TurnJournal) -> None:
        """Add one event and pass on what people can see of it. Never waits."""
        if isinstance(event, events.TextDelta):
            self.say(event.text, journal)
        elif isinstance(event, events.ReasoningDelta):
            room = REASONING_CHARS_MAX - (self.chars - self.text_chars)
            if room > 0:
                self._reasoning.append(event.text[:room])
            self.chars += len(event.text)
            journal.transient(ReasoningDelta(event.text))
        elif isinstance(event, events.ToolCallStarted):
            journal.transient(ToolGenerating(event.name))
        elif isinstance(event, events.ToolCallReady):
            self.calls.append(event.call)
        elif isinstance(event, events.Progress):
            journal.transient(StatusNote(event.text))
        else:
            self.finished = event


def _check_length(model: Model, answer: Answer) -> None:
    if answer.text_chars > ANSWER_CHARS_MAX:
        raise ModelGarbage(
            f"{model.ref} does not come to an end: its answer is over "
            f"{ANSWER_CHARS_MAX >> 20} million characters long.",
            provider=model.ref.partition(":")[0],
        )


async def read_answer(
    model: Model, request: ModelRequest, answer: Answer, journal: TurnJournal
) -> Finished:
    """Stream one call into `answer`, which holds what came even if this raises.

    Cancellation closes the stream at the server.

    Raises:
        ModelError: the model failed, ended without saying that it had, or does not end.
    """
    yielded = 0
    async with model.stream(request) as stream:
        async for event in stream:
            if not answer.chars:
                # Nothing is seen before what leads to it is stored. Whoever reads on meanwhile
                # keeps the interpreter from the store's thread, and everyone waits longer.
                await journal.caught_up()
            answer.take(event, journal)
            if answer.chars - yielded > TURN_OF_OTHERS_CHARS:
                # A source that is never empty would keep the loop, so that nobody could send, and
                # run ahead of the store, behind whose commits it is published.
                yielded = answer.chars
                await asyncio.sleep(0)
                await journal.caught_up()
                _check_length(model, answer)
    if answer.finished is None:
        raise ModelGarbage(
            f"{model.ref} broke off in the middle of its answer; ask again.",
            provider=model.ref.partition(":")[0],
        )
    return answer.finished
