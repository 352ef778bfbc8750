"""prompt.*: input for a session."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.errors import TooLarge
from tenure.protocol import methods as m
from tenure.protocol.messages import PROMPT_BYTES_MAX
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call


async def prompt_submit(params: m.PromptSubmit, call: Call) -> m.Receipt:
    """Run a prompt, or queue it. The receipt follows the commit."""
    session = changing(call, params.session_id)
    turn, position = await session.submit(_with_pastes(params.text, call.peer.pastes))
    status = "queued" if position else "streaming"
    return m.Receipt(status=status, turn_id=turn.id, position=position)


def _with_pastes(text: str, pastes: Mapping[str, str]) -> str:
    """`text` with every placeholder replaced; measured first, since few words can mean gigabytes.

    Raises:
        TooLarge: it would be over the limit of a prompt.
    """
    for placeholder, pasted in pastes.items():
        count = text.count(placeholder)
        if count and len(text) + count * len(pasted) > PROMPT_BYTES_MAX + count * len(placeholder):
            raise TooLarge(
                f"With its pastes the prompt is over {PROMPT_BYTES_MAX >> 20} MiB; put the text "
                "into a file and name the file instead."
            )
        text = text.replace(placeholder, pasted)
    return text
