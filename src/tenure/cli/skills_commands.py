"""`tenure skills …`: the commands; what they do stands in `cli/skills.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.options import Cwd, Json, Profile, where_of

skills_app = typer.Typer(
    help="Skills: instructions that agents load.", rich_markup_mode=None, no_args_is_help=True
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="the skill's name")]
Folder = Annotated[Path, typer.Argument(metavar="PATH", help="a folder with a SKILL.md")]
Places = Annotated[
    list[Path] | None, typer.Argument(metavar="PATH", help="default: all that are found here")
]
Sure = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]


@skills_app.command("list")
def skills_list(
    ctx: typer.Context, as_json: Json = False, cwd: Cwd = None, profile: Profile = ""
) -> int:
    """The skills that sessions here have. Those that do not count are shown, and why."""
    from tenure.cli.skills import list_skills

    return list_skills(where_of(ctx, cwd=cwd, profile=profile), as_json=as_json)


@skills_app.command("show")
def skills_show(ctx: typer.Context, name: Name, cwd: Cwd = None, profile: Profile = "") -> int:
    """A skill: what it says of itself, its files, its hash, its text."""
    from tenure.cli.skills import show_skill

    return show_skill(where_of(ctx, cwd=cwd, profile=profile), name)


@skills_app.command("install")
def skills_install(
    ctx: typer.Context,
    path: Folder,
    sha256: Annotated[str, typer.Option("--sha256", help="refuse it unless this is its hash")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="in place of one there is")] = False,
    yes: Sure = False,
    profile: Profile = "",
) -> int:
    """Copy a skill into the profile. Its files and hash are shown first."""
    from tenure.cli.skills import install_skill

    where = where_of(ctx, profile=profile)
    return install_skill(where, path, sha256=sha256, replace=replace, yes=yes)


@skills_app.command("remove")
def skills_remove(ctx: typer.Context, name: Name, yes: Sure = False, profile: Profile = "") -> int:
    """Remove a skill of the profile for good."""
    from tenure.cli.skills import remove_skill

    return remove_skill(where_of(ctx, profile=profile), name, yes=yes)


@skills_app.command("trust")
def skills_trust(
    ctx: typer.Context,
    paths: Places = None,
    yes: Sure = False,
    cwd: Cwd = None,
    profile: Profile = "",
) -> int:
    """Let skills of a project count, as they are now. A change of one asks anew."""
    from tenure.cli.skills import trust_skills

    return trust_skills(where_of(ctx, cwd=cwd, profile=profile), paths or [], yes=yes)


@skills_app.command("distrust")
def skills_distrust(
    ctx: typer.Context, paths: Places = None, cwd: Cwd = None, profile: Profile = ""
) -> int:
    """Take that back."""
    from tenure.cli.skills import distrust_skills

    return distrust_skills(where_of(ctx, cwd=cwd, profile=profile), paths or [])
