"""Asking the person: one question, a few choices, one answer."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from tenure.errors import ToolError
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool

QUESTION_CHARS_MAX = 2_000
CHOICES_MAX = 8
CHOICE_CHARS_MAX = 200


class ClarifyArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `clarify`."""

    question: str
    choices: Annotated[tuple[str, ...], msgspec.Meta(max_length=CHOICES_MAX)] = ()


class Clarify(TypedTool[ClarifyArgs]):
    """One question to the person who is there.

    Args:
        pause_s: between the answer and the end of the call, in seconds: a client that reads both in
            one piece may take the end for a question that nobody has answered.
    """

    name: ClassVar[str] = "clarify"
    description = (
        "Ask the person a question when the task cannot go on without their decision; choices are "
        "optional. Do not ask for passwords or keys."
    )
    effect: ClassVar[Effect] = Effect.READ
    args = ClarifyArgs

    def __init__(self, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s

    async def run(self, args: ClarifyArgs, ctx: ToolContext) -> ToolResult:
        """Ask, and wait, bounded."""
        if not args.question.strip():
            raise ToolError("The question is empty.")
        if len(args.question) > QUESTION_CHARS_MAX:
            raise ToolError(f"The question is longer than {QUESTION_CHARS_MAX} characters.")
        choices = tuple(choice[:CHOICE_CHARS_MAX] for choice in args.choices if choice.strip())
        answer = await ctx.person.clarify(args.question, choices)
        if answer is None:
            text = "Nobody answered. Decide yourself, and say what you have assumed."
            return ToolResult(text, summary="nobody answered")
        if self._pause_s:
            await ctx.clock.sleep(self._pause_s)
        return ToolResult(answer, summary="answered")
