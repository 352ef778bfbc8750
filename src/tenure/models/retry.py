"""Trying again, where nothing was said yet.

A model call may be repeated only while the stream has yielded nothing but `Progress`: after the
first word a repeat would say it twice. Each repeat is announced by a `Progress` event.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import msgspec

from tenure.clock import Clock
from tenure.errors import ModelOverloaded
from tenure.models.base import ModelEvent, Progress

Attempt = Callable[[], AbstractAsyncContextManager[AsyncIterator[ModelEvent]]]


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often, and how long between.

    Attributes:
        attempts: calls in all, the first included.
        first_s: the pause before the second call; it doubles from there.
        pause_s_max: no pause is longer; a provider that asks for more is not asked again.
        jitter: the pause is multiplied by a random number in ``1 ± jitter``, so that many
            sessions do not return at the same instant.
    """

    attempts: int = 3
    first_s: float = 0.5
    pause_s_max: float = 20.0
    jitter: float = 0.25

    def pause_s(self, failed: int, retry_after_s: float | None, chance: float) -> float | None:
        """Seconds to wait after `failed` failures, or None: give up.

        Args:
            failed: calls that have failed so far, from 1.
            retry_after_s: the provider's hint.
            chance: a random number in [0, 1).
        """
        if failed >= self.attempts or (retry_after_s or 0.0) > self.pause_s_max:
            return None
        doubled = min(self.first_s * 2.0 ** (failed - 1), self.pause_s_max)
        return max(retry_after_s or 0.0, doubled * (1 + self.jitter * (2 * chance - 1)))


NEVER = RetryPolicy(attempts=1)


@asynccontextmanager
async def retried(
    attempt: Attempt,
    clock: Clock,
    policy: RetryPolicy,
    chance: Callable[[], float] = random.random,
) -> AsyncIterator[AsyncIterator[ModelEvent]]:
    """A stream that opens `attempt` again while that is allowed.

    Leaving the context closes the attempt that is under way; cancelling the reader is safe at any
    point, the pause included.
    """
    async with aclosing(_attempts(attempt, clock, policy, chance)) as events:
        yield events


async def _attempts(
    attempt: Attempt, clock: Clock, policy: RetryPolicy, chance: Callable[[], float]
) -> AsyncGenerator[ModelEvent, None]:
    failed = 0
    while True:
        said, pause_s, notice = False, 0.0, ""
        try:
            async with attempt() as events:
                async for event in events:
                    said = said or type(event) is not Progress
                    yield event
        except ModelOverloaded as exc:
            failed += 1
            allowed_s = None if said else policy.pause_s(failed, exc.retry_after_s, chance())
            if allowed_s is None:
                raise
            pause_s = allowed_s
            notice = (
                f"{exc.message} Retrying in {pause_s:.1f} s ({failed} of {policy.attempts - 1})…"
            )
        else:
            return
        yield Progress(notice)
        await clock.sleep(pause_s)
