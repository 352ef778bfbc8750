"""prompt.*: input for a session."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.errors import TooLarge
from tenure.protocol import methods as m
from tenure.protocol.messages import PROMPT_BYTES_MAX
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.prompts import Accepted, edit_queued, remove_queued
from tenure.sessions.rewriting import Wording, from_ordinal, say_again


async def prompt_submit(params: m.PromptSubmit, call: Call) -> m.Receipt:
    """Run a prompt, or queue it. The receipt follows the commit."""
    session = changing(call, params.session_id)
    text = with_pastes(params.text, call.peer.pastes)
    if params.truncate_before_user_ordinal is not None:
        choose = from_ordinal(params.truncate_before_user_ordinal)
        return receipt_of(await say_again(session, choose, Wording(text, params.key)))
    return receipt_of(await session.submit(text, key=params.key, busy=params.when_busy))


def receipt_of(found: Accepted) -> m.Receipt:
    """An accepted prompt as an answer."""
    return m.Receipt(
        status=found.status,
        turn_id=found.turn_id,
        position=found.position,
        duplicate=found.duplicate,
    )


async def prompt_queue_list(params: m.ForSession, call: Call) -> m.QueueRows:
    """What waits, in order."""
    session = call.gateway.sessions.get(params.session_id)
    return m.QueueRows(session.queue.rows())


async def prompt_queue_edit(params: m.QueueEdit, call: Call) -> m.QueueRows:
    """Change a prompt that waits."""
    session = changing(call, params.session_id)
    await edit_queued(session, params.turn_id, with_pastes(params.text, call.peer.pastes))
    return m.QueueRows(session.queue.rows())


async def prompt_queue_remove(params: m.QueueRemove, call: Call) -> m.QueueRows:
    """Take a prompt that waits out of the queue, as not run."""
    session = changing(call, params.session_id)
    await remove_queued(session, params.turn_id)
    return m.QueueRows(session.queue.rows())


async def session_steer(params: m.Steer, call: Call) -> m.Steered:
    """Say something to the running turn; without one it is a prompt like any other."""
    session = changing(call, params.session_id)
    text = with_pastes(params.text, call.peer.pastes)
    found = await session.submit(text, key=params.key, busy="steer")
    return m.Steered("queued", text, found.turn_id, found.status)


def with_pastes(text: str, pastes: Mapping[str, str]) -> str:
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
