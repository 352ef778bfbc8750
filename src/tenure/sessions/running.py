"""What a turn of a session is given: facts, and ports that end with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.agent.loop import run_turn
from tenure.agent.ports import Ports, Turn, TurnEnd, nothing_to_save
from tenure.conversation import ToolCall
from tenure.lifecycle.scope import Scope
from tenure.sessions.asking import TurnAsker, TurnPerson
from tenure.sessions.delegation import Above, Branch
from tenure.sessions.facts import keep_todo, system_of
from tenure.sessions.finding import find_others
from tenure.sessions.memories import SessionMemory
from tenure.sessions.planning import propose
from tenure.sessions.prompts import take_steered
from tenure.sessions.resources import Agent
from tenure.sessions.saving import TurnSaver
from tenure.sessions.turns import LiveTurn
from tenure.sessions.uploads import read
from tenure.tools.base import ToolContext

if TYPE_CHECKING:
    from tenure.sessions.actor import Session


async def run(session: Session, turn: LiveTurn, agent: Agent, scope: Scope) -> TurnEnd:
    """Run `turn`; see `run_turn`. `scope` is the turn's own; the session keeps it."""
    facts, ports = facts_of(session, turn, agent), ports_of(session, turn, scope)
    branch = Branch(Above(session, turn, ports, facts))

    def context(call: ToolCall, output: Callable[[str], None]) -> ToolContext:
        made = ports.tool_context(call, output)
        made.delegates = branch
        return made

    return await run_turn(facts, replace(ports, tool_context=context))


def facts_of(session: Session, turn: LiveTurn, agent: Agent) -> Turn:
    """The facts of `turn`, fixed now: what changes later is none of its business."""
    config = session.ports.config()
    servers = session.work.look_for_servers()
    more = servers.tools(small=agent.model.small) if servers else ()
    session.questions.follow(config.approvals)
    return Turn(
        id=turn.id,
        session_id=session.id,
        model=agent.model,
        tools=(*agent.tools, *more, *session.work.plan_tools()),
        system=system_of(session, agent),
        limits=config.limits,
        cwd=str(session.work.sandbox.root),
        outputs=str(session.ports.spill / session.id),
        filling=session.spent.filling,
    )


def ports_of(session: Session, turn: LiveTurn, scope: Scope) -> Ports:
    """What `turn` may touch. `scope` is the turn's own; the session keeps it."""
    assert turn.recorder is not None
    memories = session.ports.memories

    def context(call: ToolCall, output: Callable[[str], None]) -> ToolContext:
        return ToolContext(
            session_id=session.id,
            turn_id=turn.id,
            call_id=call.id,
            cwd=Path(session.cwd),
            scope=scope,
            session=session.scope,
            spawner=session.ports.spawner,
            clock=session.ports.clock,
            spill_dir=session.ports.spill / session.id,
            output=output,
            state=session.tool_state,
            person=TurnPerson(session.questions, turn.id),
            find=partial(find_others, session),
            ended=session.notes.process_ended,
            sandbox=session.work.sandbox,
            keep_todo=partial(keep_todo, session),
            propose=partial(propose, session, turn.id),
            memory=SessionMemory(session, memories) if memories is not None else None,
        )

    here = session.work.sandbox.files is None
    keeper = session.ports.checkpoints if here else None
    return Ports(
        journal=turn.recorder,
        asker=TurnAsker(session.questions, turn.id, session.work),
        scope=scope,
        clock=session.ports.clock,
        tool_context=context,
        more_tools=session.work.more_tools,
        noted=partial(session.notes.deliver, turn),
        steered=partial(take_steered, session, turn),
        uploads=partial(read, session),
        before_change=TurnSaver(session, turn, scope, keeper) if keeper else nothing_to_save,
    )
