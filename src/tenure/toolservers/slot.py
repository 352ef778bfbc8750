"""The place of one tool server: at most one of it runs, started on use, stopped when unused.

    slot scope
    ├── run 1       a scope: the child, the tasks of its pipes, the keeper of its session
    └── watch       a task that closes the run when it has ended or nobody uses it

A run is closed, its processes confirmed gone, before another begins. One that cannot be ended keeps
the slot for ever: better no server than two. Failures are counted; after too many in a short time
the server is degraded: it is tried again in the background with growing pauses; calls fail at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from tenure.errors import ScopeClosed, TenureError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.entry import CloseReport, Failure
from tenure.lifecycle.scope import Scope
from tenure.toolservers.calls import Caller, Lost, Outcome
from tenure.toolservers.catalog import Catalog, Offers
from tenure.toolservers.declared import Declared
from tenure.toolservers.wire import Dispatch

if TYPE_CHECKING:
    from tenure.toolservers.link import Link

FAILURES_MAX = 3
WITHIN_S = 60.0
HEAL_FIRST_S = 5.0
HEAL_MOST_S = 300.0
LIST_PAUSE_S = 1.0
"""Between two looks at what a server offers, however often it says that this has changed."""
HEALS_MAX = 6
"""Tries in the background; after them the next call tries."""
CHILDREN = frozenset({"tool server", "command inside"})
"""Kinds of leases whose release is the end of a process."""
Status = Literal["idle", "starting", "ready", "degraded"]
Open = Callable[[Scope], Awaitable["Link"]]
"""Starts a server in a scope and shakes hands with it."""


class _Run:
    """One start of a server."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.link: Link | None = None
        self.users = 0
        self.called = False
        """A tool of it was called: it may keep something for its session."""
        self.used_at = scope.clock.monotonic()


class Slot:
    """One server of one session, or of all of a profile. Loop thread only.

    Args:
        scope: owns all of it.
        name: of the server.
        server: what was declared.
        open_link: starts it.
        catalog: keeps what it offers.
        changed: called when its state, or what it offers, has changed; must not block.

    Attributes:
        reason: why it is degraded, or how it last ended.
        starts: how often it was started.
    """

    def __init__(
        self,
        scope: Scope,
        name: str,
        server: Declared,
        open_link: Open,
        catalog: Catalog,
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.server = server
        self.reason = ""
        self.starts = 0
        self.listeners = [changed]
        self.before: Slot | None = None
        """Who had this place earlier; nothing of it may run when this one starts."""
        self._scope = scope
        self._open = open_link
        self._catalog = catalog
        self._run: _Run | None = None
        self._turn = asyncio.Lock()
        self._failures: deque[float] = deque()
        self._degraded = False
        self._starting = False
        self._healing = False
        self._listing = False
        self._listed_at = -LIST_PAUSE_S
        self._stuck = ""

    @property
    def scope(self) -> Scope:
        """Owns all of it."""
        return self._scope

    @property
    def status(self) -> Status:
        """In a word."""
        if self._starting:
            return "starting"
        run = self._run
        if run is not None and run.link is not None and not run.link.gone:
            return "ready"
        return "degraded" if self._degraded else "idle"

    @property
    def pid(self) -> int | None:
        """Of the child that runs, if there is one."""
        run = self._run
        return run.link.pid if run and run.link and not run.link.gone else None

    @property
    def keeps(self) -> bool:
        """Whether what runs may keep something of those who called it: it would end with it."""
        run = self._run
        return run is not None and run.called and self.status == "ready"

    @property
    def offers(self) -> Offers | None:
        """What is known of what it offers; None: nothing yet."""
        return self._catalog.get(self.server.digest)

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    # --- using -----------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], caller: Caller) -> Outcome:
        """Call a tool. A call that may have reached the server is never made again.

        Cancellation: the server is told; the waiting ends.

        Raises:
            ToolError: it failed, in one sentence; where that is so, that its outcome is unknown.
            ScopeClosed: the slot is being closed.
        """
        timeout_s = self.server.timeout_s
        for again in (True, False):
            dispatch = Dispatch()
            try:
                async with self.use() as link:
                    assert self._run is not None
                    self._run.called = True
                    return await link.call(tool, arguments, caller, dispatch, timeout_s)
            except TimeoutError:
                raise ToolError(
                    f"{self.name}: {tool} did not answer within {timeout_s:g} s; it was told to "
                    "stop, and the outcome is unknown."
                ) from None
            except Lost as exc:
                if dispatch.begun:
                    raise ToolError(
                        f"The tool server {self.name} ended during the call ({exc}); the outcome "
                        "is unknown, and the call is not repeated."
                    ) from None
                if not again:
                    raise ToolError(
                        f"The tool server {self.name} ended before the call ({exc})."
                    ) from None
        raise AssertionError

    async def ask(self, question: Callable[[Link], Awaitable[Any]]) -> Any:
        """Ask what changes nothing (a list, a resource); asked again if the server ended under it.

        Raises:
            ToolError, ScopeClosed: as `call`.
        """
        for again in (True, False):
            try:
                async with self.use() as link:
                    return await question(link)
            except TimeoutError:
                raise ToolError(f"The tool server {self.name} does not answer.") from None
            except Lost as exc:
                if not again:
                    raise ToolError(f"The tool server {self.name} ended ({exc}).") from None
        raise AssertionError

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Link]:
        """The running server, started if need be; it is not stopped as unused meanwhile.

        Raises:
            ToolError: it does not start, or is degraded.
            ScopeClosed: the slot is being closed.
        """
        run = await self._running()
        run.users += 1
        try:
            assert run.link is not None
            yield run.link
        finally:
            run.users -= 1
            run.used_at = self._scope.clock.monotonic()

    async def _running(self) -> _Run:
        async with self._turn:
            run = self._run
            if run is not None and (run.link is None or run.link.gone):
                await self._end(run, "it has ended")
                run = None
            if run is None:
                if self.before is not None:
                    self._is_stuck(await self.before.leave())
                    self.before = None
                self._check_may_start()
                run = await self._start()
            return run

    def _check_may_start(self) -> None:
        if self._stuck:
            raise ToolError(f"The tool server {self.name} is degraded: {self._stuck}.")
        if self._degraded and self._healing:
            raise ToolError(
                f"The tool server {self.name} is degraded ({self.reason}); it is tried again by "
                "itself."
            )

    async def _start(self) -> _Run:
        self._starting = True
        self._tell()
        self.starts += 1
        run = self._run = _Run(self._scope.child(f"run {self.starts}"))
        try:
            run.link = await self._open(run.scope)
        except ScopeClosed:
            await self._end(run, "the session is over")
            raise
        except TenureError as exc:
            await self._end(run, "it did not start")
            self._failed(exc.message.rstrip("."), at_start=True)
            raise ToolError(f"The tool server {self.name} does not start: {self.reason}.") from None
        except BaseException:
            await self._end(run, "the start was given up")
            raise
        finally:
            self._starting = False
            self._tell()
        self._degraded, self.reason = False, ""
        run.link.on_changed = self.list_soon
        run.used_at = self._scope.clock.monotonic()
        self._scope.spawn(self._watch(run, run.link), name=f"watch {self.name}")
        self._tell()
        return run

    async def _end(self, run: _Run, why: str) -> None:
        """Close a run; forgotten once nothing of it runs. Cancelled: it stays to be waited for."""
        self._judge(await run.scope.close(why))
        if self._run is run:
            self._run = None

    async def leave(self) -> str:
        """End it, and whoever had its place before; why the place is not free, empty: it is.

        Idempotent. Cancellation: the ending goes on.
        """
        if self.before is not None:
            self._is_stuck(await self.before.leave())
        self._judge(await self._scope.close("it is not wanted any more"))
        if self._run is not None:  # who began to end it has not looked yet, or has been cancelled
            self._judge(await self._run.scope.wait_closed())
        return self._stuck

    def _judge(self, report: CloseReport) -> None:
        """See whether all that ran is gone."""
        if any(_left_running(failure) for failure in report.failures):
            self._is_stuck("what ran of it before could not be ended")

    def _is_stuck(self, why: str) -> None:
        if why:
            self._stuck = self.reason = why
            self._degraded = True

    async def _watch(self, run: _Run, link: Link) -> None:
        """Wait until the server has ended or is unused; then close what is left of it."""
        gone = ""
        while not gone and (left_s := self._unused_in(run)) > 0:
            with contextlib.suppress(TimeoutError):
                async with deadline(self._scope.clock, left_s):
                    gone = await link.wait_gone()
        if not gone:
            link.end("nobody used it")
        await self._end(run, gone or "unused")
        if gone:
            self._failed(gone)
        self._tell()

    def _unused_in(self, run: _Run) -> float:
        left_s = run.used_at + self.server.idle_s - self._scope.clock.monotonic()
        return max(left_s, 1.0) if run.users else left_s

    # --- failing and healing ---------------------------------------------------------------------

    def _failed(self, why: str, *, at_start: bool = False) -> None:
        now = self._scope.clock.monotonic()
        self.reason = self._stuck or why
        self._failures.append(now)
        while now - self._failures[0] > WITHIN_S:
            self._failures.popleft()
        self._degraded |= at_start or len(self._failures) >= FAILURES_MAX
        if self._degraded and not self._healing and not self._stuck and self._scope.admits:
            self._healing = True
            self._scope.spawn(self._heal(), name=f"heal {self.name}")

    async def _heal(self) -> None:
        """Try again with growing pauses; a success ends it."""
        pause_s = HEAL_FIRST_S
        try:
            for _ in range(HEALS_MAX):
                await self._scope.clock.sleep(pause_s)
                pause_s = min(2 * pause_s, HEAL_MOST_S)
                async with self._turn:
                    if self._stuck:
                        return
                    if self._run is None:
                        with contextlib.suppress(ToolError):
                            await self._start()
                if not self._degraded:
                    self._failures.clear()
                    return
        finally:
            self._healing = False

    # --- listing ---------------------------------------------------------------------------------

    def list_soon(self) -> None:
        """Find out in the background what it offers. Any number of wishes is one look."""
        if not self._listing and self._scope.admits:
            self._listing = True
            self._scope.spawn(self._list(), name=f"list {self.name}")

    async def _list(self) -> None:
        clock = self._scope.clock
        await clock.sleep(max(0.0, self._listed_at + LIST_PAUSE_S - clock.monotonic()))
        self._listed_at = clock.monotonic()
        self._listing = False  # a change from here on is another look
        try:
            await self.refresh()
        except (ToolError, ScopeClosed):
            self._tell()

    async def refresh(self) -> Offers:
        """Look at what it offers, and keep it.

        Raises:
            ToolError, ScopeClosed: as `call`.
        """
        offers: Offers = await self.ask(lambda link: link.offers())
        if self._catalog.put(self.server.digest, offers):
            self._tell()
        return offers


def _left_running(failure: Failure) -> bool:
    """Whether a child may still run."""
    return failure.kind in CHILDREN and failure.outcome in {"failed", "leaked"}
