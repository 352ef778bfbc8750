"""`tenure sessions …`: the commands; what they do stands in `cli/sessions.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, go, where_of, where_to_look

if TYPE_CHECKING:
    from tenure.cli.finding import Wanted

sessions_app = typer.Typer(help="Stored sessions.", rich_markup_mode=None, no_args_is_help=True)


Words = Annotated[list[str], typer.Argument(metavar="WORDS", help='words, "a phrase", begin*')]
Tag = Annotated[str, typer.Option("--tag", metavar="TAG", help="only those with this tag")]
Pinned = Annotated[bool, typer.Option("--pinned", help="only pinned ones")]
Archived = Annotated[bool, typer.Option("--archived", help="archived ones instead")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="3d, 12h or a date")]
Off = Annotated[bool, typer.Option("--off", help="take it back")]


def _wanted(tag: str, since: str, limit: int, *, pinned: bool, archived: bool) -> Wanted:
    from datetime import datetime

    from tenure.cli.finding import Wanted, since_of

    start = since_of(since, datetime.now().astimezone())
    return Wanted(tag=tag, pinned=pinned, archived=archived, since=start, limit=limit)


@sessions_app.command("list")
def sessions_list(  # noqa: PLR0913, PLR0917 - one parameter a flag
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="how many")] = 50,
    tag: Tag = "",
    pinned: Pinned = False,
    archived: Archived = False,
    since: Since = "",
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Stored sessions: pinned ones first, then the newest use first."""
    from tenure.cli.finding import list_sessions

    wanted = _wanted(tag, since, limit, pinned=pinned, archived=archived)
    return go(list_sessions(where_to_look(ctx, connect, profile), wanted, as_json=as_json))


@sessions_app.command("search")
def sessions_search(  # noqa: PLR0913, PLR0917 - one parameter a flag
    ctx: typer.Context,
    words: Words,
    limit: Annotated[int, typer.Option(min=1, help="how many")] = 20,
    tag: Tag = "",
    pinned: Pinned = False,
    archived: Archived = False,
    since: Since = "",
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Sessions in which these words were said. Ends with 1 if there are none."""
    from tenure.cli.finding import search_sessions

    wanted = _wanted(tag, since, limit, pinned=pinned, archived=archived)
    where = where_to_look(ctx, connect, profile)
    return go(search_sessions(where, " ".join(words), wanted, as_json=as_json))


@sessions_app.command("pin")
def sessions_pin(
    ctx: typer.Context, session: str, off: Off = False, profile: Profile = "", connect: Connect = ""
) -> int:
    """Put a session on top of the list."""
    from tenure.cli.finding import mark_session

    where = where_to_look(ctx, connect, profile)
    return go(mark_session(where, session, "session.pin", pinned=not off))


@sessions_app.command("archive")
def sessions_archive(
    ctx: typer.Context, session: str, off: Off = False, profile: Profile = "", connect: Connect = ""
) -> int:
    """Hide a session from the list; it stays as it is."""
    from tenure.cli.finding import mark_session

    where = where_to_look(ctx, connect, profile)
    return go(mark_session(where, session, "session.archive", archived=not off))


@sessions_app.command("tag")
def sessions_tag(
    ctx: typer.Context,
    session: str,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG…")] = None,
    remove: Annotated[list[str], typer.Option("--remove", metavar="TAG")] = [],  # noqa: B006
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Give a session tags, or take some away."""
    from tenure.cli.finding import mark_session

    where = where_to_look(ctx, connect, profile)
    return go(mark_session(where, session, "session.tag", add=tags or [], remove=remove))


@sessions_app.command("show")
def sessions_show(
    ctx: typer.Context, session: str, profile: Profile = "", connect: Connect = ""
) -> int:
    """A session's messages. SESSION is an id, the end of one, an exact title, or "last"."""
    from tenure.cli.sessions import show_session

    return go(show_session(where_to_look(ctx, connect, profile), session))


@sessions_app.command("export")
def sessions_export(
    ctx: typer.Context,
    session: str,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="a file (0600)")] = None,
    files: Annotated[
        Path | None, typer.Option("--files", help="a folder for the files of its prompts")
    ] = None,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """A session as JSON, secrets blanked.

    --files saves what came with its prompts, as it is.
    """
    from tenure.cli.sessions import export_session

    where = where_to_look(ctx, connect, profile)
    return go(export_session(where, session, output=output, files=files))


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
