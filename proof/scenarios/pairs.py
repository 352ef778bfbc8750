"""Every pair of operations on one session, each a scenario of its own by name."""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement

from proof.loop import ExploringLoop
from proof.scenarios.house import MODEL, House
from proof.scenarios.operations import OPERATIONS, Operation
from proof.schedules import Scenario

ORDER = ("asking", "queued", "running", "stored", "idle")
"""Of two needs the first in this order is met."""
LIVE_TOO = {"resume-lazy", "resume-eager", "watch", "catch-up"}
"""What opens a stored session meets a live one as well, in a scenario of its own."""


def given_for(one: Operation, other: Operation) -> str:
    """In which state the two find the session."""
    needs = {one.given, other.given}
    if "stored" in needs and needs != {"stored"} and not needs <= {"stored", "idle"}:
        needs.discard("stored")
    return next(state for state in ORDER if state in needs)


async def prepare(house: House, given: str, *, left: bool, profile: str = "") -> None:
    """Open the session and bring it into a state, in the usual order of things."""
    house.window = await house.begin(profile=profile, close_on_disconnect=given == "idle")
    window, sid = house.window, house.sid
    if given in {"running", "queued"}:
        house.loop.held = frozenset({MODEL})
        await window.call("prompt.submit", session_id=sid, text="Think.")
        if given == "queued":
            await window.call("prompt.submit", session_id=sid, text="Then this.")
    elif given == "asking":
        await window.call("prompt.submit", session_id=sid, text="please act")
    await house.settle()
    if left or given == "stored":
        await window.call("session.detach", session_id=sid)
    if given == "stored":
        session = house.session
        assert session is not None
        house.sessions.unload(session, "unused")
    await house.settle()


async def pair(first: str, second: str, given: str, loop: ExploringLoop) -> None:
    """Two operations on one session, by two people, at any moments."""
    one, other = OPERATIONS[first], OPERATIONS[second]
    house = House(loop)
    await house.open()
    await prepare(house, given, left=one.left or other.left)
    people = house.person("A"), house.person("B")
    await house.settle()
    await house.race(
        **{
            f"A: {first}": partial(one.do, house, people[0]),
            f"B: {second}": partial(other.do, house, people[1]),
        }
    )
    await house.finish()


def scenarios() -> list[Scenario]:
    """All pairs; those that open a stored session also with a live one."""
    found = []
    for first, second in combinations_with_replacement(OPERATIONS, 2):
        one, other = OPERATIONS[first], OPERATIONS[second]
        states = [given_for(one, other)]
        if states == ["stored"]:
            states.append("idle")
        for given in states:
            about = f"{first} meets {second} on a session that is {given}"
            name = f"{first}+{second}" + ("" if given == states[0] else f"@{given}")
            run = partial(pair, first, second, given)
            found.append(Scenario(name, about, run, 1.0, 1, "pairs"))
    return found


SCENARIOS = tuple(scenarios())
