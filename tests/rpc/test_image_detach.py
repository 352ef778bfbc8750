"""image.detach: by path, name, id or place."""

from __future__ import annotations

from pathlib import Path

from support.pictures import b64, png
from tenure.testing.waiting import until


async def test_by_whatever_names_it(rig):
    session = await rig.session()
    for how in ("path", "name", "id"):
        sent = await rig.call(
            "image.attach_bytes", session_id=session, data=b64(png()), filename="a.png"
        )
        assert Path(sent["path"]).exists()
        done = await rig.call("image.detach", session_id=session, path=sent[how])
        assert done == {"detached": True, "count": 0}
        await until(lambda sent=sent: not Path(sent["path"]).exists())
    done = await rig.call("image.detach", session_id=session, path="nothing.png")
    assert done == {"detached": False, "count": 0}
    assert await rig.gateway.store.uploads() == {}  # and nothing refers to its content


async def test_guards(rig):
    await rig.refuses_strangers("image.detach", path="x")
    await rig.refuses_wrong_types("image.detach", session_id="x", path="y")
