"""Going back: undo, another wording, branches, compression."""

from __future__ import annotations

from functools import partial
from typing import Any

from tenure.errors import NotFound, TenureError
from tenure.protocol import methods as m
from tenure.rpc.handlers.attach import attach, changing, check_owner
from tenure.rpc.handlers.checkpoint import restored_of, sentence
from tenure.rpc.handlers.prompt import receipt_of, with_pastes
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.facts import title_in
from tenure.sessions.projection import message_of
from tenure.sessions.registry import Sessions
from tenure.sessions.rewriting import (
    Rewound,
    Wording,
    branch_of,
    compress,
    from_turn,
    say_again,
    undo,
)
from tenure.sessions.saving import give_back, keeper_of


async def session_undo(params: m.Undo, call: Call) -> m.Undone:
    """Take the last turns back, with the files if that is wished."""
    session = changing(call, params.session_id)
    done = await undo(session, params.turns)
    told = await _files(call.gateway.sessions, session, done) if params.files else ""
    return m.Undone(removed=done.removed, turn_ids=list(done.turn_ids), text=done.text, files=told)


async def prompt_edit(params: m.PromptEdit, call: Call) -> m.Receipt:
    """Take an earlier prompt back with all that followed, and send it in other words."""
    session = changing(call, params.session_id)
    text = with_pastes(params.text, call.peer.pastes)
    first = partial(_files, call.gateway.sessions, session) if params.files else None
    wording = Wording(text, params.key, first)
    return receipt_of(await say_again(session, from_turn(params.turn_id), wording))


async def _files(sessions: Sessions, session: Session, done: Rewound) -> str:
    """Give back what the first of the turns that changed anything had saved; a sentence."""
    saved = await keeper_of(session).of_session(session.scope, session.id)
    first = next((record for record in saved if record.turn_id in done.turn_ids), None)
    if first is None:
        return "These turns changed no files."
    try:
        done_files = await give_back(sessions, session, first.id, "", remove_new=False)
    except TenureError as exc:
        return f"The files were not given back: {exc.message}"
    return sentence(restored_of(done_files))


async def session_branch(params: m.BranchOff, call: Call) -> m.Branched:
    """A new session that begins where this one is, or was."""
    parent = call.gateway.sessions.find(params.session_id)
    if parent is None:
        raise NotFound(f"No live session {params.session_id[:40]!r}; resume it first.")
    check_owner(call, parent)
    async with call.gateway.profiles.using(parent.ports.profile):  # the parent may end meanwhile
        branch = await branch_of(parent, params.at)
    title = title_in(params.name) or f"{parent.title or 'untitled'} (branch)"
    wanted = m.SessionCreate(
        title=title, model=parent.wanted, source=parent.source, profile=parent.ports.profile
    )
    made = await call.gateway.sessions.create(
        wanted, parent.cwd, lambda session: attach(call, session), branch=branch
    )
    return m.Branched(made.id, title, parent.id)


async def session_compress(params: m.Compress, call: Call) -> dict[str, Any]:
    """Compress now; what it brought."""
    session = changing(call, params.session_id)
    done = await compress(session, params.focus_topic)
    noop = done.result.how == "none"
    before, after = done.result.before, done.result.after
    line = f"{before:,} to {after:,} tokens"
    summary = {
        "headline": "Nothing to compress." if noop else "Compressed.",
        "token_line": line,
        "note": "A summary would have been no shorter." if noop else "",
        "noop": noop,
        "aborted": False,
    }
    return {
        "status": "compressed",
        "removed": done.before_messages - done.after_messages,
        "before_messages": done.before_messages,
        "after_messages": done.after_messages,
        "before_tokens": before,
        "after_tokens": after,
        "summary": summary,
        "usage": session.usage(),
        "info": session.info(),
        "messages": [message_of(row) for row in session.journal.items],
    }
