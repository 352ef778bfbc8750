"""Sessions whose agent delegates: scripts, and what is left of a tree."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.rpc import Rig
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool
from tenure.tools.clarify import Clarify
from tenure.tools.delegate import Delegate


def delegating(*goals: str, **task: Any) -> dict[str, Any]:
    """An action that hands over these goals."""
    tasks = [{"goal": goal, **task} for goal in goals]
    return {"call": {"name": "delegate", "arguments": {"tasks": tasks}}}


def sub(goal: str, *actions: dict[str, Any]) -> dict[str, Any]:
    """What a sub-agent with this goal answers."""
    return {"match": goal, "step": list(actions)}


def script_of(*steps: Any, on: list[dict[str, Any]]) -> Script:
    """The turn's steps, and the sub-agents' answers by their goals."""
    return Script(list(steps), on=on)


def tools(*more: Any) -> Any:
    """A set with `delegate`, `clarify`, `probe` and what else is given."""
    made = (Delegate(), Clarify(0.0), scripted_tool(), *more)
    return lambda _config, _small: made


def results(script: Script, at: int = -1) -> list[str]:
    """The tool results in a request of the turn, the last one for example."""
    return [m.text for m in script.requests[at].messages if m.role == "tool"]


def left(gateway: Any) -> list[str]:
    """What of sub-agents is still in the census."""
    rows = [f"{e.owner} {e.kind} {e.label}" for e in gateway.root.census()]
    return [row for row in rows if "sub_" in row or "sub-agents" in row]


def arguments(request: Any) -> list[Any]:
    """The decoded arguments of all calls in a request's history."""
    return [json.loads(c.arguments) for m in request.messages for c in m.tool_calls]


@asynccontextmanager
async def one_at_work(folder: Any) -> AsyncIterator[tuple[Rig, Script, str]]:
    """A gateway with a sub-agent that has said a word and waits at the gate "goal"; its id."""
    script = script_of(
        delegating("goal one"),
        {"text": "Done."},
        on=[sub("goal one", {"text": "found it"}, {"gate": "goal"})],
    )
    async with open_test_gateway(folder, script, tools=tools()) as gateway:
        client, _ = await gateway.client()
        rig = Rig(gateway, client)
        session = await rig.session()
        await rig.call("prompt.submit", session_id=session, text="go")
        await script.gate("goal").wait_reached()
        (row,) = (await rig.call("subagent.list"))["subagents"]
        yield rig, script, row["subagent_id"]
        script.gate("goal").open()
