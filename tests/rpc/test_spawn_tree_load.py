"""spawn_tree.load: a tree that is kept, by the name that it was given."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound


async def test_nothing_else_is_read(rig, tmp_path):
    session = await rig.session()
    saved = await rig.call("spawn_tree.save", session_id=session, subagents=[{"goal": "x"}])
    assert (await rig.call("spawn_tree.load", path=saved["path"]))["subagents"] == [{"goal": "x"}]
    folder = tmp_path / "spill" / session / "trees"
    name = "0000000000001-0123456789ab"
    (tmp_path / "other.json").write_bytes((folder / saved["path"].split("/")[1]).read_bytes())
    (folder / name).symlink_to(tmp_path / "other.json")
    for path in (
        f"{session}/{name}", str(tmp_path / "other.json"), f"{session}/../../other.json",
        f"{session}/trees/{name}", "", "/", f"{session}/", f"../{session}/{name}",
    ):  # fmt: skip
        with pytest.raises(NotFound, match="No tree"):
            await rig.call("spawn_tree.load", path=path)


async def test_guards(rig):
    await rig.refuses_wrong_types("spawn_tree.load", path="x")
