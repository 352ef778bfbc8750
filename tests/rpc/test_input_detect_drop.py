"""input.detect_drop: whether pasted text is a file's path."""

from __future__ import annotations

import pytest

from support.pictures import png
from tenure.errors import BadValue


async def test_a_file_and_what_is_none(rig, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("hello", "two\nlines"):
        (tmp_path / name).touch()
    file = tmp_path / "a picture.png"
    file.touch()
    for text in (str(file), f"'{file}'", f"file://{file}", str(file).replace(" ", "\\ ")):
        found = await rig.call("input.detect_drop", text=text)
        assert found["matched"] and found["path"] == str(file) and found["name"] == "a picture.png"
    for text in (
        "hello",
        "",
        str(tmp_path),
        "/no/such",
        f"{tmp_path}/two\nlines",
        "/\0",
        "/" + "x" * 9999,
    ):
        assert await rig.call("input.detect_drop", text=text) == {"matched": False}
    await rig.refuses_wrong_types("input.detect_drop")


async def test_pictures_and_pdfs_are_attached_and_other_files_are_for_the_tools(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "a b.png").write_bytes(png())
    (tmp_path / "c.txt").write_text("text")
    shot = f"'{tmp_path / 'a b.png'}'"
    found = await rig.call("input.detect_drop", session_id=session, text=f"{shot} what is it")
    assert found["matched"] and found["is_image"] and found["text"] == "what is it"
    assert (found["name"], found["count"], found["width"]) == ("a b.png", 1, 40)
    found = await rig.call("input.detect_drop", session_id=session, text=shot)
    assert found["text"] == "Look at the attached image."
    for text in (str(tmp_path / "c.txt"), "just words", "/status", f"{tmp_path}/c.txt is text"):
        found = await rig.call("input.detect_drop", session_id=session, text=text)
        assert not found.get("is_image")
    rows = (await rig.call("prompt.files.list", session_id=session))["entries"]
    assert [row["name"] for row in rows] == ["a b.png", "a b.png"]
    (tmp_path / "torn.png").write_bytes(png()[:60])
    with pytest.raises(BadValue, match="is damaged"):
        await rig.call("input.detect_drop", session_id=session, text=str(tmp_path / "torn.png"))
