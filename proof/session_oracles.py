"""What must hold of sessions: after every step, at rest, and when the gateway has ended.

    V1  nothing is held for what is over          V12 one running turn
    V5  one incarnation                           V13 acknowledged and published means stored
    V9  a row is open while its session lives     V14 one stored end of all that began, told once
    V19 numbers without gaps
What a person is told is checked in `proof/scenarios/people.py`, at the moment of telling.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from proof.oracles import check_nothing_left, require
from tenure.agent.context import repair
from tenure.errors import TenureError
from tenure.lifecycle.scope import Scope
from tenure.sessions.budget import size_of
from tenure.sessions.state import SessionState
from tenure.store.base import TURN_OPEN

if TYPE_CHECKING:
    from proof.scenarios.house import ExploredStore, House

LONG_LIVED = {"reaper"}
CALM_ROUNDS = 30
"""Each gives what is tried again another minute."""


class Watch:
    """The oracles after every step; cheap, because there are many steps."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._seen: dict[str, int] = {}
        self._final: dict[str, tuple[str, float, str]] = {}

    def step(self) -> None:
        house = self._house
        for session in house.sessions._live.values():
            running = session.state is SessionState.RUNNING
            require(
                (session.current is not None) or not running,
                f"V12: {house.names.get(session.id)} works, but no turn runs",
            )
        for name, store in house.stores.items():
            if store.commits != self._seen.get(name, 0):
                self._seen[name] = store.commits
                self._committed(store)

    def _committed(self, store: ExploredStore) -> None:
        house = self._house
        running: Counter[str] = Counter()
        for turn_id, row in store._rows.turns.items():
            if row["state"] == "running":
                running[row["session_id"]] += 1
            elif row["state"] not in TURN_OPEN:
                now = (row["state"], row["ended_at"], row["cause"])
                before = self._final.setdefault(turn_id, now)
                require(before == now, f"V14: a turn that was {before[0]} is {now[0]} now")
        most = max(running.values(), default=0)
        # An end that the store refused is tried again, and the next turn does not wait for it.
        require(store.failed or most <= 1, f"V12: {most} turns of a session are stored as running")
        alive = Counter(
            entry.name
            for entry in house.sessions.scope._entries.values()
            if isinstance(entry, Scope) and entry.name.startswith("session:")
        )
        twice = [name for name, count in alive.items() if count > 1]
        require(not twice, f"V5: two incarnations of {twice}")


async def calm(house: House) -> None:
    """Answer what is asked, let pass what is waited for, until everything rests."""
    for _ in range(CALM_ROUNDS):
        await house.settle()
        for session in house.sessions.live():
            while session.scope.admits and session.questions.shown is not None:
                with suppress(TenureError):
                    await session.questions.respond("", "deny", everything=True)
                await house.settle()
        busy = [s for s in house.sessions.live() if is_busy(s)]
        if not busy and not house.sessions._opening:
            return
        await house.loop.clock.sleep(31.0)
    require(False, f"V4: this does not come to rest: {house.gw.census()}")


def is_busy(session: Any) -> bool:
    building = session.state is SessionState.BUILDING
    return bool(
        session.current or session.queued or session.closing or session.endings._unsaved or building
    )


# --- at rest --------------------------------------------------------------------------------------


async def at_rest(house: House) -> None:
    """Nothing runs: one place for everything that lives, none for what has ended."""
    live = {s.id: s for s in house.sessions.live()}
    check_owners(house, set(live))
    sessions, gw = house.sessions, house.gw
    require(not sessions._opening and not sessions._closing, "V1: an opening or closing is kept")
    stray = set(sessions.reaper._unattached) - set(live)
    require(not stray, "V25: the reaper remembers what is over")
    held = {sid for by_id in sessions.profiles._held.values() for sid in by_id}
    wanted = {s.id for s in live.values() if s.ports.profile != "default"}
    require(held == wanted, f"V3: a profile is held for {len(held)}, not for {len(wanted)}")
    built = [s for s in live.values() if s.agent is not None]
    opened, steps = sorted(gw.picker.opened), sorted(gw.picker.STEPS * len(built))
    require(opened == steps, f"V1: {len(built)} agents live, of which is open: {opened}")
    require(not house.script.open_streams, f"V1: {house.script.open_streams} streams are open")
    bound = sorted(e.label for e in gw.root.census() if e.kind == "attachment")
    there = sorted(s.id for s in live.values() for _ in range(len(s.attachments)))
    require(bound == there, f"V8: {len(bound)} attachments are held, {len(there)} are bound")
    memory = sessions.ports.memory
    items = sum(size_of(row.message) for s in live.values() for row in s.journal.items)
    require(memory.histories.held_bytes == items, "V25: the memory of histories is miscounted")
    for session in live.values():
        require(not session.pins, f"V5: {house.names.get(session.id)} is pinned for ever")
        require(session.scope.admits, "V4: a claimed session does not end")
        await check_memory(session)
        stored = house.stored(session.id)
        failed = any(store.failed for store in house.stores.values())
        same = failed or (stored is not None and session.draft == stored.get("draft", ()))
        require(same, "V13: what waits for the next prompt is not what is stored")
    for store in house.stores.values():
        check_rows(house, store, set(live))
    await check_files(house)


async def check_files(house: House) -> None:
    """What a draft, a prompt that waits or an entry of history refers to is kept. V13."""
    ports = house.sessions.ports
    store, uploads = house.stores["default"], ports.uploads
    assert uploads is not None
    rows = store._rows
    needed = {
        (sid, digest)
        for sid, row in rows.sessions.items()
        for upload in row.get("draft", ())
        for digest in upload.digests
    }
    needed |= {
        (row["session_id"], digest)
        for row in rows.turns.values()
        if row["state"] == "queued"
        for upload in row["files"]
        for digest in upload.digests
    }
    for sid, digest in needed:
        require(digest in await store.uploads(sid), "V13: a file waits, and nothing holds it")
    referred = await store.uploads()
    gone = set(referred) - set(uploads.read(referred))
    require(not gone, f"V13: {len(gone)} contents are gone to which something refers")
    copies = {f"{file.parent.parent.name}/{file.name}" for file in ports.spill.glob("*/files/*")}
    missing = [
        upload.name
        for row in rows.sessions.values()
        for upload in row.get("draft", ())
        if upload.path and not Path(upload.path).exists()
    ]
    require(not missing, f"V13: copies are gone of files that wait: {missing}, there: {copies}")


def check_owners(house: House, live: set[str]) -> None:
    for entry in house.gw.root.census():
        if "/session:" in entry.owner:
            sid = entry.owner.partition("session:")[2].partition("/")[0]
            require(sid in live, f"V1: held for a session that is over: {entry.kind} {entry.label}")
            over = "turn:" in entry.owner
            require(not over, f"V1: held for a turn that is over: {entry.kind} {entry.label}")
        if entry.kind == "task" and "/sessions" in entry.owner:
            require(entry.label in LONG_LIVED, f"V1: a task is left: {entry.label}")


async def check_memory(session: Any) -> None:
    """History is the same in the store and in memory."""
    store, journal = session.ports.store, session.journal
    rows = await store.history(session.id)
    require(journal.count == len(rows), f"V13: {journal.count} entries, {len(rows)} are stored")
    if journal.loaded:
        kept = {row.seq: row.message for row in rows}
        wrong = [row.seq for row in journal.items if kept.get(row.seq) != row.message]
        require(not wrong, f"V13: entries {wrong} are not stored as they are remembered")
    events = await store.events(session.id, epoch=journal.epoch, after_seq=0, limit=10**6)
    require(journal.last_seq == len(events), "V19: a session has lost count of its events")


def check_rows(house: House, store: ExploredStore, live: set[str]) -> None:
    """One end of all that began; what was accepted is stored. V9, V13, V14, V19."""
    rows = store._rows
    torn = {sid for sid, row in rows.sessions.items() if row["status"] == "open"} - live
    require(store.failed or not torn, f"V9: {len(torn)} rows are open without a session")
    queued_too = house.ended  # what waits when a gateway stops runs after its next start
    for row in rows.turns.values():
        if row["session_id"] in torn or (queued_too and row["state"] == "queued"):
            continue
        over = row["state"] not in TURN_OPEN and row["ended_at"]
        require(over, f"V14: a turn is {row['state']} and nobody runs it")
    for row in rows.approvals.values():
        require(row["session_id"] in torn or row["decision"], "V22: a question is open for ever")
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for sid, epoch, seq in sorted(rows.events):
        numbers[sid, epoch].append(seq)
    for seqs in numbers.values():
        require(seqs == list(range(1, len(seqs) + 1)), f"V19: numbers of events: {seqs}")
    for sid, turn_ids in house.accepted.items():
        if sid in rows.sessions:
            lost = turn_ids - set(rows.turns)
            require(not lost, f"V13: {len(lost)} accepted prompts are lost")
    check_told(store, torn)


def check_told(store: ExploredStore, torn: set[str]) -> None:
    """V14: every start has one end, told once."""
    starts: set[str] = set()
    ends: Counter[str] = Counter()
    for (sid, _, _), event in store._rows.events.items():
        if event.type in {"message.start", "message.complete", "message.steered"}:
            turn_id = msgspec.json.decode(event.payload)["turn_id"]
            if event.type != "message.start":
                ends[turn_id] += 1
            elif sid not in torn:
                starts.add(turn_id)
    more = [turn_id for turn_id, count in ends.items() if count > 1]
    require(not more, f"V14: {len(more)} turns are told to have ended twice")
    endless = starts - set(ends)
    require(not endless or store.failed, f"V14: {len(endless)} starts have no end")
    stray = set(ends) - set(store._rows.turns)
    require(not stray, f"V14: {len(stray)} ends are of turns that were never stored")


# --- over -----------------------------------------------------------------------------------------


def over(house: House) -> None:
    """The gateway has ended: nothing is held, every row says how it ended."""
    house.loop.on_step = None
    left = [f"{e.kind} {e.label}" for e in house.gw.root.census()]
    require(not left, f"V1: the census of a gateway that has ended holds {left}")
    require(not house.gw.picker.opened, f"V1: still open: {house.gw.picker.opened}")
    require(not house.script.open_streams, "V1: a model's stream is still open")
    require(not house.sessions.live(), "V1: a session lives after the end")
    memory = house.sessions.ports.memory
    counted = (memory.histories.held_bytes, memory.rings.held_bytes)
    require(counted == (0, 0), f"V25: {counted} bytes are still counted")
    for store in house.stores.values():
        check_rows(house, store, set())
    for request in house.script.requests:
        require(repair(request.messages) == request.messages, "V15: a call has no result")
    check_nothing_left(house.loop, but=[asyncio.current_task()])  # type: ignore[list-item]
