"""config.get: read a setting."""

from __future__ import annotations


async def test_what_the_terminal_client_reads(rig, tmp_path):
    assert "display" in (await rig.call("config.get", key="full"))["config"]
    assert (await rig.call("config.get", key="mtime"))["mtime"] > 0
    assert (await rig.call("config.get", key="project"))["cwd"] == str(tmp_path)
    assert (await rig.call("config.get", key="provider"))["provider"] == "scripted"
    assert await rig.call("config.get", key="busy") == {"value": "queue"}
    assert await rig.call("config.get", key="nothing we know") == {"value": ""}
    assert await rig.call("config.get", key="prompt") == {"prompt": ""}


async def test_approvals_of_a_session(rig):
    session = await rig.session(auto_approve=True)
    assert await rig.call("config.get", key="approval_mode", session_id=session) == {"value": "yes"}
    nobody = await rig.session(interactive=False)
    told = await rig.call("config.get", key="approval_mode", session_id=nobody)
    assert told == {"value": "ask (nobody to ask)"}, "the same as in session.info and /status"
    assert await rig.call("config.get", key="yolo", session_id=nobody) == {"value": "ask"}
    await rig.refuses_strangers("config.get", key="yolo")
    await rig.refuses_wrong_types("config.get", key="x")
