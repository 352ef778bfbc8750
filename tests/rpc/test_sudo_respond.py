"""sudo.respond: the password of sudo, for a command that names it."""

from __future__ import annotations

import pytest

PASSWORD = "open sesame 42"


@pytest.fixture
def steps():
    arguments = {
        "command": 'test -n "$SUDO_PASSWORD" && touch root.txt',
        "secrets": ["SUDO_PASSWORD"],
    }
    return [{"call": {"name": "shell", "arguments": arguments}}, {"text": "Installed."}]


async def test_it_is_asked_for_as_such(rig, tmp_path):
    session = await rig.session(auto_approve=True)
    await rig.call("prompt.submit", session_id=session, text="install")
    question = (await rig.client.until("sudo.request", session)).payload
    answered = await rig.call("sudo.respond", request_id=question["request_id"], password=PASSWORD)
    assert answered == {"status": "ok"}
    await rig.client.until("message.complete", session)
    assert (tmp_path / "root.txt").exists() and PASSWORD not in repr(rig.gateway.store.writes)


async def test_an_interrupt_voids_it(rig, tmp_path):
    session = await rig.session(auto_approve=True)
    await rig.call("prompt.submit", session_id=session, text="install")
    question = (await rig.client.until("sudo.request", session)).payload
    await rig.call("session.interrupt", session_id=session)
    await rig.client.until("sudo.expire", session)
    late = await rig.call("sudo.respond", request_id=question["request_id"], password=PASSWORD)
    assert late == {"status": "expired"} and not (tmp_path / "root.txt").exists()


async def test_guards(rig):
    assert await rig.call("sudo.respond", request_id="ask_0") == {"status": "expired"}
    await rig.refuses_wrong_types("sudo.respond", request_id="x")
