"""Find a gateway for a command: the one named, the live one of this home, or one of our own."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.client import Client
from tenure.clock import SystemClock
from tenure.config import (
    DEFAULT_PROFILE,
    Home,
    Loaded,
    find_home,
    load,
    load_profile,
    read_environment,
)
from tenure.errors import BadValue, ConfigError, Conflict, LifecycleError, NotFound, TransportError
from tenure.home import check_profile, is_held, read_note, read_token, used_profile
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from tenure.cli.embedded import Embedded
    from tenure.processes.guard import Guarded
    from tenure.transports.base import Transport

ENV_TOKEN = "TENURE_TOKEN"  # noqa: S105 - the name of a variable
HELD_TRIES = 40
HELD_PAUSE_S = 0.25
"""A home whose gateway is just starting or ending is tried again for ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What decides which gateway serves a command.

    Attributes:
        home: the home.
        base: its configuration, for a gateway of our own.
        profile: the profile that the command works in; empty: the choice of a gateway elsewhere.
        loaded: the configuration of that profile.
        environ: the environment.
        connect: ``--connect URL``, or empty.
        cwd: the working directory for sessions.
        model: ``--model``, or empty.
        sandbox: ``--sandbox``, or empty.
        guarded: our guard, for a gateway of our own.
        broken: what is wrong with the configuration, see `cli/lenient.py`; empty if nothing.
    """

    home: Home
    base: Loaded
    profile: str = DEFAULT_PROFILE
    loaded: Loaded
    environ: Mapping[str, str]
    connect: str = ""
    cwd: Path
    model: str = ""
    sandbox: str = ""
    guarded: Guarded | None = None
    broken: str = ""

    @property
    def own(self) -> Home:
        """The profile's part of the home."""
        return self.home.profile(self.profile or DEFAULT_PROFILE)


@dataclass(frozen=True, slots=True)
class Attached:
    """A client, and the gateway of our own behind it, if it is ours."""

    client: Client
    embedded: Embedded | None
    where: str
    """For people: "gateway at ws://…" or "a gateway of its own"."""


def find_where(
    *,
    connect: str = "",
    cwd: Path | None = None,
    model: str = "",
    profile: str = "",
    sandbox: str = "",
    guarded: Guarded | None = None,
) -> Where:
    """Read environment and configuration.

    Raises:
        ConfigError: either is wrong, or the folder that we are in is gone.
        BadValue, NotFound: no profile has this name.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "The folder you are in does not exist any more; change to another one."
        ) from None
    environ = read_environment()
    home = find_home(environ)
    base = load(home)
    name = profile if connect else check_used(home, profile)
    return Where(
        home=home,
        base=base,
        profile=name,
        loaded=load_profile(home, name or DEFAULT_PROFILE),
        environ=environ,
        connect=connect,
        cwd=(cwd or here).absolute(),
        model=model,
        sandbox=sandbox,
        guarded=guarded,
    )


def check_used(home: Home, profile: str) -> str:
    """The profile that a command works in: the one named, else the one in use.

    Raises:
        BadValue, NotFound: no profile has this name.
        ConfigError: what stands for the one in use is no name.
    """
    if profile:
        check_profile(home, profile)
        return profile
    used = used_profile(home)
    try:
        check_profile(home, used)
    except NotFound as exc:
        raise NotFound(
            f"{exc.message.rstrip('.')}, `tenure profile use default` goes back to the default one."
        ) from None
    return used


@asynccontextmanager
async def attach(where: Where, *, may_embed: bool = True) -> AsyncIterator[Attached]:
    """Connect, and end what was opened here on leaving.

    Args:
        where: see `Where`.
        may_embed: whether the command can work alone (`ps` cannot).

    Raises:
        TransportError: no gateway answers.
        Unauthorized: it refused the token.
        Conflict: another process holds the home and does not listen.
    """
    scope = Scope.root("client", SystemClock())
    embedded: Embedded | None = None
    try:
        transport, embedded, told = await _transport(where, may_embed=may_embed, scope=scope)
        gc.enable()  # the start-up is over
        yield Attached(Client.open(transport, scope), embedded, told)
    finally:
        try:
            await scope.close("done")
        finally:  # a cancellation while we leave ends that wait, and never spares the gateway
            if embedded is not None:
                await embedded.aclose()


async def _transport(
    where: Where, *, may_embed: bool, scope: Scope
) -> tuple[Transport, Embedded | None, str]:
    if where.connect:
        return await _named(where), None, f"the gateway at {_shown(where.connect)}"
    for _ in range(HELD_TRIES):
        if is_held(where.home):
            found = await _holder_of(where, may_embed=may_embed)
            if found is not None:
                return found, None, f"the gateway at {found.peer}"
        elif not may_embed:
            raise TransportError(
                f"No gateway serves the home {where.home.root}; start one with `tenure serve`."
            )
        else:
            _check_guard(where)
            from tenure.cli.embedded import open_embedded

            try:
                own = open_embedded(
                    where.home, where.base, where.environ, where.cwd, where.model, where.guarded
                )
            except Conflict:
                await scope.clock.sleep(HELD_PAUSE_S)
                continue
            try:
                return await own.connect(), own, "a gateway of its own"
            except BaseException:
                await own.aclose()
                raise
        await scope.clock.sleep(HELD_PAUSE_S)
    raise Conflict(
        f"Another process holds the home {where.home.root} but does not answer; "
        "`tenure doctor` tells more."
    )


def _check_guard(where: Where) -> None:
    """A gateway without its guard could leave children behind, so none is opened again."""
    if where.guarded is not None and os.getppid() != where.guarded.guard_pid:
        raise LifecycleError("The guard of this command was killed, so the command ends too.")


async def _named(where: Where) -> Transport:
    from urllib.parse import parse_qs, urlunsplit

    from tenure.transports.websocket_client import connect_websocket

    parts = _address(where.connect)
    # A token in the URL is taken out and sent in a header: URLs end up in logs.
    given = parse_qs(parts.query).get("token", [""])[0]
    token = given or where.environ.get(ENV_TOKEN, "")
    url = urlunsplit(parts._replace(query=""))
    note = read_note(where.home)
    # The home's own token goes to the home's own gateway only, not to whatever a link names.
    if not token and note is not None and note.url == url and is_held(where.home):
        token = read_token(where.home)
    return await connect_websocket(url, token)


async def _holder_of(where: Where, *, may_embed: bool) -> Transport | None:
    """A connection to whoever holds the home, or None while it does not answer.

    One that has fallen silent is succeeded, if we may take its place; see succession.py.
    """
    from tenure.succession import frozen, silent, succeed

    found = None if frozen(where.home) else await _live(where)
    if found is None and may_embed and silent(where.home):
        await call_in_thread(succeed, where.home)
    return found


async def _live(where: Where) -> Transport | None:
    """A connection to the gateway that holds the home, or None while it is not listening yet."""
    from tenure.transports.websocket_client import connect_websocket

    note = read_note(where.home)
    if note is None or not note.url:
        return None
    try:
        return await connect_websocket(note.url, read_token(where.home))
    except TransportError:
        return None


def _address(url: str) -> SplitResult:
    """A gateway's address in its parts.

    Raises:
        BadValue: it is none; what follows a question mark is not repeated.
    """
    from urllib.parse import urlsplit

    with suppress(ValueError):  # brackets or a port that are none
        parts = urlsplit(url)
        if parts.scheme in {"ws", "wss"} and parts.hostname and parts.port != 0:
            return parts
    raise BadValue(
        f"--connect {_shown(url)[:80]} is no address of a gateway; write one like "
        "ws://127.0.0.1:9121/api/ws (`tenure url` prints it)."
    )


def _shown(url: str) -> str:
    return url.partition("?")[0]
