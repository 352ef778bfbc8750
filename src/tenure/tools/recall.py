"""Looking things up in earlier sessions. Reads only, and only those of the same profile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from tenure.conversation import Found
from tenure.errors import BadValue, ToolError
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.clip import clip

FOUND_MAX = 20


class RecallArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `session_search`."""

    query: str
    limit: int = 5


class Recall(TypedTool[RecallArgs]):
    """What was said in other sessions."""

    name: ClassVar[str] = "session_search"
    description = (
        'Search what was said in earlier sessions: all words must occur; "a phrase", begin*.'
    )
    effect: ClassVar[Effect] = Effect.READ
    args = RecallArgs

    def __init__(self, output_bytes: int) -> None:
        self._output_bytes = output_bytes

    async def run(self, args: RecallArgs, ctx: ToolContext) -> ToolResult:
        """Search; nothing found is no error."""
        if ctx.find is None:
            raise ToolError("There are no earlier sessions here.")
        try:
            found = await ctx.find(args.query, max(1, min(args.limit, FOUND_MAX)))
        except BadValue as exc:
            raise ToolError(exc.message) from None
        if not found:
            return ToolResult("No earlier session says that; try fewer words.", summary="nothing")
        text = clip("\n\n".join(map(_shown, found)), self._output_bytes)
        return ToolResult(text, summary=_counted(found))


def _shown(one: Found) -> str:
    day = datetime.fromtimestamp(one.used_at, UTC).strftime("%Y-%m-%d")
    return f"{one.session_id} {day} {one.title!r}, {one.hits} places; {one.role}: {one.snippet}"


def _counted(found: Sequence[Found]) -> str:
    return "1 session" if len(found) == 1 else f"{len(found)} sessions"
