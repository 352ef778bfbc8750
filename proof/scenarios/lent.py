"""What sessions have of others, in real places: tool servers in slots, browsers that are lent.

The children are fakes that count themselves: there is at most one at a place, it is gone before the
next one starts, what a call does it does once, and nothing is kept that nobody uses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from proof.oracles import planned, require
from proof.scenarios.tree import Broken, Tree, scenario
from tenure.browser.found import Found
from tenure.browser.lending import Browsers
from tenure.errors import ScopeClosed, ToolError
from tenure.lifecycle.scope import Scope
from tenure.settings import BrowserConfig
from tenure.toolservers.calls import Caller, Lost, Outcome
from tenure.toolservers.catalog import Offer, Offers
from tenure.toolservers.declared import Declared
from tenure.toolservers.slot import Slot
from tenure.toolservers.wire import Dispatch

SERVER = Declared(command="fake", idle_s=30.0, timeout_s=5.0)
UNUSED_S = 1_000.0
"""After so long nothing is kept that nobody uses, nor tried again."""
OFFERS = Offers((Offer("act"),))


class Child:
    """A fake child: it runs from its start until it ends by itself, or is ended.

    Attributes:
        gone: why it does not run any more; empty as long as it does.
        pid: as of a child.
        on_changed: see `Link`.
    """

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name
        self.gone = ""
        self.pid: int | None = 1
        self.on_changed: Callable[[], None] | None = None
        self._over = asyncio.Event()

    def end(self, why: str) -> None:
        """It does not run any more."""
        if not self.gone:
            self.place.tree.loop.tell(f"    {self.name}: {why}")
        self.gone = self.gone or why
        self._over.set()

    async def wait_gone(self) -> str:
        """Wait for that."""
        await self._over.wait()
        return self.gone

    async def call(
        self, tool: str, _args: Any, _caller: Any, dispatch: Dispatch, _s: float
    ) -> Outcome:
        """Do what a call asks for; the effect comes before the answer."""
        if self.gone:
            raise Lost(self.gone)
        dispatch.begun = True
        self.place.effects[tool] += 1
        await self.place.tree.loop.port(f"{self.name} works for {tool}")
        if self.gone:
            raise Lost(self.gone)
        return Outcome(tool)

    async def offers(self) -> Offers:
        """Say what there is."""
        await self.place.tree.loop.port(f"{self.name} lists")
        if self.gone:
            raise Lost(self.gone)
        return OFFERS


class Place:
    """Where at most one child of a kind may run.

    Attributes:
        forgives: one that could not be ended, and is told, keeps nobody from the place.
        running: those that run, whoever has asked for them.
        effects: how often each call was carried out.
    """

    forgives = False

    def __init__(self, tree: Tree, kind: str) -> None:
        self.tree, self.kind = tree, kind
        self.running: list[Child] = []
        self.effects: Counter[str] = Counter()
        self.started = 0
        self.known: Offers | None = None

    async def start(self, scope: Scope, _config: object = None) -> Any:
        """Start one in `scope`, which ends it. It may fail before or after the child runs."""
        alone = not self.running or (self.forgives and self.stuck)
        require(alone, f"V3: another {self.kind} starts while {self._names()} runs")
        self.started += 1
        child = Child(self, f"{self.kind} {self.started}")
        scope.own(self.kind, child, self._end)
        self.running.append(child)
        await self.tree.loop.port(f"{child.name} comes up")
        if self.tree.loop.fault(f"{child.name} comes up"):
            child.end("it did not come up")
        if child.gone:
            raise planned(ToolError(child.gone))
        return child

    async def _end(self, child: Child) -> None:
        require(child in self.running, f"V2: {child.name} is ended twice")
        child.end("it was ended")
        await self.tree.loop.port(f"{child.name} is ended")
        if self.tree.loop.fault(f"ending {child.name}"):
            raise Broken(child.name)
        self.running.remove(child)

    @property
    def stuck(self) -> bool:
        """It is known, and told, that one could not be ended."""
        return any(self.kind.startswith(failure.kind) for failure in self.tree.failures)

    def _names(self) -> str:
        return ", ".join(child.name for child in self.running)

    async def dies(self) -> None:
        """Whichever runs ends by itself."""
        for child in self.running:
            child.end("it died")

    # --- the catalog of a slot ------------------------------------------------------------------

    def get(self, _digest: str) -> Offers | None:
        """What is known."""
        return self.known

    def put(self, _digest: str, offers: Offers) -> bool:
        """Keep what was found."""
        self.known, known = offers, self.known
        return known != offers

    # --- oracles --------------------------------------------------------------------------------

    async def check(self) -> None:
        """At rest, after all tries to heal and a while in which nobody has used it."""
        for _ in range(3):  # time may have jumped, and what came late has its while, too
            await self.tree.loop.quiet()
            await self.tree.loop.clock.sleep(UNUSED_S)
        await self.tree.loop.quiet()
        twice = {call: n for call, n in self.effects.items() if n > 1}
        require(not twice, f"V17: carried out again: {twice}")
        require(not self.running or self.stuck, f"V25: nobody uses {self._names()}, but it runs")


class Server(Place):
    """The place of a tool server: a real slot."""

    def __init__(self, tree: Tree, name: str = "slot", *, twin: Server | None = None) -> None:
        super().__init__(tree, "tool server")
        if twin is not None:  # another slot for the same server: they share the place
            self.running, self.effects = twin.running, twin.effects
        catalog: Any = self
        self.slot = Slot(tree.root.child(name), name, SERVER, self.start, catalog, lambda: None)
        if twin is not None:
            self.slot.before = twin.slot

    async def call(self, name: str) -> object:
        """One call; told what has become of it, whatever that is."""
        try:
            return (await self.slot.call(name, {}, Caller(lambda _: None))).text
        except ToolError as exc:
            told = "unknown" in exc.message
            require(told or not self.effects[name], f"V17: {name} is told as not done, and was")
            return exc
        except ScopeClosed as exc:
            return exc


@scenario(faults=1, subject="lent")
async def a_tool_server_that_dies_under_calls(tree: Tree) -> None:
    """Two call a tool server, which dies at some moment."""
    place = Server(tree)
    await tree.race(a=lambda: place.call("a"), b=lambda: place.call("b"), death=place.dies)
    await place.check()


@scenario(faults=1, subject="lent")
async def a_tool_server_against_its_close(tree: Tree) -> None:
    """A session with a tool server is closed while one calls it and it is listed."""
    place = Server(tree)

    async def listed() -> None:
        place.slot.list_soon()

    await tree.race(
        call=lambda: place.call("a"), listed=listed, closer=lambda: tree.close(place.slot.scope)
    )
    await place.check()


@scenario(faults=1, subject="lent")
async def a_tool_server_that_is_declared_anew(tree: Tree) -> None:
    """A server is replaced twice while each is called; the one in between may never start."""
    old = Server(tree, "old")
    middle = Server(tree, "middle", twin=old)
    new = Server(tree, "new", twin=middle)
    await tree.race(
        old=lambda: old.call("a"), middle=lambda: middle.call("b"), new=lambda: new.call("c")
    )
    await new.check()


@scenario(faults=2, subject="lent")
async def a_tool_server_that_does_not_start(tree: Tree) -> None:
    """Starts may fail; one calls again and again, and it is tried again in the background."""
    place = Server(tree)

    async def stubborn() -> None:
        for n in range(3):
            await place.call(f"a{n}")

    await tree.race(stubborn=stubborn, other=lambda: place.call("b"), death=place.dies)
    await place.check()


@scenario(faults=1, subject="lent")
async def a_tool_server_of_two_sessions(tree: Tree) -> None:
    """Two sessions share one; the first is closed in the middle of its call."""
    place = Server(tree, "shared")
    one = tree.root.child("one")

    async def called() -> None:
        await one.spawn(place.call("a"), name="call of one").value

    await tree.race(
        one=called, other=lambda: place.call("b"), closer=lambda: tree.close(one), death=place.dies
    )
    await place.check()


# --- browsers -----------------------------------------------------------------------------------


class Lent(Place):
    """The place of a browser: real lending."""

    forgives = True

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, "browser process")
        self.users: Counter[str] = Counter()
        self.browsers = Browsers(
            tree.root.child("browsers"), self.start, lambda _config: Found("/chromium")
        )

    async def _end(self, child: Child) -> None:
        users = self.users[child.name]
        open_ = self.browsers._scope.admits
        require(child.gone or not users or not open_, f"V3: {child.name} ends under {users} users")
        await super()._end(child)

    async def visit(self, name: str) -> object:
        """Borrow it, look at a page, give it back."""
        session = self.tree.root.child(name)
        try:
            browser: Any = await self.browsers.borrow(BrowserConfig(), session)
        except (ToolError, ScopeClosed) as exc:
            return exc
        else:
            self.users[browser.name] += 1
            session.own("page", browser.name, self._left)
            await self.tree.loop.port(f"{name} looks at a page")
            return None
        finally:
            await session.close("seen")

    def _left(self, name: str) -> None:
        self.users[name] -= 1


def visits(place: Lent, *names: str) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Operations, each a visit."""
    return {name: lambda name=name: place.visit(name) for name in names}  # type: ignore[misc]


@scenario(faults=1, subject="lent")
async def a_browser_of_three(tree: Tree) -> None:
    """Three sessions look at pages; the browser may die under them."""
    place = Lent(tree)
    await tree.race(**visits(place, "a", "b", "c"), death=place.dies)
    await place.check()


@scenario(faults=1, subject="lent")
async def a_browser_against_its_close(tree: Tree) -> None:
    """The gateway stops while one session looks at a page and another wants to."""
    place = Lent(tree)
    await tree.race(**visits(place, "a", "b"), closer=lambda: tree.close(place.browsers._scope))
    await place.check()


SCENARIOS = [
    a_tool_server_that_dies_under_calls,
    a_tool_server_against_its_close,
    a_tool_server_that_is_declared_anew,
    a_tool_server_that_does_not_start,
    a_tool_server_of_two_sessions,
    a_browser_of_three,
    a_browser_against_its_close,
]
