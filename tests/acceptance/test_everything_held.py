"""One turn that holds one of everything: it is closed, interrupted, and killed piece by piece."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from typing import Any

import pytest

from support.boxes import needs_bwrap
from support.chromium import parked
from support.commands import Place
from support.everything import (
    Everything,
    Session,
    call,
    declare,
    end,
    everything,
    hanging,
    lives,
    sleepers,
    sleeping,
    until,
)
from support.needs import need
from support.served import promised, serving, wait_for
from support.toolservers import lines
from tenure.browser.memory import held_by
from tenure.processes.procfs import all_stats

pytestmark = [pytest.mark.slow, needs_bwrap]
GONE_S = 2.0
WORDS = ("alpha", "beta")
KINDS = ("shell", "terminal", "browser", "tool server", "sub-agents")
SUBS = (
    *({"match": f"task {word}", "step": call("shell", command=sleeping(word))} for word in WORDS),
    *({"match": m, "step": {"text": "Done."}} for m in ("sleptwell", "code 137", "SIGKILL")),
)


@pytest.fixture
def place(tmp_path) -> Place:
    need("chromium")
    place = Place(tmp_path)
    declare(place)
    return place


def url(world: Everything, path: str = "/") -> str:
    return f"http://127.0.0.1:{world.site.port}{path}"


def steps(world: Everything) -> list[Any]:
    """One turn's use of everything but the last, in which it is parked."""
    return [
        call("terminal", action="open", command=sleeping("term")),
        call("browser", action="navigate", url=url(world)),
        call("mcp__fake__echo", text="served"),
        call("shell", command="echo she''ll"),
    ]


PARKING: dict[str, dict[str, Any]] = {
    "terminal": call("terminal", action="read", id="t1", wait_s=60),
    "tool server": call("mcp__fake__hang"),
    "sub-agents": call("delegate", tasks=[{"goal": f"task {word}"} for word in WORDS]),
}


def parking(world: Everything, kind: str) -> dict[str, Any]:
    """The call in which the turn stays."""
    if kind == "shell":
        return call("shell", command=sleeping("main"))
    if kind == "browser":
        return call("browser", action="navigate", url=url(world, "/hang"))
    return PARKING[kind]


async def held(world: Everything, kind: str) -> Session:
    """A session whose turn holds everything and is parked in the middle of one kind."""
    before = len(sleepers())
    gate = hanging(world.site, "/hang")
    folder = world.place.work / "server-fake"
    calls = lines(folder, "calls").count("hang")
    session = await world.session(*steps(world), parking(world, kind), {"text": "done"}, on=SUBS)
    await until(lambda: known(world, session), "the tool server is known")
    await session.submit()
    for said in ("term", "Here", "served", "shell"):
        assert said in (result := await world.result(session)), result
    await world.next("tool.start", session)
    if kind == "browser":
        await parked(gate)
    elif kind == "tool server":
        await until(lambda: lines(folder, "calls").count("hang") > calls, "it was called")
    more = {"shell": 2, "sub-agents": 3}.get(kind, 1)
    await until(lambda: len(sleepers()) == before + more, "it is at work")
    assert {"terminal", "browser context", "tool server"} <= await session.kinds()
    return session


async def known(world: Everything, session: Session) -> bool:
    found = await world.client.call("session.resume", session_id=session.id)
    return "mcp__fake__echo" in str(found["info"]["tools"])


async def test_its_end_and_then_a_close(place):
    async with everything(place) as world:
        quick = call("delegate", tasks=[{"goal": f"quick {word}"} for word in WORDS])
        subs = (
            *({"match": f"quick {w}", "step": call("shell", command=f"echo {w}-told")} for w in WORDS),
            *({"match": f"{word}-told", "step": {"text": "Done as told."}} for word in WORDS),
        )  # fmt: skip
        session = await world.session(*steps(world), quick, {"text": "The end."}, on=subs)
        await until(lambda: known(world, session), "the tool server is known")
        await session.submit()
        told = [await world.result(session) for _ in range(5)]
        assert told[-1].count("Done as told.") >= 2, told[-1]
        done = await world.next("message.complete", session)
        assert (done["state"], done["text"]) == ("completed", "The end."), done
        assert {"terminal", "browser context", "tool server"} <= await session.kinds()
        await world.agrees()
        await world.another_answers()
        await session.close()
        await world.agrees()
        assert sleepers() == []


async def test_an_interrupt_in_the_middle_of_each_and_then_a_close(place):
    async with everything(place) as world:
        for kind in KINDS:
            session = await held(world, kind)
            await world.agrees()
            await world.client.call("session.interrupt", session_id=session.id)
            done = (await world.client.until("message.complete", session.id)).payload
            assert done["state"] == "interrupted", (kind, done)
            assert len(sleepers()) == 1, f"{kind}: the terminal stays, and nothing else"
            await world.agrees()
            await world.another_answers()
            await session.close()
            await world.agrees()
            assert sleepers() == []


async def test_a_close_in_the_middle_of_each(place):
    async with everything(place) as world:
        for kind in KINDS:
            session = await held(world, kind)
            await session.close()
            await world.agrees()
            assert sleepers() == [], kind
            await world.another_answers()


def below(pid: int) -> list[int]:
    """A process and its only child, and so on: a box, its first process, what runs in it."""
    stats = all_stats()
    chain = [pid]
    while children := [s.pid for s in stats if s.ppid == chain[-1] and not s.gone]:
        chain.append(children[0])
    return chain


async def boxes(session: Session) -> dict[str, list[int]]:
    """The processes of each box that stays, from the outside to the inside."""
    rows = await session.rows()
    chains = {r["kind"]: below(r["pid"]) for r in rows if r["kind"] in {"terminal", "tool server"}}
    shells = [below(r["pid"]) for r in rows if r["kind"] == "process" and r.get("pid")]
    chains["sub-agent"] = next(c for c in shells if c[-1] in sleepers())
    assert all(len(chain) >= 3 for chain in chains.values()), chains
    return chains


async def browser(world: Everything, which: str) -> int:
    entries = (await world.client.call("census.get"))["entries"]
    host, chromium = (
        next(row["pid"] for row in entries if what in (row["kind"], row["label"]) and "pid" in row)
        for what in ("browser host", "chromium")
    )
    if which == "renderer":
        return next(one.stat.pid for one in held_by(host) if one.renderer)
    return {"host": host, "chromium": chromium}[which]


VICTIMS = ((0, "chromium"), (1, "renderer"), (-1, "host"))
"""How deep in each box, from the outside; and which of the browser's."""


async def test_kill_9_of_each_child_in_turn(place):
    async with everything(place) as world:
        for depth, which in VICTIMS:  # whatever is killed comes again for the next session
            session = await held(world, "sub-agents")
            chains = await boxes(session)
            for kind in ("terminal", "tool server", "sub-agent"):
                await end(chains[kind][depth])
                await world.agrees()
                await world.another_answers()
            await end(await browser(world, which))
            await world.agrees()
            await world.another_answers()
            await session.close()
            await world.agrees()
            assert sleepers() == []


def ended_rows(place: Place, session: Session) -> tuple[str, str]:
    """How a session's row says that it is, and who holds it."""
    base = sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)
    try:
        (status,) = base.execute(
            "SELECT status FROM sessions WHERE id = ?", [session.id]
        ).fetchone()
        key = f"session:{session.id}"
        (holder,) = base.execute("SELECT holder FROM leases WHERE key = ?", [key]).fetchone()
        return status, holder
    finally:
        base.close()


async def test_kill_9_of_the_gateway(place):
    async with everything(place, "[recovery]\ncontinue_turns = false\n") as world:
        session = await held(world, "sub-agents")
        running = world.all_of_it()
        assert len(running) > 15, running  # four boxes, the host, Chromium and its children
        os.kill(world.served.pid, signal.SIGKILL)
        gone = lambda: not any(map(lives, running))  # noqa: E731
        await asyncio.to_thread(promised, gone, "all of it has gone", GONE_S)
        assert sleepers() == []
        await asyncio.to_thread(world.served.process.wait, 10)
    with serving(place, "--model", place.script({"text": "Hello."})) as served:
        async with served.client() as client:
            assert (await client.call("census.verify"))["differences"] == []
            wait_for(lambda: not list((place.home / "boxes").iterdir()), "its boxes have gone")
            wait_for(lambda: ended_rows(place, session) == ("closed", ""), "its rows are ended")
