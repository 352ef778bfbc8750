"""What the model is shown: history made valid, measured and fitted into its window. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tenure.agent.showing import in_words, tokens_of
from tenure.conversation import Message, ToolCall, ToolSpec, Usage
from tenure.tools.clip import clip

CHARS_PER_TOKEN = 4.0
"""The usual figure for English and code; `Gauge` corrects it from what providers report."""
MESSAGE_TOKENS = 8
"""Allowance for a message's wrapping."""
FILL = 0.8
"""Part of the window that a request may fill; the rest is for the answer and for misjudgement."""
NEAR = 0.85
"""Part of the room from which on a person is told that a summary is near."""
ARGUMENTS_CHARS = 400
"""Longer arguments of old calls are dropped with the outputs."""
UNKNOWN = "Outcome unknown: the gateway stopped while this ran; check before repeating it."
DROPPED = "(output dropped to save room)"


def repair(history: Sequence[Message], missing: str = UNKNOWN) -> tuple[Message, ...]:
    """The same history without anything that a provider would refuse.

    Every call gets exactly one result, in the order of the calls, directly after them; results
    without a call and empty answers are left out. A valid history is returned as it is.

    Args:
        history: items, oldest first.
        missing: the text of a result that is not there.
    """
    fixed: list[Message] = []
    index = 0
    while index < len(history):
        message = history[index]
        index += 1
        if message.role == "tool":
            continue  # its call is not here
        if message.role == "assistant" and not message.tool_calls and not message.text:
            continue
        fixed.append(message)
        if not message.tool_calls:
            continue
        results: dict[str, Message] = {}
        while index < len(history) and history[index].role == "tool":
            results.setdefault(history[index].tool_call_id, history[index])
            index += 1
        fixed += (results.get(call.id) or lost(call, missing) for call in message.tool_calls)
    return tuple(fixed)


def lost(call: ToolCall, text: str) -> Message:
    """The result of a call that has none."""
    return Message("tool", text, tool_call_id=call.id, is_error=True)


class Gauge:
    """Estimates tokens; learns from the usage that a provider reports. One per turn."""

    __slots__ = ("chars_per_token",)

    def __init__(self) -> None:
        self.chars_per_token = CHARS_PER_TOKEN

    def message(self, message: Message) -> int:
        """Estimated tokens of one message."""
        chars = len(message.text) + sum(
            len(call.name) + len(call.arguments) for call in message.tool_calls
        )
        tokens = MESSAGE_TOKENS + int(chars / self.chars_per_token)
        if message.files:
            tokens += sum(tokens_of(upload, self.chars_per_token) for upload in message.files)
        return tokens

    def messages(self, messages: Sequence[Message]) -> int:
        """Estimated tokens of several."""
        return sum(map(self.message, messages))

    def prefix(self, system: str, tools: Sequence[ToolSpec]) -> int:
        """Estimated tokens of what stands before the messages."""
        chars = len(system) + sum(map(_spec_chars, tools))
        return int(chars / self.chars_per_token)

    def learn(self, estimated: int, usage: Usage) -> None:
        """Correct the figure, half-way, within sane bounds; a provider may report anything."""
        if usage.input <= 0 or estimated < 200:
            return
        measured = self.chars_per_token * estimated / usage.input
        self.chars_per_token = min(8.0, max(1.0, (self.chars_per_token + measured) / 2))


def _spec_chars(spec: ToolSpec) -> int:
    return len(spec.name) + len(spec.description) + len(msgspec.json.encode(spec.parameters))


def room(context_tokens: int, prefix_tokens: int) -> int:
    """Tokens that the messages of one request may take."""
    return max(256, int(context_tokens * FILL) - prefix_tokens)


def is_filling(tokens: int, tokens_max: int) -> bool:
    """Whether messages of so many tokens come near the room that they have."""
    return tokens > NEAR * tokens_max


def cut_for(history: Sequence[Message], keep_tokens: int, gauge: Gauge) -> int:
    """How many leading items a summary should replace; 0 for none.

    The last items that fit into `keep_tokens` stay, the newest one always; a call stays with its
    results.
    """
    total, cut = 0, len(history)
    for index in range(len(history) - 1, -1, -1):
        total += gauge.message(history[index])
        if total > keep_tokens and cut < len(history):
            break
        if history[index].role != "tool":
            cut = index
    return cut if 1 < cut < len(history) else 0


def trim(messages: tuple[Message, ...], tokens_max: int, gauge: Gauge) -> tuple[Message, ...]:
    """A view of `messages` that fits: oldest tool outputs go first, then oldest exchanges.

    At last the longest texts are shortened, so that a request is always possible. Nothing stored
    is changed.
    """
    kept = _without_old_outputs(messages, tokens_max, gauge)
    kept = _without_old_items(kept, tokens_max, gauge)
    while gauge.messages(kept) > tokens_max:
        longest = max(range(len(kept)), key=lambda index: len(kept[index].text))
        text = kept[longest].text
        if len(text) < 400:
            break
        shorter = msgspec.structs.replace(kept[longest], text=clip(text, len(text) // 2))
        kept = (*kept[:longest], shorter, *kept[longest + 1 :])
    return kept


def _without_old_outputs(
    messages: tuple[Message, ...], tokens_max: int, gauge: Gauge
) -> tuple[Message, ...]:
    kept = list(messages)
    total = gauge.messages(kept)
    last_answer = _last(kept, lambda message: message.role == "assistant")
    for index in range(last_answer):  # what the model has not seen yet stays
        if total <= tokens_max:
            break
        total -= gauge.message(kept[index])
        kept[index] = _emptied(kept[index])
        total += gauge.message(kept[index])
    return tuple(kept)


def _emptied(message: Message) -> Message:
    if message.files:
        return in_words(message)
    if message.role == "tool" and len(message.text) > len(DROPPED):
        return msgspec.structs.replace(message, text=DROPPED)
    if any(len(call.arguments) > ARGUMENTS_CHARS for call in message.tool_calls):
        calls = tuple(
            call
            if len(call.arguments) <= ARGUMENTS_CHARS
            else msgspec.structs.replace(call, arguments="{}")
            for call in message.tool_calls
        )
        return msgspec.structs.replace(message, tool_calls=calls)
    return message


def _without_old_items(
    messages: tuple[Message, ...], tokens_max: int, gauge: Gauge
) -> tuple[Message, ...]:
    """Drop whole exchanges from the front, up to the last prompt."""
    last_prompt = max(0, _last(messages, lambda message: message.asks))
    total = gauge.messages(messages)
    start = exchange = 0
    for index in range(last_prompt):
        exchange += gauge.message(messages[index])
        if not messages[index + 1].asks:
            continue
        if total <= tokens_max:
            break
        total -= exchange
        start, exchange = index + 1, 0
    return messages[start:]


def _last(messages: Sequence[Message], wanted: Callable[[Message], bool]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if wanted(messages[index]):
            return index
    return -1
