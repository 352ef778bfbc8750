"""`tenure approvals …`: the commands; what they do stands in `cli/approvals.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, go, where_of

approvals_app = typer.Typer(
    help="What is allowed without asking.", rich_markup_mode=None, no_args_is_help=True
)
Session = Annotated[
    str, typer.Option("--session", help="also this one's: an id, its end, a title, or last")
]


@approvals_app.command("list")
def approvals_list(
    ctx: typer.Context,
    session: Session = "",
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """What somebody allowed "always", and in a session."""
    from tenure.cli.approvals import list_approvals

    return go(list_approvals(where_of(ctx, connect, profile=profile), session, as_json=as_json))


@approvals_app.command("revoke")
def approvals_revoke(
    ctx: typer.Context,
    grant: Annotated[str, typer.Argument(metavar="ID", help="as the list names it")],
    session: Session = "",
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Take it back: from now on it is asked again."""
    from tenure.cli.approvals import revoke_approval

    return go(revoke_approval(where_of(ctx, connect, profile=profile), grant, session))
