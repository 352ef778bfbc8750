"""The Typer application: every command but `serve`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.errors import ConfigError, InternalError, RequestRefused, TenureError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tenure.processes.guard import Guarded

app = typer.Typer(
    name="tenure",
    help="An agent gateway whose sessions own what they use.",
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_guard: list[Guarded] = []


def run_cli(args: list[str], guarded: Guarded | None) -> int:
    """Run a command; its exit code. Every expected error is one sentence."""
    if guarded is not None:
        _guard.append(guarded)
    try:
        result = app(args, standalone_mode=False)
    except ConfigError as exc:
        return _say(exc, 2)
    except (RequestRefused, TenureError) as exc:
        return _say(exc, 1)
    except KeyboardInterrupt:
        return 130
    except typer.Exit as exc:
        return exc.exit_code
    except Exception as exc:  # noqa: BLE001
        import click

        if isinstance(exc, click.ClickException):
            exc.show()
            return 2
        if isinstance(exc, click.Abort):
            return 130
        raise
    return result if isinstance(result, int) else 0


def _say(exc: TenureError, code: int) -> int:
    error_id = f" [{exc.error_id}]" if isinstance(exc, InternalError) and exc.error_id else ""
    sys.stderr.write(f"tenure: {exc}{error_id}\n")
    return code


def go(work: Coroutine[object, object, int]) -> int:
    """Run on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@app.command()
def run(  # noqa: PLR0913 - one parameter a flag
    prompt: Annotated[list[str] | None, typer.Argument(help="what to do; '-' or none reads stdin")] = None,
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", help="which model")] = "",
    cwd: Annotated[Path | None, typer.Option(help="working directory (default: here)")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="allow what would be asked")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="events as JSON lines, a result object last")] = False,
    session: Annotated[str, typer.Option(help="continue this session")] = "",
    connect: Annotated[str, typer.Option(metavar="URL", help="use this gateway")] = "",
) -> int:
    """Run one turn and print the answer as it comes."""
    from tenure.cli.attach import find_where
    from tenure.cli.run import RunOptions, run as run_turn

    text = " ".join(prompt or [])
    if text in {"", "-"}:
        if sys.stdin.isatty():
            raise typer.BadParameter("give a prompt, or pipe one in")
        text = sys.stdin.read()
    if not text.strip():
        raise typer.BadParameter("the prompt is empty")
    where = find_where(connect=connect, cwd=cwd, model=model, guarded=_guard[0] if _guard else None)
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    options = RunOptions(prompt=text, yes=yes, as_json=as_json, session=session, interactive=interactive)
    return go(run_turn(options, where))
