"""setup.status: whether a model can serve."""

from __future__ import annotations


async def test_it_can(rig):
    assert await rig.call("setup.status") == {"provider_configured": True, "reason": "a test"}
