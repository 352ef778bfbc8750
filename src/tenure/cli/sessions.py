"""`tenure sessions`: show, export, delete; and which one a person means."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tenure.cli.attach import Where, attach
from tenure.cli.sure import is_sure
from tenure.errors import BadValue, NotFound


async def show_session(where: Where, session: str) -> int:
    """A session's messages as text."""
    async with attach(where) as attached:
        session = await id_of(attached.client, where.profile, session)
        messages = await _messages(attached.client, where.profile, session)
        if not messages:
            await _must_exist(attached.client, where.profile, session)
    if not messages:
        sys.stderr.write("Nothing was said in this session.\n")
    for message in messages:
        _show_message(message)
    return 0


def _show_message(message: dict[str, Any]) -> None:
    if message["role"] == "tool":
        for line in message["text"].rstrip().splitlines() or [""]:
            sys.stdout.write(f"  | {line}\n")
        return
    mark = {"user": "›", "system": "…"}.get(message["role"], "•")
    if message["text"]:
        sys.stdout.write(f"{mark} {message['text']}\n")
    for file in message.get("files", ()):
        sys.stdout.write(f"  with {file['about']}\n")
    for call in message.get("tool_calls", ()):
        sys.stdout.write(f"  {call['name']} {call['arguments']}\n")


async def export_session(
    where: Where, session: str, *, output: Path | None, files: Path | None
) -> int:
    """A session as JSON; every secret known to the gateway is blanked by the redactor.

    Files of its prompts go into the folder `files`, as they are; the JSON names each.
    """
    from tenure.cli.export import redacted
    from tenure.cli.files import save_all

    async with attach(where) as attached:
        session = await id_of(attached.client, where.profile, session)
        rows = await _rows(attached.client, where.profile)
        row = next((r for r in rows if r["id"] == session), None)
        if row is None:
            raise NotFound(f"No session {session}; `tenure sessions list` shows them.")
        messages = await _messages(attached.client, where.profile, session)
        if files is not None:
            await save_all(attached.client, where.profile, session, messages, files)
    text = redacted(where, json.dumps({**row, "messages": messages}, ensure_ascii=False, indent=1))
    if output is None:
        sys.stdout.write(text + "\n")
    else:
        _write(output, text)
    return 0


def _write(output: Path, text: str) -> None:
    from tenure.home import write_private

    if output.is_dir():
        raise BadValue(f"{output} is a folder; name a file in it.")
    try:
        write_private(output, text.encode(errors="replace"))
    except OSError as exc:
        raise BadValue(f"{output} cannot be written: {exc.strerror}.") from None


async def delete_session(where: Where, session: str, *, yes: bool) -> int:
    """Remove a session with its history."""
    async with attach(where) as attached:
        session = await id_of(attached.client, where.profile, session)
        if not is_sure(f"Delete {session} for good?", yes=yes):
            return 1
        await attached.client.call("session.delete", session_id=session, profile=where.profile)
    sys.stderr.write(f"deleted {session}\n")
    return 0


async def id_of(client: Any, profile: str, session: str) -> str:
    """An id, the end of one, an exact title, or "last"."""
    from tenure.ids import SESSION_ID

    if SESSION_ID.fullmatch(session):
        return session
    rows = await _rows(client, profile)
    if session == "last" and (said := [row for row in rows if was_used(row)]):
        return str(said[0]["id"])
    hits = [r["id"] for r in rows if r["title"] == session or r["id"].endswith(session)]
    if len(hits) != 1:
        what = "no session" if not hits else f"{len(hits)} sessions"
        raise NotFound(f"{session[:60]!r} names {what}; `tenure sessions list` shows them.")
    return str(hits[0])


def was_used(row: dict[str, Any]) -> bool:
    """Whether something was said in a session; one that was only opened is not meant by "last"."""
    return bool(row["message_count"] or row["preview"] or row["title"])


async def _messages(client: Any, profile: str, session: str) -> list[dict[str, Any]]:
    """All of them, page by page."""
    messages: list[dict[str, Any]] = []
    before = 0
    while True:
        found = await client.call(
            "session.history", session_id=session, profile=profile, before=before
        )
        messages = found["messages"] + messages
        if not found["omitted"]:
            return messages
        before = messages[0]["seq"]


async def _rows(client: Any, profile: str) -> list[dict[str, Any]]:
    """Every session of a profile, the one that was used last first; archived ones too."""
    rows: list[dict[str, Any]] = []
    for archived in (False, True):
        found = await client.call("session.list", limit=10_000, profile=profile, archived=archived)
        rows += found["sessions"]
    return sorted(rows, key=lambda row: -float(row["last_active"]))


async def _must_exist(client: Any, profile: str, session: str) -> None:
    if session not in {row["id"] for row in await _rows(client, profile)}:
        raise NotFound(f"No session {session}; `tenure sessions list` shows them.")


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1) + "\n")
