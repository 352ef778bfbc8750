"""The runtime as the gateway holds it: a child process, its HTTP client, its saved states."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from tenure.clock import Clock
from tenure.errors import ModelError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.models.base import ModelEvent, ModelRequest, Progress
from tenure.models.chat_wire import ChunkReader
from tenure.models.openai import Endpoint, OpenAIProvider, chat, open_provider
from tenure.models.retry import NEVER
from tenure.models.starter import prompt
from tenure.models.starter.runtime import Orders, Report
from tenure.processes.spawn import Process, Spawner

ARGV = (sys.executable, "-P", "-m", "tenure.models.starter.runtime")
"""-P: nothing from the working directory is imported."""
STATES_MAX = 4
"""Saved prompt states that are kept, about 10 MB each."""
REPORT_BYTES_MAX = 64 * 1024
EXIT_S = 0.5
LAST_WORDS = 12
"""Lines of the runtime's own log that are kept for a failure's sentence."""


class Runtime:
    """A loaded model. Owned by `scope`, which ends the process and the client.

    Attributes:
        load_s: seconds that the loading took.
    """

    def __init__(
        self, scope: Scope, process: Process, client: OpenAIProvider, orders: Orders, report: Report
    ) -> None:
        self.scope = scope
        self.client = client
        self.load_s = report.load_s
        self._process = process
        self._orders = orders
        self._identity = f"{orders.model} {report.version} {orders.context_tokens}"
        self._ready: set[str] = set()
        self._preparing = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        """Its exit status, or None."""
        return self._process.returncode

    async def ended(self, clock: Clock) -> bool:
        """Whether it has just died: a connection breaks a moment before the exit is seen."""
        try:
            async with deadline(clock, EXIT_S):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    async def prepare(self, request: ModelRequest) -> AsyncGenerator[Progress, None]:
        """Make the prefix of `request` known to the runtime, from disk if it was read before.

        The state of a prefix that is read for the first time is saved before anything of the
        conversation is in it. A failure here costs time only, so it is not an error.
        """
        key = prompt.prefix_key(request, self._identity)
        if key in self._ready:
            return
        async with self._preparing:
            first = not self._ready
            file = Path(self._orders.states) / f"{key}.bin"
            if not file.exists():
                body = msgspec.json.encode(prompt.warm_body(request))
                async with aclosing(chat(self.client, body, "")) as events:
                    async for event in events:
                        if isinstance(event, Progress):
                            yield event
                await self._slot(0, "save", file.name)
                _keep_newest(file.parent)
            if first:  # later ones would overwrite what a slot holds of a conversation
                for slot in range(self._orders.slots):
                    if not await self._slot(slot, "restore", file.name):
                        file.unlink(missing_ok=True)  # damaged: it is made again next time
                        break
            self._ready.add(key)

    async def learn_grammar(self) -> None:
        """Make the runtime build its grammar tables (0.8 s, once), by a request of one token.

        It spoils what a slot holds, so it is for before the first `prepare`.
        """
        async with aclosing(
            chat(self.client, msgspec.json.encode(prompt.GRAMMAR_BODY), "")
        ) as any_:
            async for _ in any_:
                pass

    def answer(
        self, request: ModelRequest, reader: ChunkReader, *, chat_only: bool
    ) -> AsyncGenerator[ModelEvent, None]:
        """Stream the raw answer; closing the generator stops the computation."""
        body = msgspec.json.encode(prompt.request_body(request, chat_only=chat_only))
        return chat(self.client, body, "", reader)

    def reader(self) -> ChunkReader:
        """What folds an answer of this runtime."""
        return ChunkReader(self.client.endpoint.origin)

    async def _slot(self, slot: int, action: str, file: str) -> bool:
        module = self.client.httpx
        url = f"{self.client.endpoint.base_url.removesuffix('/v1')}/slots/{slot}?action={action}"
        body = msgspec.json.encode({"filename": file})
        with suppress(module.HTTPError):  # the state is a shortcut: without it the prefix is read
            response = await self.client.client.post(url, content=body)
            return bool(response.status_code == 200)
        return False


async def start_runtime(  # noqa: PLR0913 - what a child needs, each by name
    orders: Orders,
    *,
    scope: Scope,
    spawner: Spawner,
    clock: Clock,
    environ: Mapping[str, str],
    timeout_s: float,
    argv: Sequence[str] = ARGV,
) -> Runtime:
    """Start the child and wait until it serves; everything is owned by `scope`.

    Args:
        orders: what to load and how.
        scope: an own scope for this runtime; on failure the caller closes it.
        spawner: starts the child.
        clock: for the timeout.
        environ: for the HTTP client.
        timeout_s: seconds until it must serve.
        argv: the child.

    Raises:
        ModelError: it could not, with the reason.
    """
    process = await spawner.spawn(
        scope, argv, stdin="pipe", label="starter runtime", kind="starter", cwd=Path(orders.states)
    )
    last_words: deque[str] = deque(maxlen=LAST_WORDS)
    scope.spawn(_drain(process, last_words), name="starter log")
    await process.write(msgspec.json.encode(orders) + b"\n")
    try:
        async with deadline(clock, timeout_s):
            report = await _report(process)
    except TimeoutError:
        raise ModelError(
            f"The starter model was not ready within {timeout_s:.0f} s; raise start_timeout_s in "
            "[starter] or choose another model.",
            provider="starter",
        ) from None
    if report.failed:
        raise ModelError(report.failed, provider="starter")
    if not report.url:
        raise ModelError(died(process.returncode, last_words), provider="starter")
    # one connection for each request: the runtime closes kept ones whenever it likes
    endpoint = Endpoint(
        "starter", f"{report.url}/v1", orders.key, headers=(("connection", "close"),)
    )
    client = await open_provider(endpoint, scope=scope, clock=clock, environ=environ, retry=NEVER)
    scope.own("http client", client, lambda held: held.aclose(), label="starter")
    return Runtime(scope, process, client, orders, report)


def died(returncode: int | None, last_words: deque[str] | None = None) -> str:
    """The sentence for a runtime that ended by itself."""
    code = returncode or 0
    how = f"signal {-code}" if code < 0 else f"status {code}"
    why = " (was it out of memory?)" if code == -9 else ""
    said = f" Its last words: {last_words[-1]}" if last_words else ""
    return f"The starter runtime ended by itself with {how}{why}.{said}"


async def _report(process: Process) -> Report:
    """The first line of the child's output; an empty report at its end."""
    assert process.stdout is not None
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < REPORT_BYTES_MAX:
        piece = await process.stdout.read(4096)
        if not piece:
            await process.wait()
            return Report()
        line += piece
    try:
        return msgspec.json.decode(bytes(line), type=Report)
    except msgspec.MsgspecError:
        return Report(failed="The starter runtime does not speak our protocol.")


async def _drain(process: Process, last_words: deque[str]) -> None:
    """Read the child's log to its end, so that it never blocks on it; keep the tail."""
    assert process.stderr is not None
    rest = b""
    while piece := await process.stderr.read():
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[-1_000:]
        last_words.extend(line.decode("utf-8", "replace")[:300] for line in lines)


def _keep_newest(states: Path) -> None:
    """Forget all but the newest `STATES_MAX` states."""
    files = sorted(states.glob("*.bin"), key=lambda f: f.stat().st_mtime, reverse=True)
    for file in files[STATES_MAX:]:
        file.unlink(missing_ok=True)
