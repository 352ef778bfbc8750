"""`tenure plan`: a plan that an agent has made, outside of a chat."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tenure.cli.attach import Where
from tenure.cli.holding import holding
from tenure.errors import BadValue
from tenure.lifecycle.threads import call_in_thread

FILE_BYTES_MAX = 256_000


async def show_plan(where: Where, session: str, *, as_json: bool) -> int:
    """The plan."""
    async with holding(where, session) as (client, session_id):
        plan = await client.call("plan.get", session_id=session_id)
    if as_json:
        sys.stdout.write(json.dumps(plan, ensure_ascii=False, indent=1) + "\n")
        return 0
    if plan["text"]:
        sys.stdout.write(plan["text"].rstrip() + "\n")
    sys.stderr.write(_state(plan) + "\n")
    return 0


def _state(plan: dict[str, Any]) -> str:
    if plan["on"]:
        return "plan mode is on" + ("" if plan["text"] else "; there is no plan yet")
    return "plan mode is off" + ("; this plan is approved" if plan["approved_at"] else "")


async def edit_plan(where: Where, session: str, file: Path | None) -> int:
    """Another text, from a file or an editor."""
    async with holding(where, session) as (client, session_id):
        plan = await client.call("plan.get", session_id=session_id)
        text = await (_typed(plan["text"]) if file is None else call_in_thread(_read, file))
        if text is None or text == plan["text"]:
            sys.stderr.write("nothing was changed\n")
            return 0
        await client.call("plan.edit", session_id=session_id, text=text, revision=plan["revision"])
    sys.stderr.write("the plan is changed\n")
    return 0


async def _typed(text: str) -> str | None:
    """The plan as a person has changed it in the terminal; None where they have left it."""
    from prompt_toolkit import PromptSession

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadValue("There is no terminal to edit in; give the new text with --file.")
    editor: PromptSession[str] = PromptSession(
        multiline=True,
        enable_open_in_editor=True,
        bottom_toolbar=" Alt-Enter keeps it · Ctrl-X Ctrl-E opens your editor · Ctrl-C leaves it ",
    )
    try:
        return await editor.prompt_async(default=text)
    except (EOFError, KeyboardInterrupt):
        return None


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.read(FILE_BYTES_MAX)
        with file.open("rb") as source:
            return source.read(FILE_BYTES_MAX).decode()
    except OSError as exc:
        raise BadValue(f"{file} cannot be read: {exc.strerror}.") from None
    except UnicodeDecodeError:
        raise BadValue(f"{file} is no text in UTF-8.") from None


async def approve_plan(where: Where, session: str) -> int:
    """Yes to the plan as it stands."""
    async with holding(where, session) as (client, session_id):
        plan = await client.call("plan.get", session_id=session_id)
        await client.call("plan.approve", session_id=session_id, revision=plan["revision"])
    sys.stderr.write(
        f"approved; have it carried out with: tenure run --session {session_id} 'go on'\n"
    )
    return 0


async def end_plan(where: Where, session: str) -> int:
    """No plan mode any more."""
    async with holding(where, session) as (client, session_id):
        await client.call("plan.mode", session_id=session_id, on=False)
    sys.stderr.write("plan mode is off\n")
    return 0
