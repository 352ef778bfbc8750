"""complete.slash: completions of a slash command."""

from __future__ import annotations


async def test_by_their_beginning(rig):
    found = await rig.call("complete.slash", text="/st")
    assert [i["text"] for i in found["items"]] == ["/status", "/stop", "/steer"]
    assert (await rig.call("complete.slash", text="/zzz"))["items"] == []
    await rig.refuses_wrong_types("complete.slash")
