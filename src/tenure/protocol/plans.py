"""Plan mode: the plan of a session, and what people do with it."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.protocol.params import ForSession


class Plan(msgspec.Struct, kw_only=True):
    """A session's plan: the result of plan.* and the payload of plan.changed."""

    on: bool
    """Plan mode: nothing may be changed until a plan is approved."""
    text: str
    """Markdown; empty: none was made yet."""
    revision: int
    """Counts the changes of the text."""
    approved_at: float
    """Seconds since 1970; 0: it is not approved."""


class PlanMode(ForSession, kw_only=True):
    """Params of plan.mode."""

    on: bool


class PlanEdit(ForSession, kw_only=True):
    """Params of plan.edit."""

    text: str
    """The whole plan, of at most 32,000 characters."""
    revision: int | None = None
    """What the editor has seen: if another one has changed the plan, this is refused."""


class PlanApprove(ForSession, kw_only=True):
    """Params of plan.approve."""

    revision: int | None = None
    """The plan that is meant: if it is another one by now, nothing is approved."""


class PlanReject(ForSession, kw_only=True):
    """Params of plan.reject."""

    text: str = ""
    """What should be otherwise; the agent is told."""


METHOD = tuple[type[msgspec.Struct], Any, str]
PLAN_METHODS: dict[str, METHOD] = {
    "plan.get": (ForSession, Plan, "The plan, and whether plan mode is on."),
    "plan.mode": (PlanMode, Plan, "Turn plan mode on or off; off without approving anything."),
    "plan.edit": (PlanEdit, Plan, "Change the plan; an approval is for what stands then."),
    "plan.approve": (PlanApprove, Plan, "Approve the plan: plan mode ends, and it is carried out."),
    "plan.reject": (PlanReject, Plan, "Send the plan back, with words for the agent."),
}
"""name -> (params, result, about)"""
