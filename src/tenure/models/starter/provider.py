"""The provider ``starter``: an embedded model behind the same seam as every other.

The runtime child starts with the first call, is shared by all sessions through borrowings, stops
after an idle time, and is started again after a crash, a few times. Its load, the reading of the
prompt and the first word are timed: `StarterProvider.timings`.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import psutil

from tenure.clock import Clock
from tenure.config import StarterConfig
from tenure.conversation import Usage
from tenure.errors import BadValue, ModelError, ModelOverloaded
from tenure.ids import new_id
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.models.base import (
    BLIND,
    Finished,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Progress,
    Sight,
    TextDelta,
)
from tenure.models.retry import RetryPolicy, retried
from tenure.models.starter.process import ARGV, Runtime, died, start_runtime
from tenure.models.starter.reader import CallReader
from tenure.models.starter.runtime import Orders
from tenure.models.starter.weights import KNOWN, QWEN, Weights, find
from tenure.processes.spawn import Spawner

SLOTS = 2
"""Answers at the same time; two cores gain little from more."""
THREADS_MAX = 8
ROOMY_BYTES = 3 * 1024**3
"""Free memory below which the person is told: the 1.5B model takes about 1.8 GB."""
CRASHES_MAX = 3
CRASH_WINDOW_S = 300.0

MISSING = (
    "The starter model is not on this machine yet (1.1 GB, downloaded once). Run `tenure model "
    "pull`; or use a provider with a key (`tenure model login PROVIDER`), a local "
    "OpenAI-compatible server ([providers.NAME] base_url), or a GGUF file ([starter] gguf)."
)


class StarterTimings(msgspec.Struct, frozen=True):
    """Where the time to the first word of the latest call went, in seconds.

    Attributes:
        load_s: until the runtime was loaded; 0 when it was.
        prompt_s: reading the prompt (the prefix, if it was not on disk, and the conversation).
        first_token_s: from there to the first word.
    """

    load_s: float
    prompt_s: float
    first_token_s: float

    def __str__(self) -> str:
        """For people."""
        total = self.load_s + self.prompt_s + self.first_token_s
        return (
            f"first word after {total:.1f} s: load {self.load_s:.1f} s, "
            f"prompt {self.prompt_s:.1f} s, first token {self.first_token_s:.1f} s"
        )


class StarterProvider:
    """Owns the runtimes, through its scope.

    Args:
        config: ``[starter]``.
        models: the cache folder of weights and saved states.
        scope: where runtimes live; the provider's owner closes it after `aclose`.
        spawner: starts the child.
        clock: time.
        environ: passed to the HTTP client.
        argv: the runtime child.

    Attributes:
        timings: of the latest call, once it has said its first word.
    """

    def __init__(  # noqa: PLR0913 - the seams it is given
        self,
        config: StarterConfig,
        *,
        models: Path,
        scope: Scope,
        spawner: Spawner,
        clock: Clock,
        environ: Mapping[str, str],
        argv: Sequence[str] = ARGV,
    ) -> None:
        self._argv = argv
        self._config = config
        self._models = models
        self._spawner = spawner
        self._environ = environ
        self.clock = clock
        self.scope = scope.child("starter")
        self._held = self.scope.child("runtimes")  # older than any call, so it ends after them
        self.timings: StarterTimings | None = None
        self._generation = 0
        self._crashes: deque[float] = deque()
        self._loaded: dict[str, Runtime] = {}
        self._runtimes: Shared[tuple[str, int], Runtime] = Shared(
            self._held,
            "starter runtime",
            build=self._build,
            release=self._stop,
            idle_s=config.idle_s,
            grace_s=10.0,
        )

    @property
    def name(self) -> str:
        """``starter``."""
        return "starter"

    def model(self, name: str) -> StarterModel:
        """The model of that name; "" means the user's file, else the best that calls tools.

        Raises:
            BadValue: the name is none of ours.
        """
        names = [known.name for known in KNOWN]
        if self._config.gguf:
            names.append(Path(self._config.gguf).stem)
        if name and name not in names:
            raise BadValue(f"starter has no model {name[:60]!r}; it has {' and '.join(names)}.")
        return StarterModel(self, name)

    async def list_models(self) -> list[ModelInfo]:
        """The known models, and the user's own file."""
        own = find(self._models, self._config.gguf) if self._config.gguf else None
        listed = [ModelInfo(k.name, self.window(k.name), k.title) for k in KNOWN]
        return [ModelInfo(own.name, self.window(own.name), own.title), *listed] if own else listed

    def window(self, name: str) -> int:
        """Context tokens of one conversation."""
        known = next((k for k in KNOWN if k.name == name), None)
        trained = known.context_tokens_max if known else QWEN.context_tokens_max
        return min(self._config.context_tokens, trained)

    def weights(self, name: str) -> Weights:
        """The file to load.

        Raises:
            ModelError: it is not there; the sentence names the ways out.
            ConfigError: the user's own file cannot be used.
        """
        found = find(self._models, self._config.gguf, name)
        if found is None:
            raise ModelError(MISSING, provider=self.name)
        return found

    def loaded(self, name: str) -> Runtime | None:
        """The running runtime, if there is one."""
        runtime = self._loaded.get(name)
        return runtime if runtime is not None and runtime.alive else None

    async def borrow(self, name: str, into: Scope) -> Runtime:
        """The runtime, started if need be; given back when `into` closes.

        Raises:
            ModelError: it cannot be started, or it crashed too often.
        """
        crashed = self._loaded.get(name)
        if crashed is not None and not crashed.alive:
            del self._loaded[name]
            self._note_crash(crashed)
            self._generation += 1
        return await self._runtimes.borrow((name, self._generation), into)

    async def preload(self, name: str = "", request: ModelRequest | None = None) -> None:
        """Load ahead of the first call; what was loaded then stays for the idle time.

        Args:
            name: which model, as in `model`.
            request: the system text and tools that calls will have; they are read ahead too.

        Raises:
            ModelError: it cannot be loaded.
        """
        scope = self.scope.child("preload")
        try:
            fresh = self.loaded(name) is None
            runtime = await self.borrow(name, scope)
            if fresh:
                await runtime.learn_grammar()
            if request is not None:
                async with aclosing(runtime.prepare(self.fitting(request, name))) as events:
                    async for _ in events:
                        pass
        finally:
            await scope.close("preloaded")

    def fitting(self, request: ModelRequest, name: str) -> ModelRequest:
        """`request` without tools where the weights cannot use them."""
        if request.tools and self.weights(name).chat_only:
            return msgspec.structs.replace(request, tools=())
        return request

    async def aclose(self) -> None:
        """Stop the runtimes. Idempotent."""
        await self.scope.close("provider closed")

    def _note_crash(self, runtime: Runtime) -> None:
        now = self.clock.monotonic()
        self._crashes.append(now)
        while now - self._crashes[0] > CRASH_WINDOW_S:
            self._crashes.popleft()
        if len(self._crashes) > CRASHES_MAX:
            raise ModelError(
                f"{died(runtime.returncode)} It has crashed {len(self._crashes)} times within "
                f"{CRASH_WINDOW_S / 60:.0f} minutes; choose another model.",
                provider=self.name,
            )

    async def _build(self, key: tuple[str, int]) -> Runtime:
        name = key[0]
        scope = self._held.child(f"runtime {key[1]}")
        try:
            runtime = await start_runtime(
                self._orders(name),
                scope=scope,
                spawner=self._spawner,
                clock=self.clock,
                environ=self._environ,
                timeout_s=self._config.start_timeout_s,
                argv=self._argv,
            )
        except BaseException:
            await scope.close("the start failed")
            raise
        self._loaded[name] = runtime
        return runtime

    def _orders(self, name: str) -> Orders:
        states = self._models / "states"
        states.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Orders(
            model=str(self.weights(name).path),
            key=secrets.token_urlsafe(32),
            states=str(states),
            threads=self._config.threads or _threads(),
            context_tokens=self.window(name),
            slots=SLOTS,
        )

    async def _stop(self, runtime: Runtime) -> None:
        for name, loaded in list(self._loaded.items()):
            if loaded is runtime:
                del self._loaded[name]
        await runtime.scope.close("nobody uses it")


class StarterModel:
    """One starter model. Owns nothing."""

    __slots__ = ("_name", "_provider")

    def __init__(self, provider: StarterProvider, name: str) -> None:
        self._provider = provider
        self._name = name

    @property
    def ref(self) -> str:
        """``starter:NAME``."""
        return f"starter:{self._name or QWEN.name}"

    @property
    def context_tokens(self) -> int:
        """As configured."""
        return self._provider.window(self._name)

    @property
    def small(self) -> bool:
        """Yes: every token of the prompt costs about 20 ms."""
        return True

    async def preload(self, request: ModelRequest) -> None:
        """See `StarterProvider.preload`."""
        await self._provider.preload(self._name, request)

    @property
    def sight(self) -> Sight:
        """Text alone."""
        return BLIND

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one call; a runtime that dies before the first word is started again once."""
        policy = RetryPolicy(attempts=2, first_s=0.1)
        return retried(lambda: self._attempt(request), self._provider.clock, policy)

    @asynccontextmanager
    async def _attempt(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        scope = self._provider.scope.child("call")
        try:
            async with aclosing(self._events(request, scope)) as events:
                yield events
        finally:
            await scope.close("call ended")

    async def _events(
        self, request: ModelRequest, scope: Scope
    ) -> AsyncGenerator[ModelEvent, None]:
        provider, clock = self._provider, self._provider.clock
        weights = provider.weights(self._name)
        request = provider.fitting(request, self._name)
        began = clock.monotonic()
        loading = provider.loaded(self._name) is None
        if loading:
            yield Progress(f"loading {weights.title}{_tight(weights)}")
        runtime = await provider.borrow(self._name, scope)
        load_s = clock.monotonic() - began if loading else 0.0
        asked = clock.monotonic()
        try:
            async with aclosing(runtime.prepare(request)) as preparing:
                async for event in preparing:
                    yield event
            async with aclosing(self._answer(runtime, request, load_s, asked)) as events:
                async for answered in events:
                    yield answered
        except ModelError as exc:
            if exc.status is not None or not await runtime.ended(clock):
                raise
            raise ModelOverloaded(died(runtime.returncode), provider="starter") from None

    async def _answer(
        self, runtime: Runtime, request: ModelRequest, load_s: float, asked: float
    ) -> AsyncGenerator[ModelEvent, None]:
        clock = self._provider.clock
        posted = clock.monotonic()
        chat_only = self._provider.weights(self._name).chat_only
        calls = CallReader(() if request.text_only else request.tools, new_id("call"))
        reader = runtime.reader()
        pieces = 0
        async with aclosing(runtime.answer(request, reader, chat_only=chat_only)) as raw:
            async for event in raw:
                if isinstance(event, TextDelta):
                    pieces += 1
                    if pieces == 1:
                        read_s = reader.prompt.time_ms / 1000 if reader.prompt else 0.0
                        first_s = max(clock.monotonic() - posted - read_s, 0.0)
                        timings = StarterTimings(load_s, posted - asked + read_s, first_s)
                        self._provider.timings = timings
                        if load_s:
                            yield Progress(str(timings))
                    for told in calls.feed(event.text):
                        yield told
                    if calls.called and calls.spoke:
                        break  # a call after prose: what would follow is made up
                elif isinstance(event, Finished):
                    for told in calls.finish():
                        yield told
                    yield Finished("tool_calls" if calls.called else event.reason, event.usage)
                    return
                else:
                    yield event
        yield Finished("tool_calls", Usage(output=pieces))


def _tight(weights: Weights) -> str:
    """A remark when memory is short, else ""."""
    free = psutil.virtual_memory().available
    if free >= ROOMY_BYTES or weights.chat_only:
        return ""
    return (
        f" (only {free / 1024**3:.1f} GB of memory are free and it takes about 1.8: "
        "expect it to be slow)"
    )


def _threads() -> int:
    """Cores that this process may use, bounded: more threads gain nothing for a small model."""
    return max(1, min(len(os.sched_getaffinity(0)), THREADS_MAX))
