"""`tenure memory …`: the commands; what they do stands in `cli/memory.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import Connect, Json, Profile, Yes, go, where_of

memory_app = typer.Typer(
    help="What agents remember from session to session.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
Numbers = Annotated[list[int], typer.Argument(metavar="N…", help="as the list numbers them")]
Words = Annotated[list[str], typer.Argument(metavar="WORDS", help="all must stand in it")]


@memory_app.command("list")
def memory_list(
    ctx: typer.Context,
    proposed: Annotated[bool, typer.Option("--proposed", help="only what waits")] = False,
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """The notes, with their age and where they come from."""
    from tenure.cli.memory import list_notes

    state = "proposed" if proposed else ""
    return go(list_notes(where_of(ctx, connect, profile=profile), state, as_json=as_json))


@memory_app.command("search")
def memory_search(
    ctx: typer.Context,
    words: Words,
    as_json: Json = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Find notes by words."""
    from tenure.cli.memory import search_notes

    where = where_of(ctx, connect, profile=profile)
    return go(search_notes(where, " ".join(words), as_json=as_json))


@memory_app.command("add")
def memory_add(
    ctx: typer.Context,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="a fact or wish")],
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Have something remembered; it counts at once."""
    from tenure.cli.memory import add_note

    return go(add_note(where_of(ctx, connect, profile=profile), " ".join(text)))


@memory_app.command("accept")
def memory_accept(
    ctx: typer.Context,
    numbers: Numbers,
    text: Annotated[str, typer.Option("--text", help="in these words instead")] = "",
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Let proposed notes count."""
    from tenure.cli.memory import accept_notes

    return go(accept_notes(where_of(ctx, connect, profile=profile), numbers, text))


@memory_app.command("reject")
def memory_reject(
    ctx: typer.Context, numbers: Numbers, profile: Profile = "", connect: Connect = ""
) -> int:
    """Remove notes that wait, for good."""
    from tenure.cli.memory import reject_notes

    return go(reject_notes(where_of(ctx, connect, profile=profile), numbers))


@memory_app.command("remove")
def memory_remove(
    ctx: typer.Context,
    numbers: Numbers,
    yes: Yes = False,
    profile: Profile = "",
    connect: Connect = "",
) -> int:
    """Remove notes for good: from the file, its index and its log."""
    from tenure.cli.memory import remove_notes

    return go(remove_notes(where_of(ctx, connect, profile=profile), numbers, yes=yes))
