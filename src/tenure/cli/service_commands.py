"""`tenure service …`: the commands; what they do stands in `cli/daemon.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Json, where_of

service_app = typer.Typer(
    help="The gateway as a service of systemd or launchd.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
Kind = Annotated[str, typer.Option(help="systemd or launchd (default: what this system has)")]
System = Annotated[bool, typer.Option("--system", help="for the machine instead of this user")]
Print = Annotated[bool, typer.Option("--print", help="only print what would be written")]


@service_app.command("install")
def service_install(
    ctx: typer.Context, kind: Kind = "", system: System = False, only_print: Print = False
) -> int:
    """Write the unit or plist. It has the home, the environment and the kill time of now."""
    from tenure.cli.daemon import install, plan

    where = where_of(ctx)
    planned = plan(where, kind=kind, system=system)
    if only_print:
        typer.echo(planned.text, nl=False)
        return 0
    return install(where, planned)


@service_app.command("status")
def service_status(
    ctx: typer.Context, kind: Kind = "", system: System = False, as_json: Json = False
) -> int:
    """What is installed, and whether the gateway runs. Ends with 3 if nothing is installed."""
    from tenure.cli.daemon import plan, status

    where = where_of(ctx)
    return status(where, plan(where, kind=kind, system=system), as_json=as_json)


@service_app.command("uninstall")
def service_uninstall(ctx: typer.Context, kind: Kind = "", system: System = False) -> int:
    """Remove the unit or plist."""
    from tenure.cli.daemon import plan, uninstall

    return uninstall(plan(where_of(ctx), kind=kind, system=system))
