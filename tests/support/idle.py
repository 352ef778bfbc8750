"""A gateway whose sessions are soon unloaded, on a clock of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager

from tenure.config import Config, LimitsConfig
from tenure.models.script import Script
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gateway import open_test_gateway

GRACE_S = 100.0
IDLE_S = 200.0
PERIOD_S = 50.0
"""The reaper looks at half the grace."""


@asynccontextmanager
async def idle_gateway(folder, script=None, **limits):
    """Unattached sessions go after `IDLE_S` without work and `GRACE_S` without a client."""
    config = Config(limits=LimitsConfig(orphan_grace_s=GRACE_S, idle_s=IDLE_S, **limits))
    clock = ManualClock()
    async with open_test_gateway(folder, script or Script([]), clock=clock, config=config) as gw:
        gw.clock = clock
        yield gw


async def pass_time(gw, seconds):
    """Let `seconds` go by, look by look."""
    while seconds > 0:
        step = min(PERIOD_S, seconds)
        gw.clock.advance(step)
        await settle()
        seconds -= step


def live(gw):
    return [session.id for session in gw.sessions.live()]
