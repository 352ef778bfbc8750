"""gateway.info: version, instance, uptime."""

from __future__ import annotations


async def test_facts(rig):
    await rig.session()
    facts = await rig.call("gateway.info")
    assert facts["instance"] == "test-0" and facts["sessions"] == 1 and facts["uptime_s"] >= 0
