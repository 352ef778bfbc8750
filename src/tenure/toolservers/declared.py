"""Which tool servers there are: the public ``mcpServers`` JSON, read as it is written.

Values are literal: nothing of our environment is put into them, so a file that somebody else wrote
cannot carry a secret away. A server that cannot be used is named in a warning; the others stay.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from tenure.errors import ConfigError
from tenure.home import write_private

FILE = "mcp.json"
"""In the home of a profile: servers of its user."""
PROJECT_FILE = ".mcp.json"
"""In a working directory: servers that run only after consent."""
FILE_BYTES_MAX = 1024 * 1024
SERVERS_MAX = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_TYPES = {"", "stdio", "http", "streamable-http", "streamableHttp"}


class Declared(msgspec.Struct, frozen=True, omit_defaults=True):
    """One server, as a file says it. Its `env` and `headers` may be secrets: never print it."""

    command: str = ""
    """The program; with `url` there is none."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Where it is started; empty: the session's working directory."""
    url: str = ""
    """Of a remote server, which speaks streamable HTTP."""
    headers: dict[str, str] = {}
    type: str = ""
    shared: bool = False
    """One server for all sessions of the profile: it must keep nothing of theirs."""
    network: bool = False
    """It reaches the network, also where commands of the session do not."""
    disabled: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0, le=3600.0)] = 60.0
    """For one call without news of it."""
    idle_s: Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)] = 300.0
    """It is stopped when nobody has used it for so long."""
    allow: tuple[str, ...] = ()
    """Globs over names of its tools that run without being asked about."""

    @property
    def remote(self) -> bool:
        """Whether it is reached, not started."""
        return bool(self.url)

    @property
    def transport(self) -> str:
        """For people."""
        return "http" if self.url else "stdio"

    @property
    def digest(self) -> str:
        """Changes with everything that makes it another server."""
        text = msgspec.json.encode(self, order="deterministic")
        return hashlib.sha256(text).hexdigest()[:32]

    def secrets(self) -> tuple[str, ...]:
        """What a log must not show."""
        return tuple(value for value in (*self.env.values(), *self.headers.values()) if value)


class Servers(NamedTuple):
    """What a file declares."""

    servers: Mapping[str, Declared] = {}
    warnings: tuple[str, ...] = ()
    digest: str = ""
    """Of the file's bytes; empty: there is no file."""


def read_servers(path: Path) -> Servers:
    """What `path` declares; nothing if there is no file. Blocks for a moment.

    Raises:
        ConfigError: it cannot be read, or is not what it should be.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Servers()
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror or exc}.") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes.")
    return parse_servers(raw, str(path))


def parse_servers(raw: bytes, where: str) -> Servers:
    """Read the text of a file.

    Raises:
        ConfigError: it is no JSON object with ``mcpServers``.
    """
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{where} is not JSON: {exc}.") from None
    found = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(found, dict):
        raise ConfigError(f'{where} has no object "mcpServers".')
    servers: dict[str, Declared] = {}
    warnings: list[str] = []
    for name, entry in found.items():
        if len(servers) == SERVERS_MAX:
            warnings.append(f"{where}: only the first {SERVERS_MAX} servers are used.")
            break
        problem, server, told = _read_one(name, entry)
        if server is not None:
            servers[name] = server
        warnings += [f"{where}: {name[:60]}: {text}" for text in (*told, problem) if text]
    return Servers(servers, tuple(warnings), hashlib.sha256(raw).hexdigest())


def _read_one(name: str, entry: Any) -> tuple[str, Declared | None, list[str]]:
    """What is wrong, or the server; and what else is to be told."""
    if problem := _name_problem(name):
        return problem, None, []
    if not isinstance(entry, dict):
        return "it is no object.", None, []
    known = set(Declared.__struct_fields__)
    told = [f"{key[:40]!r} is not used." for key in entry if key not in known]
    try:
        server = msgspec.convert(entry, Declared)
    except msgspec.ValidationError as exc:
        return f"{exc}.", None, []
    if problem := problem_of(server):
        return problem, None, []
    values = (*server.args, *server.env.values(), *server.headers.values(), server.url)
    named = sorted({hit for value in values for hit in _VARIABLE.findall(value)})
    if named:
        told.append(f"{', '.join(named)[:100]} stays as it is written: variables are not replaced.")
    return "", server, told


def _name_problem(name: str) -> str:
    if _NAME.fullmatch(name):
        return ""
    return "a name has at most 40 letters, digits, dots, dashes and underscores."


def problem_of(server: Declared) -> str:
    """Why a server cannot be used; empty if it can be."""
    texts = (server.command, *server.args, *server.env, *server.env.values(), server.cwd)
    checks = (
        (bool(server.command) == bool(server.url), "it needs either a command or a url."),
        (
            server.type not in _TYPES,
            f"type {server.type[:40]!r} is not spoken here; http is.",
        ),
        (
            bool(server.url) and not re.match(r"https?://[^/\s]+", server.url),
            "its url must begin with http:// or https://.",
        ),
        (bool(server.cwd) and not server.cwd.startswith("/"), "its cwd must be an absolute path."),
        (any("\0" in text for text in texts), "there is a zero byte in it."),
        (any("=" in key or not key for key in server.env), "env has a name that cannot be one."),
    )
    return next((problem for wrong, problem in checks if wrong), "")


def change_servers(path: Path, name: str, server: Declared | None) -> bool:
    """Add or replace a server, or remove it (None); whether it was there before.

    What else stands in the file is kept. The file is made for its owner only, since it may hold
    keys.

    Raises:
        ConfigError: the name or the server cannot be one, or the file cannot be read or written.
    """
    problem = _name_problem(name) or (problem_of(server) if server is not None else "")
    if problem:
        raise ConfigError(f"{name[:60]}: {problem}")
    read_servers(path)  # a file that cannot be read is not replaced
    whole: dict[str, Any] = {"mcpServers": {}}
    if path.exists():
        whole = json.loads(path.read_bytes())
    found = whole["mcpServers"]
    was_there = found.pop(name, None) is not None
    if server is not None:
        found[name] = msgspec.to_builtins(server)
    try:
        write_private(path, json.dumps(whole, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}.") from None
    return was_there
