"""image.attach_bytes: an image whose content is sent."""

from __future__ import annotations

import pytest

from support.pictures import b64, png
from tenure.errors import BadValue


async def test_base64_or_a_data_url_in_either_member(rig):
    session = await rig.session()
    found = await rig.call(
        "image.attach_bytes", session_id=session, content_base64=b64(png()), filename="../x/a.png"
    )
    assert found["name"] == "a.png" and found["bytes"] == len(png()) and found["count"] == 1
    url = f"data:image/png;base64,{b64(png())}"
    found = await rig.call("image.attach_bytes", session_id=session, data=url, ext=".png")
    assert found["name"] == "image.png" and found["count"] == 2
    with pytest.raises(BadValue, match="not an image"):
        await rig.call("image.attach_bytes", session_id=session, data=b64(b"text"))


async def test_guards(rig):
    await rig.refuses_strangers("image.attach_bytes", data=b64(png()))
    await rig.refuses_wrong_types("image.attach_bytes", session_id="x")
