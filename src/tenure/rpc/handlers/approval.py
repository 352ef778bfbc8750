"""approval.*: answers to questions."""

from __future__ import annotations

from tenure.protocol import methods as m
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call


async def approval_respond(params: m.ApprovalRespond, call: Call) -> m.Resolved:
    """Answer the question shown, the one named, or all."""
    session = changing(call, params.session_id)
    count = await session.questions.respond(params.request_id, params.choice, everything=params.all)
    return m.Resolved(count)
