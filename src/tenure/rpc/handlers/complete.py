"""complete.*: what could follow, for a prompt."""

from __future__ import annotations

import os
from pathlib import Path

from tenure.lifecycle.threads import run_in_thread
from tenure.protocol import methods as m
from tenure.rpc.handlers.commands import COMMANDS, WORDS
from tenure.rpc.ports import Call

ITEMS_MAX = 50


async def complete_slash(params: m.CompleteSlash, call: Call) -> m.Items:
    """Commands that begin with the text, or the words that may follow one."""
    del call
    word = params.text.lstrip("/")
    name, gap, second = word.partition(" ")
    if gap:
        words = [one for one in WORDS.get(name, ()) if one.startswith(second)]
        return m.Items(
            [{"text": one, "display": one, "meta": ""} for one in words],
            replace_from=len(params.text) - len(second),
        )
    items = [
        {"text": f"/{name}", "display": f"/{name}", "meta": about}
        for name, (about, _) in COMMANDS.items()
        if name.startswith(word)
    ]
    return m.Items(items, replace_from=0)


async def complete_path(params: m.CompletePath, call: Call) -> m.Items:
    """Entries of a folder that begin with the word; below the session's working directory."""
    base = Path(params.cwd or call.gateway.folders.default)
    live = [s for s in call.gateway.sessions.live() if s.id == params.session_id]
    if live:
        base = Path(live[0].cwd)
    return m.Items(await run_in_thread(call.peer.scope, _entries, base, params.word))


def _entries(base: Path, word: str) -> list[dict[str, str]]:
    mark = "@" if word.startswith("@") else ""
    folder, _, stem = word.removeprefix("@").rpartition("/")
    where = base / folder if folder or not word.startswith("/") else Path("/")
    found: list[dict[str, str]] = []
    try:
        with os.scandir(where) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if not entry.name.startswith(stem) or (entry.name[0] == "." and not stem):
                    continue
                slash = "/" if entry.is_dir() else ""
                path = f"{folder}/{entry.name}{slash}" if folder else f"{entry.name}{slash}"
                meta = "dir" if slash else ""
                found.append({"text": mark + path, "display": entry.name + slash, "meta": meta})
                if len(found) >= ITEMS_MAX:
                    break
    except (OSError, ValueError):
        return []
    return found
