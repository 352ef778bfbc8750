"""A session whose turn works through two sub-agents, one of which asks before it acts."""

from __future__ import annotations

from functools import partial
from typing import Any

from proof.oracles import require
from proof.scenarios.house import House
from proof.scenarios.operations import OPERATIONS
from proof.scenarios.people import Person
from proof.scenarios.shared import asks, shared
from proof.schedules import Scenario

SCENARIOS: list[Scenario] = []
delegating = partial(shared, into=SCENARIOS, subject="delegating")


async def begin(house: House, **params: Any) -> Person:
    """Somebody whose turn has delegated in this moment; nothing of it has gone on yet."""
    window = await house.begin(**params)
    started = window.told("subagent.start")
    await window.call("prompt.submit", session_id=house.sid, text="please delegate")
    await started
    return window


async def interrupt_them(house: House, who: Person) -> None:
    """Interrupt each sub-agent that is there."""
    found = await who.call("subagent.list", session_id=house.sid)
    for row in found["subagents"] if found else ():
        await who.call("subagent.interrupt", subagent_id=row["subagent_id"])


async def steer_them(house: House, who: Person) -> None:
    """Say something to each sub-agent that is there."""
    found = await who.call("subagent.list", session_id=house.sid)
    for row in found["subagents"] if found else ():
        await who.call("subagent.steer", subagent_id=row["subagent_id"], text="Hurry.")


async def nothing_left(house: House) -> None:
    """At rest no sub-agent lives beyond the turn that has asked for it."""
    if house.crashed:
        return
    await house.settle()
    session = house.session
    if session is None or session.current is None:
        left = [f"{e.owner} {e.kind}" for e in house.gw.root.census() if "sub_" in e.owner]
        require(not left, f"V1: of sub-agents there is left: {left}")


@delegating()
async def sub_agents_and_an_interrupt(house: House) -> None:
    """The turn is interrupted while its sub-agents begin, work, ask and end."""
    window = await begin(house)
    await house.race(
        interrupt=asks(window, "session.interrupt", session_id=house.sid),
        answer=partial(answers, house, house.person("A")),
    )
    await nothing_left(house)


@delegating()
async def sub_agents_and_a_close(house: House) -> None:
    """The session is closed over its sub-agents, one of which somebody interrupts."""
    window = await begin(house, auto_approve=True)
    await house.race(
        close=asks(window, "session.close", session_id=house.sid),
        one=partial(interrupt_them, house, house.person("A")),
    )
    await nothing_left(house)


@delegating()
async def sub_agents_of_one_who_goes(house: House) -> None:
    """Whoever has asked goes; somebody comes instead, and speaks to the sub-agents."""
    window = await begin(house, auto_approve=True, close_on_disconnect=True)
    other = house.person("A")

    async def gone() -> None:
        window.cut()

    async def come() -> None:
        await other.call("session.attach", session_id=house.sid)
        await steer_them(house, other)

    await house.race(gone=gone, come=come)
    await nothing_left(house)


@delegating()
async def sub_agents_in_a_stop(house: House) -> None:
    """The gateway stops over sub-agents that are answered and interrupted."""
    await begin(house)
    a, b = house.person("A"), house.person("B")
    await house.race(
        drain=partial(OPERATIONS["drain"].do, house, a),
        answer=partial(answers, house, a),
        one=partial(interrupt_them, house, b),
    )


@delegating()
async def sub_agents_in_a_kill(house: House) -> None:
    """The gateway is killed over its sub-agents; the next one ends what was begun, once."""
    await begin(house, auto_approve=True)
    a = house.person("A")
    await house.race(
        crash=partial(OPERATIONS["crash"].do, house, a),
        steer=partial(steer_them, house, a),
        submit=asks(a, "prompt.submit", session_id=house.sid, text="And then?"),
    )


async def answers(house: House, who: Person) -> None:
    """Allow what a sub-agent asks for, whenever it asks."""
    await who.call("session.attach", session_id=house.sid)
    await who.call("approval.respond", session_id=house.sid, choice="once")
