"""session.tag: add and remove tags."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import BadValue
from tenure.store.base import TAGS_MAX


async def test_tags_are_a_set_that_narrows_lists(rig):
    a, b = await rig.session(), await rig.session()
    assert (await rig.call("session.tag", session_id=a, add=["work", "a-b", "work"]))["tags"] == [
        "a-b",
        "work",
    ]
    await rig.call("session.tag", session_id=b, add=["works"])
    assert [r["id"] for r in (await rig.call("session.list", tag="work"))["sessions"]] == [a]
    assert (await rig.call("session.tag", session_id=a, remove=["work", "none"]))["tags"] == ["a-b"]
    assert (await rig.call("session.list", tag="work"))["sessions"] == []


async def test_two_who_tag_at_once_lose_nothing(rig):
    session = await rig.session()
    calls = [rig.call("session.tag", session_id=session, add=[f"t{n}"]) for n in range(9)]
    await asyncio.gather(*calls)
    (row,) = (await rig.call("session.list"))["sessions"]
    assert row["tags"] == [f"t{n}" for n in range(9)]


@pytest.mark.parametrize("tag", ["", "a b", "A", "-", "x" * 65, "a\x00", "ä"])
async def test_what_cannot_be_a_tag_changes_nothing(rig, tag):
    session = await rig.session()
    with pytest.raises(BadValue, match="cannot name a tag"):
        await rig.call("session.tag", session_id=session, add=["good", tag])
    assert (await rig.call("session.list"))["sessions"][0]["tags"] == []


async def test_there_is_a_limit(rig):
    session = await rig.session()
    await rig.call("session.tag", session_id=session, add=[f"t{n}" for n in range(TAGS_MAX)])
    with pytest.raises(BadValue, match=f"{TAGS_MAX} tags at the most"):
        await rig.call("session.tag", session_id=session, add=["more"])


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.tag", session_id=await rig.session())
