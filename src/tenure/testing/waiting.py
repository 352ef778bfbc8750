"""Waiting in a test for what threads, children, sockets and files bring about."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from typing import Any

PATIENCE_S = float(os.environ.get("TENURE_TESTS_PATIENCE", "30"))
"""How long until something counts as never to come. It ends a test that would fail anyway, so a
machine that does much else must not reach it. The proof, which takes guards away and sees the tests
fail, has less."""


async def until(check: Callable[[], Any], what: str = "it", patience_s: float = PATIENCE_S) -> Any:
    """Wait for something that no event tells; what was found. Cancellable.

    Args:
        check: is called (and awaited, if it says so) again and again until it gives something true.
        what: is waited for; named when it does not come.
        patience_s: seconds until that fails.
    """
    try:
        async with asyncio.timeout(patience_s):
            pause_s = 0.001  # longer from look to look: some looks are at all of /proc
            while True:
                found = check()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(pause_s)
                pause_s = min(1.2 * pause_s, 0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {patience_s:g} s") from None
