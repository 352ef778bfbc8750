"""clipboard.paste: the image in the machine's clipboard, through the program that is there."""

from __future__ import annotations

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


async def test_no_image_and_no_program(rig, program, monkeypatch):
    session = await rig.session()
    program.write_text("#!/bin/sh\nexit 1\n")
    found = await rig.call("clipboard.paste", session_id=session)
    assert found == {"attached": False, "message": "There is no image in the clipboard."}
    monkeypatch.setattr(clipboard, "PROGRAMS", (("no-such-program",),))
    found = await rig.call("clipboard.paste", session_id=session)
    assert not found["attached"] and "no-such-program" in found["message"]


async def test_guards(rig):
    await rig.refuses_strangers("clipboard.paste")
    await rig.refuses_wrong_types("clipboard.paste", session_id="x")
