"""/undo /branch /compress /queue /steer: what one does with what was or is to be said."""

from __future__ import annotations

import shlex

from tenure.errors import BadValue
from tenure.ids import whole_number
from tenure.protocol import methods as m
from tenure.rpc.handlers.attach import changing
from tenure.rpc.handlers.prompt import session_steer
from tenure.rpc.handlers.rewriting import session_branch, session_compress, session_undo
from tenure.rpc.ports import Call
from tenure.sessions.prompts import edit_queued, policy_of, remove_queued, set_policy

PREVIEW_CHARS = 70


async def undo_command(session_id: str, arg: str, call: Call) -> str:
    """``/undo [N] [files]``."""
    words = arg.split()
    count = next((number for word in words if (number := whole_number(word))), 1)
    params = m.Undo(session_id=session_id, turns=max(1, count), files="files" in words)
    done = await session_undo(params, call)
    told = f"taken back: {_short(done.text)} ({done.removed} entries)"
    return f"{told}\nfiles: {done.files}" if done.files else told


async def branch_command(session_id: str, arg: str, call: Call) -> str:
    """``/branch [NAME]``."""
    made = await session_branch(m.BranchOff(session_id=session_id, name=arg), call)
    return f"branched: {made.title}\nresume it with: tenure chat --session {made.session_id}"


_STEERED = {
    "steered": "goes into the running turn",
    "streaming": "nothing was running, so it begins a turn",
}


async def compress_command(session_id: str, arg: str, call: Call) -> str:
    """``/compress [FOCUS]``."""
    done = await session_compress(m.Compress(session_id=session_id, focus_topic=arg), call)
    summary = done["summary"]
    if summary["noop"]:
        return f"{summary['headline']} {summary['note']}"
    return f"{summary['headline']} {summary['token_line']}."


async def steer_command(session_id: str, arg: str, call: Call) -> str:
    """``/steer TEXT``."""
    if not arg:
        raise BadValue("Say what the running turn should know: /steer TEXT.")
    said = await session_steer(m.Steer(session_id=session_id, text=arg), call)
    return _STEERED.get(said.how, said.how)


async def queue_command(session_id: str, arg: str, call: Call) -> str:
    """``/queue``, ``/queue rm N``, ``/queue edit N TEXT``, ``/queue policy NAME``."""
    session = call.gateway.sessions.get(session_id)
    verb, _, rest = arg.partition(" ")
    if verb == "policy" and rest:
        await set_policy(changing(call, session_id), rest.strip())
    elif verb in {"rm", "edit"}:
        place, _, text = rest.strip().partition(" ")
        turns = list(session.queue)
        number = whole_number(place) or 0
        if not 0 < number <= len(turns):
            raise BadValue(f"Name a place in the queue, 1 to {len(turns)}: /queue {verb} N.")
        turn_id = turns[number - 1].id
        if verb == "rm":
            await remove_queued(changing(call, session_id), turn_id)
        elif text:
            await edit_queued(changing(call, session_id), turn_id, text)
        else:
            raise BadValue("Give the new text: /queue edit N TEXT.")
    elif arg:
        raise BadValue(f"/queue does not know {shlex.quote(verb)}; use rm, edit or policy.")
    lines = [f"{n}  {_short(turn.prompt)}" for n, turn in enumerate(session.queue, 1)]
    lines.append(f"a prompt that meets a running turn: {policy_of(session)}")
    return "\n".join(lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[: PREVIEW_CHARS - 1]}…"
