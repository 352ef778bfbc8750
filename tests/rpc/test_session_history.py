"""session.history: all messages, live or stored."""

from __future__ import annotations

import pytest

from support.rpc import STRANGER
from tenure.errors import NotFound, TenureError
from tenure.sessions import projection


async def test_live_and_stored_read_the_same(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    live = await rig.call("session.history", session_id=session)
    await rig.call("session.close", session_id=session)
    assert await rig.call("session.history", session_id=session) == live
    assert live["count"] == 2
    assert [(m["role"], m["text"]) for m in live["messages"]] == [
        ("user", "one"),
        ("assistant", "First answer."),
    ]


TOOL = {"call": {"name": "list", "arguments": {"path": "."}}}


@pytest.mark.parametrize("steps", [[TOOL, {"text": "Nothing there."}]])
async def test_calls_and_their_results_are_part_of_it(rig):
    session = await rig.session()
    await rig.turn(session, "look")
    told = (await rig.call("session.history", session_id=session))["messages"]
    assert [m["role"] for m in told] == ["user", "assistant", "tool", "assistant"]
    (call,) = told[1]["tool_calls"]
    assert call["name"] == "list" and not told[2]["is_error"]
    assert told[2]["tool_call_id"] == call["id"] and told[2]["content"] == told[2]["text"]


async def test_a_page_ends_where_an_answer_would_grow_too_long(rig, monkeypatch):
    session = await rig.session()
    for n in range(3):
        await rig.turn(session, f"{n}" * 50)
    monkeypatch.setattr(projection, "PAGE_CHARS_MAX", 130)  # two turns
    page = await rig.call("session.history", session_id=session)
    assert [m["text"][:1] for m in page["messages"]] == ["1", "S", "2", "T"]
    first = await rig.call("session.history", session_id=session, before=page["messages"][0]["seq"])
    assert [m["text"][:1] for m in first["messages"]] == ["0", "F"]
    monkeypatch.setattr(projection, "PAGE_CHARS_MAX", 5)
    page = await rig.call("session.history", session_id=session)
    assert len(page["messages"]) == 1, "one comes however long it is"


@pytest.mark.parametrize("session", ["../x", "x" * 5000, "", "a\0b"])
async def test_an_id_that_is_none(rig, session):
    with pytest.raises(TenureError):
        await rig.call("session.history", session_id=session)


async def test_guards(rig):
    with pytest.raises(NotFound):
        await rig.call("session.history", session_id=STRANGER)
    await rig.refuses_wrong_types("session.history", session_id="x")
