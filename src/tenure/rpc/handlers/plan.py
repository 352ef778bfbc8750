"""plan.*: the plan of a session, and /plan."""

from __future__ import annotations

import shlex

import msgspec

from tenure.errors import BadValue
from tenure.protocol import methods as m, plans as p
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions import planning

VERBS = ("on", "off", "approve", "reject", "edit")


def _shown(plan: planning.Plan) -> p.Plan:
    return p.Plan(**msgspec.structs.asdict(plan))


async def plan_get(params: m.ForSession, call: Call) -> p.Plan:
    """The plan as it is now."""
    return _shown(planning.plan_of(call.gateway.sessions.get(params.session_id)))


async def plan_mode(params: p.PlanMode, call: Call) -> p.Plan:
    """Turn plan mode on or off."""
    return _shown(await planning.set_mode(changing(call, params.session_id), params.on))


async def plan_edit(params: p.PlanEdit, call: Call) -> p.Plan:
    """Change the plan."""
    session = changing(call, params.session_id)
    return _shown(await planning.edit(session, params.text, params.revision))


async def plan_approve(params: p.PlanApprove, call: Call) -> p.Plan:
    """Approve the plan."""
    session = changing(call, params.session_id)
    return _shown(await planning.approve(session, call.principal, params.revision))


async def plan_reject(params: p.PlanReject, call: Call) -> p.Plan:
    """Send the plan back."""
    session = changing(call, params.session_id)
    return _shown(await planning.reject(session, call.principal, params.text))


async def plan_command(session_id: str, arg: str, call: Call) -> str:
    """``/plan [on|off|approve]``, ``/plan reject TEXT``, ``/plan edit TEXT``."""
    verb, _, rest = arg.partition(" ")
    if verb in {"on", "off"}:
        await plan_mode(p.PlanMode(session_id=session_id, on=verb == "on"), call)
    elif verb == "approve":
        waits = changing(call, session_id).current is not None
        await plan_approve(p.PlanApprove(session_id=session_id), call)
        return "approved" if waits else "approved; the agent carries it out with your next prompt"
    elif verb == "reject":
        await plan_reject(p.PlanReject(session_id=session_id, text=rest.strip()), call)
        return "sent back"
    elif verb == "edit":
        if not rest.strip():
            raise BadValue("Give the whole plan: /plan edit TEXT.")
        await plan_edit(p.PlanEdit(session_id=session_id, text=rest.strip()), call)
    elif verb:
        raise BadValue(f"/plan does not know {shlex.quote(verb)}; use {', '.join(VERBS)}.")
    return plan_text(planning.plan_of(call.gateway.sessions.get(session_id)))


def plan_text(plan: planning.Plan) -> str:
    """The mode and the plan, for people."""
    if plan.on:
        state = "plan mode is on: nothing is changed until a plan is approved"
    else:
        state = "plan mode is off" + (", the plan is approved" if plan.approved_at else "")
    return f"{plan.text.rstrip()}\n\n{state}" if plan.text else state
