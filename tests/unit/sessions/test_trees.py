"""Trees of sub-agents that are kept: bounded, below their session's folder, whole or not at all."""

from __future__ import annotations

import os

import pytest

from tenure.errors import NotFound, TooLarge
from tenure.protocol.trees import Tree
from tenure.sessions import trees

SESSION = "20270115_080000_0a1b2c3d"


def tree(goal="x", at=1.0, session=SESSION):
    return Tree(
        session_id=session, label="", started_at=None, finished_at=at, subagents=[{"goal": goal}]
    )


def names(spill):
    return sorted(os.listdir(spill / SESSION / trees.FOLDER))


def test_the_same_tree_is_kept_once_and_the_oldest_go(tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "TREES_MAX", 2)
    first = trees.save(tmp_path, tree("one", 1.0))
    assert trees.save(tmp_path, tree("one", 9.0)) == first
    written = "0000000009000-0123456789ab.part"
    (tmp_path / SESSION / trees.FOLDER / written).touch()
    for n in (2, 3):
        trees.save(tmp_path, tree(str(n), n))
    assert [name[:13] for name in names(tmp_path)] == [
        "0000000002000", "0000000003000", written[:13],
    ]  # fmt: skip


def test_one_that_is_too_large_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "TREE_BYTES_MAX", 100)
    with pytest.raises(TooLarge):
        trees.save(tmp_path, tree("x" * 100))
    assert os.listdir(tmp_path) == []


def test_nothing_is_written_through_a_link(tmp_path):
    name = trees.save(tmp_path, tree()).partition("/")[2]
    folder = tmp_path / SESSION / trees.FOLDER
    (folder / name).unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / f"{name}.part").symlink_to(victim)
    with pytest.raises(OSError):
        trees.save(tmp_path, tree())
    assert victim.read_text() == "mine"


def test_one_that_is_being_written_is_not_read(tmp_path):
    name = trees.save(tmp_path, tree())
    at = tmp_path / SESSION / trees.FOLDER / name.partition("/")[2]
    at.rename(f"{at}.part")
    assert trees.listed(tmp_path, SESSION, 9) == []
    with pytest.raises(NotFound):
        trees.load(tmp_path, name)


@pytest.mark.parametrize("path", ["{0}/../../other", "../{1}", "{0}/trees/{1}", "", "/{1}"])
def test_only_what_is_kept_can_be_named(tmp_path, path):
    spill = tmp_path / "spill"
    name = trees.save(spill, tree())[-26:]
    content = (spill / SESSION / trees.FOLDER / name).read_bytes()
    (spill / "other").write_bytes(content)
    (tmp_path / trees.FOLDER).mkdir()
    (tmp_path / trees.FOLDER / name).write_bytes(content)
    with pytest.raises(NotFound):
        trees.load(spill, path.format(SESSION, name))


def test_a_link_that_somebody_has_put_there_is_not_followed(tmp_path):
    kept = trees.save(tmp_path, tree())
    at = tmp_path / SESSION / trees.FOLDER / kept[-26:]
    at.rename(tmp_path / "elsewhere")
    at.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotFound):
        trees.load(tmp_path, kept)


def test_what_is_no_tree_is_left_out_of_the_list(tmp_path):
    kept = trees.save(tmp_path, tree())
    (tmp_path / SESSION / trees.FOLDER / "0000000009999-0123456789ab").write_text("no tree")
    assert [row["path"] for row in trees.listed(tmp_path, SESSION, 9)] == [kept]
    (tmp_path / "not-a-session" / trees.FOLDER).mkdir(parents=True)
    assert [row["path"] for row in trees.listed(tmp_path, "", 9)] == [kept]
    assert trees.listed(tmp_path, "..", 9) == []
    assert trees.listed(tmp_path / "nowhere", "", 9) == []
    assert trees.listed(tmp_path / "nowhere", SESSION, 9) == []


def test_a_list_over_all_sessions_looks_at_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "SESSIONS_MAX", 2)
    for other in ("zz", "zzz"):
        (tmp_path / other).mkdir()
    for n in range(3):
        trees.save(tmp_path, tree(session=f"2027011{n}_080000_0a1b2c3d"))
    assert [row["session_id"][:8] for row in trees.listed(tmp_path, "", 9)] == [
        "20270112",
        "20270111",
    ]
    assert len(trees.listed(tmp_path, "", 1)) == 1
