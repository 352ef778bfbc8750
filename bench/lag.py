"""The longest pause of the loop with many idle sessions, full collections included, in one process."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from pathlib import Path

from tenure.clock import SystemClock
from tenure.config import Config, LimitsConfig
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway

TICK_S = 0.002


async def _probe(lags: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(TICK_S)
        lags.append(time.perf_counter() - begun - TICK_S)


async def _measure(count: int, folder: Path) -> dict[str, float]:
    from tenure.processes.whole import calm_collector
    from tenure.store.sqlite import open_sqlite, prepare

    path = folder / "bench.db"
    store = open_sqlite(path, prepare(path, folder / "backups"))
    config = Config(limits=LimitsConfig(sessions_max=count + 10))
    script = Script([{"text": "ok"}], loop=True)
    async with open_test_gateway(
        folder, script, clock=SystemClock(), store=store, config=config
    ) as gateway:
        client, _ = await gateway.client()
        for _ in range(count):
            await client.call("session.create")
        session = await client.ready_session()
        calm_collector()
        lags: list[float] = []
        probe = asyncio.ensure_future(_probe(lags))
        for _ in range(300):
            await client.call("prompt.submit", session_id=session, text="hi")
            await client.until("message.complete")
            client.seen.clear()
        begun = time.perf_counter()
        gc.collect()
        collected = time.perf_counter() - begun
        probe.cancel()
        found = {
            f"longest pause of the loop with {count} idle sessions, ms": max(lags) * 1000,
            f"a full collection with {count} idle sessions, ms": collected * 1000,
        }
        await gateway.sessions.drain("measured", 120.0)
        return found


def measure(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(count, Path(folder)))
