"""`tenure ps`: the census of a running gateway as a tree."""

from __future__ import annotations

import json
import sys
from typing import Any

from tenure.cli.attach import Where, attach


async def verify(where: Where, *, as_json: bool) -> int:
    """Compare what is held with what runs; 1 where they differ."""
    async with attach(where, may_embed=False) as attached:
        verdict = await attached.client.call("census.verify")
    if as_json:
        sys.stdout.write(json.dumps(verdict, indent=1) + "\n")
    else:
        sys.stdout.write(told(verdict))
    return 1 if verdict["differences"] else 0


def told(verdict: dict[str, Any]) -> str:
    """What a comparison has found, in lines. Pure."""
    count = f"{verdict['trees']} held, {verdict['processes']} run"
    lines = [
        f"{one['kind']}: {one['what']} {one['owner']} pid {one['pid']}"
        f"{' (ended)' if one['healed'] else ''}"
        for one in verdict["differences"]
    ]
    head = f"census and system differ ({count}):" if lines else f"census and system agree ({count})"
    return "\n".join([head, *lines]) + "\n"


async def ps(where: Where, *, as_json: bool) -> int:
    """Print everything held, by owner."""
    async with attach(where, may_embed=False) as attached:
        census = await attached.client.call("census.get")
    if as_json:
        sys.stdout.write(json.dumps(census, indent=1) + "\n")
    else:
        sys.stdout.write(tree(census))
    return 0


def tree(census: dict[str, Any]) -> str:
    """The census as indented text. Pure."""
    facts = census["gateway"]
    count = facts["sessions"]
    sessions = "1 session" if count == 1 else f"{count} sessions"
    head = (
        f"gateway {facts['version']} pid {facts['pid']} guard {facts['guard_pid']} "
        f"up {_age(facts['uptime_s'])}, {sessions}, {facts['url']}"
    )
    lines = [head]
    shown: list[str] = []
    for entry in census["entries"]:
        parts = entry["owner"].split("/")[1:]
        for depth, part in enumerate(parts):
            path = parts[: depth + 1]
            if shown[: depth + 1] != path:
                used = _used(census["accounts"].get(part.removeprefix("session:")))
                lines.append(f"{'  ' * (depth + 1)}{part}{used}")
                shown = path
        shown = parts
        lines.append(f"{'  ' * (len(parts) + 1)}{_line(entry)}")
    return "\n".join(lines) + "\n"


def _used(account: dict[str, Any] | None) -> str:
    """What an owner's processes use; nothing for one without any."""
    if account is None or not account["processes"]:
        return ""
    return (
        f"  ({account['processes']} processes, {account['fds']} descriptors, "
        f"{account['rss_bytes'] / 1e6:.1f} MB, {account['cpu_s']:.1f} s CPU)"
    )


def _line(entry: dict[str, Any]) -> str:
    text = f"- {entry['kind']} {entry['label']}".rstrip() + f"  {_age(entry['age_s'])}"
    if entry["state"] != "held":
        text += f"  {entry['state']}"
    if "pid" in entry:
        text += f"  pid {entry['pid']}  {entry['rss_bytes'] / 1e6:.1f} MB"
    return text


def _age(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}s"
    if seconds < 3600:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.1f}h"
