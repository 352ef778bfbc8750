"""The system text of an agent, and the AGENTS.md files that stand in it."""

from __future__ import annotations

import asyncio
import platform
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tenure.agent.instructions import Seen, look, read_instructions
from tenure.agent.prompt import system_text
from tenure.glance import Glance
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread


@dataclass(frozen=True, slots=True)
class Prompt:
    """A system text, and the files that it took in."""

    text: str
    sources: tuple[str, ...]
    files_chars: int = 0
    """How much of the text comes from them."""


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What a system text is made from."""

    cwd: Path
    user_home: Path
    small: bool
    wall_s: float
    elsewhere: Path | None = None
    """The working directory, if it is not on this machine; then no files of this one count."""

    @property
    def alone(self) -> bool:
        """Whether no files are taken in."""
        return self.small or self.elsewhere is not None


def _day(facts: PromptFacts) -> str:
    return datetime.fromtimestamp(facts.wall_s, UTC).date().isoformat()


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
    text = made(instructions=found)
    return Prompt(text, tuple(str(one.path) for one in found), len(text) - len(made()))


class _Reading:
    """One that is under way, for all who want it."""

    __slots__ = ("over", "prompt")

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.prompt: Prompt | None = None


_Key = tuple[str, str, str, bool, str]
KEPT_MAX = 64
"""System texts that are kept, the latest used; each of at most some 50 KB."""


class Prompts:
    """Builds system texts; who wants the same one shares it for as long as its files stand."""

    def __init__(self) -> None:
        self._reading: dict[_Key, _Reading] = {}
        self._kept: OrderedDict[_Key, tuple[Seen, Prompt]] = OrderedDict()
        self._looked: Glance[dict[_Key, Seen]] = Glance(dict)

    async def read(self, scope: Scope, facts: PromptFacts) -> Prompt:
        """The system text for `facts`; its files are read in a thread, unless they are as before.

        Ownership: the thread belongs to the `scope` of whoever came first. If that ends before it,
        the next one reads.
        Cancellation: stops the waiting.
        """
        places = (str(facts.elsewhere or ""), str(facts.cwd), str(facts.user_home))
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

    def _keep(self, key: _Key, seen: Seen, prompt: Prompt) -> None:
        self._kept[key] = seen, prompt
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def _look(facts: PromptFacts) -> Seen:
    return () if facts.alone else look(facts.cwd, facts.user_home)


def _look_and_build(facts: PromptFacts) -> tuple[Seen, Prompt]:
    return _look(facts), build_prompt(facts)
