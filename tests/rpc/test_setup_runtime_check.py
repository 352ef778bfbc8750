"""setup.runtime_check: which model would serve, and why."""

from __future__ import annotations


async def test_which_and_why(rig):
    found = await rig.call("setup.runtime_check")
    assert found == {"ok": True, "provider": "scripted", "model": "test", "source": "a test"}
