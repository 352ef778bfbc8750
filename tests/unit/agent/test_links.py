"""A rule on a path holds for what is reached through links as well."""

from __future__ import annotations

import json
import os

import pytest

from tenure.agent.approvals import Call, beyond
from tenure.agent.ports import Policy
from tenure.config import ApprovalRule
from tenure.errors import ToolError
from tenure.sandbox.base import Bounds
from tenure.testing.desk import Desk
from tenure.tools.browser import copy_new
from tenure.tools.files import Edit, Read, Write
from tenure.tools.find import Glob, List, Search

DENY = ApprovalRule("deny", path="secrets/**")


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    (desk.cwd / "secrets").mkdir()
    (desk.cwd / "docs").mkdir()
    (desk.cwd / "secrets/key").write_text("the key")
    (desk.cwd / "docs/key").symlink_to("../secrets/key")
    (desk.cwd / "docs/all").symlink_to("../secrets")
    (desk.cwd / "docs/page").write_text("the page")
    yield desk
    await desk.root.close()


async def call(desk, tool, *rules, grants=(), boxed=True, **arguments):
    ctx = desk.context()
    policy = Policy(rules=rules, grants=tuple(grants), boxed=boxed)
    ctx.judge = beyond(policy, Call("c1", tool.name, tool.effect, arguments, str(desk.cwd)))
    return (await tool.call(json.dumps(arguments), ctx)).text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Read(999), {"path": "docs/key"}),
        (Read(999), {"path": "docs/all/key"}),
        (Edit(), {"path": "docs/key", "old": "key", "new": "lock"}),
        (Write(), {"path": "docs/key", "content": "x"}),
        (Write(), {"path": "docs/all/new/deep/file", "content": "x"}),
        (List(), {"path": "docs/all"}),
        (Glob(), {"path": "docs/all", "pattern": "*"}),
        (Search(999), {"path": "docs/all", "pattern": "key"}),
    ],
)
async def test_a_denied_path_is_not_reached_by_a_link(desk, tool, arguments):
    with pytest.raises(ToolError, match=r"leads to 'secrets.*a rule denies"):
        await call(desk, tool, DENY, ApprovalRule("deny", path="secrets"), **arguments)
    assert [path.name for path in (desk.cwd / "secrets").iterdir()] == ["key"]
    assert (desk.cwd / "secrets/key").read_text() == "the key"
    assert "Denied" not in await call(desk, tool, **arguments)


async def test_what_a_link_leads_to_is_asked_about_by_its_own_name(desk):
    ask = ApprovalRule("ask", tool="read", path="secrets/*")
    with pytest.raises(ToolError, match="name that itself"):
        await call(desk, Read(999), ask, path="docs/key")
    assert await call(desk, Read(999), ask, path="secrets/key") == "the key"
    granted = ApprovalRule("allow", tool="write", path="docs/*")
    with pytest.raises(ToolError, match="name that itself"):
        await call(desk, Write(), grants=[granted], boxed=False, path="docs/key", content="x")
    assert "Replaced" in await call(
        desk, Write(), grants=[granted], boxed=False, path="docs/page", content="x"
    )


async def test_names_that_are_denied_are_not_listed(desk):
    hide = (DENY, ApprovalRule("deny", path="secrets"))
    assert await call(desk, List(), *hide) == "0 files, 1 folder:\ndocs/"
    assert await call(desk, Glob(), *hide, pattern="**") == "docs/key\ndocs/page"
    assert "secrets/key" in await call(desk, Glob(), pattern="**")
    asks = ApprovalRule("ask", tool="glob", path="secrets/*")
    assert "secrets/key" in await call(desk, Glob(), asks, pattern="**")


def test_a_file_of_a_page_goes_through_no_link_to_a_denied_place(tmp_path):
    (tmp_path / "work/secrets").mkdir(parents=True)
    (tmp_path / "work/in").symlink_to("secrets")
    (tmp_path / "file").write_text("x")
    judge = beyond(Policy(rules=(DENY,)), Call("c1", "browser_save", None, {"path": "in/f"}, "/w"))
    with pytest.raises(ToolError, match="a rule denies"):
        copy_new(tmp_path / "file", tmp_path / "work", "in/f", False, Bounds(judge=judge))
    judge = beyond(Policy(), Call("c1", "browser_save", None, {"path": ""}, "/w"))
    assert copy_new(tmp_path / "file", tmp_path / "work", "f", True, Bounds(judge=judge))
