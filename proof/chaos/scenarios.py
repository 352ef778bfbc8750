"""The six scenarios that were reported, as programs of clients. Each is random by its seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, NamedTuple

from proof.chaos.ground import Connection, Ground, together

TALKS: list[Any] = [[{"pace_s": 0.01}, {"text": "one two three four five six seven eight nine"}]]
LOOP = "trap '' INT; while :; do sleep 1; done"
STUBBORN = {"name": "background", "arguments": {"action": "start", "command": LOOP}}


class Scenario(NamedTuple):
    """One of them."""

    about: str
    steps: list[Any]
    """What the scripted model answers."""
    run: Callable[[Ground], Awaitable[None]]
    on: tuple[Any, ...] = ()
    config: str = ""


async def disconnects_against_resumes(ground: Ground) -> None:
    """Half of the connections vanish, again and again, while others resume what they had."""
    wires = [await ground.connect() for _ in range(20)]
    made = await together(
        ground.create(wire, 10, close_on_disconnect=n % 4 == 3) for n, wire in enumerate(wires)
    )
    owned = dict(zip(wires, made, strict=True))
    await together(ground.submit(wire, s) for wire, ours in owned.items() for s in ours)
    for _ in range(4):
        victims = ground.rnd.sample(list(owned), 10)
        orphans = {wire: owned.pop(wire) for wire in victims}

        async def rescue(wire: Connection, sessions: list[str]) -> None:
            new = await ground.connect()
            dropped, delay = ground.rnd.random() * 0.01, ground.rnd.random() * 0.01
            asyncio.get_running_loop().call_later(dropped, ground.drop, wire)
            await asyncio.sleep(delay)
            answers = await together(
                ground.ask(new, "session.resume", session_id=s, omit_messages=True)
                for s in sessions
            )
            if not all(answers):
                ground.wrong.append(f"{answers.count(None)} of {len(answers)} could not be resumed")
            await together(ground.submit(new, s) for s in sessions if ground.rnd.random() < 0.3)
            await asyncio.sleep(max(0.0, dropped - delay) + 0.002)
            owned[new] = sessions

        await together(rescue(wire, sessions) for wire, sessions in orphans.items())
    if sum(map(len, owned.values())) != 200:
        ground.wrong.append(f"{sum(map(len, owned.values()))} sessions of 200 are left")
    answers = await together(
        ground.ask(wire, "session.resume", session_id=s, eager_build=True)
        for wire, ours in owned.items() for s in ours
    )  # fmt: skip
    if not all(answers):
        ground.wrong.append(f"{answers.count(None)} of 200 sessions are lost")


async def multi_hop_reattach(ground: Ground) -> None:
    """Each of forty sessions goes from connection to connection, each of which drops in its turn.

    Every hop gives the cursor of the last event that it has; what all hops saw together must be
    every durable event, once and in order, or a gap that was told.
    """

    async def hops(session: str, wire: Connection) -> None:
        seen: list[tuple[int, int]] = []
        for _ in range(8):
            await ground.submit(wire, session)
            await asyncio.sleep(ground.rnd.random() * 0.03)
            old, wire = wire, await ground.connect()
            ground.drop(old)
            seen += _durable(old, session)
            cursor = {"epoch": seen[-1][0], "seq": seen[-1][1]} if seen else None
            answer = await ground.ask(wire, "session.resume", session_id=session, cursor=cursor)
            if answer is None:
                ground.wrong.append(f"{session} could not be resumed at a hop")
                return
            if (answer.get("replay") or {}).get("gap"):
                seen.append((answer["epoch"], answer["seq"]))
        await ground.submit(wire, session, "last")
        await _idle(wire, session)
        seen += _durable(wire, session)
        for (epoch, seq), (next_epoch, next_seq) in pairwise(seen):
            if epoch == next_epoch and next_seq != seq + 1:
                ground.wrong.append(f"{session}: after event {seq} came {next_seq}")

    starts = [await ground.connect() for _ in range(40)]
    sessions = await together(ground.create(wire, 1) for wire in starts)
    await together(hops(ours[0], wire) for ours, wire in zip(sessions, starts, strict=True))


def _durable(wire: Connection, session: str) -> list[tuple[int, int]]:
    return [(e["epoch"], e["seq"]) for e in wire.events[session] if e.get("seq")]


async def _idle(wire: Connection, session: str) -> None:
    """Wait until nothing of the session runs or waits."""
    for _ in range(600):
        answer = await wire.call("session.resume", session_id=session, omit_messages=True)
        if not answer["running"]:
            return
        await asyncio.sleep(0.02)


async def queued_prompts_against_disconnect_close(ground: Ground) -> None:
    """Fifty turns with queued prompts; the connections vanish, and take their sessions along."""

    async def one() -> None:
        wire = await ground.connect()
        (session,) = await ground.create(wire, 1, close_on_disconnect=True)
        asked = (ground.submit(wire, session, key=f"k{n}") for n in range(6))
        prompts = [asyncio.ensure_future(one) for one in asked]
        enough = ground.rnd.randrange(1, 6)
        while len(ground.accepted[session]) < enough:  # one runs, the others wait behind it
            await asyncio.sleep(0)
        ground.drop(wire)
        await asyncio.wait(prompts)
        if ground.rnd.random() < 0.5:  # whoever comes back asks with the same key
            again = await ground.connect()
            mine = {"session_id": session, "close_on_disconnect": True}
            if await ground.ask(again, "session.resume", **mine):
                await ground.submit(again, session, key="k1")
            ground.drop(again)

    await together(one() for _ in range(50))


async def attach_during_teardown(ground: Ground) -> None:
    """Thirty sessions whose processes end slowly are closed, while others attach to them."""
    owner = await ground.connect()
    sessions = await ground.create(owner, 30)
    await together(ground.submit(owner, s) for s in sessions)
    await together(owner.until("message.complete", s) for s in sessions)

    async def late(session: str) -> None:
        wire = await ground.connect()
        await asyncio.sleep(ground.rnd.random() * 1.2)
        method = ground.rnd.choice(["session.resume", "session.attach", "session.activate"])
        answer = await ground.ask(wire, method, session_id=session)
        if answer is not None:  # then it is of use
            await ground.submit(wire, session)

    closing = [ground.ask(owner, "session.close", session_id=s) for s in sessions]
    await together([*closing, *(late(s) for s in sessions), *(late(s) for s in sessions)])


async def the_reaper(ground: Ground) -> None:
    """Orphans go, those who are met again stay, and who delegates is in use."""
    leaving, back, busy = [await ground.connect() for _ in range(3)]
    orphans, met = await ground.create(leaving, 20), await ground.create(back, 20)
    delegating = await ground.create(busy, 10)
    await together(ground.submit(leaving, s, "a zebra") for s in orphans)
    await together(ground.submit(back, s, "a zebra") for s in met)
    await together(ground.submit(busy, s, "delegate") for s in delegating)
    await together(leaving.until("message.complete", s) for s in orphans)
    for wire in (leaving, back, busy):
        ground.drop(wire)
    watch, live = await ground.connect(), set[str]()
    for _ in range(10):
        new = await ground.connect()
        for s in met:
            if await ground.ask(new, "session.resume", session_id=s) is None:
                ground.wrong.append(f"{s} was not met again")
        back, old = new, back
        ground.drop(old)
        await asyncio.sleep(0.4)
        live = await _live(watch)
        if lost := [s for s in met if s not in live]:
            ground.wrong.append(f"met again, and yet unloaded: {lost}")
        lost = [s for s in delegating if s not in live]
        if lost and await _running(ground, lost):
            ground.wrong.append(f"delegates, and yet unloaded: {lost}")
    if left := [s for s in orphans if s in live]:
        ground.wrong.append(f"nobody's, and yet in memory: {left}")
    again = await ground.connect()
    for s in delegating:
        answer = await ground.ask(again, "session.resume", session_id=s)
        if answer is None or "All reported." not in str(answer["messages"]):
            ground.wrong.append(f"{s} has lost its report")


async def _live(wire: Connection) -> set[str]:
    return {row["id"] for row in (await wire.call("session.active_list"))["sessions"]}


async def _running(ground: Ground, sessions: list[str]) -> bool:
    """Whether the turn of any is not over, though it is not in memory."""
    wire = await ground.connect()
    found = [await ground.ask(wire, "session.history", session_id=s) for s in sessions]
    return any("All reported." not in str(one) for one in found)


SESSIONS, CONNECTIONS, OPERATIONS, WORKERS = 1_000, 50, 1_200, 40


async def storm(ground: Ground) -> None:
    """A thousand sessions on fifty connections under random operations by forty workers."""
    wires = [await ground.connect() for _ in range(CONNECTIONS)]
    made = await together(ground.create(wire, SESSIONS // CONNECTIONS) for wire in wires)
    sessions = [s for ours in made for s in ours]
    ground.begin_clock()
    todo = iter(range(OPERATIONS))

    async def worker() -> None:
        for _ in todo:
            at = ground.rnd.randrange(CONNECTIONS)
            await _operate(ground, wires, at, ground.rnd.choice(sessions))

    await together(worker() for _ in range(WORKERS))
    ground.end_clock()


async def _operate(ground: Ground, wires: list[Connection], at: int, session: str) -> None:
    wire, ask = wires[at], ground.ask
    kind = ground.rnd.choices(
        ["submit", "interrupt", "resume", "detach", "close", "status", "history", "branch", "undo",
         "title", "drop"], [8, 3, 6, 2, 2, 3, 3, 1, 1, 2, 1])[0]  # fmt: skip
    if kind == "submit":
        busy = ground.rnd.choice(["queue", "steer", "interrupt"])
        await ground.submit(wire, session, when_busy=busy)
    elif kind == "drop":
        ground.drop(wire)
        wires[at] = await ground.connect()
    elif kind == "resume":
        await ask(wire, "session.resume", session_id=session, lazy=ground.rnd.random() < 0.5)
    elif kind == "title":
        await ask(wire, "session.title", session_id=session, title=f"t{ground.rnd.random()}")
    else:
        await ask(wire, f"session.{kind}", session_id=session)


def _delegating(goals: int) -> list[Any]:
    tasks = [{"goal": f"look at part {n}"} for n in range(goals)]
    return [
        [{"call": {"name": "delegate", "arguments": {"tasks": tasks}}}],
        [{"text": "All reported."}],
    ]


SCENARIOS = {
    "resumes": Scenario(
        "200 sessions on 20 connections: disconnects against resumes", TALKS,
        disconnects_against_resumes,
    ),
    "hops": Scenario("multi-hop reattach during cascading drops", TALKS, multi_hop_reattach),
    "queued": Scenario(
        "50 turns with queued prompts settle while disconnect closes", TALKS,
        queued_prompts_against_disconnect_close,
    ),
    "teardown": Scenario(
        "30 sessions: attach during the teardown", [{"call": STUBBORN}, {"text": "It runs."}],
        attach_during_teardown,
    ),
    "reaper": Scenario(
        "orphan, reconnected and delegating sessions under the reaper", _delegating(2), the_reaper,
        on=(
            {"match": "look at part", "step": [{"delay_s": 2.5}, {"text": "Looked."}]},
            {"match": "a zebra", "step": [{"text": "Black and white."}]},
        ),
        config="[limits]\norphan_grace_s = 0.6\nidle_s = 0.6\n",
    ),
    "storm": Scenario(
        "1,000 sessions on 50 connections, 1,200 random operations by 40 workers",
        [{"text": "Two words."}], storm,
    ),
}  # fmt: skip
