"""Sub-agents as they are shown, steered and ended: one session's board of them.

What runs them is `delegation`; here is what others may see and do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tenure.conversation import Usage
from tenure.ids import new_id
from tenure.tools.base import Task, ToolResult
from tenure.tools.clip import clip

GOAL_CHARS = 200
TAIL_LINES = 200
LINE_CHARS = 500
KEPT_MAX = 64
"""Sub-agents that are over and can still be looked at."""
STEERED_MAX = 16
RUNNING, WAITING = "running", "waiting"


class SubAgent:
    """One, alive or over.

    Attributes:
        id, parent_id: its id, and that of the sub-agent above it; empty below a turn.
        goal: the task, for people.
        depth: 1 below a turn.
        index, count: its place among the tasks of its call.
        number: what people call it: the how-manieth of its session; 0 before it is on the board.
        state: waiting, running, then how it ended (completed, interrupted, failed, refused).
        why: in a sentence, where it did not complete.
        tail: the last lines of what it said and did, and how many there were.
        usage: tokens, those of its own sub-agents included.
    """

    def __init__(self, task: Task, parent: SubAgent | None, index: int, count: int) -> None:
        self.id = new_id("sub")
        self.parent_id = parent.id if parent else ""
        self.goal = " ".join(clip(task.goal, GOAL_CHARS).split())
        self.wanted = task
        self.depth: int = parent.depth + 1 if parent else 1
        self.index, self.count = index, count
        self.number = 0
        self.model = task.model
        self.state = WAITING
        self.why = ""
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.lines = 0
        self.usage = Usage()
        self.steps = 0
        self.calls = 0
        """Tool calls so far."""
        self.began_at = self.ended_at = 0.0
        self.moved_at = 0.0
        self.busy = 0
        """Tools that run, and questions that wait: neither is a stall."""
        self.steered: deque[str] = deque()
        self.task: asyncio.Task[ToolResult] | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in {WAITING, RUNNING}

    def say(self, text: str) -> None:
        """Add to the tail."""
        for line in text.splitlines():
            self.lines += 1
            self.tail.append(line[:LINE_CHARS])

    def cancel(self, cause: str, why: str) -> bool:
        """End it and all below it; the first reason stands. Whether it was alive."""
        if self.over or self.task is None:
            return False
        self.why = self.why or why
        self.task.cancel(cause)
        return True

    def facts(self) -> dict[str, Any]:
        """What every event of it says, and a row of a list."""
        return {
            "subagent_id": self.id,
            "parent_id": self.parent_id or None,
            "goal": self.goal,
            "number": self.number,
            "task_index": self.index,
            "task_count": self.count,
            "depth": self.depth,
            "model": self.model,
            "status": self.state,
            "tool_count": self.calls,
            "api_calls": self.steps,
            "tokens": self.usage.input + self.usage.output,
        }


class Board:
    """The sub-agents of one session, those that live and the last ones that are over."""

    def __init__(self) -> None:
        self.all: dict[str, SubAgent] = {}
        self._places: dict[tuple[int, int], asyncio.Semaphore] = {}
        """By depth and by how many there are: a limit that changes counts for those that come."""
        self._count = 0
        self._go_on = asyncio.Event()
        self._go_on.set()

    @property
    def paused(self) -> bool:
        """Whether none is begun."""
        return not self._go_on.is_set()

    def pause(self, paused: bool) -> None:
        """Begin no more sub-agents until told otherwise; those that run go on."""
        if paused:
            self._go_on.clear()
        else:
            self._go_on.set()

    @property
    def live(self) -> list[SubAgent]:
        """Those that wait or run, in the order of their beginning."""
        return [one for one in self.all.values() if not one.over]

    def add(self, one: SubAgent) -> None:
        """From here on it can be seen; the oldest that are over are forgotten."""
        self._count += 1
        one.number = self._count
        self.all[one.id] = one
        over = [known for known in self.all.values() if known.over]
        for known in over[: max(0, len(over) - KEPT_MAX)]:
            del self.all[known.id]

    @asynccontextmanager
    async def place(self, one: SubAgent, places: int) -> AsyncIterator[None]:
        """Wait for one of so many places, then while paused; cancelling that takes none.

        The pause comes last: a place that becomes free during it begins nobody. Each depth has
        places of its own: one that waits for those below it holds none of theirs.
        """
        async with self._places.setdefault((one.depth, places), asyncio.Semaphore(places)):
            while self.paused:  # it may be paused again before this one wakes
                await self._go_on.wait()
            yield

    def numbered(self, number: int) -> SubAgent | None:
        """The one that people call by this number, while it is known."""
        return next((one for one in self.all.values() if one.number == number), None)

    def steer(self, one: SubAgent, text: str) -> bool:
        """Tell a sub-agent something, before its next step. Whether it will hear it."""
        if one.over or len(one.steered) >= STEERED_MAX:
            return False
        one.steered.append(text)
        return True
