"""session.search: sessions in whose messages words stand."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, NotFound
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for


async def found(rig, query, **more):
    rows = (await rig.call("session.search", query=query, **more))["sessions"]
    return [row["session_id"] for row in rows]


async def test_prompts_and_answers_are_found_at_once(rig):
    a, b = await rig.session(title="A"), await rig.session()
    await rig.turn(a, "How do I deploy the billing service?")
    await rig.turn(b, "Write a poem")
    assert await found(rig, "deploy billing") == [a]
    assert await found(rig, '"billing service"') == [a] == await found(rig, "bill*")
    assert set(await found(rig, "answer")) == {a, b}
    (row,) = (await rig.call("session.search", query="DEPLOY"))["sessions"]
    assert (row["title"], row["role"], row["seq"], row["hits"]) == ("A", "user", 1, 1)
    assert [row["snippet"][start:end] for start, end in row["marks"]] == ["deploy"]
    assert await found(rig, "answer", limit=1) in ([a], [b])
    await rig.call("session.delete", session_id=a)
    assert await found(rig, "deploy billing") == []


async def test_archived_sessions_hide_and_tags_narrow(rig):
    a, b = await rig.session(), await rig.session()
    for session in (a, b):
        await rig.turn(session, "the same words")
    await rig.call("session.tag", session_id=b, add=["work"])
    assert await found(rig, "same words", tag="work") == [b]
    await rig.call("session.archive", session_id=a)
    assert await found(rig, "same words") == [b]
    assert await found(rig, "same words", archived=True) == [a]


async def test_a_profile_is_searched_by_itself(rig):
    await rig.call("profile.create", name="p")
    held = await rig.session(profile="p")
    await rig.turn(held, "secret of p")
    assert await found(rig, "secret") == []
    assert await found(rig, "secret", profile="p") == [held]
    with pytest.raises(NotFound, match="profile create q"):
        await rig.call("session.search", query="x", profile="q")


async def test_what_has_no_word_in_it_is_told_in_a_sentence(rig):
    for query in ("", "?!", '"'):
        with pytest.raises(BadValue, match="Search for at least one word"):
            await rig.call("session.search", query=query)


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.search", query="x")


async def test_the_agent_searches_other_sessions_of_its_profile(tmp_path):
    call = {"call": {"name": "session_search", "arguments": {"query": "deploy"}}}
    script = Script(
        [{"text": "With bin/deploy."}, {"text": "deploy of p"}, [call], {"text": "So."}]
    )
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gateway:
        client, _ = await gateway.client()
        await client.call("profile.create", name="p")
        # Each session has its own place in the script, so the steps are spent one by one.
        ids = [await client.ready_session(title=f"No. {n}") for n in range(2)]
        ids.append(await client.ready_session(profile="p"))
        for session in ids[:1] + ids[2:]:
            await client.call(
                "prompt.submit", session_id=session, text="how to deploy in " + session
            )
            await client.until("message.complete", session)
        for _ in range(3):
            await client.call("prompt.submit", session_id=ids[1], text="go on")
            await client.until("message.complete", ids[1])
        result = next(e for e in client.seen if e.type == "tool.complete")
        assert result.payload["outcome"] == "done" and not result.payload["is_error"]
        assert ids[0] in result.payload["result"] and ids[2] not in result.payload["result"]
        assert ids[1] not in result.payload["result"] and "'No. 0'" in result.payload["result"]
        assert not [e for e in client.seen if e.type == "approval.request"]
