"""approval.list: what is allowed for longer than once."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    def shell(command):
        return {"call": {"name": "shell", "arguments": {"command": command}}}

    return [[shell("touch a"), shell("make b"), shell("npm test")], {"text": "Done."}]


async def answered(rig, *choices):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="go")
    for choice in choices:
        await rig.client.until("approval.request", session)
        await rig.call("approval.respond", session_id=session, choice=choice)
    await rig.client.until("message.complete", session)
    return session


async def test_by_extent(rig):
    assert await rig.call("approval.list") == {"grants": []}
    session = await answered(rig, "once", "session", "always")
    (always,) = (await rig.call("approval.list"))["grants"]
    assert (always["extent"], always["allows"]) == ("always", ["shell: npm test *"])
    listed = (await rig.call("approval.list", session_id=session))["grants"]
    assert [(g["extent"], g["allows"]) for g in listed] == [
        ("session", ["shell: make b *"]), ("always", ["shell: npm test *"]),
    ]  # fmt: skip
    other = await rig.session()
    assert (await rig.call("approval.list", session_id=other))["grants"] == [always]


async def test_what_a_session_was_allowed_lives_as_long_as_it(rig):
    session = await answered(rig, "deny", "session", "deny")
    before = await rig.call("approval.list", session_id=session)
    await rig.call("session.close", session_id=session)
    await rig.call("session.resume", session_id=session)
    assert await rig.call("approval.list", session_id=session) == before != {"grants": []}


async def test_guards(rig):
    await rig.refuses_wrong_types("approval.list")
