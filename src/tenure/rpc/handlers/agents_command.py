"""/agents: the session's sub-agents as text, and what a person may tell them."""

from __future__ import annotations

import shlex

from tenure.errors import BadValue
from tenure.ids import whole_number
from tenure.protocol import delegation as d
from tenure.rpc.handlers.delegation import delegation_pause, subagent_interrupt, subagent_steer
from tenure.rpc.ports import Call
from tenure.sessions.subagents import Board, SubAgent

VERBS = ("steer", "stop", "pause", "resume")


async def agents(session_id: str, arg: str, call: Call) -> str:
    """``/agents``, ``/agents steer N TEXT``, ``/agents stop N``, ``/agents pause|resume``."""
    board = call.gateway.sessions.get(session_id).work.delegation
    verb, _, rest = arg.partition(" ")
    if verb in {"pause", "resume"}:
        wanted = d.DelegationPause(session_id=session_id, paused=verb == "pause")
        await delegation_pause(wanted, call)
    elif verb == "stop":
        one = _named(board, rest.strip(), "stop N")
        named = d.OneSubAgent(session_id=session_id, subagent_id=one.id)
        return _answer(one, "is being ended", (await subagent_interrupt(named, call)).found)
    elif verb == "steer":
        number, _, text = rest.strip().partition(" ")
        one = _named(board, number, "steer N TEXT")
        if not text.strip():
            raise BadValue(f"Say what it should know: /agents steer {one.number} TEXT.")
        said = d.SubAgentSteer(session_id=session_id, subagent_id=one.id, text=text.strip())
        return _answer(
            one, "hears it before its next step", (await subagent_steer(said, call)).found
        )
    elif verb:
        raise BadValue(f"/agents does not know {shlex.quote(verb)}; use {', '.join(VERBS)}.")
    return _listed(board)


def _named(board: Board, number: str, form: str) -> SubAgent:
    one = board.numbered(whole_number(number) or 0)
    if one is None:
        raise BadValue(f"Name one by its number: /agents {form}; /agents lists them.")
    return one


def _answer(one: SubAgent, told: str, found: bool) -> str:
    if found:
        return f"sub-agent {one.number} {told}"
    if one.over:
        raise BadValue(f"Sub-agent {one.number} is over ({one.state}).")
    raise BadValue(f"Sub-agent {one.number} has too much to hear already; wait for its next step.")


def _listed(board: Board) -> str:
    lines = [_line(one) for one in board.all.values()] or ["no sub-agents"]
    if board.paused:
        lines.append("paused: none begins until /agents resume; those that run go on")
    return "\n".join(lines)


def _line(one: SubAgent) -> str:
    why = f" ({one.why})" if one.why else ""
    used = f"{one.calls} call{'' if one.calls == 1 else 's'}, {one.facts()['tokens']:,} tokens"
    indent = "  " * (one.depth - 1)
    return f"{one.number:>3}  {indent}{one.state}{why}, {used}: {one.goal}"
