"""Remembering from session to session: searching what counts, proposing what should."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tenure.errors import TenureError, ToolError
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool

MEMORY = "memory"
FOUND = 10


class MemoryArgs(msgspec.Struct, frozen=True):
    """Arguments of `memory`."""

    action: Literal["search", "propose"]
    text: str


class MemoryTool(TypedTool[MemoryArgs]):
    """Stateless; what is remembered belongs to the profile."""

    name: ClassVar[str] = MEMORY
    description = (
        "Notes kept from session to session. search: find some by words. propose: one lasting fact "
        "or wish of the person in a sentence, no secrets; it counts once they accept it."
    )
    effect: ClassVar[Effect] = Effect.READ  # what is proposed has no effect by itself
    args = MemoryArgs

    async def run(self, args: MemoryArgs, ctx: ToolContext) -> ToolResult:
        """Search, or propose."""
        if ctx.memory is None:
            raise ToolError("Nothing is remembered here.")
        try:
            if args.action == "search":
                found = await ctx.memory.search(args.text, FOUND)
                text = "\n".join(f"- {note}" for note in found) or "No note has these words."
                return ToolResult(text, summary=f"{len(found)} found")
            counts = await ctx.memory.propose(args.text)
        except TenureError as exc:
            raise ToolError(exc.message) from None
        told = "Kept." if counts else "Proposed; it counts once the person accepts it."
        return ToolResult(told, summary="kept" if counts else "proposed")


MEMORY_TOOL = MemoryTool()
