"""prompt.files.list: what waits for the next prompt."""

from __future__ import annotations

from support.pictures import b64


async def test_in_order_and_without_what_is_of_no_use_to_clients(rig):
    session = await rig.session()
    for name in ("a.txt", "b.txt"):
        await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name=name)
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["name"] for row in rows] == ["a.txt", "b.txt"]
    assert rows[0]["about"] == "a.txt (text, 1 character)" and "digest" not in rows[0]


async def test_guards(rig):
    await rig.refuses_strangers("prompt.files.list")
    await rig.refuses_wrong_types("prompt.files.list", session_id="x")
