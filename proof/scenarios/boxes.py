"""Containers of sessions over an engine that is a fake: rows, containers and who holds them agree.

The row is there before the container, nobody's container is kept, somebody's is never removed by a
comparison, and what one comparison could not heal the next one does.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

from proof.oracles import planned, require
from proof.scenarios.tree import Tree, scenario
from tenure.errors import ProcessError, SandboxUnavailable, StoreError
from tenure.sandbox.docker import Docker, Engine, Found, compare
from tenure.settings import DockerConfig

SESSION = "s1"


class Host:
    """What outlives a gateway: the engine's containers, by id, and the rows that stand for them.

    Attributes:
        containers: their leases.
        rows: whether each is live.
        used: how many work in each now.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.containers: dict[str, str] = {}
        self.rows: dict[str, bool] = {}
        self.used: Counter[str] = Counter()
        self._count = 0

    def new_container(self, lease: str) -> str:
        require(self.rows.get(lease), "V3: a container is made before its row is there")
        self._count += 1
        self.containers[name := f"c{self._count}"] = lease
        self.tree.loop.tell(f"    {name} runs")
        return name

    # --- rows -----------------------------------------------------------------------------------

    async def begin(self, lease: str, _session: str, _epoch: int) -> None:
        """As `docker.Ledger`."""
        await self._commit("a row")
        self.rows[lease] = True

    async def end(self, lease: str, _reason: str) -> None:
        """As `docker.Ledger`."""
        await self._commit("the end of a row")
        self.rows[lease] = False

    async def live(self) -> list[str]:
        """The rows that say that a container may be there."""
        await self.tree.loop.port("rows are read")
        return [lease for lease, live in self.rows.items() if live]

    async def _commit(self, what: str) -> None:
        await self.tree.loop.port(f"{what} is stored")
        if self.tree.loop.fault(f"storing {what}"):
            raise planned(StoreError("No space is left."))


class FakeEngine(Engine):
    """The command line: each command is a moment, and may fail before or after its effect."""

    def __init__(self, host: Host, name: str) -> None:
        scope = host.tree.root.child(name)
        super().__init__(cast("Any", None), scope, "home", "default", DockerConfig())
        self.host, self.name = host, name

    async def _moment(self, command: str) -> None:
        await self.host.tree.loop.port(f"{self.name}: {command}")
        if self.host.tree.loop.fault(f"{self.name}: {command}"):
            raise planned(ProcessError(f"The engine refused {command}."))

    async def make(self, lease: str, _session: str, _root: Path, *, network: bool) -> str:
        """See `Engine.make`: after a failure it may be there."""
        del network
        await self._moment("run")
        made = self.host.new_container(lease)
        await self._moment("run says so")
        return made

    async def listed(self) -> list[Found]:
        """See `Engine.listed`."""
        await self._moment("ps")
        found = [Found(name, lease, True) for name, lease in self.host.containers.items()]
        await self.host.tree.loop.port(f"{self.name}: ps is read")
        return found

    async def is_running(self, container: str) -> bool:
        """See `Engine.is_running`."""
        await self.host.tree.loop.port(f"{self.name}: inspect")
        return container in self.host.containers

    async def remove(self, container: str) -> None:
        """See `Engine.remove`."""
        await self._moment("rm")
        if self.host.containers.pop(container, None):
            users = self.host.used[container]
            require(not users, f"V3: {container} is removed under {users} commands")
            self.host.tree.loop.tell(f"    {container} is removed")


class Gateway:
    """A gateway with one session in a container."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.engine = FakeEngine(host, "engine")
        self.session = host.tree.root.child("session")
        self.box = Docker(
            self.engine, host, Path("/"), self.session, owner=(SESSION, 1), network=False, why=""
        )  # fmt: skip

    async def use(self) -> object:
        """Run something in it."""
        try:
            container = await self.box._container()
        except SandboxUnavailable as exc:
            return exc
        loop, host = self.host.tree.loop, self.host
        host.used[container.id] += 1
        command = self.session.own("command", container.id, self._left)
        try:
            await loop.port(f"a command runs in {container.id}")
        finally:
            await command.release()
        return None

    def _left(self, container: str) -> None:
        self.host.used[container] -= 1

    async def compared(self) -> object:
        """As the watch does it."""
        try:
            return await compare(self.engine, self.host, self.host.live)
        except (ProcessError, StoreError) as exc:
            return exc

    async def check(self) -> None:
        """At rest: what is somebody's is known; after the session's end nothing is anybody's."""
        tree, host, engine = self.host.tree, self.host, self.engine
        await tree.loop.quiet()
        require(all(engine.held.values()), "V25: a container is being made that nobody makes")
        bare = [name for name, lease in host.containers.items() if not host.rows[lease]]
        require(not bare, f"V9: containers without a row: {bare}")
        require(len(host.containers) < 2 or tree.failures, f"V3: two of one: {host.containers}")
        await tree.close(self.session)
        await tree.loop.quiet()
        told = bool(tree.failures)
        require(told or not engine.held, f"V25: held after the session's end: {engine.held}")
        tree.loop.exploring = False
        heir = FakeEngine(host, "the next engine")  # of a gateway that starts after this one
        await compare(heir, host, host.live)
        require(not host.containers, f"V1: left for ever: {host.containers}")
        left = [lease for lease, live in host.rows.items() if live]
        require(not left, f"V9: rows without a container: {left}")


async def removed_by_hand(host: Host) -> None:
    """Somebody removes what runs, not asking anybody."""
    for name in [*host.containers]:
        host.tree.loop.tell(f"    somebody removes {name}")
        del host.containers[name]


@scenario(faults=1, subject="boxes")
async def a_container_against_its_sessions_close(tree: Tree) -> None:
    """Two commands want the session's container while the session is closed, and rows compared."""
    here = Gateway(Host(tree))
    await tree.race(
        a=here.use, b=here.use, closer=lambda: tree.close(here.session), watch=here.compared
    )
    await here.check()


@scenario(faults=1, subject="boxes")
async def a_container_that_somebody_removes(tree: Tree) -> None:
    """It is removed by hand between two commands; a comparison meets that."""
    here = Gateway(Host(tree))
    await tree.race(
        a=here.use, b=here.use, hand=lambda: removed_by_hand(here.host), watch=here.compared
    )
    await here.check()


@scenario(faults=2, subject="boxes")
async def a_container_that_cannot_be_made(tree: Tree) -> None:
    """Whatever fails, before or after its effect: nothing is left that nobody looks for."""
    here = Gateway(Host(tree))
    await tree.race(a=here.use, watch=here.compared)
    await tree.race(b=here.use, watch=here.compared)
    await here.check()


SCENARIOS = [
    a_container_against_its_sessions_close,
    a_container_that_somebody_removes,
    a_container_that_cannot_be_made,
]
