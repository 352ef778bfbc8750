"""Whole programs: several people do one thing after another, drawn from all that can be done.

A program is a list of operations for each of three people and the state in which they begin. The
ones here are drawn from their number; tests/proof lets Hypothesis draw and shrink others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from proof.loop import ExploringLoop
from proof.scenarios.house import House
from proof.scenarios.operations import OPERATIONS
from proof.scenarios.pairs import ORDER, prepare
from proof.scenarios.people import Person
from proof.schedules import Scenario

COUNT = 200
LONGEST = 5
GOING_ON = sorted(name for name, op in OPERATIONS.items() if not op.ends)


class Program(NamedTuple):
    """What is done.

    Attributes:
        given: the state of the session at the beginning.
        left: whether nobody is attached then.
        people: the operations of each person, in their order.
        end: what happens to the gateway meanwhile: drain, crash or nothing.
    """

    given: str
    left: bool
    people: tuple[tuple[str, ...], ...]
    end: str = ""


def drawn(number: int) -> Program:
    """The program of that number."""
    rnd = random.Random(number)
    people = tuple(
        tuple(rnd.choice(GOING_ON) for _ in range(rnd.randrange(1, LONGEST + 1))) for _ in "ABC"
    )
    end = rnd.choice(("", "", "drain", "crash"))
    return Program(rnd.choice(ORDER), rnd.random() < 0.3, people, end)


async def run_program(program: Program, loop: ExploringLoop) -> None:
    """Run it, and look at everything afterwards."""
    house = House(loop)
    await house.open()
    await prepare(house, program.given, left=program.left)
    ops: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {}
    for name, doing in zip("ABC", program.people, strict=False):
        ops[name] = partial(_live, house, house.person(name), doing)
    if program.end:
        ops[program.end] = partial(OPERATIONS[program.end].do, house, house.window)
    await house.settle()
    await house.race(**ops)
    await house.finish()


async def _live(house: House, who: Person, doing: Sequence[str]) -> None:
    for name in doing:
        if not who.online and not house.ended:
            who = house.person(f"{who.name}'")
        await OPERATIONS[name].do(house, who)


def _scenario(number: int) -> Scenario:
    program = drawn(number)
    about = f"{program.given}: " + "; ".join(" ".join(doing) for doing in program.people)
    run = partial(run_program, program)
    return Scenario(f"program-{number:03}", about + f" {program.end}", run, 1.0, 2, "programs")


SCENARIOS = tuple(_scenario(number) for number in range(COUNT))
