"""What the agents of a profile remember from session to session.

An agent proposes a note; it counts once a person has accepted it, unless the configuration says
that agents may decide. Notes that count stand in the system text, newest first, as far as they fit;
all can be searched. What is removed is gone at once, also for turns that begin later in sessions
that are open; see store/memories.py for the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from tenure.clock import Clock
from tenure.config import Config
from tenure.errors import BadValue, Conflict, NotFound, TooLarge
from tenure.sessions.journal import stored
from tenure.store.base import AcceptMemory, DeleteMemories, InsertMemory, MemoryRow, Store
from tenure.store.terms import terms_of

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

NOTE_CHARS_MAX = 1_000
PROPOSED_MAX = 50
"""Notes that wait for a person at one time."""
FOUND_MAX = 50
_ABOUT = """

What you were told to remember in earlier sessions. These are facts and wishes, each as old as its \
date says; what you see now counts more. The tool memory searches all of them and proposes others.
<notes>
"""

State = Literal["", "proposed", "accepted"]
By = Literal["agent", "person"]


class Memories:
    """The notes of one profile. All of them are few and short, so they are kept in memory.

    Args:
        store: the profile's.
        clock: says how old they are.
        config: limits, and who decides.
    """

    def __init__(self, store: Store, clock: Clock, config: Callable[[], Config]) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._rows: dict[int, MemoryRow] | None = None
        self._text: str | None = None

    async def ready(self) -> None:
        """Read them, the first time. Raises StoreError."""
        if self._rows is None:
            rows = await self._store.memories()
            if self._rows is None:  # another one may have been quicker, and changed some since
                self._rows = {row.id: row for row in rows}

    async def rows(self, state: State = "") -> list[MemoryRow]:
        """Those in a state (empty: all), oldest first."""
        await self.ready()
        return [row for row in (self._rows or {}).values() if state in ("", row.state)]

    async def search(self, words: str, state: State, limit: int) -> Sequence[MemoryRow]:
        """Those with all the words, the best match first.

        Raises:
            BadValue: there is no word in it. StoreError.
        """
        most = max(1, min(limit, FOUND_MAX))
        return await self._store.find_memories(terms_of(words), state=state, limit=most)

    async def add(self, text: str, by: By, session_id: str = "") -> MemoryRow:
        """Keep a note: a person's counts at once, an agent's as the configuration says.

        Returns:
            The note; the one that says the same already, if there is one.

        Raises:
            BadValue, TooLarge: it is empty, or over 1,000 characters.
            Conflict: there is no room, or too many wait.
            StoreError: it is not kept.
        """
        rules, now = self._config().memory, self._clock.wall()
        text = _line(text)
        await self.ready()
        known = next((row for row in (self._rows or {}).values() if _same(row.text, text)), None)
        counts = by == "person" or rules.auto_accept
        if known is not None:
            return await self.accept(known.id) if counts and known.state == "proposed" else known
        waiting = sum(row.state == "proposed" for row in (self._rows or {}).values())
        if not counts and waiting >= PROPOSED_MAX:
            raise Conflict(f"{waiting} notes wait for the person to accept or reject them.")
        row = MemoryRow(0, text, "accepted" if counts else "proposed", by, session_id, now)
        row = msgspec.structs.replace(row, decided_at=now if counts else 0.0)
        kept: list[MemoryRow] = []
        commit = self._store.write(InsertMemory(row, rules.notes_max, rules.bytes_max))

        def take() -> None:
            number = commit.result()[0]
            if number:
                kept.append(msgspec.structs.replace(row, id=number))
                self._take(kept[0])

        await stored(commit, take)
        if not kept:
            raise Conflict(
                f"There is no room for another note (the limits are {rules.notes_max:,} notes and "
                f"{rules.bytes_max:,} bytes); remove some first."
            )
        return kept[0]

    async def accept(self, number: int, text: str = "") -> MemoryRow:
        """Let a note count, in other words if `text` says so.

        Raises:
            NotFound: there is none. TooLarge. StoreError: it is as it was.
        """
        row = await self._get(number)
        now, text = self._clock.wall(), _line(text) if text else ""
        commit = self._store.write(AcceptMemory(number, now, text))

        def take() -> None:
            nonlocal row
            if commit.result()[0]:
                row = (self._rows or {}).get(number, row)  # another's words may have come first
                row = msgspec.structs.replace(
                    row, state="accepted", decided_at=now, text=text or row.text
                )
                self._take(row)

        await stored(commit, take)
        if not commit.result()[0]:
            raise _unknown(number)
        return row

    async def remove(self, numbers: Sequence[int], state: State = "") -> list[int]:
        """Remove notes for good; the numbers of those that were there.

        Args:
            numbers: which.
            state: only those in this state; empty: in any.

        Raises:
            StoreError: they are all there.
        """
        await self.ready()
        gone: list[int] = []
        commit = self._store.write(DeleteMemories(tuple(numbers), state))

        def take() -> None:
            gone.extend(commit.result()[0])
            for number in gone:
                (self._rows or {}).pop(number, None)
            self._text = None

        await stored(commit, take)
        return gone

    async def _get(self, number: int) -> MemoryRow:
        await self.ready()
        row = (self._rows or {}).get(number)
        if row is None:
            raise _unknown(number)
        return row

    def _take(self, row: MemoryRow) -> None:
        if self._rows is not None:
            self._rows[row.id] = row
        self._text = None

    @property
    def text(self) -> str:
        """What the system text says of them; nothing before they were read, or where none count."""
        if self._text is None:
            rows = [row for row in (self._rows or {}).values() if row.state == "accepted"]
            self._text = _told(rows, self._config().memory.prompt_chars)
        return self._text


def _line(text: str) -> str:
    """A note as it is kept: one line that ends no part of a system text."""
    line = " ".join(text.split()).replace("</", "< /")
    if not line:
        raise BadValue("The note is empty.")
    if len(line) > NOTE_CHARS_MAX:
        raise TooLarge(f"A note has at most {NOTE_CHARS_MAX:,} characters; keep it short.")
    return line


def _unknown(number: int) -> NotFound:
    return NotFound(f"There is no note {number}; `tenure memory list` shows them.")


def _same(one: str, other: str) -> bool:
    return one.casefold().rstrip(".") == other.casefold().rstrip(".")


def _told(rows: Sequence[MemoryRow], chars: int) -> str:
    """The newest first, whole ones only, within `chars`."""
    lines: list[str] = []
    for row in sorted(rows, key=lambda row: (-row.decided_at, -row.id)):
        line = f"- {row.text} ({_day(row.created_at)})"
        chars -= len(line) + 1
        if chars < 0:
            break
        lines.append(line)
    if not lines:
        return ""
    left = len(rows) - len(lines)
    more = [f"- and {left} more, which memory searches"] if left else []
    return _ABOUT + "\n".join([*lines, *more]) + "\n</notes>"


def _day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).date().isoformat()


class SessionMemory:
    """One session's way to them: it is the source of what its agent proposes.

    Args:
        session: whose.
        memories: the profile's.
    """

    def __init__(self, session: Session, memories: Memories) -> None:
        self._session = session
        self._memories = memories

    async def search(self, words: str, limit: int) -> Sequence[str]:
        """See `Memory.search`."""
        found = await self._memories.search(words, "accepted", limit)
        return [f"{row.text} ({_day(row.created_at)})" for row in found]

    async def propose(self, text: str) -> bool:
        """See `Memory.propose`."""
        row = await self._memories.add(text, "agent", self._session.id)
        told = {"id": row.id, "state": row.state, "text": row.text}
        self._session.journal.transient("memory.changed", told)
        return row.state == "accepted"
