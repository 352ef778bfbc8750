"""`tenure service`: the gateway as a service of systemd or launchd.

What is written names the home, the program and its environment in full, so it does not depend on
who starts it. Its kill time comes from the same budget as the gateway's own stop (shutdown.py) and
lies above it. It holds no secrets: only the variables below are copied. Keys of providers belong
into `tenure model login`, or, for systemd, into the file ``service.env`` in the home.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tenure.cli.attach import Where
from tenure.config import ENV_HOME, Home, ServerConfig
from tenure.errors import BadValue, ConfigError, Conflict
from tenure.home import is_held, read_note
from tenure.shutdown import budget

NAME = "tenure"
MARK = "Written by `tenure service install`"
COPIED = ("HOME", "PATH", "LANG", "XDG_CACHE_HOME")
"""Variables that the service gets with the values of now; no others."""
NOT_INSTALLED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written. Made by `plan`.

    Attributes:
        path: where.
        text: what.
        after: commands that a person runs next.
        before_removal: commands that a person runs before it is removed.
    """

    path: Path
    text: str
    after: tuple[str, ...]
    before_removal: tuple[str, ...]


def plan(where: Where, *, kind: str = "", system: bool = False) -> Plan:
    """The unit or plist for a home.

    Args:
        where: home, configuration and environment.
        kind: systemd or launchd; empty: what this system has.
        system: for the machine instead of this user.

    Raises:
        BadValue: no such kind.
    """
    kind = kind or ("launchd" if sys.platform == "darwin" else "systemd")
    if kind == "systemd":
        return _systemd(where, system=system)
    if kind == "launchd":
        return _launchd(where, system=system)
    raise BadValue(f"{kind[:40]!r} is no kind of service; use systemd or launchd.")


def install(where: Where, planned: Plan) -> int:
    """Write it.

    Raises:
        Conflict: something that is not ours stands there.
        ConfigError: it cannot be written.
    """
    _check_ours(planned.path)
    try:
        where.home.prepare()
        planned.path.parent.mkdir(parents=True, exist_ok=True)
        part = planned.path.with_name(f".{planned.path.name}.{os.getpid()}.part")
        part.write_text(planned.text)
        part.chmod(0o644)
        part.replace(planned.path)
    except OSError as exc:
        raise ConfigError(f"{planned.path} cannot be written ({exc.strerror}).") from None
    sys.stderr.write(f"Wrote {planned.path}. Next:\n")
    sys.stdout.write("".join(f"{command}\n" for command in planned.after))
    return 0


def status(where: Where, planned: Plan, *, as_json: bool) -> int:
    """Say what is installed and whether the gateway runs; `NOT_INSTALLED` if nothing is."""
    found = _read(planned.path)
    note = read_note(where.home) if is_held(where.home) else None
    facts = {
        "path": str(planned.path),
        "installed": found is not None,
        "current": found == planned.text,
        "running": note is not None,
        "pid": note.pid if note else 0,
        "url": note.url if note else "",
        "kill_after_s": budget(where.loaded.config.server).kill_s,
    }
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=1) + "\n")
    else:
        known = "installed" if found is not None else "not installed"
        if found is not None and not facts["current"]:
            known += ", but it would be written differently now: run `tenure service install` again"
        sys.stdout.write(f"{planned.path}: {known}\n")
        runs = f"runs: pid {facts['pid']}, {facts['url']}" if note else "does not run"
        sys.stdout.write(f"The gateway of {where.home.root} {runs}\n")
    return 0 if found is not None else NOT_INSTALLED


def uninstall(planned: Plan) -> int:
    """Remove it; what runs goes on.

    Raises:
        Conflict: it is not ours.
        ConfigError: it cannot be removed.
    """
    if _read(planned.path) is None:
        sys.stderr.write(f"{planned.path} is not there.\n")
        return 0
    _check_ours(planned.path)
    try:
        planned.path.unlink()
    except OSError as exc:
        raise ConfigError(f"{planned.path} cannot be removed ({exc.strerror}).") from None
    sys.stderr.write(f"Removed {planned.path}. If it still runs, stop it:\n")
    sys.stdout.write("".join(f"{command}\n" for command in planned.before_removal))
    return 0


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _check_ours(path: Path) -> None:
    found = _read(path)
    if found is not None and MARK not in found:
        raise Conflict(f"{path} was not written by `tenure service install`; move it away first.")


# --- what is written ----------------------------------------------------------------------------


def _program() -> list[str]:
    script = Path(sys.executable).with_name("tenure")
    if script.exists():
        return [str(script), "serve"]
    return [sys.executable, "-c", "from tenure.cli.main import main; main()", "serve"]


def _environment(environ: Mapping[str, str], home: Home) -> dict[str, str]:
    kept = {name: environ[name] for name in COPIED if environ.get(name)}
    return {ENV_HOME: str(home.root), **kept}


def _folder(environ: Mapping[str, str], *parts: str) -> Path:
    return Path(environ.get("HOME") or "/").joinpath(*parts)


def _systemd(where: Where, *, system: bool) -> Plan:
    config = where.environ.get("XDG_CONFIG_HOME") or str(_folder(where.environ, ".config"))
    folder = Path("/etc/systemd/system" if system else f"{config}/systemd/user")
    control = "systemctl" if system else "systemctl --user"
    linger = () if system else ("loginctl enable-linger  # to run it without a login",)
    return Plan(
        path=folder / f"{NAME}.service",
        text=unit(where.environ, where.home, where.loaded.config.server, system=system),
        after=(f"{control} daemon-reload", f"{control} enable --now {NAME}", *linger),
        before_removal=(f"{control} disable --now {NAME}", f"{control} daemon-reload"),
    )


def unit(environ: Mapping[str, str], home: Home, server: ServerConfig, *, system: bool) -> str:
    """The text of the systemd unit."""
    variables = _environment(environ, home).items()
    lines = [
        f"# {MARK}; edit a drop-in instead (systemctl edit {NAME}).",
        "[Unit]",
        "Description=Tenure, an agent gateway",
        *(["After=network.target"] if system else []),
        "",
        "[Service]",
        "Type=exec",
        *([f"User={getpass.getuser()}"] if system else []),
        "ExecStart=" + " ".join(_quoted(part.replace("$", "$$")) for part in _program()),
        f"WorkingDirectory={_specifiers(environ.get('HOME') or '/')}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in variables),
        f"EnvironmentFile=-{_specifiers(str(home.root / 'service.env'))}",
        "# The gateway ends its children itself; what is left after the time is killed.",
        "KillMode=mixed",
        "KillSignal=SIGTERM",
        f"TimeoutStopSec={budget(server).kill_s}",
        "Restart=on-failure",
        "RestartSec=2",
        "# 2: the configuration is wrong, or the home is in use.",
        "RestartPreventExitStatus=2",
        "# A command that runs out of memory must not take the gateway with it.",
        "OOMPolicy=continue",
        "# The gateway gives each session a control group with limits of its own.",
        "Delegate=memory pids",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def _quoted(part: str) -> str:
    """One word of a command line or an assignment, as systemd reads it."""
    escaped = _specifiers(part).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _specifiers(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise BadValue(f"{text[:60]!r} has a line break, which a unit file cannot hold.")
    return text.replace("%", "%%")


def _launchd(where: Where, *, system: bool) -> Plan:
    folder = Path("/Library/LaunchDaemons")
    if not system:
        folder = _folder(where.environ, "Library", "LaunchAgents")
    label = f"{NAME}.gateway"
    path = folder / f"{label}.plist"
    domain = "system" if system else f"gui/{os.getuid()}"
    return Plan(
        path=path,
        text=plist(where.environ, where.home, where.loaded.config.server, label),
        after=(f"launchctl bootstrap {domain} '{path}'",),
        before_removal=(f"launchctl bootout {domain}/{label}",),
    )


def plist(environ: Mapping[str, str], home: Home, server: ServerConfig, label: str) -> str:
    """The text of the launchd property list."""
    import plistlib

    values = {
        "Label": label,
        "ProgramArguments": _program(),
        "EnvironmentVariables": _environment(environ, home),
        "WorkingDirectory": environ.get("HOME") or "/",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": budget(server).kill_s,
        "StandardErrorPath": str(home.logs / "service.log"),
    }
    head, _, rest = plistlib.dumps(values).decode().partition("?>\n")
    return f"{head}?>\n<!-- {MARK} -->\n{rest}"
