"""file.read: the content of a file that came with a prompt, part by part."""

from __future__ import annotations

import base64

import pytest

from support.pictures import b64
from tenure.errors import InvalidParams, NotFound
from tenure.rpc.handlers import uploads


async def test_of_the_draft_and_of_the_history_live_and_closed(rig, monkeypatch):
    monkeypatch.setattr(uploads, "PART_BYTES", 4)
    session = await rig.session()
    sent = await rig.call("file.attach", session_id=session, data_url=b64(b"123456"), name="a.txt")
    read = {"session_id": session, "id": sent["id"]}
    first = await rig.call("file.read", **read)
    assert (first["name"], first["size"], first["more"]) == ("a.txt", 6, True)
    await rig.turn(session, "read this")
    rest = await rig.call("file.read", **read, offset=4)
    await rig.call("session.close", session_id=session)
    assert (await rig.call("file.read", **read)) == first
    whole = base64.b64decode(first["content_base64"]) + base64.b64decode(rest["content_base64"])
    assert whole == b"123456" and not rest["more"]


async def test_what_is_not_there(rig):
    session = await rig.session()
    sent = await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name="a.txt")
    with pytest.raises(NotFound, match="has no file 'file_x'"):
        await rig.call("file.read", session_id=session, id="file_x")
    other = await rig.session()
    with pytest.raises(NotFound, match="has no file"):
        await rig.call("file.read", session_id=other, id=sent["id"])
    with pytest.raises(NotFound, match="No session"):
        await rig.call("file.read", session_id="20200101_000000_00000000", id=sent["id"])
    with pytest.raises(InvalidParams, match="offset"):
        await rig.call("file.read", session_id=session, id=sent["id"], offset=-1)


async def test_guards(rig):
    await rig.refuses_wrong_types("file.read", session_id="x", id="y")
