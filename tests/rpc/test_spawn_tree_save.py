"""spawn_tree.save: a finished tree of sub-agents is kept with its session, bounded."""

from __future__ import annotations

import errno

import pytest

from tenure.errors import InvalidParams, ReadOnly, StoreError, TooLarge
from tenure.sessions import trees


def agents(*goals):
    return [{"id": f"a{n}", "goal": goal, "depth": 0} for n, goal in enumerate(goals)]


async def test_it_comes_back_as_it_was_and_once_from_two_clients(rig, tmp_path):
    session = await rig.session()
    tree = {"session_id": session, "subagents": agents("look"), "label": "look", "started_at": 3.0}
    saved = await rig.call("spawn_tree.save", **tree, finished_at=5.0)
    assert saved["session_id"] == session and saved["path"].startswith(f"{session}/")
    assert await rig.call("spawn_tree.save", **tree, finished_at=5.1) == saved
    assert await rig.call("spawn_tree.load", path=saved["path"]) == {**tree, "finished_at": 5.0}
    (file,) = (tmp_path / "spill" / session / "trees").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_the_oldest_go_and_too_large_ones_are_refused(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "TREES_MAX", 2)
    session = await rig.session()
    for at in (1.0, 2.0, 3.0):
        await rig.call(
            "spawn_tree.save", session_id=session, subagents=agents(f"{at}"), finished_at=at
        )
    rows = (await rig.call("spawn_tree.list", session_id=session))["entries"]
    assert [row["finished_at"] for row in rows] == [3.0, 2.0]
    monkeypatch.setattr(trees, "TREE_BYTES_MAX", 100)
    with pytest.raises(TooLarge, match="The tree has"):
        await rig.call("spawn_tree.save", session_id=session, subagents=agents("x" * 100))
    for wrong in ([], agents(*"x" * 1_001)):
        with pytest.raises(InvalidParams, match="subagents"):
            await rig.call("spawn_tree.save", session_id=session, subagents=wrong)


async def test_what_cannot_be_kept_is_told_in_a_sentence(rig, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    session = await rig.session()
    monkeypatch.setattr(trees, "save", full)
    with pytest.raises(StoreError, match=r"The tree could not be kept: No space left"):
        await rig.call("spawn_tree.save", session_id=session, subagents=agents("x"))


async def test_a_viewer_keeps_none(rig):
    session = await rig.session()
    viewer, scope = await rig.gateway.client()
    await viewer.call("session.attach", session_id=session, role="viewer")
    with pytest.raises(ReadOnly):
        await viewer.call("spawn_tree.save", session_id=session, subagents=agents("x"))
    await scope.close()
    assert (await rig.call("spawn_tree.list", session_id=session))["entries"] == []


async def test_guards(rig):
    await rig.refuses_strangers("spawn_tree.save", subagents=agents("x"))
    await rig.refuses_wrong_types("spawn_tree.save", session_id="x", subagents=agents("x"))
