"""What a turn is given and what it tells: the seams of `run_turn`.

The loop owns nothing and does no I/O of its own. It speaks to a model, to tools, to a journal (what
is remembered and published) and to an asker (who may say yes). Everything here is a value or a
Protocol, so a turn runs the same way in a gateway, in a test and in one's head.

Order of events in one turn (``*`` any number)::

    TurnStarted
      [ContextFilling] [CompactionStarted CompactionDone]
      StepStarted (TextDelta | ReasoningDelta | ToolGenerating | StatusNote)*
      AssistantDone
      (ToolStarted ToolOutput* ToolFinished)*      # calls of one step may interleave
      … further steps …
    -> TurnEnd, the value that run_turn returns

Every start has its end on every path, cancellation included. `TurnStarted` and the terminal event
made from the returned `TurnEnd` are the session's to publish: the first with the prompt's commit,
which may overlap the first model call, the second with the turn's row. All others are the loop's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tenure.config import ApprovalRule, LimitsConfig
from tenure.conversation import Message, ToolCall, Usage
from tenure.errors import TenureError
from tenure.models.base import Model
from tenure.tools.base import Effect, Tool, ToolContext

if TYPE_CHECKING:
    from tenure.clock import Clock
    from tenure.lifecycle.scope import Scope

# --- events -------------------------------------------------------------------------------------


class TurnStarted(msgspec.Struct, frozen=True):
    """The turn begins. Durable; published by the session with the prompt, not by the loop."""

    turn_id: str
    model: str


class StepStarted(msgspec.Struct, frozen=True):
    """A model call begins. Transient; ends with `AssistantDone`."""

    step: int


class TextDelta(msgspec.Struct, frozen=True):
    """More answer text. Transient: the whole text stands in `AssistantDone`."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of the model's thinking. Transient."""

    text: str


class ToolGenerating(msgspec.Struct, frozen=True):
    """The model writes a call; its arguments are still coming. Transient, ends with the step."""

    name: str


class StatusNote(msgspec.Struct, frozen=True):
    """What a slow step is doing (a retry too), or what the loop decided, in words. Transient."""

    text: str


class AssistantDone(msgspec.Struct, frozen=True):
    """The end of one model call; published with the stored assistant item, if there is one."""

    step: int
    text: str
    reasoning: str
    usage: Usage
    status: Literal["complete", "interrupted", "error"]
    final: bool
    """No tool calls follow: `text` is the turn's answer."""


class ToolStarted(msgspec.Struct, frozen=True):
    """A call is taken up (before any question about it). Durable; ends with `ToolFinished`."""

    call_id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""


class ToolOutput(msgspec.Struct, frozen=True):
    """A piece of live output. Transient."""

    call_id: str
    text: str


class ToolFinished(msgspec.Struct, frozen=True):
    """The end of a call; published with the stored tool item."""

    call_id: str
    name: str
    text: str
    summary: str
    is_error: bool
    outcome: Literal["done", "failed", "denied", "interrupted", "not_run"]
    duration_s: float
    shown: dict[str, Any] = {}
    """What clients are told besides."""


class ContextFilling(msgspec.Struct, frozen=True):
    """History comes near the point at which it is summarized. Transient; once for each time."""

    tokens: int
    """Estimated tokens of the history."""
    tokens_max: int
    """From here on it is summarized."""


class CompactionStarted(msgspec.Struct, frozen=True):
    """Older history is being summarized. Transient."""

    tokens: int


class CompactionDone(msgspec.Struct, frozen=True):
    """The end of a compaction. Published with the summary where one was stored, else transient."""

    before: int
    """Estimated tokens before."""
    after: int
    """Estimated tokens after; equal to `before` where nothing could be done."""
    how: Literal["summary", "none"]


TurnEvent = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ReasoningDelta
    | ToolGenerating
    | StatusNote
    | AssistantDone
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ContextFilling
    | CompactionStarted
    | CompactionDone
)

# --- journal ------------------------------------------------------------------------------------


class Compaction(msgspec.Struct, frozen=True):
    """A prepared change of history, committed only if nothing else changed it meanwhile."""

    summary: Message
    """Stands in place of the dropped items."""
    dropped: int
    """How many leading items `summary` replaces."""
    revision: int
    """`TurnJournal.revision` when it was prepared."""


class TurnJournal(Protocol):
    """The turn's memory: persists, then publishes. Belongs to one turn.

    A journal whose turn was ended by force refuses writes (raises `LeaseLost` or `ScopeClosed`),
    so that a turn that hangs on cannot reach the next one's history.
    """

    @property
    def revision(self) -> int:
        """Changes with every change of history, whoever made it."""

    def history(self) -> Sequence[Message]:
        """The session's items, this turn's prompt and everything stored so far included."""

    async def item(
        self,
        message: Message,
        *,
        events: tuple[TurnEvent, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Append `message` durably, then publish `events`.

        Args:
            message: the entry.
            events: what is told of it.
            notes: notes whose news it brings; the same write marks them as delivered.

        Cancellation: the append may or may not have happened; `history` tells.

        Raises:
            StoreError: nothing was stored and nothing published.
        """

    async def event(self, event: TurnEvent) -> None:
        """Publish a durable event that has no item."""

    def transient(self, event: TurnEvent) -> None:
        """Publish at once, to whoever listens now. Never blocks, never fails."""

    async def caught_up(self) -> None:
        """Wait until nothing that was published waits for the store. Cancellable."""

    async def compact(self, change: Compaction, *, events: tuple[TurnEvent, ...] = ()) -> bool:
        """Compare and commit: True if stored, False if `change.revision` is no longer current."""


# --- questions ----------------------------------------------------------------------------------

Choice = Literal["once", "session", "always", "deny"]


class Question(msgspec.Struct, frozen=True):
    """A call that may run only if somebody says yes."""

    call_id: str
    tool: str
    effect: Effect
    subject: str
    """The command, or the path; shown in full."""
    cwd: str
    reason: str
    """Why it is asked, in one sentence."""
    grants: tuple[ApprovalRule, ...] = ()
    """What "session" and "always" would store. Empty: only "once" and "deny" are offered."""
    patterns: tuple[str, ...] = ()
    """The same for people ("shell: git push *")."""
    place: str = ""
    """Where commands run, in a few words; said by whoever asks."""
    revision: int = 0
    """Of a plan: which one it is."""


class Decision(msgspec.Struct, frozen=True):
    """An answer. Whoever answers has stored the grants of "session" and "always" already."""

    choice: Choice
    text: str = ""
    """A sentence for the model: a person's words, "nobody answered within 600 s", …"""
    end_turn: bool = False
    """With "deny": end the turn as refused instead of telling the model."""


class Policy(msgspec.Struct, frozen=True):
    """What is decided already. A deny beats every yes, `yes` included."""

    rules: tuple[ApprovalRule, ...] = ()
    grants: tuple[ApprovalRule, ...] = ()
    """Earlier "session" and "always" answers."""
    yes: bool = False
    """Allow what would be asked (``--yes``)."""
    boxed: bool = False
    """Commands and files are confined, so that only what leaves the sandbox is asked."""
    planning: bool = False
    """Plan mode: nothing may be changed, whatever rules, answers and `yes` allow."""


class Asker(Protocol):
    """Who may say yes. The turn asks one question at a time, in source order."""

    def policy(self) -> Policy:
        """The rules and grants as they are now."""

    async def ask(self, question: Question) -> Decision:
        """Wait for an answer; bounded by the asker, which then denies. Cancellable."""


async def nothing_to_save() -> None:
    """Nothing is saved before a change."""


# --- the turn -----------------------------------------------------------------------------------


def no_more_tools() -> tuple[Tool, ...]:
    """There are no other tools than the turn began with."""
    return ()


async def nothing_kept(_digests: Sequence[str]) -> Mapping[str, bytes]:
    """There are no contents of files."""
    return {}


def nothing_steered() -> None:
    """No input arrived while the turn ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn's fixed facts."""

    id: str
    session_id: str
    model: Model
    tools: tuple[Tool, ...]
    system: str
    limits: LimitsConfig
    cwd: str
    outputs: str = ""
    """The folder with the session's whole outputs; empty: none."""
    filling: bool = False
    """Whether an earlier turn has told that history comes near its summary; see `TurnEnd`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What one turn may touch. All of it is borrowed; no flag is shared with another turn."""

    journal: TurnJournal
    asker: Asker
    scope: Scope
    """The turn's scope: tool tasks are its leases."""
    clock: Clock
    tool_context: Callable[[ToolCall, Callable[[str], None]], ToolContext]
    """Makes the context of one call from the call and its live output's sink."""
    before_change: Callable[[], Awaitable[None]] = nothing_to_save
    """Awaited before each call that may change something: saves what is there, once a turn."""
    more_tools: Callable[[], tuple[Tool, ...]] = no_more_tools
    """Asked before each step: what has come since the turn began, and stays to its end."""
    noted: Callable[[], Coroutine[Any, Any, None] | None] = nothing_steered
    """Likewise, before each step: what the model is to be told. It makes no further step."""
    steered: Callable[[], Coroutine[Any, Any, None] | None] = nothing_steered
    """Takes what the user said since the last step, if anything; awaiting it stores that."""
    uploads: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]] = nothing_kept
    """Contents of files that came with prompts, by digest; what is gone is left out."""


EndState = Literal["completed", "interrupted", "failed", "refused"]


class TurnEnd(msgspec.Struct, frozen=True):
    """How a turn ended. Exactly one per turn."""

    state: EndState
    cause: str
    """completed: stop, length, steps, repeat. interrupted: user, client, timeout, shutdown, crash
    (the message given to ``task.cancel``). failed: model, store, internal.
    refused: content_filter, denied."""
    text: str = ""
    """The last answer text, partial if the turn was cut."""
    usage: Usage = Usage()
    """Sum over all model calls of the turn, compaction included."""
    context_tokens: int = 0
    """What the last model call took in and gave out: about what the next one begins with."""
    steps: int = 0
    denied: int = 0
    """Calls that a rule or a person refused."""
    error: TenureError | None = None
    """The failure, one sentence with a code; `text` never contains it. An unexpected exception is
    an `InternalError` whose ``__cause__`` it is."""
    filling: bool = False
    """Whether history is near its summary now, so that the next turn need not tell it again."""
