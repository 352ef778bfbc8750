"""What a tool is: typed arguments, one `run`, and everything it needs handed to it.

A tool owns nothing beyond its call: what must outlive the call is acquired in `ToolContext.session`
(the session's scope), everything else in `ToolContext.scope` (the turn's).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import msgspec

from tenure.conversation import Found, ToolSpec, Usage
from tenure.errors import ToolError
from tenure.sandbox.base import Bounds, Ruling, Sandbox, unruled
from tenure.sandbox.local import Local

if TYPE_CHECKING:
    from tenure.clock import Clock
    from tenure.lifecycle.scope import Scope
    from tenure.processes.spawn import Spawner


class Effect(enum.StrEnum):
    """What a tool may do, for approvals."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    """Reads, but from elsewhere, to where it may also carry something."""


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call gave. `text` goes to the model, `summary` (one line) to people."""

    text: str
    is_error: bool = False
    summary: str = ""
    usage: Usage = Usage()
    """Tokens that the call itself spent on models."""
    shown: dict[str, Any] = {}
    """What clients are told of the call besides."""
    notes: tuple[str, ...] = ()
    """Notes of the session whose news this result brings; with it they are delivered."""


class Person(Protocol):
    """Whoever can be asked while a call runs. Bounded; cancellable."""

    async def clarify(self, question: str, choices: tuple[str, ...]) -> str | None:
        """What somebody answers to `question`; None if nobody does, or wants to.

        Args:
            question: one or a few sentences.
            choices: what may be picked from; something else may be answered all the same.
        """

    async def secret(self, name: str, why: str) -> str | None:
        """What somebody types for the secret `name`; None if nobody does, or wants to.

        It belongs to the call that asked: it must reach neither its result nor anything stored.

        Args:
            name: the variable's name.
            why: what it is used for, in a sentence.
        """


class Nobody:
    """A `Person` where there is none."""

    async def clarify(self, question: str, choices: tuple[str, ...]) -> str | None:
        """Nobody answers."""
        del question, choices
        return None

    async def secret(self, name: str, why: str) -> str | None:
        """Nobody answers."""
        del name, why
        return None


NOBODY = Nobody()


class TodoItem(msgspec.Struct, frozen=True):
    """A step of a session's list."""

    content: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


KeepTodo = Callable[[tuple[TodoItem, ...]], Awaitable[None]]
"""Stores a session's list and shows it to its clients; raises StoreError."""


class Judged(msgspec.Struct, frozen=True):
    """What became of a plan: whether it was approved, and what the agent is told."""

    approved: bool
    text: str


Propose = Callable[[str], Awaitable[Judged]]
"""Shows the person a plan and waits for their word; raises StoreError."""


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sub-agent is to do."""

    goal: str
    """The whole task: it sees nothing else of the conversation."""
    model: str = ""
    """Empty: the model of whoever delegates."""
    tools: tuple[str, ...] = ()
    """Names of the only tools that it may use; none named: all."""
    steps_max: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Model calls; 0: the configured number, which is also the most."""


class Delegates(Protocol):
    """The seam to sub-agents."""

    async def run(self, tasks: tuple[Task, ...], ctx: ToolContext) -> ToolResult:
        """Have tasks done side by side, and report what came of each, in their order.

        Ownership: the sub-agents and all that they hold are below `ctx.scope`.
        Cancellation: reaches every descendant, and returns when all of them are over.

        Raises:
            ToolError: too many, or a task that cannot be begun; none was.
        """


class Memory(Protocol):
    """What is remembered from session to session. Raises TenureError: it cannot be."""

    async def search(self, words: str, limit: int) -> Sequence[str]:
        """Notes that count and have all the words, the best match first."""

    async def propose(self, text: str) -> bool:
        """Have a note kept; whether it counts, or waits for the person."""


Find = Callable[[str, int], Awaitable[Sequence[Found]]]
Ended = Callable[[str, str, int], None]
"""Told when a background process has ended by itself: its id, its command, its exit status."""


def _unheard(process_id: str, command: str, returncode: int) -> None:
    """Nobody is told."""


class ToolContext:
    """What one call is given. Identity is here, never ambient.

    Attributes:
        session_id: the session that owns the call.
        turn_id: the turn that made it.
        call_id: the model's id of this call.
        cwd: the session's working directory, absolute, as commands see it.
        sandbox: where commands run.
        scope: the turn's scope: ends with the turn.
        session: the session's scope: for background work that outlives the turn.
        spawner: starts children.
        clock: time.
        spill_dir: a 0700 directory of the session for whole outputs, which `read` reaches.
        output: called with pieces of live output as text; never blocks.
        state: the session's per-tool state (background processes, …), keyed by tool family; values
            are owned by `session`.
        person: whoever can be asked.
        find: searches the other sessions of the profile: words, how many at the most.
        ended: takes the ends of background processes for this session; never blocks.
        keep_todo: keeps the session's list of steps; None: there is none here.
        memory: what is remembered; None: nothing is.
        propose: has a plan approved; None: there is none to approve here.
        judge: what rules say of a path that the call did not name itself; see `Bounds`.
        delegates: does tasks that are handed to sub-agents; None: there are none here.
    """

    __slots__ = (
        "call_id", "clock", "cwd", "delegates", "ended", "find", "judge", "keep_todo", "memory",
        "output", "person", "propose", "sandbox", "scope", "session", "session_id", "spawner",
        "spill_dir", "state", "turn_id",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - a record of what a call is given
        self,
        *,
        session_id: str,
        turn_id: str,
        call_id: str,
        cwd: Path,
        scope: Scope,
        session: Scope,
        spawner: Spawner,
        clock: Clock,
        spill_dir: Path,
        output: Callable[[str], None],
        state: dict[str, Any],
        person: Person = NOBODY,
        find: Find | None = None,
        ended: Ended = _unheard,
        sandbox: Sandbox | None = None,
        delegates: Delegates | None = None,
        keep_todo: KeepTodo | None = None,
        propose: Propose | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.call_id = call_id
        self.sandbox: Sandbox = sandbox or Local(spawner, cwd, session_id)
        self.cwd = self.sandbox.root
        self.scope = scope
        self.session = session
        self.spawner = spawner
        self.clock = clock
        self.spill_dir = spill_dir
        self.output = output
        self.state = state
        self.person = person
        self.find = find
        self.ended = ended
        self.delegates = delegates
        self.keep_todo = keep_todo
        self.propose = propose
        self.memory = memory
        self.judge: Callable[[str], Ruling] = unruled

    @property
    def bounds(self) -> Bounds:
        """What of the working directory the call may touch."""
        return Bounds(self.sandbox.hidden, self.judge)


ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)
OFFLINE = " network: true asks for the network, which commands do not have here."


def fitted(tools: Sequence[Tool], sandbox: Sandbox) -> tuple[Tool, ...]:
    """`tools` as they are offered in a sandbox: asking for the network where there is none."""
    if not sandbox.confinement.confined or sandbox.confinement.network:
        return tuple(tools)
    return _offline(tuple(tools))


@functools.lru_cache(maxsize=16)
def _offline(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple(tool.offline() if isinstance(tool, AsksForNetwork) else tool for tool in tools)


class Tool(Protocol):
    """The seam to a capability."""

    @property
    def name(self) -> str:
        """What the model calls it."""

    @property
    def effect(self) -> Effect:
        """What it may do."""

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""

    async def call(self, arguments: str, ctx: ToolContext) -> ToolResult:
        """Run with JSON `arguments`. Cancellation ends everything the call started.

        Raises:
            ToolError: becomes an error result, in one sentence.
        """


@runtime_checkable
class AsksForNetwork(Protocol):
    """A tool whose calls may ask for the network where commands have none."""

    def offline(self) -> Tool:
        """The tool as it is offered there, with a ``network`` argument."""


class TypedTool(Generic[ArgsT]):
    """Base of our tools: arguments are a msgspec Struct whose JSON Schema the model sees.

    Subclasses set `name`, `description`, `effect`, `args` and define `run`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    effect: ClassVar[Effect]
    args: type[ArgsT]

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""
        return ToolSpec(self.name, self.description, schema_of(self.args))

    def parse(self, arguments: str) -> ArgsT:
        """Decode and validate.

        Raises:
            ToolError: naming the field and what was expected.
        """
        try:
            return msgspec.json.decode(arguments or "{}", type=self.args, strict=False)
        except msgspec.ValidationError as exc:
            raise ToolError(f"The arguments of {self.name} are wrong: {exc}.") from None
        except msgspec.DecodeError as exc:
            raise ToolError(f"The arguments of {self.name} are not JSON: {exc}.") from None

    async def call(self, arguments: str, ctx: ToolContext) -> ToolResult:
        """Parse, then `run`."""
        return await self.run(self.parse(arguments), ctx)

    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        """Do the work."""
        raise NotImplementedError


@functools.cache
def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The flat JSON Schema of a Struct, without `$ref`, titles or definitions.

    Made once for each struct (0.2 ms) and shared: do not change it. A struct that contains itself
    has none.
    """
    (schema,), components = msgspec.json.schema_components([struct], ref_template="{name}")

    def flat(part: Any) -> Any:
        if isinstance(part, list):
            return [flat(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            whole = dict(components[part["$ref"]])
            whole.pop("title", None)
            whole.pop("description", None)
            return flat(whole)
        return {key: flat(value) for key, value in part.items()}

    found: dict[str, Any] = flat(schema)
    return found
