"""Skills: which there are, and what one holds."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tenure.protocol.params import MaybeSession


class SkillsList(MaybeSession, kw_only=True):
    """Params of skills.list. A session has its own directory and profile."""

    cwd: str = ""
    """Whose project's skills; empty: the gateway's own directory."""
    profile: str = ""


class SkillRow(msgspec.Struct, kw_only=True):
    """A skill."""

    name: str
    description: str
    source: str
    """profile or project."""
    path: str
    digest: str
    """SHA-256 of all that it is; empty where it was not read."""
    problem: str
    """Why it does not count; empty: it does."""


class Skills(msgspec.Struct):
    """Result of skills.list."""

    skills: list[SkillRow]


class SkillsManage(SkillsList, kw_only=True):
    """Params of skills.manage."""

    action: Literal["list", "inspect"] = "list"
    query: str = ""
    """The name of the one to inspect."""


class Reloaded(msgspec.Struct):
    """Result of skills.reload: text for a person, and the names of those that count."""

    output: str
    result: list[str]


METHOD = tuple[type[msgspec.Struct], Any, str]
SKILL_METHODS: dict[str, METHOD] = {
    "skills.list": (SkillsList, Skills, "The skills of a session, or of a directory."),
    "skills.reload": (SkillsList, Reloaded, "Look again; a session's agent has them from then on."),
    "skills.manage": (SkillsManage, dict[str, Any], "Skills by their source, or one of them."),
}
"""name -> (params, result, about)"""
