"""skills.*: which skills there are; /skills."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from tenure.agent.instructions import project_of, upward
from tenure.errors import BadValue, NotFound
from tenure.lifecycle.threads import call_in_thread
from tenure.protocol import skills as k
from tenure.rpc.handlers.attach import changing
from tenure.rpc.handlers.config import rebuild
from tenure.rpc.ports import Call
from tenure.skills.folder import read_folder
from tenure.skills.shelf import Entry, waiting


async def _entries(params: k.SkillsList, call: Call) -> tuple[Entry, ...]:
    """Those of a session; else of a directory and a profile."""
    if params.session_id:
        session = call.gateway.sessions.get(params.session_id)
        profile, cwd = session.ports.profile, session.cwd
    else:
        profile, cwd = params.profile, call.gateway.folders.checked(params.cwd)
    async with call.gateway.profiles.using_ports(profile) as ports:
        if ports.shelf is None or not ports.config().skills.enabled:
            return ()
        folders = project_of(tuple(upward(Path(cwd), ports.user_home)), ports.user_home)
        return await call_in_thread(ports.shelf.find, folders)


async def skills_list(params: k.SkillsList, call: Call) -> k.Skills:
    """The skills, those that count first."""
    found = await _entries(params, call)
    return k.Skills([k.SkillRow(**msgspec.structs.asdict(entry)) for entry in found])


async def skills_manage(params: k.SkillsManage, call: Call) -> dict[str, Any]:
    """Names by source, or one skill."""
    found = [entry for entry in await _entries(params, call) if not entry.problem]
    if params.action == "list":
        sources = dict.fromkeys(entry.source for entry in found)
        return {"skills": {s: [e.name for e in found if e.source == s] for s in sources}}
    entry = next((entry for entry in found if entry.name == params.query), None)
    if entry is None:
        raise NotFound(f"There is no skill {params.query[:80]!r}.")
    folder = await call_in_thread(read_folder, Path(entry.path))
    return {"info": {**msgspec.to_builtins(entry), "files": list(folder.files)}}


async def skills_reload(params: k.SkillsList, call: Call) -> k.Reloaded:
    """Look again, and build the agent of the session anew if there is one."""
    found = await _entries(params, call)
    if params.session_id:
        rebuild(changing(call, params.session_id))
    names = [entry.name for entry in found if not entry.problem]
    told = waiting(found)
    output = f"{len(names)} skill{'' if len(names) == 1 else 's'}{f': {told}' if told else ''}"
    return k.Reloaded(output, names)


async def skills_command(session_id: str, arg: str, call: Call) -> str:
    """``/skills``, ``/skills reload``."""
    if arg == "reload":
        return (await skills_reload(k.SkillsList(session_id=session_id), call)).output
    if arg:
        raise BadValue(f"/skills does not know {shlex.quote(arg)}; use reload.")
    rows = (await skills_list(k.SkillsList(session_id=session_id), call)).skills
    lines = [f"{r.name:<24} {r.source:<8} {_about(r)}" for r in rows]
    return "\n".join(lines) or "no skills; `tenure skills install PATH` copies one"


def _about(row: k.SkillRow) -> str:
    return f"not used: {row.problem}" if row.problem else row.description
