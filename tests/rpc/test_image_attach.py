"""image.attach: an image of this machine, named as a terminal passes it on."""

from __future__ import annotations

import pytest

from support.pictures import pdf, png
from tenure.errors import BadValue, NotFound


async def test_as_it_was_typed_or_dropped(rig, tmp_path):
    session = await rig.session()
    file = tmp_path / "a picture.png"
    file.write_bytes(png(200, 150))
    escaped = str(file).replace(" ", "\\ ")
    for text, rest in (
        (str(file), ""), (f"'{file}'", ""), (f'"{file}" what is it?', "what is it?"),
        (f"{escaped} and this", "and this"), (f"file://{str(file).replace(' ', '%20')}", ""),
        ("'a picture.png'", ""),
    ):  # fmt: skip
        found = await rig.call("image.attach", session_id=session, path=text)
        assert found["attached"] and found["remainder"] == rest, text
        assert (found["name"], found["width"], found["height"]) == ("a picture.png", 200, 150)
        assert found["token_estimate"] > 0 and found["path"] == str(file)
    assert found["count"] == 6


async def test_only_images(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "b.png").write_bytes(pdf("no image"))
    with pytest.raises(BadValue, match=r"b\.png is not an image; /attach takes"):
        await rig.call("image.attach", session_id=session, path="b.png")
    for text in ("nowhere.png", "", "a\nb"):
        with pytest.raises(NotFound):
            await rig.call("image.attach", session_id=session, path=text)


async def test_guards(rig):
    await rig.refuses_strangers("image.attach", path="x")
    await rig.refuses_wrong_types("image.attach", session_id="x", path="y")
