"""What every tool keeps to, ours and those of the testing kit."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest

from tenure.browser.lending import Browsers
from tenure.clock import SystemClock
from tenure.config import Config, LimitsConfig
from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.testing.browser import found_for_tests
from tenure.testing.desk import Desk
from tenure.testing.gates import Gate
from tenure.testing.tools import PlainTool, scripted_tool
from tenure.tools.base import Effect, ToolResult, TypedTool
from tenure.tools.registry import small_tools, tools_for
from tenure.tools.web.reach import Reach


def no_pages():
    """Browsers of which none is ever started here."""
    clock = SystemClock()
    return Browsers(Scope.root("browsers", clock), nowhere, found_for_tests)


async def nowhere(host, port):
    raise OSError(-2, "no such name")


LIMITS = LimitsConfig()
FULL = tools_for(Config(), False, Reach({}, resolve=nowhere, browsers=no_pages()))
TOOLS = {tool.name: tool for tool in (*FULL, scripted_tool(), PlainTool())}
GOOD = {
    "shell": {"command": "echo hi"},
    "read": {"path": "f"},
    "write": {"path": "g", "content": "x"},
    "edit": {"path": "f", "old": "text", "new": "word"},
    "list": {},
    "glob": {"pattern": "*"},
    "search": {"pattern": "text"},
    "background": {"action": "list"},
    "terminal": {"action": "list"},
    "clarify": {"question": "Which one?"},
    "session_search": {"query": "text"},
    "web_fetch": {"url": "https://example.org/"},
    "web_search": {"query": "words"},
    "browser": {"action": "snapshot"},
    "browser_save": {"what": "pdf"},
    "probe": {},
    "plain": {},
}
EFFECTS = {
    "shell": "execute",
    "write": "write",
    "edit": "write",
    "background": "execute",
    "terminal": "execute",
    "web_fetch": "network",
    "web_search": "network",
    "browser": "network",
    "browser_save": "write",
}


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    (desk.cwd / "f").write_text("text\n")
    yield desk
    await desk.root.close()


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def test_names_are_distinct_and_the_small_set_is_a_part_of_the_full_one():
    full = [tool.name for tool in FULL]
    assert len(set(full)) == len(full)
    assert {tool.name for tool in small_tools(LIMITS)} < set(full)


def test_the_spec_is_a_flat_object_schema(tool):
    spec = tool.spec
    assert (spec.name, spec.parameters["type"]) == (tool.name, "object")
    assert 0 < len(spec.description) < 200
    assert b"$ref" not in msgspec.json.encode(spec)


def test_the_effect_is_what_approvals_rely_on(tool):
    assert tool.effect is Effect(EFFECTS.get(tool.name, "read"))


async def test_a_good_call_gives_a_result_and_leaves_nothing(tool, desk):
    if tool.effect is Effect.NETWORK:
        pytest.skip("needs a server: see tests/unit/tools/web")
    if tool.name in {"delegate", "todo"}:
        pytest.skip("needs a turn: see its own tests")
    if tool.name == "browser_save":
        pytest.skip("needs a page: see tests/unit/tools/test_browser.py")
    result = await desk.call(tool, **GOOD[tool.name])
    assert isinstance(result, ToolResult)
    assert not result.is_error
    assert result.text
    await desk.end_turn()
    assert desk.leases() == []


@pytest.mark.parametrize(
    "arguments", ["{", "[]", '"x"', '{"path": 1, "command": [], "pattern": {}}']
)
async def test_bad_arguments_are_a_tool_error_of_one_sentence(tool, desk, arguments):
    if not isinstance(tool, TypedTool) or tool.name == "probe":
        pytest.skip("takes anything")
    with pytest.raises(ToolError) as caught:
        await tool.call(arguments, desk.context())
    assert caught.value.message.startswith(f"The arguments of {tool.name} are ")
    assert desk.leases() == []


SLOW = [
    ("shell", {"command": "sleep 1000"}),
    ("background", {"action": "start", "command": "sleep 1000"}),
    ("probe", {}),
]


@pytest.mark.parametrize(("name", "arguments"), SLOW)
@pytest.mark.parametrize("again", [False, True])
async def test_cancellation_ends_what_the_call_started(desk, name, arguments, again):
    gate = Gate()
    tool = scripted_tool(gate=gate) if name == "probe" else TOOLS[name]
    task = asyncio.ensure_future(desk.call(tool, **arguments))
    async with asyncio.timeout(30):
        while (
            not any(kind in {"process", "background"} for kind, _ in desk.leases())
            and not gate.parked
        ):
            await asyncio.sleep(0.002)
    task.cancel()
    if again:
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await desk.end_turn()
    kept = {kind for kind, _ in desk.leases()}
    assert kept <= {"background", "task"}
    assert "background" not in kept or name == "background"


@pytest.mark.parametrize("name", ["read", "write", "edit", "list", "glob", "search"])
@pytest.mark.parametrize("path", ["../x", "/etc", "a\0b", "~", "x" * 9_999])
async def test_paths_outside_are_refused(desk, name, path):
    with pytest.raises(ToolError):
        await desk.call(TOOLS[name], **{**GOOD[name], "path": path})
    assert sorted(os.listdir(desk.base)) == ["work"]
    assert os.listdir(desk.cwd) == ["f"]
