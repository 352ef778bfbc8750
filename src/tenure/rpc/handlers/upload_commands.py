"""/attach and /detach: files for the next prompt."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tenure.conversation import Upload
from tenure.errors import BadValue, NotFound
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.sources import from_path
from tenure.sessions.uploads import attach, detach, uploads_of, warning_of


async def attach_command(session_id: str, arg: str, call: Call) -> str:
    """``/attach PATH…``; alone, what waits."""
    if not arg:
        return _listed(call.gateway.sessions.get(session_id).draft)
    session = changing(call, session_id)
    try:  # a path with blanks need not be quoted where it is the only one
        return await _attached(session, call, arg.strip("'\""))
    except NotFound:
        if len(words := _words(arg)) < 2:
            raise
    return "\n".join([await _attached(session, call, word) for word in words])


async def _attached(session: Session, call: Call, path: str) -> str:
    async with uploads_of(session).gate:
        upload = await attach(session, await from_path(session, path, near=call.peer.near))
    lines = [f"attached: {upload.about}", warning_of(session, upload)]
    return "\n".join(filter(None, lines))


async def detach_command(session_id: str, arg: str, call: Call) -> str:
    """``/detach N`` or ``/detach NAME``; alone, the last one."""
    session = changing(call, session_id)
    if not arg and not session.draft:
        raise BadValue("Nothing is attached to the next prompt.")
    gone = await detach(session, arg.strip("'\"") or session.draft[-1].id)
    return f"taken off: {gone.about}\n{_listed(session.draft)}"


def _words(arg: str) -> list[str]:
    try:
        return shlex.split(arg)
    except ValueError:
        raise BadValue("A quotation mark is missing in what is to be attached.") from None


def _listed(draft: Sequence[Upload]) -> str:
    if not draft:
        return "nothing is attached to the next prompt; /attach PATH attaches a file"
    lines = [f"{place}  {upload.about}" for place, upload in enumerate(draft, 1)]
    return "\n".join(["goes with the next prompt:", *lines])
