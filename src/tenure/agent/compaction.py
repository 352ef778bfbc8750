"""Making room: older history is replaced by a summary that the model writes.

No lock is held while the model writes. The change is prepared against a revision of the journal
and committed only if nothing else changed history meanwhile; else it is prepared anew, a bounded
number of times. The helper call lives in the caller's frame, so it is closed on every path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tenure.agent import context
from tenure.agent.context import Gauge
from tenure.agent.ports import Compaction, CompactionDone, CompactionStarted, TurnJournal
from tenure.agent.writing import write_whole
from tenure.clock import Clock
from tenure.conversation import Message, Usage
from tenure.errors import ModelError
from tenure.models.base import Finished, Model, ModelRequest, ReasoningDelta, TextDelta
from tenure.tools.clip import clip

ATTEMPTS = 3
KEEP = 0.3
"""Part of the room that stays word for word."""
OUTPUT_CHARS = 600
"""What the summarizer sees of one tool output."""
SUMMARY_TOKENS = 1_200
SUMMARY_CHARS_MAX = 256 * 1024
"""Of text and thinking in one summary: a model that does not come to an end is given up."""
SYSTEM = "You summarize a working session so that another assistant can continue it."
REQUEST = (
    "Summarize the session below: the user's requests and wishes in their words, decisions, files "
    "and commands that matter, results, what is unfinished. Facts only, at most 400 words.\n\n"
)
HEADING = "[Earlier conversation, summarized]\n"
LAST_REQUEST = "\n\n[The user's latest request, word for word]\n"

How = Literal["summary", "none"]


class Compacted(msgspec.Struct, frozen=True):
    """What a compaction did and what it cost."""

    how: How
    before: int
    """Estimated tokens of the messages before."""
    after: int
    usage: Usage


class _Summary(msgspec.Struct, frozen=True):
    text: str
    usage: Usage


async def compact(
    model: Model,
    journal: TurnJournal,
    clock: Clock,
    *,
    tokens_max: int,
    gauge: Gauge,
    focus: str = "",
) -> Compacted:
    """Replace older history by a summary, or leave everything as it is.

    Publishes `CompactionStarted` and `CompactionDone` for every attempt, always both. A model that
    fails leaves history unchanged (``how`` is "none"); the caller may then trim its view.

    Args:
        model: writes the summary.
        journal: whose history it is.
        clock: time.
        tokens_max: the room for messages that the result should fit into with ease.
        gauge: estimates tokens.
        focus: what the summary must keep above all; empty for nothing in particular.

    Raises:
        StoreError: the journal failed. CancelledError: nothing half-done is left.
    """
    usage = Usage()
    before = gauge.messages(journal.history())
    for _ in range(ATTEMPTS):
        history = tuple(journal.history())
        cut = context.cut_for(history, int(tokens_max * KEEP), gauge)
        if cut == 0:
            break
        attempt = _Attempt(model, journal, clock, gauge, cut)
        attempt.focus = focus
        go_on = await attempt.run()
        usage += attempt.usage
        if attempt.stored:
            return Compacted("summary", attempt.before, attempt.after, usage)
        if not go_on:
            break
    return Compacted("none", before, before, usage)


class _Attempt:
    """One summary of one revision of history."""

    def __init__(
        self, model: Model, journal: TurnJournal, clock: Clock, gauge: Gauge, cut: int
    ) -> None:
        self._model = model
        self._journal = journal
        self._clock = clock
        self._gauge = gauge
        self._cut = cut
        self._revision = journal.revision
        self._history = tuple(journal.history())
        self.before = self.after = gauge.messages(self._history)
        self.usage = Usage()
        self.focus = ""
        self.stored = False

    async def run(self) -> bool:
        """Summarize and commit. False if another attempt would not help either."""
        self._journal.transient(CompactionStarted(self.before))
        try:
            summary = await _summarize(
                self._model, self._history[: self._cut], self._gauge, self.focus
            )
            self.usage = summary.usage
            text = _with_last_request(summary.text, self._history, self._cut)
            message = Message("user", text)
            tail = self._history[self._cut :]
            self.after = self._gauge.message(message) + self._gauge.messages(tail)
            if self.after >= self.before:
                return False
            await write_whole(self._clock, self._commit(message))
        except ModelError:
            return False
        finally:
            if not self.stored:
                self._journal.transient(CompactionDone(self.before, self.before, "none"))
        return True

    async def _commit(self, message: Message) -> None:
        change = Compaction(message, self._cut, self._revision)
        done = CompactionDone(self.before, self.after, "summary")
        self.stored = await self._journal.compact(change, events=(done,))


async def _summarize(model: Model, items: Sequence[Message], gauge: Gauge, focus: str) -> _Summary:
    """One helper call; its stream is closed on every path."""
    chars = int(context.room(model.context_tokens, SUMMARY_TOKENS) * gauge.chars_per_token)
    transcript = clip("\n".join(map(_told, context.repair(items))), max(1_000, chars))
    request = ModelRequest(
        system=SYSTEM,
        messages=(Message("user", REQUEST + _wish(focus) + transcript),),
        max_tokens=SUMMARY_TOKENS,
        text_only=True,
    )
    pieces: list[str] = []
    chars = 0
    usage = Usage()
    async with model.stream(request) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            if isinstance(event, TextDelta | ReasoningDelta):
                chars += len(event.text)
            elif isinstance(event, Finished):
                usage = event.usage
            if chars > SUMMARY_CHARS_MAX:
                raise ModelError(f"{model.ref} does not come to an end with its summary.")
    text = "".join(pieces).strip()
    if not text:
        raise ModelError(f"{model.ref} wrote an empty summary.")
    return _Summary(text, usage)


def _wish(focus: str) -> str:
    return f"Above all keep everything about: {clip(focus, 500)}\n\n" if focus else ""


def _told(message: Message) -> str:
    """One item as a line of the transcript."""
    calls = "".join(
        f"\n  calls {call.name} {clip(call.arguments, OUTPUT_CHARS)}" for call in message.tool_calls
    )
    text = clip(message.text, OUTPUT_CHARS) if message.role == "tool" else message.text
    files = "".join(f"\n  with {upload.about}" for upload in message.files)
    return f"{message.role}: {text}{files}{calls}"


def _with_last_request(summary: str, history: Sequence[Message], cut: int) -> str:
    """The summary, with the running turn's prompt if that is among what it replaces."""
    text = HEADING + summary
    if any(message.asks for message in history[cut:]):
        return text
    for message in reversed(history[:cut]):
        if message.asks:
            asked = message.text.rpartition(LAST_REQUEST)[2]  # itself an earlier summary
            return text + LAST_REQUEST + clip(asked, 4_000)
    return text
