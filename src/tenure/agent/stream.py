"""One model call, read to its end: deltas go out at once, the answer adds up."""

from __future__ import annotations

from typing import Literal

from tenure.agent.ports import ReasoningDelta, StatusNote, TextDelta, ToolGenerating, TurnJournal
from tenure.conversation import ToolCall
from tenure.errors import ModelGarbage
from tenure.models import base as events
from tenure.models.base import Finished, Model, ModelRequest

AnswerStatus = Literal["complete", "interrupted", "error"]


class Answer:
    """What a model has said so far in one step."""

    __slots__ = ("_reasoning", "_text", "calls", "finished", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        self.calls: list[ToolCall] = []
        """Whole calls only."""
        self.finished: Finished | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thinking before it."""
        return "".join(self._reasoning)

    def say(self, text: str, journal: TurnJournal) -> None:
        """More text."""
        self._text.append(text)
        journal.transient(TextDelta(text))

    def take(self, event: events.ModelEvent, journal: TurnJournal) -> None:
        """Add one event and pass on what people can see of it. Never waits."""
        if isinstance(event, events.TextDelta):
            self.say(event.text, journal)
        elif isinstance(event, events.ReasoningDelta):
            self._reasoning.append(event.text)
            journal.transient(ReasoningDelta(event.text))
        elif isinstance(event, events.ToolCallStarted):
            journal.transient(ToolGenerating(event.name))
        elif isinstance(event, events.ToolCallReady):
            self.calls.append(event.call)
        elif isinstance(event, events.Progress):
            journal.transient(StatusNote(event.text))
        else:
            self.finished = event


async def read_answer(
    model: Model, request: ModelRequest, answer: Answer, journal: TurnJournal
) -> Finished:
    """Stream one call into `answer`, which holds what came even if this raises.

    Cancellation closes the stream at the server.

    Raises:
        ModelError: the model failed, or ended without saying that it had.
    """
    async with model.stream(request) as stream:
        async for event in stream:
            answer.take(event, journal)
    if answer.finished is None:
        raise ModelGarbage(
            f"{model.ref} broke off in the middle of its answer; ask again.",
            provider=model.ref.partition(":")[0],
        )
    return answer.finished
