"""clarify.*, secret.*, sudo.*: answers to questions that are not approvals.

The terminal client names only the question, so its session is found here.
"""

from __future__ import annotations

from tenure.errors import AlreadyDecided
from tenure.protocol import questions as q
from tenure.rpc.handlers.attach import check_owner
from tenure.rpc.ports import Call
from tenure.sessions.questions import Kind


async def clarify_respond(params: q.ClarifyRespond, call: Call) -> q.Replied:
    """Answer a question of the agent's."""
    await _reply(call, params.request_id, ("clarify",), params.answer)
    return q.Replied("ok")


async def secret_respond(params: q.SecretRespond, call: Call) -> q.Replied:
    """Hand a secret to the command that asks for it; one that comes late goes nowhere."""
    try:
        await _reply(call, params.request_id, ("secret",), params.value)
    except AlreadyDecided:
        return q.Replied("expired")
    return q.Replied("ok")


async def sudo_respond(params: q.SudoRespond, call: Call) -> q.Replied:
    """The same for the password of sudo."""
    try:
        await _reply(call, params.request_id, ("sudo",), params.password)
    except AlreadyDecided:
        return q.Replied("expired")
    return q.Replied("ok")


async def _reply(call: Call, request_id: str, kinds: tuple[Kind, ...], typed: str) -> None:
    for session in call.gateway.sessions.live():
        if session.questions.waits_for(request_id):
            check_owner(call, session)
            await session.questions.reply(request_id, kinds, typed, call.principal)
            return
    raise AlreadyDecided(
        f"Question {request_id[:40]} is not open any more: it was already decided, or its turn has "
        "ended."
    )
