"""prompt.*: input for a session."""

from __future__ import annotations

from tenure.protocol import methods as m
from tenure.rpc.ports import Call


async def prompt_submit(params: m.PromptSubmit, call: Call) -> m.Receipt:
    """Run a prompt, or queue it. The receipt follows the commit."""
    session = call.gateway.sessions.get(params.session_id)
    text = params.text
    for placeholder, pasted in call.peer.pastes.items():
        if placeholder in text:
            text = text.replace(placeholder, pasted)
    turn, position = await session.submit(text)
    status = "queued" if position else "streaming"
    return m.Receipt(status=status, turn_id=turn.id, position=position)
