"""What `tenure mcp …` does: the files of servers, consent, a try, a login."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from tenure.cli.attach import Where
from tenure.cli.mcp_redirect import Waiting
from tenure.clock import SystemClock
from tenure.errors import BadValue, ConfigError, NotFound, TenureError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.sandbox.base import Sandbox
from tenure.sandbox.choice import LocalOnly
from tenure.sandbox.local import Local
from tenure.toolservers.calls import Lost
from tenure.toolservers.catalog import Catalog, public_name
from tenure.toolservers.declared import (
    FILE,
    PROJECT_FILE,
    Declared,
    change_servers,
    read_servers,
)
from tenure.toolservers.lending import Folders, ToolServers
from tenure.toolservers.logins import Login, Logins
from tenure.toolservers.remote import LOGINS, Network
from tenure.toolservers.trust import FILE as TRUST_FILE, Trust

LOGIN_S = 600.0
"""How long somebody may take to log in."""


def _trust(where: Where) -> Trust:
    return Trust(where.own.root / TRUST_FILE)


def _named(where: Where, name: str) -> Declared:
    """A server that sessions here have. Raises NotFound, ConfigError."""
    project = read_servers(where.cwd / PROJECT_FILE)
    trusted = _trust(where).allows(where.cwd / PROJECT_FILE, project.digest)
    found = {**(project.servers if trusted else {}), **read_servers(where.own.root / FILE).servers}
    if name in found:
        return found[name]
    if name in project.servers:
        raise NotFound(f"{name} is declared in {where.cwd / PROJECT_FILE}; `tenure mcp trust` it.")
    raise NotFound(f"There is no tool server {name[:40]!r}; `tenure mcp list` shows them.")


def show(where: Where, *, as_json: bool) -> int:
    """A line for each server."""
    rows = rows_of(where)
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    for row in rows:
        tools = "not looked at yet" if row["tools"] is None else _tools(row["tools"])
        flags = ", ".join(flag for flag in ("shared", "disabled") if row[flag])
        parts = (row["transport"], tools, flags, row["status"])
        sys.stdout.write(f"{row['name']:<16} {', '.join(part for part in parts if part)}\n")
        sys.stdout.write(f"    {row['target']}\n")
    if not rows:
        sys.stderr.write("There are none; `tenure mcp add NAME COMMAND…` adds one.\n")
    return 0


def rows_of(where: Where) -> list[dict[str, Any]]:
    """What is shown of each. Raises ConfigError; warnings are said on stderr."""
    catalog = Catalog(where.own.cache / "tool-servers")
    path = where.cwd / PROJECT_FILE
    mine, project = read_servers(where.own.root / FILE), read_servers(path)
    trusted = _trust(where).allows(path, project.digest)
    for warning in (*mine.warnings, *project.warnings):
        sys.stderr.write(f"tenure: {warning}\n")
    rows = []
    for name, server in {**project.servers, **mine.servers}.items():
        known = catalog.get(server.digest)
        ours = name in mine.servers
        rows.append({
            "name": name,
            "transport": server.transport,
            "target": server.url or shlex.join((server.command, *server.args)),
            "tools": len(known.tools) if known else None,
            "shared": server.shared,
            "disabled": server.disabled,
            "status": "" if ours or trusted else f"not trusted (tenure mcp trust {path})",
        })  # fmt: skip
    return rows


def add(
    where: Where,
    name: str,
    target: list[str],
    pairs: tuple[list[str], list[str]],
    *,
    shared: bool,
    network: bool,
) -> int:
    """Write it into the profile's file."""
    env, headers = (_split(texts) for texts in pairs)
    remote = target[0].startswith(("http://", "https://"))
    if remote and len(target) > 1:
        raise BadValue("A url has no arguments.")
    server = Declared(
        command="" if remote else target[0],
        args=() if remote else tuple(target[1:]),
        url=target[0] if remote else "",
        env=env,
        headers=headers,
        shared=shared,
        network=network,
    )
    where.own.prepare()
    path = where.own.root / FILE
    replaced = change_servers(path, name, server)
    verb = "replaced" if replaced else "added"
    sys.stderr.write(f"{name} is {verb} in {path}; `tenure mcp test {name}` tries it.\n")
    return 0


def _split(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadValue(f"{key[:40]!r} is not NAME=VALUE.")
        found[key] = value
    return found


async def remove(where: Where, name: str) -> int:
    """Take it out of the profile's file; 1 if it was not there."""
    path = where.own.root / FILE
    was_there = False
    if path.exists():
        server = read_servers(path).servers.get(name)
        was_there = change_servers(path, name, None)
        if server is not None and server.remote:
            await _forget_login(where, server.url)
    sys.stderr.write(f"{name} is removed.\n" if was_there else f"There was no server {name}.\n")
    return 0 if was_there else 1


async def _forget_login(where: Where, url: str) -> None:
    logins = Logins(where.own.root / LOGINS, SystemClock())
    if logins.read(url) != Login():
        async with logins.alone():
            logins.write(url, None)


async def test(where: Where, name: str) -> int:
    """Start it, list, stop it."""
    server = _named(where, name)
    clock = SystemClock()
    async with Scope.root("mcp", clock) as scope:
        spawner = Spawner(instance="mcp-test", environ=where.environ, clock=clock)
        sandbox = Local(spawner, where.cwd, "mcp-test")
        home = ToolServers(
            scope,
            Folders(where.own.root, where.own.cache, where.home.logs),
            LocalOnly(spawner),
            _network(where),
            know=lambda _: None,
            output_bytes=lambda: 0,
        )

        async def here(_scope: Scope) -> Sandbox:
            return sandbox

        try:
            link = await home.open(scope, name, server, sandbox=here)
            offers = await link.offers()
        except (ToolError, TimeoutError, Lost) as exc:
            why = str(exc).rstrip(".") or "it does not answer"
            raise ConfigError(f"The tool server {name} cannot be used: {why}.") from None
        home.catalog.put(server.digest, offers)
    for tool in offers.tools:
        first = tool.description.strip().splitlines()
        sys.stdout.write(f"{public_name(name, tool.name)}  {first[0][:100] if first else ''}\n")
    more = [word for word in ("resources", "prompts") if getattr(offers, word)]
    also = f", also {' and '.join(more)}" if more else ""
    sys.stderr.write(f"{name} answers: {_tools(len(offers.tools))}{also}.\n")
    return 0


async def login(where: Where, name: str) -> int:
    """Log in to a remote server."""
    server = _named(where, name)
    if not server.remote:
        raise BadValue(f"{name} is a program here; only remote servers have a login.")
    clock = SystemClock()
    oauth, http = (importlib.import_module(f"tenure.toolservers.{m}") for m in ("oauth", "http"))
    async with Scope.root("login", clock) as scope, Waiting() as waiting:
        network = _network(where)
        where.own.prepare()
        try:
            async with deadline(clock, LOGIN_S):
                await oauth.log_in(
                    server.url,
                    Logins(network.logins, clock),
                    clock,
                    waiting.redirect,
                    show=_show,
                    answered=waiting.answered,
                    client=lambda auth: http.client_for(scope, server, network, auth),
                )
        except TimeoutError:
            raise ConfigError(f"Nobody logged in within {LOGIN_S:.0f} s.") from None
        except TenureError:
            raise
        except Exception as exc:  # noqa: BLE001 - the library's reasons, as a sentence
            why = (str(exc).strip().splitlines() or [repr(exc)])[0][:300]
            raise ConfigError(f"It did not come to a login: {why}.") from None
    sys.stderr.write(f"{name} knows you now; the login is in {network.logins} (0600).\n")
    return 0


async def _show(url: str) -> None:
    sys.stdout.write(f"Open this in a browser of this machine:\n{url}\n")
    sys.stdout.flush()


def _network(where: Where) -> Network:
    return Network(where.environ, where.own.root / LOGINS, lambda: where.loaded.config.web)


def trust(where: Where, file: Path | None) -> int:
    """Consent to a file's content, shown first."""
    path = _path(where, file)
    where.own.prepare()
    found = _trust(where).give(path)
    for name, server in found.servers.items():
        what = server.url or shlex.join((server.command, *server.args))
        sys.stdout.write(f"{name}: {what}\n")
    sys.stderr.write(f"{path} may start these servers, as it is now.\n")
    return 0


def distrust(where: Where, file: Path | None) -> int:
    """Take consent back; 1 if there was none, and what there is."""
    path = _path(where, file)
    if _trust(where).take(path):
        sys.stderr.write(f"{path} may start nothing any more.\n")
        return 0
    sys.stderr.write(f"{path} was not trusted.\n")
    for known in _trust(where).load():
        sys.stdout.write(f"{known}\n")
    return 1


def _path(where: Where, file: Path | None) -> Path:
    path = where.cwd / (file or PROJECT_FILE)
    return path / PROJECT_FILE if path.is_dir() else path


def problems_of(where: Where) -> list[str]:
    """What is wrong with the files, for `tenure doctor`."""
    found: list[str] = []
    for path in (where.own.root / FILE, where.cwd / PROJECT_FILE):
        try:
            found += read_servers(path).warnings
        except ConfigError as exc:
            found.append(exc.message)
    return found


def _tools(count: int) -> str:
    return "1 tool" if count == 1 else f"{count} tools"
