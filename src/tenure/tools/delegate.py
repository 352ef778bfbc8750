"""Handing tasks to sub-agents, which work side by side and report once all are done."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from tenure.errors import ToolError
from tenure.tools.base import Effect, Task, ToolContext, ToolResult, TypedTool

DELEGATE = "delegate"


class DelegateArgs(msgspec.Struct, frozen=True):
    """Arguments of `delegate`."""

    tasks: Annotated[tuple[Task, ...], msgspec.Meta(min_length=1)]


class Delegate(TypedTool[DelegateArgs]):
    """Sub-agents for independent tasks. Stateless."""

    name: ClassVar[str] = DELEGATE
    description = (
        "Hand independent tasks to sub-agents, which work at the same time with the same tools and "
        "report back. Each sees only its goal: say everything in it."
    )
    effect: ClassVar[Effect] = Effect.READ  # what they do is judged call by call
    args = DelegateArgs

    async def run(self, args: DelegateArgs, ctx: ToolContext) -> ToolResult:
        """Run them all; see `Delegates.run`."""
        if ctx.delegates is None:
            raise ToolError("There are no sub-agents here; do it yourself.")
        return await ctx.delegates.run(args.tasks, ctx)
