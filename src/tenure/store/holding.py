"""Holding a home through a store: one row with holder, epoch and expiry, on the store's own clock.

Whoever takes the home gets a higher epoch, and every transaction of every other process that still
thinks it holds it fails from then on. The lease is renewed twice in its time, also by a gateway
that does nothing else (with 120 seconds: once a minute), so after its expiry the holder is
frozen, asleep or gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from tenure.clock import Clock
from tenure.errors import LeaseLost, StoreError
from tenure.store.base import (
    EndHome,
    MarkInterrupted,
    RenewHome,
    SettleLeftovers,
    Store,
    TakeHome,
)

log = logging.getLogger("tenure.store")

CRASH = "crash"
"""The reason of rows whose gateway died."""
RENEWALS = 2
"""In the time of one lease."""


class Held(NamedTuple):
    """A home that is ours.

    Attributes:
        epoch: fences every write.
        last_seen: the last sign of life of the holder before us, in wall-clock seconds; 0: none.
    """

    epoch: int
    last_seen: float


async def take_home(
    store: Store,
    holder: str,
    lease_s: float,
    *,
    is_gone: Callable[[str], bool],
    lost: Callable[[], object],
) -> Held:
    """Take the home and fence every later write of `store` by it.

    Args:
        store: of the home, or of a part of it.
        holder: our identity as text.
        lease_s: for how many seconds.
        is_gone: whether the holder of this identity is known not to run any more; its lease is then
            taken at once, otherwise after its expiry.
        lost: called once, on the loop, when somebody else has taken it from us.

    Raises:
        LeaseLost: it is held by somebody who may be alive; nothing was written.
        StoreError: the store failed.
    """
    found = await store.home()
    over = found.epoch if found is not None and is_gone(found.holder) else 0
    ((epoch, before),) = await store.write(TakeHome(holder, lease_s, over))
    store.hold_home(epoch, lost)
    return Held(epoch, before.renewed_at if before else 0.0)


async def settle(store: Store, held: Held, now: float, *, hook: bool = False) -> dict[str, int]:
    """End the rows that the holder before us left open; what it was running is marked.

    Queued prompts stay queued; with `hook` the hook has to run for every session that is ended.
    How many rows: turns, sessions, questions.

    Raises:
        StoreError: nothing was written.
    """
    mark = MarkInterrupted(held.last_seen)
    _, settled = await store.write(mark, SettleLeftovers(CRASH, now, keep_queued=True, hook=hook))
    return dict(settled)


async def keep_home(store: Store, epoch: int, lease_s: float, clock: Clock) -> None:
    """Renew the lease until cancelled, or until it is lost. A store that fails is asked again."""
    while True:
        await clock.sleep(lease_s / RENEWALS)
        try:
            await store.write(RenewHome(epoch, lease_s))
        except LeaseLost:
            return
        except StoreError as exc:
            log.warning("The lease of the home could not be renewed: %s", exc)


async def give_up_home(store: Store, epoch: int) -> None:
    """Give the home up, so that the next holder need not wait. Best effort: a lease ends anyway."""
    try:
        await store.write(EndHome(epoch))
    except StoreError as exc:
        log.warning("The lease of the home could not be given up: %s", exc)
