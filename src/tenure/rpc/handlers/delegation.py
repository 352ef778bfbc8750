"""subagent.* and delegation.*: the sub-agents of sessions that the connection is attached to."""

from __future__ import annotations

from tenure.errors import NotFound
from tenure.protocol import delegation as d
from tenure.protocol.params import MaybeSession
from tenure.rpc.handlers.attach import check_owner
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.subagents import Board, SubAgent


async def subagent_list(params: MaybeSession, call: Call) -> d.SubAgents:
    """Those that live and the last ones that are over."""
    return d.SubAgents([_row(one) for s in _meant(params, call) for one in _board(s).all.values()])


async def subagent_tail(params: d.SubAgentTail, call: Call) -> d.SubAgentLines:
    """Its lines after a number."""
    _, one = _find(params, call)
    first = one.lines - len(one.tail)
    lines = list(one.tail)[max(0, params.after - first) :]
    dropped = max(0, first - params.after)
    return d.SubAgentLines(lines=lines, next=one.lines, dropped=dropped, status=one.state)


async def subagent_steer(params: d.SubAgentSteer, call: Call) -> d.SubAgentFound:
    """Tell it something."""
    session, one = _find(params, call)
    check_owner(call, session)
    return _found(one, alive=_board(session).steer(one, params.text))


async def subagent_interrupt(params: d.OneSubAgent, call: Call) -> d.SubAgentFound:
    """End it; whoever delegated is told."""
    try:
        session, one = _find(params, call)
    except NotFound:
        return d.SubAgentFound(found=False, subagent_id=params.subagent_id)
    check_owner(call, session)
    return _found(one, alive=one.cancel("user", "interrupted by the person"))


async def delegation_status(params: MaybeSession, call: Call) -> d.DelegationStatus:
    """What waits or runs."""
    boards = [_board(session) for session in _meant(params, call)]
    rules = call.gateway.config().delegation
    return d.DelegationStatus(
        active=[_row(one) for board in boards for one in board.live],
        paused=any(board.paused for board in boards),
        max_spawn_depth=rules.depth_max,
        max_concurrent_children=rules.parallel_max,
    )


async def delegation_pause(params: d.DelegationPause, call: Call) -> d.DelegationPaused:
    """Those that run go on."""
    sessions = _meant(params, call)
    for session in sessions:
        check_owner(call, session)
    for session in sessions:
        _board(session).pause(params.paused)
    return d.DelegationPaused(params.paused)


def _meant(params: MaybeSession, call: Call) -> list[Session]:
    """The session that is named, else all that this connection is attached to."""
    sessions = call.gateway.sessions
    if params.session_id:
        return [sessions.get(params.session_id)]
    return [one for one in sessions.live() if one.attachments.of(call.peer) is not None]


def _find(params: d.OneSubAgent, call: Call) -> tuple[Session, SubAgent]:
    for session in _meant(params, call):
        if (one := _board(session).all.get(params.subagent_id)) is not None:
            return session, one
    raise NotFound(f"There is no sub-agent {params.subagent_id[:40]!r}; subagent.list has them.")


def _found(one: SubAgent, *, alive: bool) -> d.SubAgentFound:
    return d.SubAgentFound(found=alive, subagent_id=one.id)


def _board(session: Session) -> Board:
    return session.work.delegation


def _row(one: SubAgent) -> d.SubAgentRow:
    return d.SubAgentRow(**one.facts())
