"""clipboard.paste: the image in the machine's clipboard, through the program that is there."""

from __future__ import annotations

import asyncio

import pytest

from support.pictures import png
from tenure.sessions import clipboard


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program that reads the clipboard, as the only one."""
    (tmp_path / "content").write_bytes(png())
    script = tmp_path / "bin-paste"
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/content\n")
    script.chmod(0o755)
    monkeypatch.setattr(clipboard, "PROGRAMS", ((str(script), "--type", "image/png"),))
    return script


async def test_an_image(rig, program):
    session = await rig.session()
    found = await rig.call("clipboard.paste", session_id=session)
    assert found["attached"] and found["count"] == 1 and found["width"] == 40
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["name"] for row in rows] == ["clipboard.png"]


async def test_nothing_is_read_for_a_client_on_another_machine(rig, program, monkeypatch):
    monkeypatch.setattr("tenure.rpc.connection.is_near", lambda _peer: False)
    session = await rig.session()
    found = await rig.call("clipboard.paste", session_id=session)
    assert not found["attached"] and "on another machine" in found["message"]
    assert (await rig.call("prompt.files.list", session_id=session))["entries"] == []


async def test_no_image_and_no_program(rig, program, monkeypatch):
    session = await rig.session()
    program.write_text("#!/bin/sh\nexit 1\n")
    found = await rig.call("clipboard.paste", session_id=session)
    assert found == {"attached": False, "message": "There is no image in the clipboard."}
    monkeypatch.setattr(clipboard, "PROGRAMS", (("no-such-program",),))
    found = await rig.call("clipboard.paste", session_id=session)
    assert not found["attached"] and "no-such-program" in found["message"]


async def test_a_program_that_fails_or_cannot_start_is_passed_over(rig, program, monkeypatch):
    session = await rig.session()
    broken = program.with_name("broken-paste")
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    fails = program.with_name("failing-paste")
    fails.write_text(f"#!/bin/sh\ncat {program.parent}/content\nexit 1\n")
    fails.chmod(0o755)
    monkeypatch.setattr(clipboard, "PROGRAMS", ((str(broken),), (str(fails),)))
    assert not (await rig.call("clipboard.paste", session_id=session))["attached"]
    monkeypatch.setattr(clipboard, "PROGRAMS", ((str(broken),), (str(program),)))
    assert (await rig.call("clipboard.paste", session_id=session))["attached"]


async def test_what_is_too_large_is_said_at_once_and_nothing_runs_on(rig, program, monkeypatch):
    session = rig.live(await rig.session())
    monkeypatch.setattr(clipboard, "IMAGE_BYTES_MAX", 10)
    program.write_text("#!/bin/sh\nprintf '%100s' x; exec sleep 600\n")
    async with asyncio.timeout(5):
        found = await clipboard.image_in_clipboard(session)
    assert len(found.content) > 10
    assert not [entry for entry in session.scope.census() if entry.kind == "process"]


async def test_a_program_that_does_not_end_is_ended(rig, program):
    session = rig.live(await rig.session())
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    looking = rig.gateway.root.spawn(clipboard.image_in_clipboard(session), name="look").value
    async with asyncio.timeout(5):
        while not looking.done():
            await asyncio.sleep(0.01)
            if any(entry.kind == "process" for entry in session.scope.census()):
                rig.gateway.ports.clock.advance(clipboard.WAIT_S)
    assert looking.result() == "There is no image in the clipboard."
    assert not [entry for entry in session.scope.census() if entry.kind == "process"]


async def test_guards(rig):
    await rig.refuses_strangers("clipboard.paste")
    await rig.refuses_wrong_types("clipboard.paste", session_id="x")
