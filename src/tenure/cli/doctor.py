"""`tenure doctor`: checks what could go wrong and says how to mend it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import resource
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenure import __version__
from tenure.browser.found import find_browser
from tenure.cli.attach import Where
from tenure.clock import SystemClock
from tenure.errors import SandboxUnavailable, TenureError
from tenure.home import is_held, read_note
from tenure.models.choice import STARTER, choose
from tenure.models.credentials import Credentials
from tenure.models.directory import lacks_key, listed
from tenure.models.starter.weights import find
from tenure.store.revision import look
from tenure.tools.web.engines import ENGINES
from tenure.tools.web.search import KEYLESS

if TYPE_CHECKING:
    from tenure.lifecycle.scope import Scope
    from tenure.processes.spawn import Spawner

FREE_BYTES_MIN = 500 * 1024 * 1024
FILES_MIN = 1024
STARTER_BYTES_MIN = 3 * 1024**3
CPU_FLAGS = {"avx2", "fma", "f16c", "bmi2"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `level` is ok, note (works, with less) or bad."""

    level: str
    what: str
    mend: str = ""


def doctor(where: Where) -> int:
    """Check everything; 0 if nothing is bad."""
    bad = False
    for check in CHECKS:
        for finding in check(where):
            mark = {"ok": "✓", "note": "·", "bad": "✗"}[finding.level]
            sys.stdout.write(f"{mark} {finding.what}\n")
            if finding.mend:
                sys.stdout.write(f"    {finding.mend}\n")
            bad |= finding.level == "bad"
    return int(bad)


def _system(_where: Where) -> Iterator[Finding]:
    yield Finding("ok", f"Tenure {__version__} on Python {platform.python_version()}")
    release = tuple(int(p) for p in platform.release().split("-")[0].split(".")[:2] if p.isdigit())
    if sys.platform != "linux":
        yield Finding(
            "note",
            f"{platform.system()}: best effort. Children end with the gateway when it ends itself; "
            "after kill -9 the next start ends what was left.",
        )
    elif release < (5, 4):
        yield Finding(
            "bad", f"Linux {platform.release()} is older than 5.4.", "Upgrade the kernel."
        )
    else:
        yield Finding(
            "ok", f"Linux {platform.release()}: children cannot outlive the gateway (guard, pidfd)"
        )


def _home(where: Where) -> Iterator[Finding]:
    home = where.home
    try:
        home.prepare()
    except TenureError as exc:
        yield Finding("bad", exc.message)
        return
    mode = home.root.stat().st_mode & 0o077
    if mode:
        yield Finding("note", f"{home.root} is readable by others.", f"chmod 700 {home.root}")
    else:
        yield Finding("ok", f"home {home.root}")
    keys = (where.own.credentials, where.own.search_keys)
    for private in (home.token, home.gateway, *keys):
        if private.exists() and private.stat().st_mode & 0o077:
            yield Finding("bad", f"{private} is readable by others.", f"chmod 600 {private}")
    free = shutil.disk_usage(home.root).free
    if free < FREE_BYTES_MIN:
        yield Finding(
            "bad", f"Only {free / 1e6:.0f} MB are free for {home.root}.", "Free some disk."
        )
    else:
        yield Finding("ok", f"{free / 1e9:.0f} GB free")


def _config(where: Where) -> Iterator[Finding]:
    loaded = where.loaded
    if where.broken:
        yield Finding("bad", where.broken, "`tenure config check` tells all that is wrong.")
        return
    yield Finding(
        "ok", f"configuration {loaded.path}{'' if loaded.exists else ' (none: defaults)'}"
    )
    for warning in loaded.warnings:
        yield Finding("note", warning)


def _database(where: Where) -> Iterator[Finding]:
    try:
        found = look(where.own.database)
    except TenureError as exc:
        yield Finding("bad", exc.message)
        return
    yield Finding("ok", f"database {where.own.database} ({found or 'not made yet'})")


def _gateway(where: Where) -> Iterator[Finding]:
    note = read_note(where.home)
    if not is_held(where.home):
        yield Finding("ok", "no gateway runs on this home; run and chat work alone")
    elif note is None or not note.url:
        yield Finding("note", "A process holds this home and does not listen (yet).")
    else:
        yield Finding("ok", f"gateway pid {note.pid}, guard {note.guard_pid}, {note.url}")


def _limits(_where: Where) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_MIN:
        yield Finding(
            "note", f"Only {soft} open files are allowed.", f"ulimit -n {min(hard, 65536)}"
        )
    else:
        yield Finding("ok", f"{soft} open files allowed")


def _groups(where: Where) -> Iterator[Finding]:
    """Who keeps the limits of sessions; of the gateway that runs, else of one started from here."""
    from tenure.processes.cgroups import WANTED, look_for_place, offered

    if sys.platform != "linux":
        yield Finding("note", "The limits of sessions are kept by looking twice a second.")
        return
    note = read_note(where.home) if is_held(where.home) else None
    place = look_for_place(note.pid if note else os.getpid())
    kept = offered(place.path) if place.path else frozenset()
    if kept.issuperset(WANTED):
        yield Finding(
            "ok", f"the kernel keeps the limits of sessions, in groups below {place.path}"
        )
        return
    why = place.why or f"{place.path} has no controllers of memory and processes"
    yield Finding(
        "note",
        f"The limits of sessions on memory and processes are kept by looking: {why}.",
        "`tenure service install`, or: systemd-run --user --scope -p Delegate=yes tenure serve",
    )


def _model(where: Where) -> Iterator[Finding]:
    config = where.loaded.config
    if where.broken:
        yield Finding("note", "Which model would serve is not known before that is mended.")
        return
    try:
        stored = Credentials(where.own.credentials).load()
        choice = choose(config, where.environ, stored, session="", flag="")
    except TenureError as exc:
        yield Finding("bad", exc.message)
        return
    entry = listed(choice.provider, config.providers)
    if entry is not None and lacks_key(entry, stored, where.environ):
        yield Finding(
            "bad", f"model {choice.ref} ({choice.reason}) needs a key and there is none.",
            f"tenure model login {choice.provider}",
        )  # fmt: skip
        return
    yield Finding("ok", f"model {choice.ref} ({choice.reason})")
    if choice.provider == STARTER:
        yield from _starter(where)


def _starter(where: Where) -> Iterator[Finding]:
    if find(where.home.models, where.loaded.config.starter.gguf) is None:
        yield Finding("note", "The starter model is not downloaded yet.", "tenure model pull")
    missing = CPU_FLAGS - _flags()
    if missing:
        yield Finding(
            "bad", f"This CPU lacks {', '.join(sorted(missing))}, which the starter model needs.",
            "Use a provider: tenure model login PROVIDER",
        )  # fmt: skip
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if free < STARTER_BYTES_MIN:
        yield Finding("note", f"{free / 1e9:.1f} GB of memory are free; the starter wants 3.")


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set(CPU_FLAGS)
    line = next((entry for entry in text.splitlines() if entry.startswith("flags")), "")
    return set(line.split())


def _programs(_where: Where) -> Iterator[Finding]:
    for name, use in (("rg", "faster search"), ("bash", "the shell tool")):
        if shutil.which(name):
            yield Finding("ok", f"{name}: {use}")
        else:
            package = {"rg": "ripgrep"}.get(name, name)
            yield Finding("note", f"{name} is missing ({use}).", f"apt-get install {package}")


def _sandbox(where: Where) -> Iterator[Finding]:
    config = where.loaded.config.sandbox
    kind = config.kind
    why_not = _no_bubblewrap(where)
    if not why_not:
        yield Finding("ok", f"sandbox {kind}: bubblewrap works; commands run in a box unless told")
    else:
        level = "bad" if kind == "bubblewrap" else "note"
        mend = "apt-get install bubblewrap" if "no such program" in why_not else ""
        told = "commands run unconfined and are asked for by the rules"
        yield Finding(level, f"No box for commands: {why_not} With sandbox auto {told}.", mend)

    try:
        program = _engine(where)
    except SandboxUnavailable as exc:
        level = "bad" if kind == "docker" else "note"
        yield Finding(level, f"No containers for commands: {exc.message}")
    else:
        yield Finding(
            "ok", f"containers by {program}, of {config.docker.image}, with sandbox docker"
        )


def _no_bubblewrap(where: Where) -> str:
    """Why bubblewrap makes no box here; empty if it does."""
    from tenure.sandbox.bubblewrap import probe

    return _tried(where, probe)


def _engine(where: Where) -> str:
    """The container engine's command line, which answers.

    Raises:
        SandboxUnavailable: there is none, or it does not.
    """
    from tenure.sandbox.docker import Engine

    async def check(spawner: Spawner, scope: Scope) -> str:
        engine = Engine(spawner, scope, "", "", where.loaded.config.sandbox.docker)
        await engine.check()
        return engine.program

    return _tried(where, check)


def _tried(where: Where, trial: Callable[[Spawner, Scope], Awaitable[str]]) -> str:
    """What a trial with children of ours says."""
    from tenure.lifecycle.scope import Scope
    from tenure.processes.spawn import Spawner

    async def run() -> str:
        async with Scope.root("doctor", SystemClock()) as scope:
            spawner = Spawner(instance="doctor", environ=where.environ, clock=scope.clock)
            return await trial(spawner, scope)

    return asyncio.run(run())


def _browser(where: Where) -> Iterator[Finding]:
    found = find_browser(where.loaded.config.browser, where.environ)
    if found.executable:
        root = "; as root it runs without its own sandbox" if os.geteuid() == 0 else ""
        yield Finding("ok", f"browser {found.executable}{root}")
    else:
        yield Finding("note", found.missing, found.mend)


def _tool_servers(where: Where) -> Iterator[Finding]:
    from tenure.cli.mcp import problems_of
    from tenure.toolservers.declared import FILE, read_servers

    problems = problems_of(where)
    for problem in problems:
        yield Finding("note", problem)
    path = where.own.root / FILE
    names = [] if problems else list(read_servers(path).servers)
    if names and importlib.util.find_spec("mcp") is None:
        yield Finding("bad", "Tool servers need a package.", "pip install 'tenure[mcp]'")
    elif names:
        yield Finding("ok", f"tool servers {', '.join(names)}")


def _skills(where: Where) -> Iterator[Finding]:
    from tenure.cli.skills import entries_here
    from tenure.skills.shelf import waiting

    entries = entries_here(where)
    if told := waiting(entries):
        yield Finding("note", told)
    if names := [entry.name for entry in entries if not entry.problem]:
        yield Finding("ok", f"skills {', '.join(names)}")


def _search(where: Where) -> Iterator[Finding]:
    provider = where.loaded.config.web.search.provider
    engine = ENGINES.get(provider)
    if provider == KEYLESS and importlib.util.find_spec(KEYLESS) is None:
        yield Finding(
            "note", "The web search without a key needs a package.", "pip install 'tenure[search]'"
        )
    elif engine and engine.key_env and not where.environ.get(engine.key_env):
        keys = Credentials(where.own.search_keys).load()
        if provider not in keys:
            yield Finding("note", f"{engine.title} needs a key.", f"tenure web login {provider}")


READERS = {"large or unusual images": "PIL", "PDFs": "pypdf"}
"""Packages that read what comes with prompts."""


def _files(_where: Where) -> Iterator[Finding]:
    missing = [name for name, of in READERS.items() if importlib.util.find_spec(of) is None]
    if missing:
        what = " and ".join(missing)
        text = f"Attaching {what} needs a package."
        yield Finding("note", text, "pip install 'tenure[files]'")


CHECKS: tuple[Callable[[Where], Iterator[Finding]], ...] = (
    _system, _home, _config, _database, _gateway, _limits, _groups, _model, _sandbox,
    _browser, _search, _files, _tool_servers, _skills, _programs,
)  # fmt: skip
