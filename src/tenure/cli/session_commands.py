"""`tenure sessions …`: the commands; what they do stands in `cli/sessions.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, go, where_of

sessions_app = typer.Typer(help="Stored sessions.", rich_markup_mode=None, no_args_is_help=True)


@sessions_app.command("list")
def sessions_list(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="how many")] = 50,
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Stored sessions, newest use first."""
    from tenure.cli.sessions import list_sessions

    return go(list_sessions(where_of(ctx, connect, profile=profile), limit=limit, as_json=as_json))


@sessions_app.command("show")
def sessions_show(
    ctx: typer.Context, session: str, profile: Profile = "", connect: Connect = ""
) -> int:
    """A session's messages. SESSION is an id, the end of one, an exact title, or "last"."""
    from tenure.cli.sessions import show_session

    return go(show_session(where_of(ctx, connect, profile=profile), session))


@sessions_app.command("export")
def sessions_export(
    ctx: typer.Context,
    session: str,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="a file (0600)")] = None,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """A session as JSON, secrets blanked."""
    from tenure.cli.sessions import export_session

    return go(export_session(where_of(ctx, connect, profile=profile), session, output=output))


@sessions_app.command("delete")
def sessions_delete(
    ctx: typer.Context,
    session: str,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Remove a session with its history."""
    from tenure.cli.sessions import delete_session

    return go(delete_session(where_of(ctx, connect, profile=profile), session, yes=yes))
