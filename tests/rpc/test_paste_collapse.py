"""paste.collapse: a placeholder for a long paste."""

from __future__ import annotations

import pytest

from tenure.errors import TooLarge


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
