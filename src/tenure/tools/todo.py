"""A session's list of steps: the agent keeps it, people see it."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from tenure.errors import ToolError
from tenure.tools.base import Effect, TodoItem, ToolContext, ToolResult, TypedTool

ITEMS_MAX = 50
TODO = "todo"


class TodoArgs(msgspec.Struct, frozen=True):
    """Arguments of `todo`."""

    items: Annotated[tuple[TodoItem, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Todo(TypedTool[TodoArgs]):
    """The whole list at a time. Stateless."""

    name: ClassVar[str] = TODO
    description = (
        "Keep a list of the steps of a longer task; each call gives the whole list. One step is "
        "in_progress at a time."
    )
    effect: ClassVar[Effect] = Effect.READ  # it changes nothing outside of the session
    args = TodoArgs

    async def run(self, args: TodoArgs, ctx: ToolContext) -> ToolResult:
        """Store it; returns when that is done."""
        if ctx.keep_todo is None:
            raise ToolError("There is no list here; go on without.")
        if sum(item.status == "in_progress" for item in args.items) > 1:
            raise ToolError("More than one step is in_progress; do one after the other.")
        await ctx.keep_todo(args.items)
        done = sum(item.status in {"completed", "cancelled"} for item in args.items)
        todos = [{"id": str(n), **rows} for n, rows in enumerate(map(row, args.items), 1)]
        summary = f"{done} of {len(args.items)} done"
        return ToolResult(f"Kept: {summary}.", summary=summary, shown={"todos": todos})


def row(item: TodoItem) -> dict[str, str]:
    """A step as clients and the store have it."""
    return {"content": item.content, "status": item.status}
