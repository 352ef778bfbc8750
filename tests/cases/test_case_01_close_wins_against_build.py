"""Case 1: close wins against a background build."""

from __future__ import annotations

import pytest

from tenure.errors import ModelError
from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import StepPicker, open_test_gateway


@pytest.mark.parametrize("step", StepPicker.STEPS)
async def test_a_close_during_any_step_frees_what_was_acquired_once(tmp_path, step):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        gate = gw.picker.gates[step] = Gate()
        client, _ = await gw.client()
        sid = (await client.call("session.create"))["session_id"]
        await gate.wait_parked()
        closing = gw.root.spawn(client.call("session.close", session_id=sid), name="close").value
        await settle()
        gw.ports.clock.advance(2.5)  # whoever asked runs out of patience; the closing goes on
        assert await closing == {"closed": True}
        gate.release()
        await client.until("session.closed", sid)
        await settle()
        steps = StepPicker.STEPS[: StepPicker.STEPS.index(step) + 1]
        assert gw.picker.log == [
            *(f"open {s}" for s in steps),
            *(f"release {s}" for s in reversed(steps)),
        ]
        assert gw.picker.opened == []
        assert not [e for e in gw.root.census() if sid in e.owner]
        assert sid not in [s.id for s in gw.sessions.live()]
        infos = [e for e in client.seen if e.type == "session.info" and not e.payload["lazy"]]
        errors = [e for e in client.seen if e.type == "error"]
        assert infos == errors == [], "nothing is published for a closed session"


async def test_a_build_that_is_over_just_after_the_claim_is_not_published(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        gate = gw.picker.gates["model"] = Gate()
        client, _ = await gw.client()
        sid = (await client.call("session.create"))["session_id"]
        await gate.wait_parked()
        session = gw.sessions.get(sid)
        gate.release()
        gw.sessions.close_nowait(session, "now", "client")
        await client.until("session.closed", sid)
        assert session.agent is None and gw.picker.opened == []


@pytest.mark.parametrize("step", StepPicker.STEPS)
async def test_a_step_that_fails_under_the_close_is_not_told(tmp_path, step):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        gate = gw.picker.gates[step] = Gate()
        gw.picker.failures[step] = ModelError("too late to matter")
        client, _ = await gw.client()
        sid = (await client.call("session.create"))["session_id"]
        await gate.wait_parked()
        session = gw.sessions.get(sid)
        events = []
        session.journal._publish = lambda event, _turn: events.append(event)
        gw.sessions.close_nowait(session, "now", "client")
        gate.release()
        await session.closing
        assert [e.type for e in events] == ["session.closed"]
        assert gw.picker.opened == []
