"""input.detect_drop: whether pasted text is a file's path."""

from __future__ import annotations


async def test_a_file_and_what_is_none(rig, tmp_path):
    file = tmp_path / "a picture.png"
    file.touch()
    for text in (str(file), f"'{file}'", f"file://{file}", str(file).replace(" ", "\\ ")):
        found = await rig.call("input.detect_drop", text=text)
        assert found["matched"] and found["path"] == str(file) and found["name"] == "a picture.png"
    for text in ("hello", "", str(tmp_path), "/no/such", "/etc/passwd\nx", "/\0", "/" + "x" * 9999):
        assert await rig.call("input.detect_drop", text=text) == {"matched": False}
    await rig.refuses_wrong_types("input.detect_drop")
