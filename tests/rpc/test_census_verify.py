"""census.verify: what is held against what runs."""

from __future__ import annotations

import os
import subprocess

from tenure.processes.containment import LABEL


async def test_what_nobody_holds_is_told_and_ended(rig):
    await rig.session()
    clean = await rig.call("census.verify")
    assert (clean["differences"], clean["found"]) == ([], 0)
    mark = rig.live(await rig.session()).ports.spawner.mark
    env = {**os.environ, LABEL: f"test-0/gone/{mark}-12345"}
    lost = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    try:
        found = await rig.call("census.verify")
        (one,) = found["differences"]
        assert (one["kind"], one["pid"], one["healed"]) == ("stray", lost.pid, True)
        assert lost.wait(5) == -15
        again = await rig.call("census.verify")
        assert (again["differences"], again["found"]) == ([], 1)
    finally:
        lost.kill()
        lost.wait()
    await rig.refuses_wrong_types("census.verify")
