"""`tenure memory`: what agents remember, and what a person makes of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from tenure.cli.attach import Where, attach
from tenure.cli.sure import is_sure
from tenure.clock import SystemClock
from tenure.errors import BadValue, NotFound

DAY_S = 86_400.0
_WHO = {"agent": "an agent", "person": "you"}


async def list_notes(where: Where, state: str, *, as_json: bool) -> int:
    """All of them, or those that wait."""
    found = await _call(where, "memory.list", state=state)
    if not found["notes"] and not as_json:
        sys.stderr.write("Nothing waits.\n" if state else "Nothing is remembered.\n")
    _show(found["notes"], as_json=as_json)
    return 0


async def search_notes(where: Where, words: str, *, as_json: bool) -> int:
    """By words; 1 where none has them."""
    found = await _call(where, "memory.search", query=words)
    if not found["notes"] and not as_json:
        sys.stderr.write("No note has these words.\n")
    _show(found["notes"], as_json=as_json)
    return 0 if found["notes"] else 1


async def add_note(where: Where, text: str) -> int:
    """One of the person's own."""
    note = await _call(where, "memory.add", text=text)
    sys.stderr.write(f"remembered as {note['id']}\n")
    return 0


async def accept_notes(where: Where, numbers: list[int], text: str) -> int:
    """Let them count."""
    if text and len(numbers) > 1:
        raise BadValue("--text is for one note.")
    async with attach(where) as attached:
        for number in numbers:
            note = await attached.client.call(
                "memory.accept", id=number, text=text, profile=where.profile
            )
            sys.stderr.write(f"{number} counts: {note['text']}\n")
    return 0


async def reject_notes(where: Where, numbers: list[int]) -> int:
    """Remove what waits."""
    return _gone(numbers, await _call(where, "memory.reject", ids=numbers))


async def remove_notes(where: Where, numbers: list[int], *, yes: bool) -> int:
    """Remove, after a question."""
    there = {note["id"] for note in (await _call(where, "memory.list"))["notes"]}
    if not there & set(numbers):
        return _gone(numbers, {"removed": []})
    named = ", ".join(map(str, numbers))
    if not is_sure(f"Remove {named} for good?", yes=yes):
        return 1
    return _gone(numbers, await _call(where, "memory.remove", ids=numbers))


def _gone(numbers: list[int], found: dict[str, Any]) -> int:
    for number in found["removed"]:
        sys.stderr.write(f"removed {number}\n")
    missing = [str(number) for number in numbers if number not in found["removed"]]
    if missing:
        raise NotFound(f"There is no such note: {', '.join(missing)}.")
    return 0


async def _call(where: Where, method: str, **params: Any) -> dict[str, Any]:
    async with attach(where) as attached:
        found: dict[str, Any] = await attached.client.call(method, profile=where.profile, **params)
    return found


def _show(notes: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(notes, ensure_ascii=False, indent=1) + "\n")
        return
    for note in notes:
        waits = "  (proposed)" if note["state"] == "proposed" else ""
        sys.stdout.write(f"{note['id']:>4}  {note['text']}{waits}\n")
        where = f", session {note['session_id']}" if note["session_id"] else ""
        sys.stdout.write(f"      {_age(note['created_at'])}, by {_WHO[note['by']]}{where}\n")


def _age(wall_s: float) -> str:
    days = int((SystemClock().wall() - wall_s) / DAY_S)
    return "today" if days <= 0 else f"{days} day{'' if days == 1 else 's'} old"
