"""Background processes: started by a turn, owned by the session, ended with it.

Each has a bounded ring of its latest output and one cursor, the model's. What a job leaves running
when its shell has exited belongs to it and ends when it is stopped. One that ends by itself is told
to its session, which is fixed when it is started; reading it or listing it changes nothing of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from typing import Any, ClassVar, Literal

import msgspec

from tenure.clock import Clock
from tenure.conversation import ToolSpec
from tenure.errors import ToolError
from tenure.lifecycle.deadline import deadline
from tenure.sandbox.base import Output, Running
from tenure.tools.base import (
    OFFLINE,
    Effect,
    Ended,
    Tool,
    ToolContext,
    ToolResult,
    TypedTool,
    schema_of,
)
from tenure.tools.clip import clip
from tenure.tools.shell import signal_name, start_shell

RING_BYTES = 128 * 1024
FULL_PIECE = 32 * 1024
PAUSE_S = 0.02
"""A pause after each large piece: a job that prints without end gets 3 MB/s, not a whole core."""
FIRST_OUTPUT_S = 1.0
"""How long `start` waits, so that a command that fails at once says so."""
WRITE_S = 10.0
"""How long a job may take to read what is written to it."""
FAMILY = "background"


class Ring:
    """The latest bytes of a stream, addressed by their place in it."""

    __slots__ = ("_kept", "_size", "total")

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Append, forgetting the oldest."""
        self.total += len(piece)
        self._kept += piece
        del self._kept[: -self._size]

    def since(self, cursor: int) -> tuple[bytes, int]:
        """What came after `cursor` and is still kept, and how many bytes of it are lost."""
        first = self.total - len(self._kept)
        lost = max(0, first - cursor)
        return bytes(self._kept[max(0, cursor - first) :]), lost


class Job:
    """One background process and its output."""

    def __init__(self, job_id: str, command: str, process: Running, clock: Clock) -> None:
        self.id = job_id
        self.command = command
        self.process = process
        self.began_s = clock.monotonic()
        self.ring = Ring(RING_BYTES)
        self.cursor = 0
        self.spoke = asyncio.Event()
        """It has printed something, or ended."""
        self.stopped = False
        """Somebody is ending it, so its end is no news."""
        self._clock = clock

    @property
    def status(self) -> str:
        """A few words."""
        code = self.process.returncode
        if code is None:
            return f"running for {self._clock.monotonic() - self.began_s:.0f} s"
        if code >= 0:
            return f"exited with code {code}: {self.process.verdict}".removesuffix(": ")
        return f"ended by {signal_name(-code)}: {self.process.verdict}".removesuffix(": ")

    async def pump(self, reader: Output) -> None:
        """Keep the latest output until its end."""
        while piece := await reader.read():
            self.ring.add(piece)
            self.spoke.set()
            await self._clock.sleep(PAUSE_S if len(piece) >= FULL_PIECE else 0)
        self.spoke.set()

    async def watch(self, ended: Ended) -> None:
        """Tell its end, if nobody else has brought it about."""
        returncode = await self.process.wait()
        if not self.stopped:
            ended(self.id, self.command, returncode)

    def take_new(self) -> str:
        """Output since the last call."""
        piece, lost = self.ring.since(self.cursor)
        self.cursor = self.ring.total
        text = piece.decode("utf-8", "replace")
        return f"[… {lost} bytes were not kept …]\n{text}" if lost else text


class Jobs:
    """A session's background processes; the processes themselves are the session scope's."""

    def __init__(self, jobs_max: int) -> None:
        self._jobs: dict[str, Job] = {}
        self._jobs_max = jobs_max
        self._starting = 0
        self._count = 0

    @staticmethod
    def of(ctx: ToolContext, jobs_max: int) -> Jobs:
        """The session's."""
        jobs = ctx.state.setdefault(FAMILY, Jobs(jobs_max))
        assert isinstance(jobs, Jobs)
        return jobs

    def all(self) -> list[Job]:
        """Oldest first."""
        return list(self._jobs.values())

    def find(self, job_id: str) -> Job:
        """The job of that id.

        Raises:
            ToolError: there is none.
        """
        job = self._jobs.get(job_id)
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(f"There is no background process {job_id[:40]!r}; there are: {known}.")
        return job

    async def start(self, command: str, ctx: ToolContext, *, network: bool = False) -> Job:
        """Start one; it ends with the session.

        Raises:
            ToolError: the limit is reached, or it cannot be started.
        """
        await self._make_room()
        self._starting += 1
        try:
            process = await start_shell(command, ctx, background=True, network=network)
        finally:
            self._starting -= 1
        self._count += 1
        job = Job(f"b{self._count}", command, process, ctx.clock)
        self._jobs[job.id] = job
        assert process.stdout is not None
        ctx.session.spawn(job.pump(process.stdout), name=f"output of {job.id}")
        ctx.session.spawn(job.watch(ctx.ended), name=f"end of {job.id}")
        return job

    async def stop(self, job: Job) -> None:
        """End its whole tree and forget it."""
        self._jobs.pop(job.id, None)
        job.stopped = job.process.returncode is None
        await job.process.stop()

    async def _make_room(self) -> None:
        while len(self._jobs) + self._starting >= self._jobs_max:
            over = next((job for job in self.all() if job.process.returncode is not None), None)
            if over is None:
                raise ToolError(
                    f"{self._jobs_max} background processes run already; stop one first."
                )
            await self.stop(over)


class BackgroundArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `background`."""

    action: Literal["start", "read", "write", "list", "stop"]
    command: str = ""
    id: str = ""
    text: str = ""


class OfflineBackgroundArgs(BackgroundArgs, frozen=True, omit_defaults=True):
    """Arguments of `background` where commands have no network."""

    network: bool = False


class Background(TypedTool[BackgroundArgs]):
    """Start, read, write to, list and stop background processes.

    Args:
        bytes_max: output that goes to the model at once, in bytes.
        jobs_max: processes per session.
    """

    name: ClassVar[str] = "background"
    description = (
        "Long-running commands such as servers, which outlive the turn: start (command), read new "
        "output (id), write text to its input (id, text), list, stop (id)."
    )
    effect: ClassVar[Effect] = Effect.EXECUTE
    args: type[BackgroundArgs] = BackgroundArgs

    def __init__(self, bytes_max: int, jobs_max: int) -> None:
        self._bytes_max = bytes_max
        self._jobs_max = jobs_max

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""
        about = OFFLINE if self.args is OfflineBackgroundArgs else ""
        return ToolSpec(self.name, self.description + about, schema_of(self.args))

    def offline(self) -> Tool:
        """See `AsksForNetwork`."""
        made = copy.copy(self)
        made.args = OfflineBackgroundArgs
        return made

    async def run(self, args: BackgroundArgs, ctx: ToolContext) -> ToolResult:
        """Do one action."""
        jobs = Jobs.of(ctx, self._jobs_max)
        if args.action == "list":
            return _listed(jobs.all())
        if args.action == "start":
            network = bool(getattr(args, "network", False))
            job = await jobs.start(args.command, ctx, network=network)
            await _first_output(job, ctx.clock)
        else:
            job = jobs.find(args.id)
        if args.action == "write":
            await _write(job, args.text, ctx.clock)
        elif args.action == "stop":
            await jobs.stop(job)
        text = clip(job.take_new(), self._bytes_max)
        said = f"{job.id}: {'stopped' if args.action == 'stop' else job.status}"
        return ToolResult(f"[{said}]\n{text}".rstrip(), summary=said)


def _listed(jobs: list[Job]) -> ToolResult:
    lines = [f"{job.id}  {job.status}  {clip(job.command, 200)}" for job in jobs]
    return ToolResult("\n".join(lines) or "(none)", summary=f"{len(jobs)} background processes")


async def _write(job: Job, text: str, clock: Clock) -> None:
    try:
        async with deadline(clock, WRITE_S):
            await job.process.write(text.encode("utf-8", "replace"))
    except TimeoutError:
        raise ToolError(
            f"{job.id} has not read its input for {WRITE_S:.0f} s; a part of the text may have "
            "reached it. Read its output, or stop it."
        ) from None


async def _first_output(job: Job, clock: Clock) -> None:
    """Wait a moment for the first words, or for a quick end."""
    with contextlib.suppress(TimeoutError):
        async with deadline(clock, FIRST_OUTPUT_S):
            await job.spoke.wait()


def list_background(state: dict[str, Any]) -> list[dict[str, Any]]:
    """A session's background processes as rows, oldest first.

    Args:
        state: the session's tool state.
    """
    jobs = state.get(FAMILY)
    if not isinstance(jobs, Jobs):
        return []
    return [
        {
            "process_id": job.id,
            "command": job.command,
            "pid": job.process.pid,
            "running": job.process.returncode is None,
            "returncode": job.process.returncode,
        }
        for job in jobs.all()
    ]


async def stop_background(state: dict[str, Any]) -> int:
    """Stop them all; how many ran. Cancellation leaves the rest running, still owned."""
    jobs = state.get(FAMILY)
    if not isinstance(jobs, Jobs):
        return 0
    running = [job for job in jobs.all() if job.process.returncode is None]
    for job in running:
        await jobs.stop(job)
    return len(running)
