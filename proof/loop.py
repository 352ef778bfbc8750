"""An event loop whose order of events is a choice.

At every step there is something that can happen next: a callback that is ready, something from
outside (a request arrives, a disk answers, a thread begins or delivers), the next timer, or a
fault. The strategy says which. Time is virtual and passes only when a timer is chosen. Nothing else
is random, so the list of choices is the whole schedule and can be run again.

Two modes: ``external`` keeps ready callbacks in the order that asyncio guarantees and lets events
from outside come at any moment; ``any`` also lets ready callbacks change places (those of one
future keep their order: that much everybody may rely on).

Option 0 is what happens if nobody interferes: the oldest ready callback, else the oldest event from
outside, else the next timer. Every other number is a *deviation*.
"""

# mypy: disable-error-code="override"
# The base class types the arguments of callbacks, which this loop only hands on.
from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, ClassVar, Literal, TypeVar, cast

from proof.options import Option, Strategy

T = TypeVar("T")
Mode = Literal["external", "any"]

STEPS_MAX = 60_000
"""A schedule that takes more has met a livelock."""
PATIENCE_S = 7_200.0
"""Virtual seconds after which whatever is still waited for will never come."""
WALL_S = 1_800_000_000.0


class Violation(AssertionError):  # noqa: N818 - what an oracle found
    """Something that is promised does not hold.

    The loop that runs keeps it, so that no handler on its way can swallow it.
    """

    def __init__(self, told: str) -> None:
        super().__init__(told)
        if ExploringLoop.current is not None:
            ExploringLoop.current.violations.append(told)


class VirtualClock:
    """The loop's time behind the seam that everything of Tenure takes."""

    def __init__(self, loop: ExploringLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        return WALL_S + self._loop.time()

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, fn)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


class ExploringLoop(asyncio.AbstractEventLoop):
    """One schedule. Made, run once, thrown away.

    Args:
        strategy: makes the choices.
        mode: see the module.
        faults: how many faults may happen at most.
        story: what happens is told here, a line each; None: nobody listens.

    Attributes:
        choices: what was chosen, wherever there was a choice.
        widths: of how many options, at the same places.
        complaints: exceptions that nobody took.
        violations: what oracles have found; the first one ends the run.
        dying: the process is being killed; what is said now, nobody says.
        on_step: called after every step; the oracles.
        on_task: called with every new task.
    """

    current: ClassVar[ExploringLoop | None] = None
    """The one that runs."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        mode: Mode = "external",
        faults: int = 0,
        story: list[str] | None = None,
    ) -> None:
        self.strategy, self.mode, self.faults = strategy, mode, faults
        self.story = story
        self.clock = VirtualClock(self)
        self.choices: list[int] = []
        self.widths: list[int] = []
        self.complaints: list[str] = []
        self.violations: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.exploring = False
        self.on_step: Callable[[], object] | None = None
        self.on_task: Callable[[asyncio.Task[Any]], object] | None = None
        self._numbers: dict[int, int] = {}
        self._now = 1_000.0
        self._ready: deque[asyncio.Handle] = deque()
        self._outside: dict[int, tuple[str, Callable[[], object]]] = {}
        self.held: frozenset[str] = frozenset()
        self._parked: dict[int, tuple[str, Callable[[], object]]] = {}
        self._victims: dict[int, tuple[str, Callable[[], object]]] = {}
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._first: list[int] = []
        self._quiet: list[asyncio.Future[None]] = []
        self._keys = itertools.count(1)
        self._ids = itertools.count(1)
        self._in_thread = False
        self.dying = False
        self._dead: list[object] = []
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()

    # --- what scenarios use -------------------------------------------------------------------

    def tell(self, line: str) -> None:
        """A line of the story."""
        if self.story is not None:
            self.story.append(line)

    def outside(self, actor: str, fire: Callable[[], object]) -> int:
        """From now on `fire` may happen, once, at any moment. Its key, for `take_back`."""
        key = next(self._keys)
        self._outside[key] = (actor, fire)
        return key

    def take_back(self, key: int) -> None:
        """It will not happen after all."""
        self._outside.pop(key, None)
        self._victims.pop(key, None)

    def victim(self, actor: str, strike: Callable[[], object]) -> int:
        """From now on `strike` is a fault that may happen. Its key, for `take_back`."""
        key = next(self._keys)
        self._victims[key] = (actor, strike)
        return key

    async def port(self, actor: str) -> None:
        """Wait for the world outside: a disk, a model, a peer. Cancellable.

        Who is named in `held` does not come until `let_go`.
        """
        came = self.create_future()

        def come() -> None:
            if not came.done():
                came.set_result(None)

        key = next(self._keys)
        (self._parked if actor in self.held else self._outside)[key] = (actor, come)
        try:
            await came
        finally:
            self._outside.pop(key, None)
            self._parked.pop(key, None)

    def let_go(self) -> None:
        """From now on nobody is held."""
        self.held = frozenset()
        self._outside.update(self._parked)
        self._parked.clear()

    def wipe(self) -> None:
        """The process dies: nothing of what runs goes on, but for the scenario itself."""
        main = self.tasks[0]
        self.dying = True
        self._free_tasks()
        self.dying = False
        self._dead += [self.tasks, *self._generators]  # collected when nobody runs any more
        mine = [handle for handle in self._ready if _task_of(handle) is main]
        for left in (self._ready, self._outside, self._victims, self._timers, self._parked):
            left.clear()
        self._ready.extend(mine)
        self.tasks = [main]

    def fault(self, actor: str) -> bool:
        """Whether this call of a port fails."""
        if not self.faults or not self.exploring:
            return False
        if not self._choose([Option("ready", actor), Option("fault", actor)]):
            return False
        self.faults -= 1
        self.tell(f"! {actor} fails")
        return True

    async def quiet(self) -> None:
        """Wait until nothing but timers could happen."""
        rest: asyncio.Future[None] = self.create_future()
        self._quiet.append(rest)
        await rest

    def new_hex(self, count: int) -> str:
        """In place of random digits: the same ones in every run."""
        return f"{next(self._ids):0{2 * count}x}"

    @property
    def pending_timers(self) -> int:
        """Timers that nobody has cancelled."""
        return sum(not timer.cancelled() for _, _, timer in self._timers)

    @property
    def waiting_outside(self) -> list[str]:
        """What may still come from outside."""
        return [actor for actor, _ in self._outside.values()]

    # --- running --------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Free what a violation left unfinished, here and now, so that nothing of it runs later.

        A frame that is freed runs its ``finally`` blocks: these must not reach another run's loop.
        """
        self.on_step = self.on_task = None
        self.exploring = False
        asyncio._set_running_loop(self)
        try:
            self._free_tasks()
            for kept in (
                self._ready, self._outside, self._parked, self._victims, self._timers,
                self._quiet, self.tasks, self._numbers, self._dead,
            ):  # fmt: skip
                kept.clear()
            gc.collect()
            self._ready.clear()
        finally:
            asyncio._set_running_loop(None)

    @property
    def has_dead(self) -> bool:
        """Whether a process has been killed in this run; its remains are to be freed."""
        return bool(self._dead)

    def _free_tasks(self) -> None:
        spared = self.tasks[0] if self.current is self else None
        for task in self.tasks:  # closing one may begin another
            if not (task.done() or task is spared) and len(self.tasks) < STEPS_MAX:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end.

        Raises:
            Violation: an oracle's, or it can never end.
            Exception: what `main` raised.
        """
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._finish)
        asyncio._set_running_loop(self)
        ExploringLoop.current = self
        task = self.create_task(main, name="the scenario")
        try:
            while not task.done():
                self._step(task)
            return cast("T", task.result())
        finally:
            ExploringLoop.current = None
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _finish(self, gen: AsyncGenerator[Any, Any]) -> None:
        if self.dying:
            self._dead.append(gen)
        else:
            _ = self.create_task(gen.aclose())

    def _step(self, main: asyncio.Task[Any]) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Violation(f"it does not come to rest in {STEPS_MAX} steps")
        ready, outside, timers = self._ready, self._outside, self._timers
        while ready and ready[0]._cancelled:
            ready.popleft()
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if self._quiet and not ready and not outside:
            self._quiet.pop().set_result(None)
            return
        chosen = 0
        if self.exploring:
            options = self._options()
            if len(options) > 1:
                chosen = self._choose(options)
        self._do(chosen, main)
        if not self.violations and self.on_step is not None:
            self.on_step()
        if self.violations:
            raise Violation(self.violations[0])

    def _options(self) -> list[Option]:
        ready = self._ready
        options: list[Option] = []
        if ready and self.mode == "external":
            options.append(Option("ready", "ready"))
        elif ready:
            self._first = self._first_of_each()
            options += [Option("ready", self._actor(ready[place])) for place in self._first]
        options += [Option("outside", actor) for actor, _ in self._outside.values()]
        if self._timers and self._timers[0][0] <= 1_000.0 + PATIENCE_S:
            options.append(Option("timer", "time"))
        if self.faults and options:
            options += [Option("fault", actor) for actor, _ in self._victims.values()]
        return options

    def _first_of_each(self) -> list[int]:
        """The places of the ready callbacks that may be next: of each future the first."""
        places, seen = [], set()
        for place, handle in enumerate(self._ready):
            args = handle._args
            source = id(args[0]) if args and isinstance(args[0], asyncio.Future) else -place
            if source not in seen:
                seen.add(source)
                places.append(place)
        return places

    def _choose(self, options: Sequence[Option]) -> int:
        chosen = self.strategy.choose(options)
        self.choices.append(chosen)
        self.widths.append(len(options))
        return chosen

    def _do(self, chosen: int, main: asyncio.Task[Any]) -> None:
        """Let the option of this number happen."""
        ready = self._ready
        places = self._first if self.exploring and self.mode == "any" and ready else (0,)
        count = len(places) if ready else 0
        if chosen < count:
            handle = ready[places[chosen]]
            del ready[places[chosen]]
            self._run(handle, moved=chosen > 0)
            return
        chosen -= count
        if chosen < len(self._outside):
            key = next(itertools.islice(self._outside, chosen, None))
            actor, fire = self._outside.pop(key)
            if self.story is not None:
                self.tell(f"{'~ ' if ready or chosen else ''}{actor}")
            fire()
            return
        chosen -= len(self._outside)
        timed = bool(self._timers and self._timers[0][0] <= 1_000.0 + PATIENCE_S)
        if timed and chosen == 0:
            self._pass_time(early=bool(ready or self._outside))
            return
        if not self._victims or chosen - timed >= len(self._victims) or not self.exploring:
            waits = [task.get_name() for task in self.tasks if not task.done() and task is not main]
            raise Violation(f"V4: nothing happens for {PATIENCE_S:.0f} s; these wait: {waits}")
        key = next(itertools.islice(self._victims, chosen - timed, None))
        actor, strike = self._victims.pop(key)
        self.faults -= 1
        self.tell(f"! {actor}")
        strike()

    def _pass_time(self, *, early: bool) -> None:
        when, _, timer = heapq.heappop(self._timers)
        if when > self._now:
            self.tell(f"{'~ ' if early else ''}{when - self._now:.3g} s pass")
        self._now = max(self._now, when)
        self._ready.append(timer)

    def _run(self, handle: asyncio.Handle, *, moved: bool) -> None:
        if handle._cancelled:
            return
        if self.story is not None:
            self._tell_step(handle, moved=moved)
        try:
            handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
        except Violation:
            raise
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:  # noqa: BLE001 - a callback's fault is a finding, not our end
            self.complaints.append(f"a callback raised {exc!r}")

    def _tell_step(self, handle: asyncio.Handle, *, moved: bool) -> None:
        owner = _task_of(handle)
        if isinstance(owner, asyncio.Task) and owner.get_name() != "the scenario":
            self.tell(f"{'~ ' if moved else ''}  {owner.get_name()} goes on")
        elif moved:
            self.tell("~   a callback runs before its turn")

    def _actor(self, handle: asyncio.Handle) -> str:
        return str(self._numbers.get(id(_task_of(handle)), 0))

    # --- as asyncio sees it ---------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        number = next(self._keys)
        task = asyncio.Task(
            coro,
            loop=self,
            name=name or f"{getattr(coro, '__qualname__', 'generator')} {number}",
            context=context,
        )
        self.tasks.append(task)  # kept, so that no id is used twice
        self._numbers[id(task)] = number
        if self.on_task is not None:
            self.on_task(task)
        return task

    def call_soon(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._in_thread:
            raise Violation(f"a thread calls {callback} without call_soon_threadsafe")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.outside("a thread delivers", lambda: self._ready.append(handle))
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._keys), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they come up."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.complaints.append(f"{context.get('message')}: {error!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # --- threads --------------------------------------------------------------------------------

    def begin_thread(self, name: str, body: Callable[[], object]) -> None:
        """A thread: it begins at some moment, and what it delivers arrives at some later one."""

        def begin() -> None:
            self._in_thread = True
            asyncio._set_running_loop(None)
            try:
                body()
            finally:
                asyncio._set_running_loop(self)
                self._in_thread = False

        self.outside(f"{name} begins", begin)


def _task_of(handle: asyncio.Handle) -> object:
    """Whose step a handle is; None if it is no task's."""
    return getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
