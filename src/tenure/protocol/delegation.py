"""Sub-agents: what a client sees of them, and what it may tell them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tenure.protocol.params import MaybeSession

STEER_CHARS_MAX = 100_000


class SubAgentRow(msgspec.Struct, kw_only=True):
    """A sub-agent; also the payload of its events, which add to it."""

    subagent_id: str
    parent_id: str | None
    """The sub-agent that delegated to it; null below the turn itself."""
    goal: str
    number: int
    """What people call it: it is unique in the session while that is in memory."""
    task_index: int
    task_count: int
    depth: int
    model: str
    status: str
    """waiting or running, then completed, interrupted, failed or refused."""
    tool_count: int
    api_calls: int
    tokens: int


class SubAgentEvent(SubAgentRow, kw_only=True, omit_defaults=True):
    """Payload of subagent.spawn_requested, subagent.start and subagent.complete."""

    duration_seconds: float = 0.0
    summary: str = ""
    """The beginning of its report."""
    text: str = ""
    """Why it did not complete; or, in subagent.progress, what it said."""
    tool_name: str = ""
    tool_preview: str = ""


class SubAgents(msgspec.Struct):
    """Result of subagent.list."""

    subagents: list[SubAgentRow]


class OneSubAgent(MaybeSession, kw_only=True):
    """Params of subagent.interrupt; without a session, any that this connection is attached to."""

    subagent_id: str


class SubAgentTail(OneSubAgent, kw_only=True):
    """Params of subagent.tail."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The number of lines that are known already."""


class SubAgentLines(msgspec.Struct, kw_only=True):
    """Result of subagent.tail."""

    lines: list[str]
    next: int
    """What to ask for next time as `after`."""
    dropped: int
    """Lines after `after` that are not kept any more."""
    status: str


class SubAgentSteer(OneSubAgent, kw_only=True):
    """Params of subagent.steer."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=STEER_CHARS_MAX)]


class SubAgentFound(msgspec.Struct, kw_only=True):
    """Result of subagent.interrupt and subagent.steer."""

    found: bool
    """It was alive, and will hear it."""
    subagent_id: str


class DelegationPause(MaybeSession, kw_only=True):
    """Params of delegation.pause; without a session, all that this connection is attached to."""

    paused: bool


class DelegationPaused(msgspec.Struct):
    """Result of delegation.pause."""

    paused: bool


class DelegationStatus(msgspec.Struct, kw_only=True):
    """Result of delegation.status."""

    active: list[SubAgentRow]
    paused: bool
    max_spawn_depth: int
    max_concurrent_children: int


DELEGATION_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "subagent.list": (
        MaybeSession,
        SubAgents,
        "The session's sub-agents, the last that are over included.",
    ),
    "subagent.tail": (SubAgentTail, SubAgentLines, "The last lines of what one said and did."),
    "subagent.steer": (SubAgentSteer, SubAgentFound, "Tell one something before its next step."),
    "subagent.interrupt": (
        OneSubAgent,
        SubAgentFound,
        "End one and all below it; the turn goes on.",
    ),
    "delegation.status": (
        MaybeSession,
        DelegationStatus,
        "Sub-agents that wait or run, and limits.",
    ),
    "delegation.pause": (DelegationPause, DelegationPaused, "Begin no more of them, or again."),
}
"""name -> (params, result, about)"""
