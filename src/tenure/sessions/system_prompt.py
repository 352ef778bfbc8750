"""The system text of an agent, and the files that stand in it: AGENTS.md, names of skills."""

from __future__ import annotations

import asyncio
import functools
import platform
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from tenure.agent.instructions import Seen, look, project_of, read_instructions, upward
from tenure.agent.prompt import system_text
from tenure.glance import Glance
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.skills.shelf import Entry, Seen as ShelfSeen, Shelf, catalog


@dataclass(frozen=True, slots=True)
class Prompt:
    """A system text, and the files that it took in."""

    text: str
    sources: tuple[str, ...]
    files_chars: int = 0
    """How much of the text comes from them, and from skills."""
    skills: tuple[Entry, ...] = ()
    """Those that were found, also such as do not count."""


class PromptFacts(msgspec.Struct, frozen=True):
    """What a system text is made from."""

    cwd: Path
    user_home: Path
    small: bool
    wall_s: float
    elsewhere: Path | None = None
    """The working directory, if it is not on this machine; then no files of this one count."""
    shelf: Shelf | None = None
    """Where skills are; None: there are none. Those of the profile count everywhere."""

    @property
    def alone(self) -> bool:
        """Whether no files are taken in."""
        return self.small or self.elsewhere is not None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The working directory and those above it whose files count."""
        return () if self.alone else tuple(upward(self.cwd, self.user_home))

    def project(self, folders: Sequence[Path]) -> tuple[Path, ...]:
        """Those of `folders` whose skills count."""
        return project_of(folders, self.user_home)


DAY_S = 86_400


def _day(facts: PromptFacts) -> str:
    return _date(int(facts.wall_s // DAY_S))


@functools.lru_cache(maxsize=4)
def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def build_prompt(facts: PromptFacts) -> Prompt:
    """The system text of an agent; reads AGENTS.md files, so it belongs in a thread."""
    found = () if facts.alone else read_instructions(facts.cwd, facts.user_home)
    made = partial(
        system_text,
        small=facts.small,
        cwd=str(facts.elsewhere or facts.cwd),
        system=f"{platform.system()} {platform.machine()}",
        date=_day(facts),
    )
    skills = (
        () if facts.shelf is None or facts.small else facts.shelf.find(facts.project(facts.folders))
    )
    text = made(instructions=found, skills=catalog(skills))
    files = tuple(str(one.path) for one in found)
    return Prompt(text, files, len(text) - len(made()), skills)


class _Reading:
    """One that is under way, for all who want it."""

    __slots__ = ("over", "prompt")

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.prompt: Prompt | None = None


_Key = tuple[str, str, str, str, bool, str]
_Stamps = tuple[Seen, ShelfSeen]
KEPT_MAX = 64
"""System texts that are kept, the latest used; each of at most some 50 KB."""


class Prompts:
    """Builds system texts; who wants the same one shares it for as long as its files stand."""

    def __init__(self) -> None:
        self._reading: dict[_Key, _Reading] = {}
        self._kept: OrderedDict[_Key, tuple[_Stamps, Prompt]] = OrderedDict()
        self._looked: Glance[dict[_Key, _Stamps]] = Glance(dict)

    async def read(self, scope: Scope, facts: PromptFacts) -> Prompt:
        """The system text for `facts`; its files are read in a thread, unless they are as before.

        Ownership: the thread belongs to the `scope` of whoever came first. If that ends before it,
        the next one reads.
        Cancellation: stops the waiting.
        """
        shelf = str(facts.shelf.root) if facts.shelf else ""
        places = (str(facts.elsewhere or ""), str(facts.cwd), str(facts.user_home), shelf)
        key = (*places, facts.small, _day(facts))
        if (kept := self._known(key, facts)) is not None:
            return kept
        while (reading := self._reading.get(key)) is not None:
            await reading.over.wait()
            if reading.prompt is not None:
                return reading.prompt
        reading = self._reading[key] = _Reading()
        try:
            seen, prompt = await run_in_thread(scope, _look_and_build, facts)
            reading.prompt = prompt
            self._keep(key, seen, prompt)
        finally:
            del self._reading[key]
            reading.over.set()
        return prompt

    def _known(self, key: _Key, facts: PromptFacts) -> Prompt | None:
        """The one that is kept, if its files are as they were; one look in a turn of the loop."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        looked = self._looked()
        seen = looked.get(key)
        if seen is None:
            seen = looked[key] = _look(facts)
        if seen != kept[0]:
            return None
        self._kept.move_to_end(key)
        return kept[1]

    def _keep(self, key: _Key, seen: _Stamps, prompt: Prompt) -> None:
        self._kept[key] = seen, prompt
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def _look(facts: PromptFacts) -> _Stamps:
    folders = facts.folders
    if facts.shelf is None or facts.small:
        return look(folders), ()
    return look(folders), facts.shelf.look(facts.project(folders))


def _look_and_build(facts: PromptFacts) -> tuple[_Stamps, Prompt]:
    return _look(facts), build_prompt(facts)
