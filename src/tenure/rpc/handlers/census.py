"""census.* and gateway.*: what is held, by whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenure import __version__
from tenure.protocol import methods as m
from tenure.rpc.ports import Call

PAGE = 4096


async def census_get(params: m.CensusGet, call: Call) -> m.Census:
    """Everything held, by owner."""
    entries: list[dict[str, Any]] = []
    for entry in call.gateway.root.census():
        if params.owner and not entry.owner.startswith(params.owner):
            continue
        row = {
            "kind": entry.kind,
            "owner": entry.owner,
            "label": entry.label,
            "state": entry.state,
            "age_s": round(entry.age_s, 3),
        }
        if entry.pid:
            row |= {"pid": entry.pid, "rss_bytes": resident(entry.pid)}
        entries.append(row)
    return m.Census(entries, await gateway_info(m.Empty(), call))


async def gateway_info(params: m.Empty, call: Call) -> dict[str, Any]:
    """Version, instance, uptime, store, pids."""
    del params
    gateway = call.gateway
    return {
        "version": __version__,
        "instance": gateway.instance,
        "uptime_s": round(gateway.clock.wall() - gateway.started_at, 1),
        "sessions": len(gateway.sessions),
        "store": gateway.store.statistics(),
        **gateway.facts(),
    }


def resident(pid: int) -> int:
    """Resident bytes of a process, 0 where it cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0
