"""``python -m bench``: the table of docs/benchmarks.md, ours and a peer's in one run.

python -m bench               everything
python -m bench continuity    reattaching, many sessions, the next start, fan-out
python -m bench resources     commands, processes, browsers: what they cost, and what stays behind
python -m bench --no-peer     ours alone
python -m bench --quick       fewer repetitions
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from bench import continuity, driver, lag, resources
from bench.gateways import Peer, Running, Tenure

Figures = dict[str, float]


def median_ms(values: list[float]) -> float:
    return statistics.median(values) * 1000


async def bare_first_delta(port: int, count: int) -> list[float]:
    """The same model server called with httpx and nothing else."""
    body = {"model": "stub", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    found = []
    async with httpx.AsyncClient(timeout=30) as client:
        for _ in range(count):
            begun = time.perf_counter()
            async with client.stream(
                "POST", f"http://127.0.0.1:{port}/v1/chat/completions", json=body
            ) as response:
                first = True
                async for _ in response.aiter_bytes():
                    if first:
                        found.append(time.perf_counter() - begun)
                        first = False
    return found


def bare_commits(count: int) -> list[float]:
    """The durable part of an acknowledgement, with nothing around it."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE t (a)")
        for n in range(count):
            begun = time.perf_counter()
            db.execute("INSERT INTO t VALUES (?)", (n,))
            found.append(time.perf_counter() - begun)
        db.close()
    return found


async def measure(running: Running, port: int, options: argparse.Namespace) -> Figures:
    """Everything that is measured over the wire."""
    found: Figures = {}
    wire = await driver.Wire.open(running.url, running.token)
    try:
        await sessions(wire, port, options, found)
        await chunks(wire, running, options, found)
        await idle(wire, running, options, found)
    finally:
        await wire.close()
    return found


async def first_build(wire: Any, running: Running) -> float:
    """Another client's pings while the gateway builds its first agent (and imports for it)."""
    other = await driver.Wire.open(running.url, running.token)
    building = asyncio.ensure_future(driver.create(wire))
    worst = 0.0
    while not building.done():
        begun = time.perf_counter()
        await other.call("gateway.info")
        worst = max(worst, time.perf_counter() - begun)
        await asyncio.sleep(0.001)
    session, _, _ = await building
    await driver.close(wire, session)
    await other.close()
    return worst * 1000


async def sessions(wire: Any, port: int, options: argparse.Namespace, found: Figures) -> None:
    answered, ready, first, second, acknowledged, bare, closed, used = ([] for _ in range(8))
    for _ in range(options.rounds):
        session, a, r = await driver.create(wire)
        answered.append(a)
        ready.append(r)
        f, _ = await driver.turn(wire, session, "hi")
        first.append(f)
        s, k = await driver.turn(wire, session, "hi")
        second.append(s)
        acknowledged.append(k)
        bare += await bare_first_delta(port, 2)
        used.append(await driver.close(wire, session))
        idle_session, _, _ = await driver.create(wire)
        closed.append(await driver.close(wire, idle_session))
    found["first build, ms"] = ready[0] * 1000
    found["session.create answered, ms"] = median_ms(answered[1:])
    found["created to agent ready, ms"] = median_ms(ready[1:])
    found["submit to first delta, ms"] = median_ms(second)
    found["submit to first delta, first turn, ms"] = median_ms(first[1:])
    found["submit to acknowledgement (commit), ms"] = median_ms(acknowledged)
    found["bare httpx to first delta, ms"] = median_ms(bare)
    found["one bare SQLite commit (FULL) on this disk, ms"] = median_ms(bare_commits(50))
    found["close of a new session, ms"] = median_ms(closed)
    found["close of an idle session that has worked, ms"] = median_ms(used)


async def chunks(wire: Any, running: Running, options: argparse.Namespace, found: Figures) -> None:
    session, _, _ = await driver.create(wire)
    await driver.turn(wire, session, "500")
    before = sum(driver.cpu_s(pid) for pid in driver.tree(running.pid))
    begun = time.perf_counter()
    await driver.turn(wire, session, str(options.chunks))
    spent = sum(driver.cpu_s(pid) for pid in driver.tree(running.pid)) - before
    found["CPU per streamed chunk, us"] = spent / options.chunks * 1e6
    found["chunks per second"] = options.chunks / (time.perf_counter() - begun)
    await driver.close(wire, session)


async def idle(wire: Any, running: Running, options: argparse.Namespace, found: Figures) -> None:
    count = options.idle if running.name == Tenure.name else min(options.idle, 10)
    for _ in range(2):
        session, _, _ = await driver.create(wire)
        await driver.close(wire, session)
    await asyncio.sleep(1)
    before = driver.footprint(running.pid)
    for _ in range(count):
        await driver.create(wire)
    await asyncio.sleep(2)
    after = driver.footprint(running.pid)
    found["one idle session, KiB"] = (after["rss"] - before["rss"]) / count / 1024
    for what in ("threads", "fds", "processes"):
        found[f"one idle session, {what}"] = (after[what] - before[what]) / count
    await asyncio.sleep(options.quiet_s)
    later = driver.footprint(running.pid)
    found[f"wake-ups per second with {count} idle sessions"] = (
        later["switches"] - after["switches"]
    ) / options.quiet_s


def starts(gateway: Any, port: int, options: argparse.Namespace) -> Figures:
    """Spawn to ready on fresh homes, then on a used one."""
    fresh, used = [], []
    for _ in range(options.starts):
        with tempfile.TemporaryDirectory() as folder:
            for times in (fresh, used):
                running = gateway.start(Path(folder), port)
                times.append(running.ready_s)
                time.sleep(1)
                running.stop()
    return {
        "spawn to ready, fresh home, ms": median_ms(fresh),
        "spawn to ready, used home, ms": median_ms(used),
    }


async def idle_wakeups(gateway: Any, port: int, seconds: float) -> Figures:
    """How often a gateway that nobody is connected to wakes up, and its switches meanwhile.

    A wake-up is a quarter of a second in which any of its threads ran, and the next one if it too
    has some; a wake-up that ends with a commit has several switches.
    """
    with tempfile.TemporaryDirectory() as folder:
        running = gateway.start(Path(folder), port)
        try:
            await asyncio.sleep(3)
            first = last = driver.footprint(running.pid)["switches"]
            woken, awake = 0, False
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await asyncio.sleep(0.25)
                now = driver.footprint(running.pid)["switches"]
                woken += now > last and not awake
                awake, last = now > last, now
            return {
                "wake-ups per minute without clients": woken / seconds * 60,
                "switches of all threads per minute without clients": (last - first) / seconds * 60,
            }
        finally:
            running.stop()


async def first_builds(gateway: Any, port: int, rounds: int) -> float:
    """The median over several fresh gateways of the longest answer to a ping meanwhile."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            running = gateway.start(Path(folder), port)
            try:
                wire = await driver.Wire.open(running.url, running.token)
                found.append(await first_build(wire, running))
                await wire.close()
            finally:
                running.stop()
    return statistics.median(found)


def run(gateway: Any, port: int, options: argparse.Namespace) -> Figures:
    print(f"measuring {gateway.name} …", file=sys.stderr)
    found = starts(gateway, port, options)
    with tempfile.TemporaryDirectory() as folder:
        running = gateway.start(Path(folder), port)
        running.name = gateway.name
        try:
            found |= asyncio.run(measure(running, port, options))
        finally:
            running.stop()
    if isinstance(gateway, Tenure):
        time.sleep(3)  # what the gateway leaves behind in the kernel is not the next command's
        found["tenure --help, ms"] = median_ms([gateway.help_s() for _ in range(7)])
        found |= asyncio.run(idle_wakeups(gateway, port, options.quiet_s * 2))
        found["longest answer to a ping during the first build, ms"] = asyncio.run(
            first_builds(gateway, port, 5)
        )
        found |= lag.measure(options.sessions)
    return found


def show(ours: Figures, theirs: Figures) -> str:
    names = list(dict.fromkeys([*ours, *theirs]))
    lines = ["| what | tenure | peer | ratio |", "|---|--:|--:|--:|"]
    for name in names:
        a, b = ours.get(name), theirs.get(name)
        cells = ["" if v is None else f"{v:,.2f}" for v in (a, b)]
        ratio = f"{a / b:.3f}" if a is not None and b else ""
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {ratio} |")
    return "\n".join(lines)


def stamp() -> str:
    """When and where."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{date}, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "what", nargs="?", choices=["continuity", "resources"], help="instead of the table"
    )
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    quick = options.quick
    options.rounds, options.starts = (8, 2) if quick else (25, 5)
    options.chunks, options.idle = (4_000, 500) if quick else (16_000, 2_000)
    options.quiet_s, options.sessions = (10, 2_000) if quick else (30, 10_000)
    with subprocess.Popen(
        [sys.executable, "-m", "bench.stub"], stdout=subprocess.PIPE, text=True
    ) as stub:
        try:
            port = int(stub.stdout.readline())
            if options.what == "continuity":
                found = continuity.measure(port, quick=options.quick)
                print(f"{stamp()}\n\n{continuity.show(found)}")
                return
            if options.what == "resources":
                found = resources.measure(quick=options.quick)
                print(f"{stamp()}\n\n{continuity.show(found)}")
                return
            ours = run(Tenure(), port, options)
            theirs = {} if options.no_peer else run(Peer(), port, options)
        finally:
            stub.kill()
    print(f"{stamp()}, peer {Peer.name}\n")
    print(show(ours, theirs))


if __name__ == "__main__":
    main()
