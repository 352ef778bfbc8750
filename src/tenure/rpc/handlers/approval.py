"""approval.*: answers to questions, and what was allowed for longer than once."""

from __future__ import annotations

from tenure.config import ApprovalRule
from tenure.protocol import methods as m, questions as q
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call


async def approval_respond(params: m.ApprovalRespond, call: Call) -> m.Resolved:
    """Answer the question shown, the one named, or all."""
    session = changing(call, params.session_id)
    count = await session.questions.respond(
        params.request_id, params.choice, everything=params.all, principal=call.principal
    )
    return m.Resolved(count)


async def approval_list(params: q.ApprovalList, call: Call) -> q.Grants:
    """What is allowed always, and in the session that is named."""
    found: list[q.Grant] = []
    profile = params.profile
    if params.session_id:
        session = call.gateway.sessions.get(params.session_id)
        profile = session.ports.profile
        for name, rules in session.questions.granted.items():
            found.append(q.Grant(id=name, extent="session", allows=[*map(shown, rules)]))
    async with call.gateway.profiles.using_ports(profile) as ports:
        for name, rule in ports.grants.named().items():
            found.append(q.Grant(id=name, extent="always", allows=[shown(rule)]))
    return q.Grants(found)


async def approval_revoke(params: q.ApprovalRevoke, call: Call) -> q.Revoked:
    """Take back a grant: of the session named if it has it, else one that is for always."""
    profile = params.profile
    if params.session_id:
        session = changing(call, params.session_id)
        profile = session.ports.profile
        if params.id in session.questions.granted:
            await session.questions.revoke(params.id)
            return q.Revoked(params.id)
    async with call.gateway.profiles.using_ports(profile) as ports:
        await ports.grants.revoke(params.id)
    return q.Revoked(params.id)


def shown(rule: ApprovalRule) -> str:
    """A rule for people."""
    return f"{rule.tool}: {rule.command or rule.path or rule.host or 'everything'}"
