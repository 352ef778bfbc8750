"""What a session has inside: terminals with programs on them, and the folder of its checkpoints."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from proof.oracles import THING, Thing, require
from proof.scenarios.tree import Tree, scenario
from tenure.checkpoints.turnstile import Turnstile
from tenure.errors import Overloaded, ProcessError
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.processes.terminal import Screen
from tenure.sandbox.base import Order, Sandbox
from tenure.tools.terminals import KEPT_MAX, Terminal, Terminals


class Program:
    """A fake program on a terminal: prints, exits by itself or is ended, as `Running`."""

    pid, verdict, open_files = 1, "", 0
    stderr = terminal = None

    def __init__(self, tree: Tree, thing: Thing) -> None:
        self.tree, self.thing = tree, thing
        self.returncode: int | None = None
        self.lease: Lease[Program]
        self._said = deque([b"ready "])
        self._news = asyncio.Event()

    @property
    def stdout(self) -> Program:
        return self

    async def read(self, _n: int = 65_536) -> bytes:
        while not self._said and self.returncode is None:
            self._news.clear()
            await self._news.wait()
        return self._said.popleft() if self._said else b""

    async def write(self, data: bytes) -> None:
        if self.returncode is not None:
            raise ProcessError("It has exited.")
        await self.tree.loop.port(f"{self.thing.name} reads")
        self._said.append(data)
        self._news.set()

    def exits(self, status: int) -> None:
        if self.returncode is None:
            self.tree.loop.tell(f"    {self.thing.name} exits with {status}")
            self.returncode = status
        self._news.set()

    async def wait(self) -> int:
        while self.returncode is None:
            self._news.clear()
            await self._news.wait()
        return self.returncode

    async def signal_all(self, signum: int) -> None:
        self.exits(-signum)

    async def count_left(self) -> int:
        return int(self.returncode is None)

    async def stop(self) -> None:
        await self.lease.release()


class Desk:
    """A session's terminals, in a sandbox of fake programs.

    Attributes:
        told: ends that clients were told of.
        programs: all that were started.
    """

    files = None

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.session = tree.root.child("session")
        self.programs: list[Program] = []
        self._count = 0
        self.told: list[str] = []
        self.terminals = Terminals(self.session, self._sandbox, tree.loop.clock, self._publish)

    async def _sandbox(self) -> Sandbox:
        await self.tree.loop.port("the sandbox is there")
        return cast("Sandbox", self)

    def _publish(self, event: str, payload: dict[str, Any]) -> None:
        if event == "terminal.close":
            require(payload["process_id"] not in self.told, "V16: an end is told twice")
            self.told.append(payload["process_id"])

    async def start(self, scope: Scope, _order: Order) -> Program:
        """As a sandbox."""
        self._count += 1
        thing = self.tree.ledger.thing(f"program {self._count}")
        program = Program(self.tree, thing)

        async def make() -> Program:
            await self.tree.make(thing)
            return program

        async def end(program: Program) -> None:
            thing.early = True  # whoever closes a terminal ends its program, whatever is younger
            program.exits(-9)
            await self.tree.release(thing)

        program.lease = await scope.build(THING, make, end, label=thing.name)
        self.programs.append(program)
        return program

    async def open(self) -> Terminal | None:
        """Open one; None: it is refused."""
        try:
            return await self.terminals.open("x", Screen(80, 24))
        except Overloaded:
            return None

    async def check(self) -> None:
        """At rest: who runs is known, who has exited is told once, and is forgotten some day."""
        await self.tree.loop.quiet()
        known = self.terminals.all()
        require(self.terminals._starting == 0, "V25: a start is remembered that is over")
        left = [p.thing.name for p in self.programs if p.returncode is not None and p.thing.live]
        require(not left, f"V1: they have exited, and what they left runs on: {left}")
        require(len(known) <= KEPT_MAX, "V25: more terminals are kept than may be")
        for terminal in known if self.session.admits else ():
            gone = not terminal.running
            require(
                gone == (terminal.id in self.told), f"V16: the end of {terminal.id} is not told"
            )


@scenario(faults=1, subject="inside")
async def terminals_against_a_close(tree: Tree) -> None:
    """A terminal is opened, typed on and closed while its session is closed."""
    desk = Desk(tree)

    async def use() -> None:
        terminal = await desk.open()
        if terminal is None:
            return
        try:
            await terminal.write(b"words")
        except ProcessError:
            return
        await desk.terminals.close(terminal)

    await tree.race(one=use, two=desk.open, closer=lambda: tree.close(desk.session))
    await desk.check()


@scenario(faults=1, subject="inside")
async def a_terminal_whose_program_exits(tree: Tree) -> None:
    """Its program exits while one types, one waits for output and one closes it."""
    desk = Desk(tree)
    terminal = await desk.open()
    assert terminal is not None

    async def types() -> None:
        try:
            await terminal.write(b"words")
        except ProcessError:
            return

    async def exits() -> None:
        desk.programs[0].exits(3)

    await tree.race(
        types=types,
        waits=lambda: terminal.wait_output(6, 5.0),
        exits=exits,
        closes=lambda: desk.terminals.close(terminal),
    )
    await desk.check()


@scenario(faults=0, subject="inside")
async def the_folder_of_checkpoints(tree: Tree) -> None:
    """Two add to the folder of checkpoints, two want it for themselves; any of them may leave."""
    turnstile = Turnstile()
    inside: list[str] = []

    async def adds(name: str) -> None:
        async with turnstile.together():
            require("alone" not in "".join(inside), f"V7: {name} adds while somebody is alone")
            inside.append(name)
            try:
                await tree.loop.port(f"{name} adds")
            finally:
                inside.remove(name)

    async def alone(name: str) -> None:
        async with turnstile.alone():
            require(not inside, f"V7: {name} is not alone: {inside}")
            inside.append(f"{name} alone")
            try:
                await tree.loop.port(f"{name} changes")
            finally:
                inside.remove(f"{name} alone")

    await tree.race(
        a=lambda: adds("a"), b=lambda: adds("b"), c=lambda: alone("c"), d=lambda: alone("d")
    )
    await adds("e")
    await alone("f")


SCENARIOS = [
    terminals_against_a_close,
    a_terminal_whose_program_exits,
    the_folder_of_checkpoints,
]
