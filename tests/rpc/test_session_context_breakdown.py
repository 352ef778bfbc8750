"""session.context_breakdown: what fills the model's window."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    return [[{"text": "First."}, {"usage": {"input": 5000, "output": 20, "cached": 3000}}],
            [{"text": "Second."}, {"usage": {"input": 6000, "output": 30, "cached": 4500}}]]  # fmt: skip


async def parts(rig, session):
    shown = await rig.call("session.context_breakdown", session_id=session)
    return shown, {part["name"]: part["tokens"] for part in shown["categories"]}


async def test_parts_sum_up_and_history_grows(rig, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Always test. " * 100)
    session = await rig.session()
    shown, before = await parts(rig, session)
    assert list(before) == ["system", "tools", "files", "history"]
    assert shown["estimated_total"] == sum(before.values()) == shown["context_used"]
    assert before["history"] == 0 and 300 < before["files"] < 400
    assert before["tools"] > 200 and before["system"] > 200
    assert (shown["cached"], shown["fresh"]) == (0, 0)
    await rig.turn(session, "words " * 400)
    shown, after = await parts(rig, session)
    assert after["history"] > 600 and {**after, "history": 0} == before
    assert shown["context_used"] == 5020 and shown["cached"] == 3000 and shown["fresh"] == 2000
    await rig.turn(session)
    shown, _ = await parts(rig, session)
    assert shown["context_used"] == 6030 and shown["cached"] == 7500 and shown["fresh"] == 3500
    window = shown["context_max"]
    assert shown["context_percent"] == round(100 * 6030 / window, 1)
    prefix = shown["estimated_total"] - after["history"]
    assert 0 < shown["compaction_at"] < window - prefix + after["history"]


async def test_a_command_shows_it(rig):
    session = await rig.session()
    out = (await rig.call("slash.exec", session_id=session, command="/context"))["output"]
    assert "history" in out and "summarized over" in out and "%" in out


async def test_strangers(rig):
    await rig.refuses_strangers("session.context_breakdown", session_id="x")


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.context_breakdown", session_id=await rig.session())
