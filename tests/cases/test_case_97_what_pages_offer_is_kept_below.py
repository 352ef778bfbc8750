"""Case 97: a page names its downloads; whatever it says, they stay in the working directory."""

import os

import pytest

from tenure.errors import ToolError
from tenure.tools.browser import copy_new, safe_name

NAMES = [
    "../../x", "/etc/x", "..\\..\\x", "a\0b", "\n", "x" * 9_000, "CON", "nul.txt", "~/x", ".ssh/x",
    "a/../../../b", "\u202egnp.exe", "..", "",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_nowhere(tmp_path, name):
    root = tmp_path / "work"
    root.mkdir()
    source = tmp_path / "source"
    source.write_bytes(b"content")
    shown, size = copy_new(source, root, safe_name(name), True)
    (kept,) = root.iterdir()
    assert (kept.name, size, kept.read_bytes()) == (shown, 7, b"content")
    assert sorted(os.listdir(tmp_path)) == ["source", "work"]


def test_nothing_that_is_there_is_changed(tmp_path):
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "outside").write_text("outside")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "mine").write_text("mine")
    source = tmp_path / "source"
    source.write_bytes(b"content")
    for name in ("link", "mine"):
        with pytest.raises(ToolError):
            copy_new(source, root, name, False)
    assert copy_new(source, root, "mine", True) == ("mine-2", 7)
    assert (tmp_path / "outside").read_text() == "outside"
    assert (root / "mine").read_text() == "mine"
