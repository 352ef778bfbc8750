"""complete.slash: completions of a slash command."""

from __future__ import annotations


async def test_by_their_beginning(rig):
    found = await rig.call("complete.slash", text="/st")
    assert [i["text"] for i in found["items"]] == ["/status", "/stop", "/steer"]
    found = await rig.call("complete.slash", text="/agents st")
    assert [i["text"] for i in found["items"]] == ["steer", "stop"]
    assert found["replace_from"] == len("/agents ")
    assert (await rig.call("complete.slash", text="/status x"))["items"] == []
    assert (await rig.call("complete.slash", text="/zzz"))["items"] == []
    await rig.refuses_wrong_types("complete.slash")
