"""The Typer application: every command but `serve`. Each imports what it needs when it runs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.approval_commands import approvals_app
from tenure.cli.checkpoint_commands import checkpoint_app
from tenure.cli.exits import FAILED, INTERRUPTED, USAGE, code_of
from tenure.cli.mcp_commands import mcp_app
from tenure.cli.memory_commands import memory_app
from tenure.cli.options import (
    Attach,
    Connect,
    Cwd,
    Json,
    Model,
    Plan,
    Profile,
    Sandbox,
    Session,
    Yes,
    check_goes_on,
    go,
    where_of,
    where_to_look,
)
from tenure.cli.plan_commands import plan_app
from tenure.cli.profile_commands import profile_app
from tenure.cli.service_commands import service_app
from tenure.cli.session_commands import sessions_app
from tenure.cli.skills_commands import skills_app
from tenure.cli.web_commands import web_app
from tenure.errors import ConfigError, InternalError, TenureError

if TYPE_CHECKING:
    from tenure.processes.guard import Guarded

app = typer.Typer(
    name="tenure",
    help="An agent gateway whose sessions own what they use. Without a command: chat.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
model_app = typer.Typer(help="Models and providers.", rich_markup_mode=None, no_args_is_help=True)
config_app = typer.Typer(help="The configuration.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(checkpoint_app, name="checkpoint")
app.add_typer(approvals_app, name="approvals")
app.add_typer(plan_app, name="plan")
app.add_typer(profile_app, name="profile")
app.add_typer(service_app, name="service")
app.add_typer(web_app, name="web")
app.add_typer(mcp_app, name="mcp")
app.add_typer(skills_app, name="skills")
app.add_typer(memory_app, name="memory")
app.add_typer(model_app, name="model")
app.add_typer(config_app, name="config")


def run_cli(args: list[str], guarded: Guarded | None) -> int:
    """Run a command; its exit code. Every expected error is one sentence, never a traceback."""
    from typer.exceptions import TyperException

    try:
        result = app(args, standalone_mode=False, obj=guarded)
        sys.stdout.flush()
    except TenureError as exc:
        return _say(exc)
    except TyperException as exc:
        sys.stderr.write(f"{usage_of(exc)}\n")
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered fails no second time
        if not isinstance(exc, BrokenPipeError):
            what = f"{exc.filename}: " if exc.filename else ""
            sys.stderr.write(f"tenure: {what}{exc.strerror or exc}.\n")
        return FAILED
    return result if isinstance(result, int) else 0


_PLAIN = {
    "Input should be a valid integer, unable to parse string as an integer": "it is a whole number",
    "Input should be greater than or equal to": "it is at least",
}
"""What the library says of a value, and what we say."""


def usage_of(exc: Any) -> str:
    """A wrong command line as one sentence; the help where a command lacks its second word."""
    told = (
        str(exc.format_message()).strip().rstrip(".").replace(" (Possible options: ", " (such as ")
    )
    for library, ours in _PLAIN.items():
        told = told.replace(library, ours)
    ctx = getattr(exc, "ctx", None)
    if ctx is None:
        return f"tenure: {told}; `tenure --help` says what there is."
    if told == ctx.get_help().strip().rstrip("."):
        return str(ctx.get_help())
    command = " ".join(["tenure", *ctx.command_path.split()[1:], "--help"])
    return f"tenure: {told[0].upper()}{told[1:]}; `{command}` says what there is."


def _say(exc: TenureError) -> int:
    error_id = f" [{exc.error_id}]" if isinstance(exc, InternalError) and exc.error_id else ""
    sys.stderr.write(f"tenure: {exc}{error_id}\n")
    return code_of(exc)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if version:
        from tenure import __version__

        sys.stdout.write(f"tenure {__version__}\n")
        raise typer.Exit(0)


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one parameter a flag
    ctx: typer.Context,
    prompt: Annotated[
        list[str] | None, typer.Argument(help="what to do; '-' at the end waits for stdin")
    ] = None,
    attach: Attach = None,
    model: Model = "",
    cwd: Cwd = None,
    yes: Yes = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="events as JSON lines, a result object last")
    ] = False,
    session: Session = "",
    plan: Plan = False,
    profile: Profile = "",
    sandbox: Sandbox = "",
    connect: Connect = "",
) -> int:
    """Run one turn and print the answer as it comes.

    What is piped in follows the prompt (git diff | tenure run 'review this'); files go with it
    as images, PDFs or text, whatever they are (tenure run -a shot.png 'what is wrong here?').
    Ends with 0 done, 1 failed, 2 usage or configuration, 3 denied, 130 interrupted.
    """
    from tenure.cli.files import found
    from tenure.cli.piped import prompt_from
    from tenure.cli.run import RunOptions, run as run_turn

    text = prompt_from(prompt or [], sys.stdin.fileno())
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    check_goes_on(session, cwd, sandbox)
    options = RunOptions(
        prompt=text, yes=yes, as_json=as_json, session=session, interactive=interactive, plan=plan,
        files=found(attach or ()),
    )  # fmt: skip
    return go(run_turn(options, where_of(ctx, connect, cwd, model, profile, sandbox)))


@app.command()
def chat(  # noqa: PLR0913, PLR0917 - one parameter a flag
    ctx: typer.Context,
    model: Model = "",
    cwd: Cwd = None,
    yes: Yes = False,
    session: Session = "",
    plan: Plan = False,
    profile: Profile = "",
    sandbox: Sandbox = "",
    connect: Connect = "",
) -> int:
    """Talk in the terminal. Ctrl-C interrupts the turn, Ctrl-D leaves."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("chat needs a terminal; use `tenure run` in scripts.")
    check_goes_on(session, cwd, sandbox)
    from tenure.cli.chat import chat as talk
    from tenure.cli.talk import Wish

    where = where_of(ctx, connect, cwd, model, profile, sandbox)
    return go(talk(where, Wish(yes, plan), session))


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def serve(ctx: typer.Context) -> int:
    """Serve sessions to terminals, editors and other clients."""
    from tenure.cli.serve import serve as run_serve

    return run_serve(ctx.args, ctx.obj)


@app.command()
def url(ctx: typer.Context) -> int:
    """Print the attach URL of this home's gateway, with its token. Keep it to yourself."""
    from tenure.home import is_held, read_note, read_token

    where = where_to_look(ctx)
    note = read_note(where.home)
    if note is None or not note.url or not is_held(where.home):
        raise ConfigError(f"No gateway serves the home {where.home.root}; start `tenure serve`.")
    sys.stdout.write(f"{note.url}?token={read_token(where.home)}\n")
    return 0


@app.command()
def ps(
    ctx: typer.Context,
    as_json: Json = False,
    connect: Connect = "",
    verify: Annotated[
        bool, typer.Option("--verify", help="compare it with what runs; end what nobody holds")
    ] = False,
) -> int:
    """Everything that a running gateway holds, by owner."""
    from tenure.cli import ps as shown

    show = shown.verify if verify else shown.ps
    return go(show(where_to_look(ctx, connect), as_json=as_json))


@app.command()
def logs(
    ctx: typer.Context,
    error_id: Annotated[str, typer.Argument(help="show this error with its traceback")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="go on")] = False,
    lines: Annotated[int, typer.Option("-n", min=1, help="how many lines")] = 50,
) -> int:
    """The gateway's log."""
    from tenure.cli.logs import logs as show

    return show(where_to_look(ctx), follow=follow, error_id=error_id, lines=lines)


@app.command()
def doctor(ctx: typer.Context) -> int:
    """Check everything and say how to mend it."""
    from tenure.cli.doctor import doctor as check

    return check(where_to_look(ctx))


@model_app.command("list")
def model_list(
    ctx: typer.Context,
    provider: Annotated[str, typer.Argument(help="ask this provider what it offers")] = "",
    as_json: Json = False,
    profile: Profile = "",
) -> int:
    """Models that can serve; the current one is marked."""
    from tenure.cli.model import list_models

    return go(list_models(where_of(ctx, profile=profile), provider=provider, as_json=as_json))


@model_app.command("pull")
def model_pull(ctx: typer.Context, yes: Yes = False) -> int:
    """Download the starter model."""
    from tenure.cli.model import pull_model

    return go(pull_model(where_of(ctx), yes=yes))


@model_app.command("use")
def model_use(
    ctx: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="PROVIDER:NAME")],
    profile: Profile = "",
) -> int:
    """Make a model the default of new sessions."""
    from tenure.cli.model import use_model

    return use_model(where_of(ctx, profile=profile), ref)


@model_app.command("login")
def model_login(ctx: typer.Context, provider: str, profile: Profile = "") -> int:
    """Store a provider's key. It is asked for, or read from stdin, and proved by one real call."""
    from tenure.cli.model import login

    return go(login(where_of(ctx, profile=profile), provider))


@config_app.command("check")
def config_check(ctx: typer.Context, profile: Profile = "") -> int:
    """Check the configuration file. Everything that is wrong with it is told, a sentence each."""
    from tenure.config import check_files, find_home, read_environment
    from tenure.home import used_profile

    home = find_home(read_environment())
    wrong = check_files(home, profile or used_profile(home))
    for sentence in wrong:
        sys.stderr.write(f"tenure: {sentence}\n")
    if wrong:
        return 2
    loaded = where_of(ctx, profile=profile).loaded
    state = "is valid" if loaded.exists else "does not exist; defaults are in force"
    sys.stdout.write(f"{loaded.path} {state}\n")
    return 0


@config_app.command("where")
def config_where(ctx: typer.Context, profile: Profile = "") -> int:
    """Where the configuration and everything else lies."""
    where = where_to_look(ctx, profile=profile)
    for name, path in (
        ("config", where.own.config),
        ("home", where.home.root),
        ("database", where.own.database),
        ("logs", where.home.logs),
        ("models", where.home.models),
    ):
        sys.stdout.write(f"{name:<9} {path}\n")
    return 0


@config_app.command("schema")
def config_schema() -> int:
    """The JSON Schema of the configuration file."""
    from tenure.config import json_schema

    sys.stdout.write(json.dumps(json_schema(), indent=1) + "\n")
    return 0
