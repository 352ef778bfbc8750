"""`tenure plan …`: the commands; what they do stands in `cli/plan.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, go, where_of

plan_app = typer.Typer(
    help="Plans of sessions in plan mode.", rich_markup_mode=None, no_args_is_help=True
)
Session = Annotated[str, typer.Argument(metavar="SESSION", help="an id, its end, a title, or last")]


@plan_app.command("show")
def plan_show(
    ctx: typer.Context,
    session: Session = "last",
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """The plan, and whether plan mode is on."""
    from tenure.cli.plan import show_plan

    return go(show_plan(where_of(ctx, connect, profile=profile), session, as_json=as_json))


@plan_app.command("edit")
def plan_edit(
    ctx: typer.Context,
    session: Session = "last",
    file: Annotated[
        Path | None, typer.Option("--file", help="the new text (-: stdin); without: typed here")
    ] = None,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Change the plan; an approval is for what stands then."""
    from tenure.cli.plan import edit_plan

    return go(edit_plan(where_of(ctx, connect, profile=profile), session, file))


@plan_app.command("approve")
def plan_approve(
    ctx: typer.Context, session: Session = "last", profile: Profile = "", connect: Connect = ""
) -> int:
    """Approve the plan as it stands. Plan mode ends, and the agent may carry it out."""
    from tenure.cli.plan import approve_plan

    return go(approve_plan(where_of(ctx, connect, profile=profile), session))


@plan_app.command("off")
def plan_off(
    ctx: typer.Context, session: Session = "last", profile: Profile = "", connect: Connect = ""
) -> int:
    """End plan mode without approving anything."""
    from tenure.cli.plan import end_plan

    return go(end_plan(where_of(ctx, connect, profile=profile), session))
