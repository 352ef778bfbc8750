"""`tenure checkpoint …`: the commands; what they do stands in `cli/checkpoint.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, go, where_of

checkpoint_app = typer.Typer(
    help="What folders held before turns changed them.", rich_markup_mode=None, no_args_is_help=True
)
Session = Annotated[
    str, typer.Argument(metavar="SESSION", help='an id, its end, an exact title, or "last"')
]
Which = Annotated[
    str,
    typer.Argument(
        metavar="[CHECKPOINT]",
        help="its number, its id, or the id's beginning (default: last turn's)",
    ),
]
Path = Annotated[str, typer.Argument(metavar="[PATH]", help="one file or folder only")]


@checkpoint_app.command("list")
def checkpoint_list(
    ctx: typer.Context,
    session: Session,
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """A session's checkpoints, newest first. What they do not cover is told."""
    from tenure.cli.checkpoint import list_checkpoints

    return go(list_checkpoints(where_of(ctx, connect, profile=profile), session, as_json=as_json))


@checkpoint_app.command("diff")
def checkpoint_diff(
    ctx: typer.Context,
    session: Session,
    checkpoint: Which = "",
    path: Path = "",
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """What has changed since a checkpoint."""
    from tenure.cli.checkpoint import diff_checkpoint

    where = where_of(ctx, connect, profile=profile)
    return go(diff_checkpoint(where, session, checkpoint, path))


@checkpoint_app.command("restore")
def checkpoint_restore(  # noqa: PLR0913, PLR0917 - one parameter a flag
    ctx: typer.Context,
    session: Session,
    checkpoint: Which = "",
    path: Path = "",
    remove_new: Annotated[
        bool, typer.Option("--remove-new", help="also remove what was made since")
    ] = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Give the working directory, or one path of it, back as it was. Can be undone."""
    from tenure.cli.checkpoint import restore_checkpoint

    where = where_of(ctx, connect, profile=profile)
    return go(restore_checkpoint(where, session, checkpoint, path, remove_new=remove_new))
