"""complete.path: completions of a path."""

from __future__ import annotations

from tenure.rpc.handlers.complete import ITEMS_MAX


async def test_below_the_working_directory(rig, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").touch()
    (tmp_path / "north.md").touch()
    (tmp_path / ".hidden").touch()
    session = await rig.session()

    async def texts(word):
        found = await rig.call("complete.path", session_id=session, word=word)
        return [i["text"] for i in found["items"]]

    assert await texts("no") == ["north.md", "notes/"]
    assert await texts("@notes/") == ["@notes/a.txt"]
    assert ".hidden" not in await texts("") and await texts(".h") == [".hidden"]
    assert await texts("/etc/hostnam") == ["/etc/hostname"]
    assert await texts("nowhere/x") == [] and await texts("a\0b/") == []
    await rig.refuses_wrong_types("complete.path")


async def test_so_many_are_told(rig, tmp_path):
    for n in range(ITEMS_MAX + 1):
        (tmp_path / f"f{n:02}").touch()
    session = await rig.session()
    found = await rig.call("complete.path", session_id=session, word="f")
    assert len(found["items"]) == ITEMS_MAX
