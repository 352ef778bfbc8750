"""`tenure serve`: the gateway as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tenure.cli.exits import USAGE, code_of
from tenure.cli.signals import take_signals
from tenure.config import Config, find_home, load, read_environment
from tenure.errors import ConfigError, Conflict, TenureError
from tenure.home import check_profile, used_profile
from tenure.paths import is_folder

if TYPE_CHECKING:
    from tenure.app import Gateway
    from tenure.processes.guard import Guarded

SECOND_SIGNAL_EXIT = 130
PORT_MAX = 65_535


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong command line, as one sentence."""
        told = f"{message[0].upper()}{message[1:]}"
        self.exit(2, f"tenure: {told}; `tenure serve --help` says what there is.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tenure serve",
        description="Serve sessions to terminals, editors and other clients. "
        "Prints `ready ws://HOST:PORT/api/ws` when clients may connect; `tenure url` prints the "
        "address with its token.",
    )
    add = parser.add_argument
    add("--host", help="address to listen on (default: server.host, 127.0.0.1)")
    add("--port", type=int, help="port to listen on; 0 picks a free one (default: server.port)")
    reach = "a further name under which clients may reach this gateway; needed beyond loopback"
    add("--allow-host", action="append", default=[], metavar="NAME", help=reach)
    add("--model", default="", metavar="PROVIDER:NAME", help="model of sessions that name none")
    add("--profile", default="", metavar="NAME", help="profile of sessions that name none")
    add("--cwd", type=Path, help="working directory of sessions that name none (default: here)")
    add(
        "--sandbox", choices=["auto", "local", "bubblewrap", "docker", "ssh"],
        help="where commands of sessions run that do not say it (default: sandbox.kind, auto)",
    )  # fmt: skip
    add("--stdio", action="store_true", help="speak newline-delimited JSON on stdin and stdout")
    add("--home", help="folder of this gateway (default: $TENURE_HOME)")
    add("--log-level", choices=["debug", "info", "warning", "error"], help="default: info")
    add("--json", action="store_true", help="print the ready line as JSON, with both pids")
    return parser


def serve(args: list[str], guarded: Guarded | None) -> int:
    """Run until a signal or the end of the guard; the exit code."""
    options = _parser().parse_args(args)
    gc.disable()  # until ready: nothing of the start-up is garbage
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(options, guarded))
    except TenureError as exc:
        sys.stderr.write(f"tenure serve: {exc}\n")
        return USAGE if isinstance(exc, Conflict) else code_of(exc)  # a second one is a mistake
    except OSError as exc:
        what = f"{exc.filename}: " if exc.filename else ""
        sys.stderr.write(f"tenure serve: {what}{exc.strerror or exc}\n")
        return 1
    except KeyboardInterrupt:
        return SECOND_SIGNAL_EXIT


def _settings(options: argparse.Namespace, config: Config) -> Config:
    """The configuration with the flags on top."""
    import msgspec

    server = config.server
    server = msgspec.structs.replace(
        server,
        host=options.host or server.host,
        port=server.port if options.port is None else options.port,
    )
    if not 0 <= server.port <= PORT_MAX:
        raise ConfigError(f"{server.port} is no port; it is a number from 0 to {PORT_MAX}.")
    level = options.log_level or config.log_level
    sandbox = config.sandbox
    if options.sandbox:
        sandbox = msgspec.structs.replace(sandbox, kind=options.sandbox)
    return msgspec.structs.replace(config, server=server, sandbox=sandbox, log_level=level)


def _check_begins(model: str, config: Config) -> None:
    """What every session would stumble over is said before anybody connects.

    Raises:
        BadValue: there is no such provider.
        ConfigError: the sandbox lacks what it needs.
    """
    if model:
        from tenure.models.choice import parse_ref

        parse_ref(model, config)
    if config.sandbox.kind == "ssh" and (missing := config.sandbox.ssh.missing):
        raise ConfigError(missing)


async def _serve(options: argparse.Namespace, guarded: Guarded | None) -> int:
    from tenure.app import Start, open_gateway_in_time

    environ = read_environment()
    home = find_home(environ, options.home)
    loaded = load(home)
    check_profile(home, options.profile or used_profile(home))
    for warning in loaded.warnings:
        sys.stderr.write(f"tenure serve: {warning}\n")
    import msgspec

    loaded = msgspec.structs.replace(loaded, config=_settings(options, loaded.config))
    _check_begins(options.model, loaded.config)
    cwd = (options.cwd or Path.cwd()).absolute()
    if not is_folder(cwd):
        raise ConfigError(f"--cwd {cwd} is no folder.")
    fds = _take_stdio() if options.stdio else None
    start = Start(
        home=home, loaded=loaded, environ=environ, cwd=cwd, model=options.model,
        profile=options.profile, on_top=partial(_settings, options), guarded=guarded, recovers=True,
    )  # fmt: skip
    gateway = await open_gateway_in_time(start)
    code = 1
    try:
        _take_signals(gateway)
        if fds is not None:
            code = await _serve_stdio(gateway, fds)
        else:
            code = await _serve_socket(gateway, options)
    finally:
        if not await gateway.aclose():
            os._exit(code)  # what still runs ignores its end; everything is stored
    return code


def _take_stdio() -> tuple[int, int]:
    from tenure.transports.stdio import take_stdio

    return take_stdio()


async def _serve_socket(gateway: Gateway, options: argparse.Namespace) -> int:
    from tenure.server import bind

    config = gateway.config().server
    sock = bind(config.host, config.port)
    await gateway.listen(sock, tuple(options.allow_host))
    gateway.announce()
    _say_ready(gateway, as_json=options.json)
    gc.enable()
    opening = gateway.begin_open()
    await (
        gateway.stop_asked.wait()
    )  # a signal is heard while the store opens; its failure asks, too
    if opening.done():
        opening.result()
    return 0


async def _serve_stdio(gateway: Gateway, fds: tuple[int, int]) -> int:
    from tenure.rpc.connection import Connection
    from tenure.transports.stdio import StdioTransport

    gateway.announce()
    gc.enable()
    ports = await gateway.ports()
    transport = await StdioTransport.open(*fds)
    assert gateway.connections is not None
    scope = gateway.connections.child("connection:stdio")
    connection = Connection(transport, ports, scope)
    served = gateway.connections.spawn(connection.run(), name="stdio")
    served.value.add_done_callback(lambda _: gateway.ask_stop("stdin ended"))
    await gateway.stop_asked.wait()
    return 0


def _say_ready(gateway: Gateway, *, as_json: bool) -> None:
    if as_json:
        facts = gateway.facts()
        line = json.dumps({"ready": gateway.url, **facts})
    else:
        line = f"ready {gateway.url}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _take_signals(gateway: Gateway) -> None:
    """The first signal asks for a graceful end, the second ends at once (the guard cleans up)."""

    def asked(signum: signal.Signals) -> None:
        if gateway.stop_asked.is_set():
            os._exit(SECOND_SIGNAL_EXIT)
        gateway.ask_stop(f"signal {signum.name}")

    take_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), asked)
