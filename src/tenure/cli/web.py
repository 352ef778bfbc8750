"""`tenure web login` and `logout`: the keys of search providers."""

from __future__ import annotations

import sys

import msgspec

from tenure.cli.attach import Where
from tenure.cli.model import read_key
from tenure.clock import SystemClock
from tenure.errors import BadValue, ConfigError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.models.credentials import Credentials, checked_key
from tenure.tools.web.engines import ENGINES, Engine
from tenure.tools.web.reach import Reach
from tenure.tools.web.search import ask

WORDS = "weather"
"""What the one search is for that tries a key."""


async def login(where: Where, provider: str) -> int:
    """Store a key after one search with it. The key comes from a prompt or stdin."""
    engine = _engine(provider)
    key = checked_key(read_key(engine.title))
    config = where.loaded.config.web
    if config.search.provider != engine.name:  # another's address is not this one's
        config = msgspec.structs.replace(
            config, search=msgspec.structs.replace(config.search, url="")
        )
    try:
        clock = SystemClock()
        async with Scope.root("login", clock) as scope, deadline(clock, config.timeout_s):
            await ask(engine, WORDS, key, config, Reach(where.environ), scope)
    except TimeoutError:
        raise ConfigError(f"{engine.title} does not answer; the key was not stored.") from None
    except ToolError as exc:
        raise ConfigError(f"{exc.message} The key was not stored.") from None
    where.own.prepare()
    Credentials(where.own.search_keys).save(engine.name, key)
    sys.stderr.write(f"{engine.title} answered; its key is in {where.own.search_keys} (0600).\n")
    if where.loaded.config.web.search.provider != engine.name:
        sys.stderr.write(f'To use it: [web.search] provider = "{engine.name}"\n')
    return 0


def logout(where: Where, provider: str) -> int:
    """Forget a key; 1 if there was none."""
    engine = _engine(provider)
    if Credentials(where.own.search_keys).remove(engine.name):
        sys.stderr.write(f"The key of {engine.title} is forgotten.\n")
        return 0
    sys.stderr.write(f"There was no key of {engine.title}.\n")
    return 1


def _engine(name: str) -> Engine:
    engine = ENGINES.get(name)
    if engine is None or not engine.key_env:
        keyed = ", ".join(e.name for e in ENGINES.values() if e.key_env)
        raise BadValue(f"{name[:40]!r} is no search provider with a key; those are: {keyed}.")
    return engine
