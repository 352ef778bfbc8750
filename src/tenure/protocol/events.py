"""Every event: its payload, whether it is stored and numbered, and one line about it.

A durable event carries ``epoch`` and ``seq`` beside its payload and can be fetched again with
session.events.since; the others stream and are gone. Clients ignore what they do not know.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tenure.protocol import questions as q
from tenure.protocol.census import CensusChange
from tenure.protocol.delegation import SubAgentEvent
from tenure.protocol.memories import MemoryChanged
from tenure.protocol.plans import Plan
from tenure.protocol.terminals import TerminalClose, TerminalOutput


class Payload(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all payloads."""


class GatewayReady(Payload, kw_only=True):
    """Payload of gateway.ready."""

    skin: dict[str, Any]
    server: str
    version: str
    instance: str


class SessionInfo(Payload, kw_only=True):
    """Payload of session.info; the ``info`` of session.create and session.resume is the same."""

    model: str
    model_reason: str
    """Why this model: the session, a flag, the environment, the configuration, the starter."""
    provider: str
    tools: dict[str, list[str]]
    skills: dict[str, list[str]]
    cwd: str
    instructions: list[str]
    """Files of instructions that the system text took in."""
    title: str
    stored_session_id: str
    running: bool
    status: str
    queued: int
    busy: str
    """What a prompt does that meets a running turn: queue, steer or interrupt."""
    approval_mode: str
    sandbox: dict[str, Any] = {}
    """Where commands run: kind, confined, network, about, and root, the working directory there;
    empty before there is an agent."""
    approval_source: str
    """Which request let pass what would be asked; empty: none did."""
    yolo: bool
    usage: dict[str, Any]
    version: str
    profile_name: str
    desktop_contract: int
    lazy: bool
    """The agent is still being built."""
    todo: list[dict[str, str]] = []
    """The agent's list of steps: content and status."""
    plan: dict[str, Any] = {}
    """Whether plan mode is on, and which plan there is: plan.get without its text."""
    mcp_servers: list[Any]
    draft: list[str] = []
    """Files that wait for the next prompt, each in a line."""
    notice: str = ""
    """What became of work that a stop or a crash had cut off, until a new prompt runs."""
    config_warning: str = ""
    """Why the configuration file as it is now is not in force."""
    credential_warning: str = ""
    """Why the agent could not be built."""


class SessionTitle(Payload, kw_only=True):
    """Payload of session.title."""

    session_id: str
    title: str


class SessionClosed(Payload, kw_only=True):
    """Payload of session.closed, the last event of a session."""

    reason: str
    returned: list[str]
    """Prompts that waited and were not run."""
    kept: int
    """Prompts that wait in the store: the gateway ended, and they run after its next start."""
    failures: int
    """Resources whose release failed; the log says which."""


class SessionNotice(Payload, kw_only=True):
    """Payload of session.notice: what became of work that a stop or a crash had cut off."""

    kind: str
    """go_on, too_old, off or quarantine."""
    text: str
    """For people."""
    turn_id: str
    """The turn that was cut off; empty if only queued prompts are meant."""
    continued_by: str
    """The turn that goes on with it; empty if none does."""
    returned: list[str]
    """Queued prompts that were not run and are not queued any more."""


class MessageStart(Payload, kw_only=True):
    """Payload of message.start."""

    turn_id: str
    prompt: str
    files: list[str] = []
    """What came with it, each in a line."""
    note: bool = False
    """The prompt is the gateway's (a turn that was cut off goes on); nobody has typed it."""
    bypass: str = ""
    """Which request lets pass what would be asked in this turn; empty: none does."""


class Text(Payload, kw_only=True):
    """Streamed text."""

    text: str


class MessageSteered(Text, kw_only=True):
    """Payload of message.steered: a waiting prompt became a part of the running turn."""

    turn_id: str
    """The prompt's own."""
    into: str
    """The turn that took it."""


class SessionRewound(Payload, kw_only=True):
    """Payload of session.rewound: entries of history were taken back."""

    first: int
    """The first one that is gone."""
    removed: int
    turn_ids: list[str]


class PromptQueue(Payload, kw_only=True):
    """Payload of prompt.queue."""

    entries: list[dict[str, Any]]
    """As in prompt.queue.list."""


class PromptFiles(Payload, kw_only=True):
    """Payload of prompt.files."""

    entries: list[dict[str, Any]]
    """As in prompt.files.list."""


class MessageInterim(Text, kw_only=True):
    """Payload of message.interim: an answer that is followed by tool calls."""

    already_streamed: bool


class MessageComplete(Payload, kw_only=True):
    """Payload of message.complete: exactly one per turn."""

    turn_id: str
    text: str
    status: str
    """complete, interrupted or error."""
    state: str
    """completed, interrupted, failed or refused."""
    cause: str
    steps: int
    denied: int
    usage: dict[str, Any]
    error: str = ""
    code: int = 0
    warning: str = ""


class ToolGenerating(Payload, kw_only=True):
    """Payload of tool.generating: the model is writing a call."""

    name: str


class ToolStart(Payload, kw_only=True):
    """Payload of tool.start."""

    tool_id: str
    name: str
    context: str
    """The one argument that tells a person what the call is about."""
    args_text: str


class ToolProgress(Payload, kw_only=True):
    """Payload of tool.progress: output as it comes."""

    tool_id: str
    text: str


class ToolComplete(Payload, kw_only=True):
    """Payload of tool.complete."""

    tool_id: str
    name: str
    result: str
    result_text: str
    summary: str
    is_error: bool
    outcome: str
    duration_s: float
    todos: list[dict[str, str]] = []
    """The session's list, where the call has changed it: id, content, status."""


class TodoChanged(Payload, kw_only=True):
    """Payload of todo.changed; `todo` of session.info is the same."""

    items: list[dict[str, str]]
    """content and status: pending, in_progress, completed or cancelled."""


class StatusUpdate(Payload, kw_only=True):
    """Payload of status.update."""

    kind: str
    """status, compacting, compacted or checkpoint (what could not be saved)."""
    text: str


class Notification(Payload, kw_only=True):
    """Payload of notification.show: something that a person should know."""

    text: str
    level: str
    """info, warn or error."""
    kind: str
    """config, context, recovery or store."""
    key: str
    """A later one of the same key takes its place."""


class ApprovalRequest(Payload, kw_only=True):
    """Payload of approval.request. One question is shown at a time."""

    request_id: str
    turn_id: str
    tool: str
    effect: str
    command: str
    cwd: str
    description: str
    place: str = ""
    """Where it would run, and what that confines."""
    patterns: list[str]
    """What "always" would store."""
    choices: list[str]
    allow_permanent: bool
    revision: int = 0
    """Of a plan (tool plan, whose text is `command`): which one it is; see plan.approve."""


class CheckpointRestored(Payload, kw_only=True):
    """Payload of checkpoint.restored."""

    checkpoint: str
    undo: str
    restored_count: int
    removed_count: int
    problem_count: int


class BackgroundComplete(Payload, kw_only=True):
    """Payload of background.complete. The model is told with the session's next turn."""

    task_id: str
    """The process's id in its session."""
    text: str
    command: str
    returncode: int
    """Negative: ended by that signal."""


class Failure(Payload, kw_only=True):
    """Payload of error: the agent could not be built."""

    message: str
    code: int


class Kind(NamedTuple):
    """What is known of a type of event."""

    payload: type[msgspec.Struct]
    durable: bool
    about: str


EVENTS: dict[str, Kind] = {
    "gateway.ready": Kind(GatewayReady, False, "The first frame of a connection."),
    "session.info": Kind(SessionInfo, False, "The session's facts: when built, after each turn."),
    "session.title": Kind(SessionTitle, True, "The title was set."),
    "session.closed": Kind(SessionClosed, True, "The session has ended; nothing follows."),
    "session.notice": Kind(SessionNotice, True, "What became of work that was cut off."),
    "message.start": Kind(MessageStart, True, "A turn begins; its prompt is stored."),
    "session.rewound": Kind(SessionRewound, True, "The last turns were taken back."),
    "message.steered": Kind(MessageSteered, True, "A waiting prompt went into the running turn."),
    "prompt.queue": Kind(PromptQueue, False, "What waits has changed."),
    "prompt.files": Kind(PromptFiles, False, "What waits for the next prompt has changed."),
    "message.delta": Kind(Text, False, "Answer text as it streams."),
    "reasoning.delta": Kind(Text, False, "Thinking as it streams."),
    "message.interim": Kind(MessageInterim, True, "An answer that is followed by tool calls."),
    "message.complete": Kind(MessageComplete, True, "The turn has ended, and how."),
    "tool.generating": Kind(ToolGenerating, False, "The model is writing a tool call."),
    "tool.start": Kind(ToolStart, True, "A tool call begins."),
    "tool.progress": Kind(ToolProgress, False, "Output of a running tool call."),
    "tool.complete": Kind(ToolComplete, True, "A tool call has ended; its result is stored."),
    "status.update": Kind(StatusUpdate, False, "What the gateway is doing, for people."),
    "notification.show": Kind(Notification, False, "Something that a person should know."),
    "approval.request": Kind(ApprovalRequest, True, "May this call run? See approval.respond."),
    "approval.expire": Kind(q.Expired, True, "An approval ended without an answer."),
    "approval.mode": Kind(q.ApprovalMode, True, "What would be asked is let pass, or not again."),
    "clarify.request": Kind(q.ClarifyRequest, True, "The agent asks; see clarify.respond."),
    "clarify.expire": Kind(q.Expired, True, "A question of the agent ended without an answer."),
    "secret.request": Kind(q.SecretRequest, True, "A command asks for a secret; secret.respond."),
    "secret.expire": Kind(q.Expired, True, "A secret was not given."),
    "sudo.request": Kind(q.SecretRequest, True, "A command asks for sudo's password."),
    "sudo.expire": Kind(q.Expired, True, "The password was not given."),
    "question.settled": Kind(q.QuestionSettled, True, "A question is over, and how."),
    "checkpoint.restored": Kind(CheckpointRestored, True, "Files were given back."),
    "subagent.spawn_requested": Kind(SubAgentEvent, False, "A sub-agent waits for its place."),
    "subagent.start": Kind(SubAgentEvent, False, "A sub-agent begins."),
    "subagent.tool": Kind(SubAgentEvent, False, "A sub-agent uses a tool."),
    "subagent.progress": Kind(SubAgentEvent, False, "A sub-agent has said something."),
    "subagent.complete": Kind(SubAgentEvent, True, "A sub-agent is over; its report is stored."),
    "todo.changed": Kind(TodoChanged, True, "The agent's list of steps is another one."),
    "memory.changed": Kind(MemoryChanged, False, "The agent proposes a note, or keeps one."),
    "plan.changed": Kind(Plan, True, "Plan mode, or the plan, is another one."),
    "census.change": Kind(CensusChange, False, "What is held has changed; see census.watch."),
    "background.complete": Kind(BackgroundComplete, True, "A background process has ended."),
    "error": Kind(Failure, False, "The agent could not be built."),
    "agent.terminal.output": Kind(TerminalOutput, False, "What a terminal of the session shows."),
    "terminal.close": Kind(TerminalClose, False, "The program on a terminal has exited."),
}
"""type -> what is known. Whoever attaches late is shown the open question again,
unnumbered."""
