"""A person is told once that the conversation fills its room, before it is summarized."""

from __future__ import annotations

from support.profiles import turn
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway

WORDS = "alpha beta gamma delta " * 90  # about 520 tokens


def told(client, kind):
    return [i for i, e in enumerate(client.seen) if (e.payload or {}).get("kind") == kind]


async def test_once_for_each_time_that_it_fills(tmp_path):
    script = Script(
        [{"text": "Noted."}],
        loop=True,
        context_tokens=4_000,
        on=[{"match": "Summarize the session", "step": {"text": "They said alpha."}}],
    )
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        turns = 0
        while not told(client, "compacted"):
            await turn(client, session, WORDS)
            turns += 1
        (warning,) = told(client, "context")
        assert 3 < turns < 12 and warning < told(client, "compacting")[0] - 2
        text = client.seen[warning].payload["text"]
        assert "% of its room" in text and client.seen[warning].payload["level"] == "warn"
        while len(told(client, "compacted")) < 2:
            await turn(client, session, WORDS)
        assert len(told(client, "context")) == 2  # it was told again after there was room


async def test_a_session_with_much_room_is_not_disturbed(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        for _ in range(5):
            await turn(client, session, WORDS)
        assert not told(client, "context")
