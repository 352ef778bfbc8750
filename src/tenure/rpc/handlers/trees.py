"""spawn_tree.*: finished trees of sub-agents, as clients have shown them."""

from __future__ import annotations

from tenure.errors import StoreError
from tenure.lifecycle.threads import run_in_thread
from tenure.protocol import trees as p
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions import trees


async def spawn_tree_save(params: p.TreeSave, call: Call) -> p.TreeSaved:
    """Keep a finished tree of sub-agents."""
    session = changing(call, params.session_id)
    tree = p.Tree(
        session_id=session.id, label=params.label, started_at=params.started_at,
        finished_at=params.finished_at or call.gateway.clock.wall(), subagents=params.subagents,
    )  # fmt: skip
    try:
        path = await run_in_thread(session.scope, trees.save, session.ports.spill, tree)
    except OSError as exc:
        raise StoreError(f"The tree could not be kept: {exc.strerror}.") from None
    return p.TreeSaved(path, session.id)


async def spawn_tree_list(params: p.TreeList, call: Call) -> p.TreeRows:
    """The trees that are kept, the newest first; without a session nothing unless of all."""
    if not params.session_id and not params.cross_session:
        return p.TreeRows([])
    profile = call.gateway.sessions.profile_of(params.session_id, "")
    wanted = "" if params.cross_session else params.session_id
    async with call.gateway.profiles.using_ports(profile) as ports:
        rows = await run_in_thread(call.peer.scope, trees.listed, ports.spill, wanted, params.limit)
    return p.TreeRows(rows)


async def spawn_tree_load(params: p.TreeLoad, call: Call) -> p.Tree:
    """A tree that is kept."""
    profile = call.gateway.sessions.profile_of(params.path.partition("/")[0], "")
    async with call.gateway.profiles.using_ports(profile) as ports:
        return await run_in_thread(call.peer.scope, trees.load, ports.spill, params.path)
