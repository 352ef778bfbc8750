"""Loading a skill: its instructions first, a file of it when they say so."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from tenure.errors import BadValue, NotFound, ToolError
from tenure.lifecycle.threads import run_in_thread
from tenure.skills.folder import File, Folder
from tenure.skills.format import FILE
from tenure.skills.shelf import Shelf
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.clip import clip

LISTED_MAX = 40


class SkillArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `skill`."""

    name: str
    file: str = ""


class SkillTool(TypedTool[SkillArgs]):
    """Reads skills of one session.

    Args:
        shelf: where they are.
        folders: the working directory, and the root of its repository.
        bytes_max: of one result.
    """

    name: ClassVar[str] = "skill"
    description = "Load the instructions of a skill by its name, or a text file of it (file)."
    effect: ClassVar[Effect] = Effect.READ
    args = SkillArgs

    def __init__(self, shelf: Shelf, folders: Sequence[Path], bytes_max: int) -> None:
        self._shelf = shelf
        self._folders = folders
        self._bytes_max = bytes_max

    async def run(self, args: SkillArgs, ctx: ToolContext) -> ToolResult:
        """Read it as it is now; consent is looked at for what was read."""
        try:
            folder = await run_in_thread(ctx.scope, self._shelf.load, args.name, self._folders)
        except (BadValue, NotFound) as exc:
            raise ToolError(exc.message) from None
        if args.file and posixpath.normpath(args.file) != FILE:
            text = _text_of(folder, posixpath.normpath(args.file))
            return ToolResult(clip(text, self._bytes_max) or "(empty)", summary=args.file)
        text = "\n".join([*_head(folder), folder.skill.body, "</skill>", *_beside(folder, ctx)])
        return ToolResult(clip(text, self._bytes_max), summary=f"skill {folder.skill.name}")


def _head(folder: Folder) -> list[str]:
    skill = folder.skill
    lines = [f'<skill name="{skill.name}">']
    if skill.compatibility:
        lines.append(f"It needs: {skill.compatibility}")
    if skill.allowed_tools:
        lines.append(f"It means to use: {' '.join(skill.allowed_tools)}; that allows none of them.")
    return lines


def _beside(folder: Folder, ctx: ToolContext) -> list[str]:
    """Its other files, and where they are if commands can reach them."""
    names = [name for name in folder.files if name != FILE]
    if not names:
        return []
    shown = ", ".join(_shown(name, folder.files[name]) for name in names[:LISTED_MAX])
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    lines = [f"Its files: {shown}{more}. Read one with skill and file."]
    if ctx.sandbox.files is None and folder.path.is_relative_to(ctx.cwd):
        lines.append(f"They are in {folder.path.relative_to(ctx.cwd)}.")
    return lines


def _shown(name: str, file: File) -> str:
    return f"{name} ({len(file.content):,} bytes{', a program' if file.runs else ''})"


def _text_of(folder: Folder, name: str) -> str:
    """A file's text. Names are looked up among those that were read, so none leads out."""
    file = folder.files.get(name)
    if file is None:
        raise ToolError(f"The skill {folder.skill.name} has no file {name[:100]!r}.")
    try:
        return file.content.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{name} is no text ({len(file.content):,} bytes).") from None
