"""One-for-one supervision: a child that fails is started again, up to a stated intensity.

Each run has a scope of its own, which is closed before the next run starts: old and new never
coexist. A stop is recorded before anything is cancelled, so a stopped child is never revived.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from tenure.lifecycle.entry import Failure
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope

log = logging.getLogger("tenure.lifecycle")
Run = Callable[[Scope], Awaitable[object]]


class Supervised:
    """A child of a `Supervisor`.

    Attributes:
        name: its name.
        restarts: how often it has been started again.
        given_up: whether it failed more often than the intensity allows.
        stopped: whether somebody asked for its end.
    """

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self.run = run
        self.restarts = 0
        self.given_up = False
        self.stopped = False
        self.task: Lease[asyncio.Task[None]]  # from `Supervisor.start`, which makes it

    async def stop(self) -> None:
        """End it for good. Idempotent; returns when its scope is closed."""
        self.stopped = True  # the intent first: whoever sees it gone must not start it again
        await self.task.release()


class Supervisor:
    """Runs children in `scope` and restarts those that raise.

    Args:
        scope: owns everything; closing it stops all children.
        max_restarts: how many restarts within `within_s` seconds are allowed to each child.
        within_s: the window, in seconds.
        backoff_s: pause before the first restart; doubles with each one in the window.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        max_restarts: int = 3,
        within_s: float = 60.0,
        backoff_s: float = 0.1,
    ) -> None:
        self._scope = scope
        self._max_restarts = max_restarts
        self._within_s = within_s
        self._backoff_s = backoff_s

    def start(self, name: str, run: Run) -> Supervised:
        """Run ``run(scope)`` under supervision. Returning normally ends it; raising restarts it.

        Raises:
            ScopeClosed: the supervisor's scope admits nothing.
        """
        child = Supervised(name, run)
        child.task = self._scope.spawn(self._supervise(child), name=f"supervise {name}")
        return child

    async def _supervise(self, child: Supervised) -> None:
        recent: deque[float] = deque()
        clock = self._scope.clock
        while True:
            error = await self._run_once(child)
            if error is None or not self._may_restart(child):
                return
            now = clock.monotonic()
            while recent and now - recent[0] > self._within_s:
                recent.popleft()
            if len(recent) >= self._max_restarts:
                child.given_up = True
                raise error  # reported by the scope, as any failed task's
            self._scope.record(
                Failure("child", child.name, self._scope.path, "failed", repr(error)), error
            )
            recent.append(now)
            await clock.sleep(self._backoff_s * 2 ** (len(recent) - 1))
            child.restarts += 1

    def _may_restart(self, child: Supervised) -> bool:
        return not child.stopped and self._scope.admits

    async def _run_once(self, child: Supervised) -> Exception | None:
        scope = self._scope.child(child.name)
        try:
            await child.run(scope)
        except Exception as exc:  # noqa: BLE001 - any failure of a child means: start it again
            return exc
        finally:
            await scope.close("run ended")
        return None
