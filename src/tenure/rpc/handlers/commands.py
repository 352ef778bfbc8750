"""Slash commands, the same for every client: one table of functions from a session to text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tenure.errors import BadValue
from tenure.protocol import methods as m
from tenure.rpc.handlers.agents_command import VERBS as AGENT_VERBS, agents
from tenure.rpc.handlers.attach import changing, check_owner
from tenure.rpc.handlers.config import switch_model
from tenure.rpc.handlers.input_commands import (
    branch_command as branch,
    compress_command as compress,
    queue_command as queue,
    steer_command as steer,
    undo_command as undo,
)
from tenure.rpc.handlers.memory import VERBS as MEMORY_VERBS, memory_command as memory
from tenure.rpc.handlers.plan import VERBS as PLAN_VERBS, plan_command as plan
from tenure.rpc.handlers.rollback_command import rollback
from tenure.rpc.handlers.session import session_title, status_text
from tenure.rpc.handlers.skills import skills_command as skills
from tenure.rpc.handlers.upload_commands import attach_command, detach_command
from tenure.rpc.ports import Call
from tenure.sessions.finding import breakdown_of, breakdown_text

Command = Callable[[str, str, Call], Awaitable[str]]


async def _help(_session: str, _arg: str, _call: Call) -> str:
    width = max(len(name) for name in COMMANDS)
    return "\n".join(f"/{name:<{width}}  {about}" for name, (about, _) in COMMANDS.items())


async def _new(_session: str, _arg: str, _call: Call) -> str:
    return "A new session begins when the client opens one (session.create)."


async def _model(session_id: str, arg: str, call: Call) -> str:
    session = call.gateway.sessions.get(session_id)
    if arg:
        check_owner(call, session)
        return f"model: {await switch_model(session, arg)}"
    info = session.info()
    return f"model: {info['model']} ({info['model_reason']})"


async def _status(session_id: str, _arg: str, call: Call) -> str:
    return status_text(call.gateway.sessions.get(session_id))


async def _usage(session_id: str, _arg: str, call: Call) -> str:
    usage = call.gateway.sessions.get(session_id).usage()
    return f"{usage['input']:,} tokens in ({usage['cached']:,} cached), {usage['output']:,} out"


async def _context(session_id: str, _arg: str, call: Call) -> str:
    return breakdown_text(breakdown_of(call.gateway.sessions.get(session_id)))


async def _title(session_id: str, arg: str, call: Call) -> str:
    params = m.SessionTitle(session_id=session_id, title=arg or None)
    return f"title: {(await session_title(params, call)).title}"


async def _stop(session_id: str, _arg: str, call: Call) -> str:
    session = changing(call, session_id)
    return "interrupted" if session.interrupt("user") else "nothing is running"


async def _tools(session_id: str, _arg: str, call: Call) -> str:
    session = call.gateway.sessions.get(session_id)
    if session.agent is None:
        return "the agent is still being built"
    tools = (*session.agent.tools, *session.work.more_tools())
    return "\n".join(f"{t.name:<12} {t.spec.description.splitlines()[0]}" for t in tools)


async def _quit(_session: str, _arg: str, _call: Call) -> str:
    return "Leave with Ctrl-D; the session can be resumed."


COMMANDS: dict[str, tuple[str, Command]] = {
    "help": ("these commands", _help),
    "new": ("begin a new session", _new),
    "model": ("show or change the model: /model provider:name", _model),
    "status": ("the session in a few lines", _status),
    "usage": ("token counters", _usage),
    "context": ("what fills the model's window", _context),
    "title": ("show or set the title", _title),
    "stop": ("interrupt the running turn", _stop),
    "tools": ("what the agent may call", _tools),
    "queue": ("what waits: /queue [rm N | edit N TEXT | policy queue|steer|interrupt]", queue),
    "attach": ("a file for the next prompt: /attach PATH (alone: what waits)", attach_command),
    "detach": ("take a file off again: /detach [N | NAME]", detach_command),
    "steer": ("say something to the running turn", steer),
    "agents": ("sub-agents: /agents [steer N TEXT | stop N | pause | resume]", agents),
    "plan": ("plan mode: /plan [on | off | approve | reject TEXT | edit TEXT]", plan),
    "memory": ("notes: /memory [accept N | reject N | add TEXT | remove N | search WORDS]", memory),
    "skills": ("the skills that the agent can load: /skills [reload]", skills),
    "undo": ("take the last turn back: /undo [N] [files]", undo),
    "branch": ("a new session with this history: /branch [NAME]", branch),
    "compress": ("replace older history by a summary: /compress [FOCUS]", compress),
    "rollback": ("give files back: /rollback [diff] [CHECKPOINT] [PATH]", rollback),
    "quit": ("leave; the session stays", _quit),
}


WORDS = {
    "agents": AGENT_VERBS, "memory": MEMORY_VERBS, "plan": PLAN_VERBS,
    "queue": ("rm", "edit", "policy"), "rollback": ("diff",), "skills": ("reload",),
}  # fmt: skip
"""What may follow a command's name."""


async def commands_catalog(params: m.Empty, call: Call) -> dict[str, Any]:
    """The slash commands."""
    del params, call
    pairs = [[f"/{name}", about] for name, (about, _) in COMMANDS.items()]
    return {
        "pairs": pairs,
        "sub": {f"/{name}": list(words) for name, words in WORDS.items()},
        "canon": {f"/{name}": f"/{name}" for name in COMMANDS},
        "categories": [{"name": "Session", "pairs": pairs}],
        "skill_count": 0,
    }


async def slash_exec(params: m.SlashExec, call: Call) -> m.Output:
    """Run a slash command; its text."""
    name, _, arg = params.command.lstrip("/").partition(" ")
    return m.Output(await run_command(params.session_id, name, arg.strip(), call))


async def command_dispatch(params: m.Dispatch, call: Call) -> dict[str, Any]:
    """Run a slash command by name."""
    name = params.name.lstrip("/")
    return {"type": "exec", "output": await run_command(params.session_id, name, params.arg, call)}


async def run_command(session_id: str, name: str, arg: str, call: Call) -> str:
    """Run one.

    Raises:
        BadValue: there is no such command; the nearest is named.
    """
    entry = COMMANDS.get(name)
    if entry is None:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists all."
        raise BadValue(f"There is no command /{name[:40]}; {hint}")
    return await entry[1](session_id, arg, call)
