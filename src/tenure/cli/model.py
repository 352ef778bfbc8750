"""`tenure model`: list, pull, use, login."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any

from tenure.cli.attach import Where
from tenure.clock import SystemClock
from tenure.config import Home
from tenure.errors import BadValue, ConfigError
from tenure.lifecycle.scope import Scope
from tenure.logs import Redactor
from tenure.models.catalog import Catalog
from tenure.models.choice import STARTER, parse_ref
from tenure.models.credentials import Credentials, checked_key
from tenure.models.directory import lacks_key, listed
from tenure.models.picker import CatalogPicker
from tenure.models.starter.weights import KNOWN, QWEN, find
from tenure.processes.spawn import Spawner


async def list_models(where: Where, *, provider: str, as_json: bool) -> int:
    """Providers that can serve; with a provider, what it offers (asked live)."""
    scope = Scope.root("models", SystemClock())
    try:
        if provider:
            made = await _catalog(where, scope).build(parse_ref(provider, where.loaded.config)[0])
            scope.own("provider", made, lambda p: p.aclose())
            for info in await made.list_models():
                context = f"  {info.context_tokens:,} tokens" if info.context_tokens else ""
                sys.stdout.write(f"{made.name}:{info.name}{context}\n")
            return 0
        options = await _picker(where, scope).options()
    finally:
        await scope.close("done")
    if as_json:
        sys.stdout.write(json.dumps(options, indent=1) + "\n")
        return 0
    for row in options["providers"]:
        mark = "*" if row["is_current"] else " "
        for name in row["models"] or ["(its default)"]:
            note = _missing(where, row, name)
            sys.stdout.write(f"{mark} {row['slug']}:{name}  {row['name']}{note}\n")
            mark = " "
    return 0


def _missing(where: Where, row: dict[str, Any], name: str) -> str:
    """What a model of the list still needs before it serves."""
    if not row["authenticated"]:
        return f"  (needs a key: tenure model login {row['slug']})"
    known = next((k for k in KNOWN if row["slug"] == STARTER and k.name == name), None)
    if known is not None and find(where.home.models, "", name) is None:
        return f"  (not downloaded: {known.size / 1e9:.1f} GB)"
    return ""


async def pull_model(where: Where, *, yes: bool) -> int:
    """Download the starter model."""
    from tenure.cli.starter import pull

    if find(where.home.models, "", QWEN.name) is not None:
        sys.stderr.write(f"The starter model is here already ({where.home.models}).\n")
        return 0
    await pull(where, yes=yes, quiet=False)
    return 0


def use_model(where: Where, ref: str) -> int:
    """Make a model the default in config.toml; the rest of the file stays as it is."""
    provider, _ = parse_ref(ref, where.loaded.config)
    home = where.own
    home.prepare()
    text = home.config.read_text(encoding="utf-8") if home.config.exists() else ""
    home.config.write_text(with_default(text, ref), encoding="utf-8")
    sys.stderr.write(f"New sessions use {ref} ({home.config}).\n")
    entry = listed(provider, where.loaded.config.providers)
    stored = Credentials(home.credentials).load()
    if entry is not None and lacks_key(entry, stored, where.environ):
        sys.stderr.write(f"It needs a key first: tenure model login {provider}\n")
    return 0


def with_default(text: str, ref: str) -> str:
    """Configuration text with ``model.default`` set. Pure; keeps comments and order."""
    line = f"default = {json.dumps(ref)}"
    lines = text.splitlines()
    try:
        at = next(i for i, entry in enumerate(lines) if entry.strip() == "[model]")
    except StopIteration:
        return "\n".join([*lines, *([""] if lines else []), "[model]", line]) + "\n"
    for i in range(at + 1, len(lines)):
        if lines[i].lstrip().startswith("["):
            break
        if lines[i].split("=")[0].strip() == "default":
            lines[i] = line
            return "\n".join(lines) + "\n"
    lines.insert(at + 1, line)
    return "\n".join(lines) + "\n"


async def login(where: Where, provider: str) -> int:
    """Store a provider's key after one real call with it. The key comes from a prompt or stdin."""
    if ":" in provider or provider.startswith("sk-"):
        raise BadValue("Name the provider only; the key is asked for and never an argument.")
    name, _ = parse_ref(provider, where.loaded.config)
    key = checked_key(read_key(name))
    scope = Scope.root("login", SystemClock())
    try:
        answered = await _catalog(where, scope).prove(name, key)
    finally:
        await scope.close("done")
    _save(where.own, name, key)
    sys.stderr.write(f"{answered} answered; the key is stored in {where.own.credentials} (0600).\n")
    return 0


def read_key(provider: str) -> str:
    """The key that a person types unseen, or that is piped in.

    Raises:
        ConfigError: nothing was.
    """
    if sys.stdin.isatty():
        return getpass.getpass(f"Key for {provider} (not shown): ").strip()
    key = sys.stdin.readline().strip()
    if not key:
        raise ConfigError("No key came on stdin.")
    return key


def _save(home: Home, provider: str, key: str) -> None:
    home.prepare()
    Credentials(home.credentials).save(provider, key)


def _catalog(where: Where, scope: Scope) -> Catalog:
    return _picker(where, scope).catalog


def _picker(where: Where, scope: Scope) -> CatalogPicker:
    return CatalogPicker(
        scope,
        home=where.own,
        config=lambda: where.loaded.config,
        environ=where.environ,
        spawner=Spawner(instance="cli", environ=where.environ, clock=scope.clock),
        flag=where.model,
        redactor=Redactor(),
    )
