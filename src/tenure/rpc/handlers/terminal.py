"""What faces in a terminal need beside prompts: pastes, drops, background processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenure.errors import TooLarge
from tenure.ids import new_id
from tenure.lifecycle.threads import run_in_thread
from tenure.protocol import methods as m
from tenure.protocol.messages import PROMPT_BYTES_MAX
from tenure.rpc.handlers.attach import changing
from tenure.rpc.handlers.uploads import dropped
from tenure.rpc.ports import Call
from tenure.tools.background import list_background, stop_background

PASTES_MAX = 64
"""Long pastes kept per connection; the oldest goes first."""
PASTES_CHARS_MAX = 4 * PROMPT_BYTES_MAX
"""Characters of all of them."""


async def input_detect_drop(params: m.DetectDrop, call: Call) -> dict[str, Any]:
    """Whether the text is the path of a file that was dropped into the terminal.

    An image or a PDF is attached to the prompt that follows; other files are for the tools.
    """
    if params.session_id and params.text.lstrip()[:1] in {"/", "~", "'", '"', "f"}:
        found = await dropped(changing(call, params.session_id), call, params.text)
        if found:
            return found
    text = params.text.strip().strip("'\"").removeprefix("file://")
    if not text.startswith("/") or "\n" in text:
        return {"matched": False}
    path = Path(text.replace("\\ ", " "))
    if not await run_in_thread(call.peer.scope, _is_file, path):
        return {"matched": False}
    told = {"path": str(path), "name": path.name, "text": params.text}
    return {"matched": True, "is_image": False, **told}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


async def paste_collapse(params: m.Collapse, call: Call) -> dict[str, Any]:
    """A placeholder for a long paste; prompt.submit puts the text back."""
    if len(params.text.encode()) > PROMPT_BYTES_MAX:
        raise TooLarge(f"The paste is over {PROMPT_BYTES_MAX >> 20} MiB; put it into a file.")
    lines = params.text.count("\n") + 1
    placeholder = f"[pasted text {new_id('p')[2:8]}: {lines} lines]"
    pastes = call.peer.pastes
    pastes[placeholder] = params.text
    while len(pastes) > PASTES_MAX or sum(map(len, pastes.values())) > PASTES_CHARS_MAX:
        del pastes[next(iter(pastes))]
    return {"placeholder": placeholder, "path": "", "lines": lines}


async def process_list(params: m.MaybeSession, call: Call) -> dict[str, Any]:
    """The session's background processes."""
    session = call.gateway.sessions.get(params.session_id)
    return {"processes": list_background(session.tool_state)}


async def process_stop(params: m.MaybeSession, call: Call) -> dict[str, Any]:
    """Stop the background processes of the session named, else of those this client listens to.

    The terminal client names none. Other people's sessions are none of its business.
    """
    sessions = call.gateway.sessions
    if params.session_id:
        chosen = [changing(call, params.session_id)]
    else:
        chosen = [s for s in sessions.live() if s.attachments.owned_by(call.peer)]
    killed = 0
    for session in chosen:
        killed += await stop_background(session.tool_state)
    return {"killed": killed}
