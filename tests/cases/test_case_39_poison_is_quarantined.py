"""Case 39: an attempt is counted before it runs, so what kills the gateway does so three times."""

from __future__ import annotations

import msgspec
import pytest

from support.restarts import Restarts
from tenure.models.script import Script
from tenure.testing.gates import Gate


async def test_three_attempts_then_quarantine_and_the_others_are_served(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        poison = await client.ready_session()
        await client.call("prompt.submit", session_id=poison, text="poison")
        await client.call("prompt.submit", session_id=poison, text="behind it")
        restarts.kill()
    attempts = 0
    for boot in range(1, 6):
        script = Script([{"gate": "never"}], on=[{"match": "fine", "step": {"text": "ok"}}])
        async with restarts.boot(script) as gateway:
            attempts += sum("restarted" in r.messages[-1].text for r in script.requests) or (
                bool(gateway.sessions.live())
            )
            client, _ = await gateway.client()
            other = await client.ready_session()
            await client.call("prompt.submit", session_id=other, text="fine")
            done = await client.until("message.complete", other)
            assert done.payload["state"] == "completed", f"others are served at boot {boot}"
            restarts.kill()
    assert attempts == 3
    states = restarts.rows(
        "SELECT state, cause, attempts FROM turns WHERE session_id = ? ORDER BY ordinal, attempts",
        poison,
    )
    assert states == [
        ("interrupted", "crash", 0), ("interrupted", "crash", 1), ("interrupted", "crash", 2),
        ("interrupted", "crash", 3), ("refused", "quarantine", 0),
    ]  # fmt: skip
    ((reason,),) = restarts.rows("SELECT reason FROM sessions WHERE id = ?", poison)
    assert reason.startswith("recovery: Quarantined")
    (notice,) = restarts.rows(
        "SELECT payload FROM events WHERE session_id = ? AND type = 'session.notice' "
        "AND CAST(payload AS TEXT) LIKE '%Quarantined%'",
        poison,
    )
    assert msgspec.json.decode(notice[0])["returned"] == ["behind it"]

    # A person's new prompt runs as usual.
    script = Script([{"text": "well"}])
    async with restarts.boot(script) as gateway:
        client, _ = await gateway.client()
        opened = await client.call("session.resume", session_id=poison)
        assert opened["info"]["notice"].startswith("Quarantined"), "who comes back is told"
        await client.call("prompt.submit", session_id=poison, text="again")
        await client.until("message.complete", poison)
        assert [r.messages[-1].text for r in script.requests] == ["again"]
        assert "notice" not in gateway.sessions.get(poison).info(), "a new prompt lifts it"


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_a_queued_prompt_whose_opening_kills_the_gateway_is_counted_too(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"text": "never"}])) as gateway:
        gateway.picker.gates["model"] = Gate()
        client, _ = await gateway.client()
        opened = await client.call("session.create")
        await client.call("prompt.submit", session_id=opened["session_id"], text="wait")
        restarts.kill()
        gateway.picker.gates["model"].release()
    for boot in range(1, 6):
        async with restarts.boot(Script([{"text": "never"}]), recover=False) as gateway:
            gateway.picker.gates["model"] = gate = Gate()
            await restarts.recover(gateway)
            assert len(gateway.sessions.live()) == (boot <= 3)
            restarts.kill()
            gate.release()
    assert restarts.rows("SELECT state, cause, attempts FROM turns") == [
        ("refused", "quarantine", 3)
    ]
