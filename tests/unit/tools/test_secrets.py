"""A command may ask for secrets by name; names that mean something to programs are refused."""

from __future__ import annotations

import pytest

from tenure.config import LimitsConfig
from tenure.errors import ToolError
from tenure.tools.registry import default_tools, small_tools
from tenure.tools.shell import Shell

SHELL = Shell(10_000, 20.0, secrets=True)


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "GIT_SSH_COMMAND", "IFS"]
)
async def test_names_of_programs_are_refused(desk, name):
    with pytest.raises(ToolError, match=f"{name} means something to programs"):
        await desk.call(SHELL, command="true", secrets=[name])


@pytest.mark.parametrize("names", [["lower"], ["A=B"], [""], ["A", "B", "C", "D", "E"]])
async def test_what_is_no_name_is_refused(desk, names):
    with pytest.raises(ToolError, match="arguments of shell are wrong"):
        await desk.call(SHELL, command="true", secrets=names)


async def test_where_nobody_is_there_the_command_does_not_run(desk):
    with pytest.raises(ToolError, match="not run: nobody gave API_KEY"):
        await desk.call(SHELL, command="touch made", secrets=["API_KEY"])
    assert not (desk.cwd / "made").exists()


def test_the_small_model_is_not_told_of_them():
    (small,) = (tool for tool in small_tools(LimitsConfig()) if tool.name == "shell")
    (full,) = (tool for tool in default_tools(LimitsConfig()) if tool.name == "shell")
    assert "secrets" not in small.spec.parameters["properties"]
    assert "secrets" in full.spec.parameters["properties"] and "API_KEY" in full.spec.description
