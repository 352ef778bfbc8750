"""spawn_tree.list: the trees that are kept, the newest first."""

from __future__ import annotations


async def test_of_a_session_and_of_all(rig, tmp_path):
    first, second = await rig.session(), await rig.session()
    for session, at in ((first, 1.0), (second, 2.0), (first, 3.0)):
        await rig.call(
            "spawn_tree.save", session_id=session, subagents=[{"goal": f"{at}"}], label=f"at {at}",
            finished_at=at,
        )  # fmt: skip
    rows = (await rig.call("spawn_tree.list", session_id=first))["entries"]
    assert [(row["label"], row["count"]) for row in rows] == [("at 3.0", 1), ("at 1.0", 1)]
    (tmp_path / "spill" / first / "trees" / "0000000009999-0123456789ab").write_text("no tree")
    rows = (await rig.call("spawn_tree.list", session_id=first, cross_session=True))["entries"]
    assert [row["session_id"] for row in rows] == [first, second, first]
    rows = await rig.call("spawn_tree.list", session_id=second, cross_session=True, limit=1)
    assert len(rows["entries"]) <= 1
    for unknown in ("", "default", "../home"):
        assert (await rig.call("spawn_tree.list", session_id=unknown))["entries"] == []


async def test_guards(rig):
    await rig.refuses_wrong_types("spawn_tree.list")
