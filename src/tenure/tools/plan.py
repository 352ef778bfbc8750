"""Showing a plan to the person in plan mode, and waiting for their word."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from tenure.errors import ToolError
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool

PLAN = "plan"
PLAN_CHARS_MAX = 32_000


class PlanArgs(msgspec.Struct, frozen=True):
    """Arguments of `plan`."""

    plan: Annotated[str, msgspec.Meta(min_length=1, max_length=PLAN_CHARS_MAX)]


class PlanTool(TypedTool[PlanArgs]):
    """One plan at a time. Stateless; offered in plan mode only."""

    name: ClassVar[str] = PLAN
    description = (
        "Show the person the whole plan and wait for their word; they may edit it. Only their yes "
        "ends plan mode."
    )
    effect: ClassVar[Effect] = Effect.READ  # the yes is what changes something
    args = PlanArgs

    async def run(self, args: PlanArgs, ctx: ToolContext) -> ToolResult:
        """Ask, and wait, bounded."""
        if ctx.propose is None or not args.plan.strip():
            raise ToolError("There is no plan to approve here; report it as your answer.")
        judged = await ctx.propose(args.plan)
        return ToolResult(judged.text, summary="approved" if judged.approved else "not approved")


PLAN_TOOL = PlanTool()
