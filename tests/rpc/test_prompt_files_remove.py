"""prompt.files.remove: a file does not go with the next prompt after all."""

from __future__ import annotations

import pytest

from support.pictures import b64
from tenure.errors import NotFound


async def test_by_place_and_by_name(rig):
    session = await rig.session()
    for name in ("a.txt", "b.txt", "c.txt"):
        await rig.call("file.attach", session_id=session, data_url=b64(b"x"), name=name)
    left = await rig.call("prompt.files.remove", session_id=session, id="2")
    assert [row["name"] for row in left["entries"]] == ["a.txt", "c.txt"]
    left = await rig.call("prompt.files.remove", session_id=session, id="a.txt")
    assert [row["name"] for row in left["entries"]] == ["c.txt"]
    with pytest.raises(NotFound, match=r"c\.txt waits for the next prompt"):
        await rig.call("prompt.files.remove", session_id=session, id="a.txt")
    assert len(await rig.gateway.store.uploads(session)) == 1  # the same content, still needed


async def test_guards(rig):
    await rig.refuses_strangers("prompt.files.remove", id="x")
    await rig.refuses_wrong_types("prompt.files.remove", session_id="x", id="y")
