"""census.* and gateway.*: what is held, by whom, and whether the system agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenure import __version__
from tenure.lifecycle.entry import CensusEntry
from tenure.protocol import census as c, methods as m
from tenure.protocol.messages import EventParams
from tenure.rpc.ports import Call

PAGE = 4096
WATCH_S = 1.0
"""How often a census that is watched is compared with the one before."""


async def census_get(params: c.CensusGet, call: Call) -> c.Census:
    """Everything held, by owner, and what its processes use."""
    entries = [
        _row(entry)
        for entry in call.gateway.root.census()
        if not params.owner or entry.owner.startswith(params.owner)
    ]
    used = await call.gateway.watchman.accounts()
    accounts = {owner: c.AccountRow(**one._asdict()) for owner, one in used.items()}
    return c.Census(entries, await gateway_info(m.Empty(), call), accounts)


async def census_verify(params: c.CensusNothing, call: Call) -> c.CensusVerdict:
    """Compare, and end what nobody holds."""
    del params
    watchman = call.gateway.watchman
    found = await watchman.verify(call.gateway.root.census)
    look = await watchman.look()
    count = sum(account.processes for account in look.trees.values())
    return c.CensusVerdict(
        differences=[c.Difference(**one._asdict()) for one in found],
        trees=len(look.trees), processes=count, found=watchman.found,
    )  # fmt: skip


async def census_watch(params: c.CensusWatch, call: Call) -> c.CensusWatched:
    """Begin or end telling this connection; it ends with it, too."""
    peer = call.peer
    if params.watching and peer.watching is None:
        peer.watching = peer.scope.spawn(_watch(call), name="census watch")
    elif not params.watching and peer.watching is not None:
        watching, peer.watching = peer.watching, None
        await watching.release()
    return c.CensusWatched(params.watching)


async def _watch(call: Call) -> None:
    known = {(entry.key, entry.state): entry for entry in call.gateway.root.census()}
    while True:
        await call.gateway.clock.sleep(WATCH_S)
        now = {(entry.key, entry.state): entry for entry in call.gateway.root.census()}
        added = [{"key": at[0], **_row(entry)} for at, entry in now.items() if at not in known]
        left = {key for key, _ in now}
        removed = sorted({key for key, _ in known} - left)
        if added or removed:
            change = {"added": added, "removed": removed}
            call.peer.publish(EventParams("census.change", payload=change, transient=True))
        known = now


def _row(entry: CensusEntry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": entry.kind,
        "owner": entry.owner,
        "label": entry.label,
        "state": entry.state,
        "age_s": round(entry.age_s, 3),
    }
    if entry.pid:
        row |= {"pid": entry.pid, "rss_bytes": resident(entry.pid)}
    return row


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
