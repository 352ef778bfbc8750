"""paste.collapse: a placeholder for a long paste."""

from __future__ import annotations

import gc

import pytest

from tenure.errors import TooLarge
from tenure.protocol.messages import PROMPT_BYTES_MAX
from tenure.rpc.connection import Connection
from tenure.rpc.handlers.terminal import PASTES_CHARS_MAX


async def test_a_placeholder_that_says_how_much(rig):
    found = await rig.call("paste.collapse", text="a\nb\nc")
    assert found["lines"] == 3 and "3 lines" in found["placeholder"]


async def test_bounds(rig):
    with pytest.raises(TooLarge, match="4 MiB"):
        await rig.call("paste.collapse", text="x" * (4 * 1024 * 1024 + 1))
    first = (await rig.call("paste.collapse", text="first"))["placeholder"]
    for n in range(64):
        await rig.call("paste.collapse", text=f"paste {n}")
    session = await rig.session()
    await rig.turn(session, first)
    (item, _) = await rig.gateway.store.history(session)
    assert item.message.text == first, "the oldest of 64 is forgotten"
    await rig.refuses_wrong_types("paste.collapse", text="x")


async def test_pastes_are_bounded_together(rig):
    (connection,) = (
        o for o in gc.get_objects() if type(o) is Connection and o._gateway is rig.gateway.ports
    )
    for _ in range(6):
        await rig.call("paste.collapse", text="x" * PROMPT_BYTES_MAX)
    assert sum(map(len, connection.pastes.values())) == PASTES_CHARS_MAX


async def test_a_short_prompt_that_means_a_long_one_is_refused(rig):
    session = await rig.session()
    held = (await rig.call("paste.collapse", text="x" * 1_000_000))["placeholder"]
    with pytest.raises(TooLarge, match="With its pastes"):
        await rig.call("prompt.submit", session_id=session, text=held * 20)
    assert await rig.gateway.store.history(session) == []
