"""Case 97: no id, name or path from outside leads out of the directory it belongs to."""

from __future__ import annotations

import os

import pytest

from tenure.config import LimitsConfig
from tenure.errors import BadValue, ToolError
from tenure.ids import checked_name, checked_session_id
from tenure.testing.desk import Desk
from tenure.tools import paths
from tenure.tools.registry import default_tools
from tenure.tools.shell import Shell

BAD = ["../x", "..", "/etc/passwd", "a/../../x", "a\0b", "x" * 5_000, "~root/x", "a/b\0", "..\0"]
TOOLS = {tool.name: tool for tool in default_tools(LimitsConfig())}
WITH_PATHS = {
    "read": {}, "write": {"content": "x"}, "edit": {"old": "a", "new": "b"}, "list": {},
    "glob": {"pattern": "*"}, "search": {"pattern": "x"},
}  # fmt: skip


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    (tmp_path / "x").write_text("a secret")
    yield desk
    await desk.root.close()


def everything(folder):
    return sorted(
        (os.path.join(root, name), os.stat(os.path.join(root, name)).st_mtime_ns)
        for root, _, files in os.walk(folder)
        for name in files
    )


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", WITH_PATHS)
async def test_paths_of_tools(desk, name, bad):
    before = everything(desk.base)
    with pytest.raises(ToolError):
        await desk.call(TOOLS[name], path=bad, **WITH_PATHS[name])
    assert everything(desk.base) == before


@pytest.mark.parametrize("bad", [*BAD, "", "con", "a b", "Ä", "20260131_235959_0A1B2C3D"])
def test_ids_and_names(bad):
    with pytest.raises(BadValue):
        checked_session_id(bad)
    with pytest.raises(BadValue):
        checked_name(bad, "profile")


async def test_the_id_of_a_call_names_no_file(desk):
    """The desk's calls have the id ``../c1``, as a model may write it."""
    await desk.call(Shell(10, 60), command="seq 1000")
    assert sorted(os.listdir(desk.base)) == ["spill", "work", "x"]
    (name,) = os.listdir(desk.base / "spill")
    assert name.startswith("out_")


@pytest.mark.parametrize("name", ["read", "write", "edit", "list"])
async def test_a_swap_for_a_link_between_check_and_open(desk, name, monkeypatch):
    (desk.cwd / "d").mkdir()
    (desk.cwd / "d" / "x").write_text("a inside")
    looked = os.readlink

    def swap(component, *, dir_fd):
        try:
            return looked(component, dir_fd=dir_fd)
        finally:
            if component == "d":
                os.rename(desk.cwd / "d", desk.base / "moved")
                (desk.cwd / "d").symlink_to(desk.base)

    monkeypatch.setattr(paths.os, "readlink", swap)
    path = "d" if name == "list" else "d/x"
    with pytest.raises(ToolError):
        await desk.call(TOOLS[name], path=path, **WITH_PATHS[name])
    assert (desk.base / "x").read_text() == "a secret"
