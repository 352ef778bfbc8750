"""session.title: read or set the title."""

from __future__ import annotations


async def test_set_announced_and_read(rig):
    session = await rig.session()
    assert (await rig.call("session.title", session_id=session))["title"] == ""
    set_to = await rig.call("session.title", session_id=session, title="  A\n  good   title ")
    assert set_to == {"title": "A good title", "session_key": session, "pending": False}
    event = await rig.client.until("session.title", session)
    assert event.payload == {"session_id": session, "title": "A good title"} and event.seq == 1
    assert (await rig.gateway.store.session(session)).title == "A good title"


async def test_a_long_title_is_cut(rig):
    session = await rig.session()
    assert (
        len((await rig.call("session.title", session_id=session, title="x" * 9999))["title"]) == 200
    )


async def test_guards(rig):
    await rig.refuses_strangers("session.title")
    await rig.refuses_wrong_types("session.title", session_id="x")
