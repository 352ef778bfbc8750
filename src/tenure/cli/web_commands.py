"""`tenure web …`: the commands; what they do stands in `cli/web.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Profile, go, where_of

web_app = typer.Typer(help="The web.", rich_markup_mode=None, no_args_is_help=True)
Provider = Annotated[str, typer.Argument(metavar="PROVIDER", help="brave or tavily")]


@web_app.command("login")
def web_login(ctx: typer.Context, provider: Provider, profile: Profile = "") -> int:
    """Store the key of a search provider. It is asked for, or read from stdin, and tried."""
    from tenure.cli.web import login

    return go(login(where_of(ctx, profile=profile), provider))


@web_app.command("logout")
def web_logout(ctx: typer.Context, provider: Provider, profile: Profile = "") -> int:
    """Forget the key of a search provider."""
    from tenure.cli.web import logout

    return logout(where_of(ctx, profile=profile), provider)
