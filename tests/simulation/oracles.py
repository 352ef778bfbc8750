"""What must hold when nothing runs, whatever has happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec

from simulation.world import FaultyStore, World
from tenure.agent.context import repair
from tenure.clock import Clock
from tenure.sessions.budget import Memory, size_of
from tenure.sessions.journal import Journal
from tenure.store import base as b
from tenure.testing.clock import settle

FINAL = {"completed", "interrupted", "failed", "refused"}
LONG_LIVED = {"reaper"}


async def check_at_rest(world: World) -> None:
    """Nothing runs: one place for everything that lives, none for what has ended."""
    gw = world.gw
    live = {s.id: s for s in gw.sessions.live()}
    check_owners(world, set(live))
    built = [s for s in live.values() if s.agent is not None]
    assert sorted(gw.picker.opened) == sorted(gw.picker.STEPS * len(built))
    bound = [(e.label, e.owner) for e in gw.root.census() if e.kind == "attachment"]
    assert sorted(label for label, _ in bound) == sorted(
        s.id for s in live.values() for _ in range(len(s.attachments))
    )
    assert gw.picker.script.open_streams == 0
    for session in live.values():
        assert session.status == "idle" and session.questions.shown is None
        assert not session.pins, f"{session.id} is pinned"
        await check_memory(world, session)
    for store in world.stores.values():
        for row in store._rows.sessions.values():
            if row["id"] in live or not store.failed:  # else the next start ends the row
                assert (row["status"] == "open") == (row["id"] in live), row
    check_registries(world, set(live))
    check_budgets(world)


def check_owners(world: World, live: set[str]) -> None:
    census = world.gw.root.census()
    owners = Counter(e.owner for e in census if "/session:" in e.owner)
    for owner, count in owners.items():
        sid = owner.partition("session:")[2].partition("/")[0]
        assert sid in live, f"held for a session that is over: {owner}"
        assert "turn:" not in owner, f"{count} held for a turn that is over: {owner}"
    tasks = [e for e in census if e.kind == "task" and "/sessions" in e.owner]
    assert not [e for e in tasks if e.label not in LONG_LIVED], tasks
    assert not [e for e in census if e.label == "replay"], "a replay does not end"


def check_registries(world: World, live: set[str]) -> None:
    """Nothing is kept of a session that is not there."""
    sessions = world.gw.sessions
    assert not sessions._opening and not sessions._closing
    assert set(sessions.reaper._unattached) <= live, "the reaper remembers what is over"
    held = {sid for by_id in sessions.profiles._held.values() for sid in by_id}
    assert held == {s.id for s in sessions.live() if s.ports.profile != "default"}


def check_budgets(world: World) -> None:
    """What is counted is what is there."""
    memory, live = world.gw.sessions.ports.memory, world.gw.sessions.live()
    items = sum(size_of(row.message) for s in live for row in s.journal.items)
    assert memory.histories.held_bytes == items
    assert memory.rings.held_bytes == sum(s.journal.ring.held_bytes for s in live)


async def check_memory(world: World, session: Any) -> None:
    """History is the same in the store and in memory."""
    rows = await session.ports.store.history(session.id)
    journal = session.journal
    assert journal.count == len(rows), f"{session.id}: {journal.count} counted, {len(rows)} stored"
    stored = await session.ports.store.session(session.id)
    assert stored.message_count == len(rows)
    if not world.failed:
        assert stored.title == session.title, f"{session.id}: {session.title!r} is not stored"
    if journal.loaded:
        clock: Clock = world.clock
        fresh = Journal(session.ports.store, session.id, 1, clock, lambda _e, _t: None, Memory())
        fresh.load(rows)
        assert [(r.seq, r.message) for r in journal.items] == [
            (r.seq, r.message) for r in fresh.items
        ], session.id
    events = await session.ports.store.events(
        session.id, epoch=journal.epoch, after_seq=0, limit=10**6
    )
    assert journal.last_seq == len(events), f"{session.id} lost count of its events"


async def check_rows(world: World) -> None:
    """Every prompt ended once; what was told was stored; histories are valid."""
    for store in world.stores.values():
        await check_store(world, store)
    for request in world.gw.picker.script.requests:
        assert repair(request.messages) == request.messages


async def check_store(world: World, store: FaultyStore) -> None:
    rows = store._rows
    # Where the very last write of a session failed, the next opening ends its rows.
    torn = {sid for sid, row in rows.sessions.items() if row["status"] == "open"}
    torn -= {s.id for s in world.gw.sessions.live()} if store.failed else torn
    for row in rows.turns.values():
        assert row["session_id"] in torn or (row["state"] in FINAL and row["ended_at"]), row
    for row in rows.approvals.values():
        assert row["session_id"] in torn or row["decision"], row
    for (sid, epoch), seqs in _by(rows.events).items():
        assert seqs == list(range(1, len(seqs) + 1)), (sid, epoch, seqs)
    await check_ends(world, store)
    for sid in rows.sessions:
        if sid not in world.reordered:
            check_order(await store.turns(sid))
        history = [item.message for item in await store.history(sid)]
        slow = any(row["cause"] == "store" for row in rows.turns.values())
        if not store.failed and not world.fenced.records and not slow:
            assert repair(history) == tuple(history), f"{sid} needs repair: {history}"


async def check_ends(world: World, store: FaultyStore) -> None:
    """One end, told once, of everything that was accepted."""
    ends: Counter[str] = Counter()
    for event in store._rows.events.values():
        if event.type in {"message.complete", "message.steered"}:
            ends[msgspec.json.decode(event.payload)["turn_id"]] += 1
    gone = deleted(store)
    for sid, turn_ids in world.accepted.items():
        if sid in gone or sid not in store._rows.sessions:
            continue
        stored = [t.id for t in await store.turns(sid)]
        assert set(turn_ids) <= set(stored), "an accepted prompt is not stored"
        for turn_id in turn_ids:
            wanted = {1} if not store.failed else {0, 1}
            assert ends[turn_id] in wanted, (sid, turn_id, ends[turn_id])
    assert not (stray := set(ends) - set(store._rows.turns)), f"ends of nothing: {stray}"
    assert max(ends.values(), default=0) <= 1, ends.most_common(3)
    keys = Counter((r["session_id"], r["key"]) for r in store._rows.turns.values() if r["key"])
    assert max(keys.values(), default=0) <= 1


def deleted(store: FaultyStore) -> set[str]:
    """Also by somebody who did not wait for the answer."""
    ops = (op for write in store.writes for op in write)
    return {op.id for op in ops if isinstance(op, b.DeleteSession)}


def _by(events: dict[tuple[str, int, int], Any]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for sid, epoch, seq in sorted(events):
        found[sid, epoch].append(seq)
    return found


def check_order(turns: list[b.TurnRow]) -> None:
    """What ran, ran in the order in which it was accepted."""
    started = [t.started_at for t in turns if t.started_at]
    assert started == sorted(started), turns
    assert [t.ordinal for t in turns] == sorted(t.ordinal for t in turns)


def check_heard(world: World) -> None:
    """What any client was told in order is stored under that number."""
    events = {
        key: row for store in world.stores.values() for key, row in store._rows.events.items()
    }
    gone = {sid for store in world.stores.values() for sid in deleted(store)}
    told = [(sid, e.epoch, e.seq, e.type) for (sid, _), es in world.heard.items() for e in es]
    for device in world.devices:
        told += [
            (sid, epoch, seq, kind)
            for (sid, epoch), applied in device.applied.items()
            for seq, kind in applied
        ]
    for sid, epoch, seq, kind in told:
        assert sid in gone or events[sid, epoch, seq].type == kind


async def check_devices(world: World) -> None:
    """Whoever comes back with its cursor has everything up to now, or was told of the gap."""
    for device in world.devices:
        assert not device.broken, device.broken
        for session in world.gw.sessions.live():
            await device.vanish()
            device.connect()
            answer = await device.attach(session.id)
            await settle(200)
            if answer is not None and world.gw.sessions.find(session.id) is session:
                at = (session.journal.epoch, session.journal.last_seq)
                assert device.cursors[session.id] == at, (device.name, session.id)
        assert not device.broken, device.broken
        for (sid, _), turn_id in device.acked.items():
            world.accepted[sid].add(turn_id)
