"""Case 65: boxes and terminals cannot outlive the gateway; what they had on disk goes with the next start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.boxes import needs_bwrap
from support.commands import Place
from support.served import serving
from tenure.testing.waiting import until

ONE = f"65{os.getpid()}"
AWAY = f"(setsid env -i setsid sleep {ONE} &) ; sleep {ONE} & echo rea''dy; sleep {ONE}"


def sleepers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[:2] == ["sleep", ONE]:
            found.append(int(pid))
    return found


@needs_bwrap
async def test_kill_9_of_the_gateway_ends_what_runs_in_boxes(tmp_path):
    place = Place(tmp_path)
    place.extra["TENURE_SANDBOX"] = "auto"
    ref = place.script({"text": "Done."})
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(cwd=str(place.work))
            await client.call("terminal.open", session_id=session, command=AWAY)
            await until(lambda: len(sleepers()) == 3)
            os.kill(served.pid, signal.SIGKILL)
            await until(lambda: not sleepers())
    assert list((place.home / "boxes").iterdir()), "nobody was left to remove it"
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            await client.call("session.list")
            await until(lambda: not any((place.home / "boxes").iterdir()))
