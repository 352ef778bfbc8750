"""memory.*: what the agents of a profile remember; /memory."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from tenure.errors import BadValue, NotFound
from tenure.ids import whole_number
from tenure.protocol import memories as p
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.memories import Memories
from tenure.store.base import MemoryRow

VERBS = ("accept", "reject", "add", "remove", "search")


@asynccontextmanager
async def _memories(params: p.OfProfile, call: Call, *, change: bool) -> AsyncIterator[Memories]:
    """Those that are meant. Who changes them by way of a session must own it."""
    profile = params.profile
    if params.session_id:
        found = call.gateway.sessions.get(params.session_id)
        profile = (changing(call, params.session_id) if change else found).ports.profile
    async with call.gateway.profiles.using_ports(profile) as ports:
        if ports.memories is None:
            raise NotFound("Nothing is remembered here.")
        yield ports.memories


def _shown(row: MemoryRow) -> p.Remembered:
    return p.Remembered(**msgspec.structs.asdict(row))


async def memory_list(params: p.MemoryList, call: Call) -> p.Memories:
    """All notes, or those in a state."""
    async with _memories(params, call, change=False) as memories:
        return p.Memories([_shown(row) for row in await memories.rows(params.state)])


async def memory_search(params: p.MemorySearch, call: Call) -> p.Memories:
    """Notes by words."""
    async with _memories(params, call, change=False) as memories:
        found = await memories.search(params.query, params.state, params.limit)
    return p.Memories([_shown(row) for row in found])


async def memory_add(params: p.MemoryAdd, call: Call) -> p.Remembered:
    """A note of the person's own."""
    async with _memories(params, call, change=True) as memories:
        return _shown(await memories.add(params.text, "person", params.session_id))


async def memory_accept(params: p.MemoryAccept, call: Call) -> p.Remembered:
    """Let it count."""
    async with _memories(params, call, change=True) as memories:
        return _shown(await memories.accept(params.id, params.text))


async def memory_reject(params: p.MemoryNumbers, call: Call) -> p.Forgotten:
    """Remove what waits."""
    async with _memories(params, call, change=True) as memories:
        return p.Forgotten(await memories.remove(params.ids, "proposed"))


async def memory_remove(params: p.MemoryNumbers, call: Call) -> p.Forgotten:
    """Remove."""
    async with _memories(params, call, change=True) as memories:
        return p.Forgotten(await memories.remove(params.ids))


async def memory_command(session_id: str, arg: str, call: Call) -> str:
    """``/memory``, ``/memory accept|reject|remove N…``, ``/memory add|search TEXT``."""
    verb, _, rest = arg.partition(" ")
    rest = rest.strip()
    if verb == "add":
        return _line(await memory_add(p.MemoryAdd(text=rest, session_id=session_id), call))
    if verb == "search":
        return _lines(
            (await memory_search(p.MemorySearch(query=rest, session_id=session_id), call)).notes
        )
    if verb == "accept":
        accepted = [p.MemoryAccept(id=n, session_id=session_id) for n in _numbers(rest, verb)]
        return _lines([await memory_accept(one, call) for one in accepted])
    if verb in {"reject", "remove"}:
        remove = memory_reject if verb == "reject" else memory_remove
        gone = (
            await remove(p.MemoryNumbers(ids=_numbers(rest, verb), session_id=session_id), call)
        ).removed
        return f"removed for good: {', '.join(map(str, gone)) or 'none of them was there'}"
    if verb:
        raise BadValue(f"/memory does not know {shlex.quote(verb)}; use {', '.join(VERBS)}.")
    return _lines((await memory_list(p.MemoryList(session_id=session_id), call)).notes)


def _numbers(text: str, verb: str) -> list[int]:
    words = text.replace(",", " ").split()
    numbers = [number for word in words if (number := whole_number(word)) is not None]
    if not words or len(numbers) < len(words):
        raise BadValue(f"Name notes by their numbers: /memory {verb} N; /memory lists them.")
    return numbers


def _lines(notes: Sequence[p.Remembered]) -> str:
    return "\n".join(map(_line, notes)) or "no notes"


def _line(note: p.Remembered) -> str:
    day = datetime.fromtimestamp(note.created_at, UTC).date().isoformat()
    waits = "  (proposed: /memory accept, reject)" if note.state == "proposed" else ""
    return f"{note.id:>4}  {day}  {note.text}{waits}"
