"""What `./run` and the benchmarks install is all that the tool can use."""

from __future__ import annotations

import re
import tomllib


def names(text):
    return {re.split(r"[\[=<>;~! ]", line, maxsplit=1)[0].lower() for line in text.splitlines()}


def test_every_dependency_and_every_extra_is_locked(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    wanted = names("\n".join([*project["dependencies"], *extras]))
    assert {"msgspec", "playwright", "ddgs", "mcp", "asyncssh"} <= wanted
    locked = (root / "requirements.lock").read_text()
    assert wanted - names(locked) == set()
