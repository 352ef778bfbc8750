"""`tenure profile …`: the commands; what they do stands in `cli/profile.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Yes, go, where_of

profile_app = typer.Typer(
    help="Profiles: databases, keys and defaults of their own.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="1-64 of a-z, 0-9, - and _")]


@profile_app.command("list")
def profile_list(ctx: typer.Context, as_json: Json = False, connect: Connect = "") -> int:
    """The profiles; the one in use is marked."""
    from tenure.cli.profile import list_profiles

    return go(list_profiles(where_of(ctx, connect, profile="default"), as_json=as_json))


@profile_app.command("create")
def profile_create(ctx: typer.Context, name: Name, connect: Connect = "") -> int:
    """Make a profile."""
    from tenure.cli.profile import create_profile

    return go(create_profile(where_of(ctx, connect, profile="default"), name))


@profile_app.command("use")
def profile_use(ctx: typer.Context, name: Name) -> int:
    """Let commands use a profile from now on; "default" goes back."""
    from tenure.cli.profile import use_profile

    return use_profile(where_of(ctx, profile="default"), name)


@profile_app.command("delete")
def profile_delete(ctx: typer.Context, name: Name, yes: Yes = False, connect: Connect = "") -> int:
    """Remove a profile with its sessions, keys and defaults, for good."""
    from tenure.cli.profile import delete_profile

    return go(delete_profile(where_of(ctx, connect, profile="default"), name, yes=yes))
