"""The system text of an agent, and the AGENTS.md files that stand in it."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tenure.agent.instructions import read_instructions
from tenure.agent.prompt import system_text
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


def _day(facts: PromptFacts) -> str:
    return datetime.fromtimestamp(facts.wall_s, UTC).date().isoformat()


def build_prompt(facts: PromptFacts) -> Prompt:
    """The system text of an agent; reads AGENTS.md files, so it belongs in a thread."""
    alone = facts.small or facts.elsewhere is not None
    found = () if alone else read_instructions(facts.cwd, facts.user_home)
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


class Prompts:
    """Builds system texts; whoever wants the same one at the same moment shares its reading."""

    def __init__(self) -> None:
        self._reading: dict[tuple[str, str, bool, str], _Reading] = {}

    async def read(self, scope: Scope, facts: PromptFacts) -> Prompt:
        """The system text for `facts`, read in a thread.

        Ownership: the thread belongs to the `scope` of whoever came first. If that ends before it,
        the next one reads.
        Cancellation: stops the waiting.
        """
        where = f"{facts.elsewhere or ''}:{facts.cwd}"
        key = (where, str(facts.user_home), facts.small, _day(facts))
        while (reading := self._reading.get(key)) is not None:
            await reading.over.wait()
            if reading.prompt is not None:
                return reading.prompt
        reading = self._reading[key] = _Reading()
        try:
            reading.prompt = await run_in_thread(scope, build_prompt, facts)
        finally:
            del self._reading[key]
            reading.over.set()
        return reading.prompt
