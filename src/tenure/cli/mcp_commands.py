"""`tenure mcp …`: the commands; what they do stands in `cli/mcp.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.options import Cwd, Json, Profile, go, where_of

mcp_app = typer.Typer(help="Tool servers (MCP).", rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="the server's name")]
File = Annotated[Path | None, typer.Argument(metavar="FILE", help="default: .mcp.json here")]
Pairs = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="for it")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="sent to a url")
]
Shared = Annotated[bool, typer.Option("--shared", help="one for all sessions: it keeps nothing")]
Net = Annotated[bool, typer.Option("--network", help="it reaches the network, box or not")]


@mcp_app.command("list")
def mcp_list(
    ctx: typer.Context, as_json: Json = False, cwd: Cwd = None, profile: Profile = ""
) -> int:
    """The servers that sessions here have, and what is known of them."""
    from tenure.cli.mcp import show

    return show(where_of(ctx, cwd=cwd, profile=profile), as_json=as_json)


@mcp_app.command("add", context_settings={"ignore_unknown_options": True})
def mcp_add(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: typer.Context,
    name: Name,
    target: Annotated[
        list[str], typer.Argument(metavar="COMMAND [ARGUMENTS] | URL", help="program, or address")
    ],
    env: Pairs = None,
    header: Headers = None,
    shared: Shared = False,
    network: Net = False,
    profile: Profile = "",
) -> int:
    """Add or replace a server; options of ours stand before its name."""
    from tenure.cli.mcp import add

    where = where_of(ctx, profile=profile)
    pairs = (env or [], header or [])
    return add(where, name, target, pairs, shared=shared, network=network)


@mcp_app.command("remove")
def mcp_remove(ctx: typer.Context, name: Name, profile: Profile = "") -> int:
    """Remove a server, and its login."""
    from tenure.cli.mcp import remove

    return go(remove(where_of(ctx, profile=profile), name))


@mcp_app.command("test")
def mcp_test(ctx: typer.Context, name: Name, cwd: Cwd = None, profile: Profile = "") -> int:
    """Start a server once, unconfined, and say what it offers."""
    from tenure.cli.mcp import test

    return go(test(where_of(ctx, cwd=cwd, profile=profile), name))


@mcp_app.command("login")
def mcp_login(ctx: typer.Context, name: Name, profile: Profile = "") -> int:
    """Log in to a remote server. Prints the address to open in a browser of yours."""
    from tenure.cli.mcp import login

    return go(login(where_of(ctx, profile=profile), name))


@mcp_app.command("trust")
def mcp_trust(ctx: typer.Context, file: File = None, cwd: Cwd = None, profile: Profile = "") -> int:
    """Let a folder's file start servers, as it is now. A change of it asks anew."""
    from tenure.cli.mcp import trust

    return trust(where_of(ctx, cwd=cwd, profile=profile), file)


@mcp_app.command("distrust")
def mcp_distrust(
    ctx: typer.Context, file: File = None, cwd: Cwd = None, profile: Profile = ""
) -> int:
    """Take that back. Without a file of that name, all that is trusted is shown."""
    from tenure.cli.mcp import distrust

    return distrust(where_of(ctx, cwd=cwd, profile=profile), file)
