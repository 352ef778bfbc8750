"""``sweep``: at every await of every operation a fault, one after the other, in process.

For each operation the n-th moment at which its request waits is the one at which the request is
cancelled and its connection cut (``cancel``), or cancelled twice (``twice``); the n-th moment at
which the turn that it has begun waits is the one at which the turn is interrupted (``interrupt``);
the n-th call of a port is the one that fails (``fail``); and after the n-th step of everything the
gateway is killed (``kill``). Then the same oracles as everywhere must hold. The sweep of an
operation and a kind is over when n is beyond the last such moment.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from proof import real_sweep
from proof.loop import ExploringLoop
from proof.options import Option, Usual
from proof.scenarios.house import House
from proof.scenarios.operations import OPERATIONS, Operation
from proof.scenarios.pairs import prepare
from proof.schedules import Outcome, Scenario, run
from proof.seams import seams
from proof.tokens import Token
from tenure.protocol.methods import METHODS

KINDS = ("cancel", "twice", "interrupt", "fail", "kill")
AT_AWAITS = ("cancel", "twice", "interrupt")
WHOLE = 100
"""From this depth on the sweep is whole: the gateway is killed after every step."""
KILL_STRIDE = 3
GIVEN = ("idle", "running", "stored", "asking", "queued")


class Case(NamedTuple):
    """One moment of the sweep; as a word ``operation.given.kind.n``."""

    operation: str
    given: str
    kind: str
    n: int

    def __str__(self) -> str:
        return ".".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case of a word.

        Raises:
            ValueError: it is none.
        """
        operation, given, kind, n = text.split(".")
        if operation not in OPERATIONS or given not in GIVEN or kind not in KINDS:
            raise ValueError(f"{text!r} is no case of the sweep")
        return cls(operation, given, kind, int(n))


class Failing:
    """The usual order; the n-th call of a port fails."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.calls = 0

    def choose(self, options: Sequence[Option]) -> int:
        """1 where the n-th port is asked whether it fails."""
        if len(options) != 2 or options[1].kind != "fault" or options[0].kind != "ready":
            return 0
        if options[0].actor != options[1].actor:
            return 0
        self.calls += 1
        return int(self.calls == self._n)


class _Counted:
    """Counts where a request waits; at the n-th moment somebody strikes, once or twice."""

    def __init__(self, house: House, case: Case) -> None:
        self.house, self.case = house, case
        self.moments = 0
        self.struck = False

    def arm(self, task: Any, person: Any) -> None:
        """Follow the task of a request."""
        loop, house = self.house.loop, self.house
        before = house.watch.step

        def step() -> None:
            before()
            waits = not task.done() and task.get_coro().cr_await is not None
            if self.struck or not waits or not self._moved(task):
                return
            self.moments += 1
            if self.moments == self.case.n:
                self.struck = True
                self._strike(task, person)

        loop.on_step = step

    def _strike(self, task: Any, person: Any) -> None:
        loop, session = self.house.loop, self.house.session
        if self.case.kind == "interrupt":
            loop.tell(f"! the turn is interrupted at its moment {self.moments}")
            if session is not None:
                session.interrupt()
            return
        loop.tell(f"! {task.get_name()} is cancelled at its moment {self.moments}")
        task.cancel()
        if self.case.kind == "twice":
            loop.call_soon(loop.call_soon, task.cancel)
        person.cut()

    def _moved(self, task: Any) -> bool:
        """Whether it has gone on since the last look."""
        at = [f"{frame}" for frame in _frames(task.get_coro())]
        moved = at != getattr(self, "_at", None)
        self._at = at
        return moved


def _frames(coro: Any) -> Iterator[tuple[int, int]]:
    while coro is not None and getattr(coro, "cr_frame", None) is not None:
        yield id(coro), coro.cr_frame.f_lasti
        coro = coro.cr_await


async def swept(case: Case, reached: list[int], loop: ExploringLoop) -> None:
    """One operation with the fault of its case; `reached` gets how far the count came."""
    op = OPERATIONS[case.operation]
    house = House(loop)
    await house.open()
    await prepare(house, case.given, left=op.left)
    who = house.person("A")
    await house.settle()
    counted = _Counted(house, case)
    if case.kind in AT_AWAITS:
        loop.on_task = partial(_follow, house, counted, who)
    elif case.kind == "kill":
        _kill_at(house, case.n, reached)
    await house.race(**{f"A: {case.operation}": partial(op.do, house, who)})
    await house.finish()
    if case.kind in AT_AWAITS:
        reached.append(counted.moments)


def _follow(house: House, counted: _Counted, who: Any, task: Any) -> None:
    of_turn = counted.case.kind == "interrupt"
    name = task.get_name()
    if house.loop.exploring and (name.startswith("turn ") if of_turn else name in METHODS):
        counted.arm(task, who)


def _kill_at(house: House, n: int, reached: list[int]) -> None:
    """The gateway dies after the n-th step of the race."""
    loop, count = house.loop, 0
    before = house.watch.step

    def step() -> None:
        nonlocal count
        before()
        if loop.exploring:
            count += 1
            reached.append(count)
            if count == n:
                house.crash()

    loop.on_step = step


def try_case(case: Case, *, tell: bool = False) -> tuple[Outcome, bool]:
    """Run one case; and whether there was such a moment."""
    reached: list[int] = []
    faults = 1 if case.kind == "fail" else 0
    strategy = Failing(case.n) if case.kind == "fail" else Usual()
    made = Scenario(str(case), f"sweep of {case.operation}", partial(swept, case, reached))
    outcome = run(made, strategy, Token("sweep", "external", faults, "d"), tell=tell)
    if isinstance(strategy, Failing):
        return outcome, strategy.calls >= case.n
    return outcome, max(reached, default=0) >= case.n


@dataclass
class Swept:
    """What a sweep came to: how many moments, and the cases in which something did not hold."""

    cases: int = 0
    seconds: float = 0.0
    found: dict[str, str] = field(default_factory=dict)


def states_of(op: Operation) -> tuple[str, ...]:
    """In which states an operation is swept: where it belongs, and in the middle of a turn."""
    return tuple(dict.fromkeys((op.given, "running")))


def cases_of(depth: int) -> Iterator[tuple[str, str, str, range]]:
    """Every operation, state and kind, with the moments to try."""
    for op in OPERATIONS.values():
        if op.name == "crash":
            continue
        for given in states_of(op):
            for kind in KINDS:
                stride = KILL_STRIDE if kind == "kill" and depth < WHOLE else 1
                yield op.name, given, kind, range(1, depth * stride, stride)


def sweep(depth: int, only: Iterable[str] = ()) -> Swept:
    """Sweep every operation, to at most `depth` moments each. The seams must be in place."""
    swept_all, begun = Swept(), time.perf_counter()
    wanted = set(only)
    for operation, given, kind, moments in cases_of(depth):
        if wanted and operation not in wanted:
            continue
        for n in moments:
            case = Case(operation, given, kind, n)
            outcome, was_there = try_case(case)
            swept_all.cases += was_there
            if outcome.violation:
                swept_all.found[str(case)] = outcome.violation
            if not was_there:
                break
    swept_all.seconds = time.perf_counter() - begun
    return swept_all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operations", nargs="*", help="operations; all without one")
    parser.add_argument("--depth", type=int, default=400, help="moments of each at most")
    parser.add_argument("--case", help="one case, told as a story")
    parser.add_argument("--real", action="store_true", help="kills of the real server instead")
    real_sweep.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    if args.real:
        return real_sweep.main(args)
    unknown = set(args.operations) - set(OPERATIONS)
    if unknown:
        print(
            f"no operation {', '.join(unknown)}; there are {', '.join(OPERATIONS)}", file=sys.stderr
        )
        return 2
    if args.case:
        with seams():
            outcome, was_there = try_case(Case.parse(args.case), tell=True)
        print("\n".join(f"  {line}" for line in outcome.story))
        print("" if was_there else "there is no such moment")
        return 1 if outcome.violation else 0
    with seams():
        done = sweep(args.depth, args.operations)
    return tell(done)


def tell(done: Swept) -> int:
    """The result; 1 if something was found."""
    for case, violation in done.found.items():
        print(f"   VIOLATION {violation}\n      python -m proof sweep --case {case}")
    print(f"sweep: {done.cases:,} moments, {len(done.found)} violations, {done.seconds:.0f} s")
    return 1 if done.found else 0
